// Loads the addon: from the package of this platform, or from the build output next to this package. Bundlers and file tracers analyze
// this file, so each package name is a literal inside a `try` block, which marks it as optional.
import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import type * as Binding from './binding.js'
import { messageOf } from './realm.js'

/** The version of this package, inserted by the build. */
declare const PACKAGE_VERSION: string

/** The suffix of this machine's platform package, as in the build. */
function platform(): string {
  const { platform, arch } = process
  if (platform === 'win32') return `win32-${arch}-msvc`
  if (platform !== 'linux') return `${platform}-${arch}`
  if (arch === 'arm') return isMusl() ? 'linux-arm-musleabihf' : 'linux-arm-gnueabihf'
  return `linux-${arch}-${isMusl() ? 'musl' : 'gnu'}`
}

/** The first bytes of the running executable. An ELF file usually names its loader there. */
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
 * Detects musl: by the loader of the executable, else by Node's diagnostic report, which takes a few milliseconds and has the version of
 * glibc, else by the file of musl's loader.
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

/** Loads the addon from the package of a platform. Returns the error if that fails, and undefined if the platform has no package. */
function installed(name: string): { addon: unknown } | { failure: unknown } | undefined {
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
        return undefined
    }
  } catch (failure) {
    return { failure }
  }
}

/** Loads the output of `npm run build`, if it exists. In a bundle, `__dirname` is undefined or another folder. */
function built(name: string): { addon: unknown } | { failure: unknown } | undefined {
  if (typeof __dirname !== 'string') return undefined
  const path = join(__dirname, '..', `ztensor.${name}.node`)
  if (!existsSync(path)) return undefined
  try {
    // createRequire() hides the path from bundlers.
    const { createRequire } = require('node:module') as typeof import('node:module')
    return { addon: createRequire(path)(path) }
  } catch (failure) {
    return { failure }
  }
}

/** Whether an error says that a module is missing. An existing binary that does not load has another error. */
const isMissing = (failure: unknown): boolean => (failure as { code?: unknown } | null)?.code === 'MODULE_NOT_FOUND'

/** The message for a binary that cannot be loaded: the problem on the first line, then a remedy per line. */
function message(name: string, failure: unknown): string {
  const { platform, arch } = process
  const build = 'To build it, run "npm ci && npm run build" in the repository.'
  const web = `Without a binary, ztensor/web reads files, more slowly: run "npm install @ztensor/web@${PACKAGE_VERSION}" and import ztensor/web.`
  const packageName = `@ztensor/${name}`
  const install = `npm install ${packageName}@${PACKAGE_VERSION}`
  if (failure === undefined) return `ztensor has no prebuilt binary for ${name}.\n${build}\n${web}`
  if ((failure as { code?: unknown } | null)?.code === 'ERR_DLOPEN_DISABLED') {
    return 'ztensor has a native binary, and Node runs without such addons (--no-addons, also in NODE_OPTIONS): run it without that option.'
  }
  if (!isMissing(failure)) {
    return [
      `the native binary of ztensor, ${packageName}, does not load: ${messageOf(failure).split('\n')[0]}`,
      `If the file is damaged, delete node_modules/${packageName} and run "${install}".`,
      `If this system is older than the binary supports (docs/reliability.md), update the system. ${build}`,
    ].join('\n')
  }
  const libc = platform !== 'linux' ? '' : name.endsWith('-musl') ? ' --libc=musl' : ' --libc=glibc'
  return [
    `the native binary of ztensor is missing. Run "${install}".`,
    'If npm ran with --omit=optional or --no-optional, run it without.',
    'If package-lock.json was made on another operating system, delete it and node_modules, then run "npm install".',
    `If node_modules is copied from another machine, install there with "npm install --os=${platform} --cpu=${arch}${libc}".`,
    `In a bundle, leave ztensor and ${packageName} external (docs/guide/bundlers.md).`,
    web,
  ].join('\n')
}

/** Loads the addon. Throws an Error with the code `ZT_NO_BINARY` that says which package is missing and how to install it. */
export function loadAddon(): typeof Binding {
  const name = platform()
  const failures: unknown[] = []
  for (const find of [built, installed]) {
    const found = find(name)
    if (found !== undefined && 'addon' in found) return found.addon as typeof Binding
    if (found !== undefined) failures.push(found.failure)
  }
  // The error of a binary that exists but does not load is more useful than that of a missing one.
  const failure = failures.find((one) => !isMissing(one)) ?? failures[0]
  throw Object.assign(new Error(message(name, failure), { cause: failure }), { code: 'ZT_NO_BINARY' })
}
