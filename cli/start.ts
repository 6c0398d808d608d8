#!/usr/bin/env node
// What the `ztensor` command begins with: the runtime keeps what it compiles of the rest for the next time, where it can (Node 22.8).
import { mkdirSync, statSync } from 'node:fs'
import * as module from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'

/**
 * A folder of the user's own for what can be made anew. Never that for all users, which the runtime would take: what is kept there is run.
 * Undefined where the home is somebody else's, as it may be under sudo.
 */
function cacheFolder(): string | undefined {
  const home = homedir()
  if (process.getuid !== undefined && statSync(home).uid !== process.getuid()) return undefined
  const { XDG_CACHE_HOME, LOCALAPPDATA } = process.env
  if (process.platform === 'win32') return join(LOCALAPPDATA || join(home, 'AppData', 'Local'), 'ztensor', 'Cache')
  if (process.platform === 'darwin') return join(home, 'Library', 'Caches', 'ztensor')
  return join(XDG_CACHE_HOME || join(home, '.cache'), 'ztensor')
}

function keepCompiled(): void {
  const { enableCompileCache } = module as { enableCompileCache?: (folder: string) => unknown }
  if (enableCompileCache === undefined) return
  try {
    const folder = cacheFolder()
    if (folder === undefined) return
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    enableCompileCache(folder)
  } catch {
    // Without a place for it the command takes a little longer.
  }
}

keepCompiled()
require('./command.js')
