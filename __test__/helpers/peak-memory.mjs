// Measures the memory of a program: a child process runs it and reports by how much its peak rose.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Only Linux reports the peak and can reset it. */
export const hasPeaks = existsSync('/proc/self/clear_refs')

/**
 * The bytes by which the peak of a process rises while it runs the function `work`, after `prepare`, both as source text of an async
 * function's body. `work` may use what `prepare` declares. If `work` returns `print`, it is the result's `printed`.
 */
export function peakOf(t, prepare, work) {
  const program = `
    import * as z from 'ztensor'
    import { readFileSync, writeFileSync } from 'node:fs'
    const turn = () => new Promise((done) => setImmediate(done))
    const status = (field) => Number(new RegExp(field + ':\\\\s*(\\\\d+) kB').exec(readFileSync('/proc/self/status', 'latin1'))[1]) * 1024
    ${prepare}
    await turn()
    writeFileSync('/proc/self/clear_refs', '5')
    const before = status('VmRSS')
    const print = await (async () => { ${work} })()
    console.log(JSON.stringify({ peak: status('VmHWM') - before, printed: print }))`
  const { NODE_OPTIONS: _, ...env } = process.env
  const flags = ['--input-type=module', '-e', program]
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, flags, { cwd: root, env, encoding: 'utf8' })
  t.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' }, work)
  return JSON.parse(stdout)
}
