// node scripts/publish.mjs FOLDER [--dry-run | --rehearse REGISTRY [--any-size=PLATFORM] PLATFORM...]: publishes the platform packages with
// the addons in FOLDER, then @ztensor/web (`npm run build:web`), then the main package, each with provenance. Every addon must exist and pass scripts/check-addons.mjs. A version
// that is already published is skipped, so that a release that stopped halfway can be run again. CI calls this on a version tag, and with
// --dry-run on every push. A rehearsal publishes to a registry on this machine, without provenance, and checks the addons of these
// platforms only.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { checkAddons } from './check-addons.mjs'
import { npm, root, runOrExit } from './command.mjs'
import { createMainPackage } from './main-package.mjs'
import { binaryOf, manifest } from './platform.mjs'
import { addAddon, platformPackages } from './platform-packages.mjs'

const options = {
  'dry-run': { type: 'boolean' },
  rehearse: { type: 'string' },
  'any-size': { type: 'string', multiple: true },
}
const { values, positionals } = parseArgs({ options, allowPositionals: true })
const [folder, ...platforms] = positionals
const registry = values.rehearse
const tag = process.env.GITHUB_REF_NAME

function stop(message) {
  console.error(message)
  process.exit(1)
}

const forRegistry = registry === undefined ? [] : ['--registry', registry]
const rights = registry === undefined ? ['--provenance', '--access', 'public'] : []

function isPublished(name) {
  const [program, args] = npm(['view', `${name}@${manifest.version}`, 'version', ...forRegistry])
  return spawnSync(program, args, { encoding: 'utf8' }).stdout.trim() === manifest.version
}

if (folder === undefined) stop('usage: node scripts/publish.mjs FOLDER [--dry-run | --rehearse REGISTRY PLATFORM...]')
if (registry !== undefined && new URL(registry).hostname !== '127.0.0.1')
  stop('a rehearsal publishes to 127.0.0.1 only')
if (!values['dry-run'] && registry === undefined && tag !== `v${manifest.version}`)
  stop(`the tag is ${tag}, package.json says ${manifest.version}`)

const from = resolve(folder)
const missing = platformPackages.filter(({ platform }) => !existsSync(join(from, binaryOf(platform))))
if (missing.length > 0) stop(`no addon in ${folder} for ${missing.map(({ platform }) => platform).join(', ')}`)
const toCheck = platformPackages.filter(({ platform }) => registry === undefined || platforms.includes(platform))
const wrong = checkAddons(toCheck, from, registry === undefined ? [] : values['any-size'])
if (wrong.length > 0) stop(`nothing is published: the addon is wrong for ${wrong.join(', ')}`)

// A rehearsal is about addons, and npm run test:web about this package.
const web = registry === undefined ? [{ name: '@ztensor/web', folder: join(root, 'packages/web') }] : []
if (web.some(({ folder }) => !existsSync(join(folder, 'ztensor.wasm'))))
  stop('nothing is published: npm run build:web has not built @ztensor/web')

for (const one of platformPackages) addAddon(one, from)
const main = { name: manifest.name, folder: createMainPackage() }
const distTag = manifest.version.includes('-') ? 'next' : 'latest'
for (const { name, folder: packageFolder } of [...platformPackages, ...web, main]) {
  if (values['dry-run']) {
    runOrExit(...npm(['pack', '--dry-run', packageFolder]))
  } else if (isPublished(name)) {
    console.log(`${name}@${manifest.version} is already published`)
  } else {
    runOrExit(...npm(['publish', packageFolder, ...rights, ...forRegistry, '--tag', distTag]))
  }
}
