#!/usr/bin/env node
// What the `ztensor` command begins with: what is compiled of the rest is kept for the next time, where the user has a place for it.
import { statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { load } from './kept.js'
import { version } from './version.js'

/** The user's folders, outermost first, down to the one for what can be made anew. */
function cacheFolders(): string[] {
  const { XDG_CACHE_HOME, LOCALAPPDATA } = process.env
  const [given, below, own] =
    process.platform === 'win32'
      ? ([LOCALAPPDATA, 'AppData/Local', 'ztensor/Cache'] as const)
      : process.platform === 'darwin'
        ? ([undefined, 'Library/Caches', 'ztensor'] as const)
        : ([XDG_CACHE_HOME, '.cache', 'ztensor'] as const)
  const home = homedir()
  const caches = given !== undefined && isAbsolute(given) ? [given] : [home, join(home, below)]
  return [...caches, join(caches.at(-1) ?? home, own)]
}

/**
 * Whether nobody else can write there, since what is kept is run. The home may be somebody else's, as under sudo, and the caches in a
 * folder for everybody. What is not there yet is as safe as what it will be made in.
 */
function isOurs(folder: string): boolean {
  if (process.getuid === undefined) return true
  const found = statSync(folder, { throwIfNoEntry: false })
  if (found === undefined) return isOurs(dirname(folder))
  return found.uid === process.getuid() && !(found.mode & 0o022)
}

/** Where the code of this command of this runtime is kept, or undefined where none is. */
function codeFolder(): string | undefined {
  const { env, versions, execArgv, arch, argv } = process
  // Bun and Deno have ways of their own. Where NODE_COMPILE_CACHE names a folder, Node keeps its code there.
  if ('bun' in versions || 'deno' in versions || env.NODE_DISABLE_COMPILE_CACHE || env.NODE_COMPILE_CACHE)
    return undefined
  // Flags make other code, which would take the place of that without.
  if (execArgv.length > 0 || env.NODE_OPTIONS || env.NODE_V8_COVERAGE) return undefined
  try {
    const folders = cacheFolders()
    if (!folders.every((folder) => isAbsolute(folder) && isOurs(folder))) return undefined
    const runtime = `${version}-node-${versions.node}-v8-${versions.v8}-${arch}`
    // One that is not there fails, and keeps nothing.
    const command = /^[a-z]+$/.exec(argv[2] ?? '')?.[0] ?? 'help'
    return join(...folders.slice(-1), runtime, command)
  } catch {
    return undefined
  }
}

const folder = codeFolder()
if (folder === undefined) require('./command.js')
else load(join(__dirname, 'command.js'), folder)
