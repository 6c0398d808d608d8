// An application in a separate folder, with the package in its node_modules, as npm installs it. Needs `npm run build` first.
import assert from 'node:assert/strict'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../scripts/command.mjs'
import { createMainPackage } from '../../scripts/main-package.mjs'
import { hostPlatform, packageOf } from '../../scripts/platform.mjs'
import { addAddon, platformPackages } from '../../scripts/platform-packages.mjs'

/** The name of the package that has the addon of this machine. */
export const addonPackage = packageOf(hostPlatform)

let packages
/** Makes the packages once; later calls use the existing ones. */
function createPackages() {
  const host = platformPackages.find(({ platform }) => platform === hostPlatform)
  assert.ok(host !== undefined && addAddon(host, root), `no addon for ${hostPlatform}: run \`npm run build\``)
  return { host, main: createMainPackage() }
}

/** Copies the packages, as published, into `app/node_modules`. */
export async function installInto(app) {
  packages ??= createPackages()
  const { host, main } = packages
  mkdirSync(app, { recursive: true })
  cpSync(main, join(app, 'node_modules/ztensor'), { recursive: true })
  cpSync(host.folder, join(app, 'node_modules', addonPackage), { recursive: true })
}
