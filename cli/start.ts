#!/usr/bin/env node
// What the `ztensor` command begins with: what is compiled of the rest is kept for the next time, where the user has a place for it.
import { statSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { load } from './kept.js'

/** The user's folder for what can be made anew. Never one that others can write to: what is kept there is run. */
function cacheFolder(home: string): string {
  const { XDG_CACHE_HOME, LOCALAPPDATA } = process.env
  if (process.platform === 'win32') return join(LOCALAPPDATA || join(home, 'AppData', 'Local'), 'ztensor', 'Cache')
  if (process.platform === 'darwin') return join(home, 'Library', 'Caches', 'ztensor')
  return join(XDG_CACHE_HOME || join(home, '.cache'), 'ztensor')
}

/** Where the code of this command of this runtime is kept, or undefined where none is. */
function codeFolder(): string | undefined {
  const { env, versions } = process
  // Where NODE_COMPILE_CACHE names a folder, Node keeps it there. Bun and Deno have ways of their own.
  if (env.NODE_DISABLE_COMPILE_CACHE || env.NODE_COMPILE_CACHE || 'bun' in versions || 'deno' in versions)
    return undefined
  const command = /^[a-z]+$/.exec(process.argv[2] ?? '')?.[0] ?? 'help'
  try {
    const home = homedir()
    // The home may be somebody else's, as under sudo.
    if (process.getuid !== undefined && statSync(home).uid !== process.getuid()) return undefined
    return join(cacheFolder(home), `node-${versions.node}-v8-${versions.v8}-${process.arch}`, command)
  } catch {
    return undefined
  }
}

const folder = codeFolder()
if (folder === undefined) require('./command.js')
else load(join(__dirname, 'command.js'), folder)
