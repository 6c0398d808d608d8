// A directory for the files of one test file, removed when its process ends.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = mkdtempSync(join(tmpdir(), 'ztensor-test-'))
process.on('exit', () => {
  try {
    rmSync(root, { recursive: true, force: true })
  } catch (error) {
    // Windows keeps mapped files until the process ends.
    if (process.platform !== 'win32') throw error
  }
})
let made = 0

/** A path that no other test uses, with the name's extension. */
export function scratchPath(name = 'file.zt') {
  made += 1
  return join(root, `${made}-${name}`)
}

/** The path of a new file with these bytes. */
export function scratchFile(bytes, name) {
  const path = scratchPath(name)
  writeFileSync(path, bytes)
  return path
}
