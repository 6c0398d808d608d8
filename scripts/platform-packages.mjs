// The packages @ztensor/<platform>, one for each target in package.json: npm/<platform>/ has its manifest and its README, which are
// committed. A release copies the addon and the license into it.
//   node scripts/platform-packages.mjs   rewrites them after a change of package.json
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseTriple } from '@napi-rs/cli'
import { root } from './command.mjs'
import { binaryOf, glibcOf, manifest, packageOf } from './platform.mjs'

const SYSTEMS = { linux: 'Linux', darwin: 'macOS', win32: 'Windows' }
const LIBRARIES = { gnu: 'glibc', gnueabihf: 'glibc', musl: 'musl' }

/** A package as it is committed: `{ target, platform, os, cpu, libc, name, folder, files }`, with `files` as text by name. */
function packageFor(target) {
  const { platform: os, arch: cpu, abi, platformArchABI: platform } = parseTriple(target)
  const libc = LIBRARIES[abi]
  const name = packageOf(platform)
  const needs = libc === 'glibc' ? `, glibc ${glibcOf(target)} or newer` : libc === 'musl' ? ', musl' : ''
  const description = `The native binary of ${manifest.name} for ${SYSTEMS[os]} on ${cpu}${needs}`
  const { version, license, repository, homepage, bugs, engines } = manifest
  const main = binaryOf(platform)
  const selection = { os: [os], cpu: [cpu], ...(libc === undefined ? {} : { libc: [libc] }) }
  const made = {
    ...{ name, version, description, license, repository, homepage, bugs },
    ...{ main, files: [main], ...selection, engines },
  }
  const readme = `# ${name}

${description}.

Do not install this package yourself. Install [\`${manifest.name}\`](https://www.npmjs.com/package/${manifest.name}): npm, pnpm, yarn and bun
then install this one on the machines that need it.
`
  const files = { 'package.json': `${JSON.stringify(made, null, 2)}\n`, 'README.md': readme }
  return { target, platform, os, cpu, libc, name, folder: join(root, 'npm', platform), files }
}

export const platformPackages = manifest.napi.targets.map(packageFor)

/** Puts the license, and the addon of one platform from the folder `from`, into its package. False if there is no addon. */
export function addAddon({ platform, folder }, from) {
  const addon = join(from, binaryOf(platform))
  if (!existsSync(addon)) return false
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
  copyFileSync(addon, join(folder, binaryOf(platform)))
  return true
}

if (resolve(process.argv[1] ?? '') === fileURLToPath(import.meta.url)) {
  for (const { folder, files } of platformPackages) {
    mkdirSync(folder, { recursive: true })
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  }
}
