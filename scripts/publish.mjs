// node scripts/publish.mjs FOLDER [--dry-run]: publishes the platform packages with the addons that lie in FOLDER, then the
// main package, each with provenance. Every target must be there. A version that is already published is passed over, so
// that a release that broke off halfway can be run again. CI calls this on a version tag, and with --dry-run on every push.
import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import { npm, runOrExit } from './command.mjs'
import { createMainPackage } from './main-package.mjs'
import { manifest } from './platform.mjs'
import { addAddon, platformPackages } from './platform-packages.mjs'

const [folder] = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const dryRun = process.argv.includes('--dry-run')
const tag = process.env.GITHUB_REF_NAME

function stop(message) {
  console.error(message)
  process.exit(1)
}

function isPublished(name) {
  const [program, args] = npm(['view', `${name}@${manifest.version}`, 'version'])
  return spawnSync(program, args, { encoding: 'utf8' }).stdout.trim() === manifest.version
}

if (folder === undefined) stop('usage: node scripts/publish.mjs FOLDER [--dry-run]')
if (!dryRun && tag !== `v${manifest.version}`) stop(`the tag is ${tag}, package.json says ${manifest.version}`)

const missing = platformPackages.filter((made) => !addAddon(made, resolve(folder)))
if (missing.length > 0) stop(`no addon in ${folder} for ${missing.map(({ platform }) => platform).join(', ')}`)
const main = { name: manifest.name, folder: createMainPackage() }

const distTag = manifest.version.includes('-') ? 'next' : 'latest'
for (const { name, folder: packageFolder } of [...platformPackages, main]) {
  if (dryRun) {
    runOrExit(...npm(['pack', '--dry-run', packageFolder]))
  } else if (isPublished(name)) {
    console.log(`${name}@${manifest.version} is already published`)
  } else {
    runOrExit(...npm(['publish', packageFolder, '--provenance', '--access', 'public', '--tag', distTag]))
  }
}
