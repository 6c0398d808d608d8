#!/usr/bin/env node
// Starts the `ztensor` command, with its compiled code from the last time where the user has a safe place for it.
import { statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { load } from './kept.js'
import { version } from './version.js'

/**
 * Whether only this user can write to a folder: we run what we find there. Under sudo the home can be another user's, and a cache folder can
 * be open to everyone. A folder that does not exist yet is as safe as its parent.
 */
function isOurs(folder: string): boolean {
  if (process.getuid === undefined) return true
  const found = statSync(folder, { throwIfNoEntry: false })
  if (found === undefined) return isOurs(dirname(folder))
  return found.uid === process.getuid() && !(found.mode & 0o022)
}

/** Our folder for files that can be made again; undefined where others can write to it or above it. */
function cacheFolder(): string | undefined {
  const { XDG_CACHE_HOME, LOCALAPPDATA } = process.env
  const [given, below, own] =
    process.platform === 'win32'
      ? ([LOCALAPPDATA, 'AppData/Local', 'ztensor/Cache'] as const)
      : process.platform === 'darwin'
        ? ([undefined, 'Library/Caches', 'ztensor'] as const)
        : ([XDG_CACHE_HOME, '.cache', 'ztensor'] as const)
  const home = homedir()
  const elsewhere = given !== undefined && isAbsolute(given) ? given : undefined
  const caches = elsewhere ?? join(home, below)
  const folder = join(caches, own)
  const folders = elsewhere === undefined ? [home, caches, folder] : [caches, folder]
  return folders.every((one) => isAbsolute(one) && isOurs(one)) ? folder : undefined
}

/** The folder of this command's code for this runtime; undefined where we keep none. */
function codeFolder(): string | undefined {
  const { env, versions, execArgv, arch, argv } = process
  // Bun and Deno cache code themselves. With NODE_COMPILE_CACHE, Node does.
  if ('bun' in versions || 'deno' in versions || env.NODE_DISABLE_COMPILE_CACHE || env.NODE_COMPILE_CACHE)
    return undefined
  // V8 refuses code made with other flags, so runs with and without them would overwrite each other's.
  if (execArgv.length > 0 || env.NODE_OPTIONS || env.NODE_V8_COVERAGE) return undefined
  try {
    const folder = cacheFolder()
    if (folder === undefined) return undefined
    const runtime = `${version}-node-${versions.node}-v8-${versions.v8}-${arch}`
    // An unknown command fails, and keeps nothing.
    const command = /^[a-z]+$/.exec(argv[2] ?? '')?.[0] ?? 'help'
    return join(folder, runtime, command)
  } catch {
    return undefined
  }
}

const folder = codeFolder()
if (folder === undefined) require('./command.js')
else load(join(__dirname, 'command.js'), folder)
