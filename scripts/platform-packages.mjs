// The packages @ztensor/<platform>, one for each target in package.json, as folders under npm/ (which git ignores).
// `napi create-npm-dirs` writes the folders; it can only name a package `<packageName>-<platform>`, so the names are set here.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { NapiCli } from '@napi-rs/cli'
import { root } from './command.mjs'
import { binaryOf, manifest, packageOf } from './platform.mjs'

const npm = join(root, 'npm')

/** Makes the folders anew. Returns `[{ platform, name, folder }]`; none has its addon yet. */
export async function createPlatformPackages() {
  mkdirSync(npm, { recursive: true })
  for (const entry of readdirSync(npm, { withFileTypes: true })) {
    if (entry.isDirectory()) rmSync(join(npm, entry.name), { recursive: true })
  }
  await new NapiCli().createNpmDirs({ cwd: root, npmDir: 'npm' })
  const folders = readdirSync(npm, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  return folders.map(({ name: platform }) => {
    const folder = join(npm, platform)
    const name = packageOf(platform)
    const path = join(folder, 'package.json')
    const made = JSON.parse(readFileSync(path, 'utf8'))
    const description = `The native addon of ${manifest.name} for ${platform}`
    writeFileSync(path, `${JSON.stringify({ ...made, name, description }, null, 2)}\n`)
    writeFileSync(
      join(folder, 'README.md'),
      `# ${name}\n\n${description}. It is installed by the package \`${manifest.name}\`: depend on that one.\n`,
    )
    copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
    return { platform, name, folder }
  })
}

/** Puts the addon of one platform from the folder `from` into its package. False where there is none. */
export function addAddon({ platform, folder }, from) {
  const addon = join(from, binaryOf(platform))
  if (!existsSync(addon)) return false
  copyFileSync(addon, join(folder, binaryOf(platform)))
  return true
}
