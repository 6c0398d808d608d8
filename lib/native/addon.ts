// Where the addon is: the package of this platform, or what the build has left beside this package. Bundlers and tracers read this
// file, so each package stands in it as a literal, inside `try`, where they take a missing one for optional.
import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import type * as Binding from './binding.js'
import { isError } from './realm.js'

/** The name of this machine's platform package, as the build names them. */
function platform(): string {
  const { platform, arch } = process
  if (platform === 'win32') return `win32-${arch}-msvc`
  if (platform !== 'linux') return `${platform}-${arch}`
  if (arch === 'arm') return 'linux-arm-gnueabihf'
  return `linux-${arch}-${isMusl() ? 'musl' : 'gnu'}`
}

/** The first bytes of the running program, where an ELF file names its loader as a rule. */
function headOfProgram(): string {
  const head = Buffer.alloc(4096)
  try {
    const program = openSync(process.execPath, 'r')
    try {
      return head.toString('latin1', 0, readSync(program, head))
    } finally {
      closeSync(program)
    }
  } catch {
    return ''
  }
}

/**
 * The program's loader tells. Where it stands elsewhere in the program, Node's report does, which takes some milliseconds: glibc names
 * its version there. Where there is no report, musl's loader tells by its file.
 */
function isMusl(): boolean {
  const loader = /\/ld(-musl-|-linux|64\.so)/.exec(headOfProgram())?.[1]
  if (loader !== undefined) return loader === '-musl-'
  const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined
  if (report?.header !== undefined) return report.header.glibcVersionRuntime === undefined
  try {
    return readdirSync('/lib').some((name) => name.startsWith('ld-musl-'))
  } catch {
    return false
  }
}

/** The addon of the package of a platform, or what was thrown instead. */
function installed(name: string): { addon: unknown } | { failure: unknown } {
  try {
    switch (name) {
      case 'linux-x64-gnu':
        return { addon: require('@ztensor/linux-x64-gnu') }
      case 'linux-arm64-gnu':
        return { addon: require('@ztensor/linux-arm64-gnu') }
      case 'linux-x64-musl':
        return { addon: require('@ztensor/linux-x64-musl') }
      case 'linux-arm64-musl':
        return { addon: require('@ztensor/linux-arm64-musl') }
      case 'linux-arm-gnueabihf':
        return { addon: require('@ztensor/linux-arm-gnueabihf') }
      case 'linux-ppc64-gnu':
        return { addon: require('@ztensor/linux-ppc64-gnu') }
      case 'linux-s390x-gnu':
        return { addon: require('@ztensor/linux-s390x-gnu') }
      case 'darwin-x64':
        return { addon: require('@ztensor/darwin-x64') }
      case 'darwin-arm64':
        return { addon: require('@ztensor/darwin-arm64') }
      case 'win32-x64-msvc':
        return { addon: require('@ztensor/win32-x64-msvc') }
      case 'win32-arm64-msvc':
        return { addon: require('@ztensor/win32-arm64-msvc') }
      default:
        return { failure: Object.assign(new Error(`no package for ${name}`), { code: 'MODULE_NOT_FOUND' }) }
    }
  } catch (failure) {
    return { failure }
  }
}

/** What `npm run build` has made. In a bundle there is no folder of this file, or another one. */
function built(name: string): { addon: unknown } | { failure: unknown } | undefined {
  if (typeof __dirname !== 'string') return undefined
  const path = join(__dirname, '..', `ztensor.${name}.node`)
  if (!existsSync(path)) return undefined
  try {
    // No bundler follows this one.
    const { createRequire } = require('node:module') as typeof import('node:module')
    return { addon: createRequire(path)(path) }
  } catch (failure) {
    return { failure }
  }
}

/** Loads the addon. Throws an Error that says what was looked for, and what to do. */
export function loadAddon(): typeof Binding {
  const name = platform()
  const failures: unknown[] = []
  for (const find of [built, installed]) {
    const found = find(name)
    if (found !== undefined && 'addon' in found) return found.addon as typeof Binding
    if (found !== undefined) failures.push(found.failure)
  }
  // A binary that is there and does not load says more than one that is not there.
  const telling = failures.find((failure) => (failure as { code?: string }).code !== 'MODULE_NOT_FOUND')
  const reason = isError(telling) ? ` It is there but does not load: ${telling.message.split('\n')[0]}.` : ''
  throw new Error(
    `ztensor has no native binary for ${name}: the package @ztensor/${name} cannot be loaded.${reason} ` +
      `Run "npm install --include=optional ztensor" on this machine; if packages are copied between machines, ` +
      `"npm install --os=${process.platform} --cpu=${process.arch} ztensor". In a bundle, leave the packages ztensor and ` +
      `@ztensor/${name} outside (docs/guide/bundlers.md). ` +
      `On a platform without a prebuilt binary, build one from the repository with "npm ci && npm run build".`,
    { cause: telling ?? failures[0] },
  )
}
