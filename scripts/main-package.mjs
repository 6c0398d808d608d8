// The package `ztensor` as it is published, in build/package: what package.json names in `files`, and a manifest that
// asks for every platform package at exactly its own version. The committed manifest does not: `npm ci` would look for
// packages that are not published yet.
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './command.mjs'
import { manifest } from './platform.mjs'
import { platformPackages } from './platform-packages.mjs'

/** The manifest that is published. */
export function publishedManifest() {
  const { scripts, imports, devDependencies, overrides, ava, napi, ...published } = manifest
  const optionalDependencies = Object.fromEntries(platformPackages.map(({ name }) => [name, manifest.version]))
  return { ...published, optionalDependencies }
}

/** Recreates build/package. Returns its path. */
export function createMainPackage() {
  const folder = join(root, 'build/package')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const name of [...manifest.files, 'README.md', 'LICENSE']) {
    cpSync(join(root, name), join(folder, name), { recursive: true })
  }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(publishedManifest(), null, 2)}\n`)
  return folder
}
