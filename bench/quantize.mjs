// `node bench/quantize.mjs [--rounds N] [--write] [TYPE ...]`: quantization on one core, beside llama.cpp's library of node-llama-cpp, in
// turns. Prints medians in MB of float32 a second, and our speed as a multiple of theirs. `--write` puts them into bench/RESULTS.md. Needs
// what `npm run interop` needs.
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { buildExample, REFERENCE, runPeer } from '../interop/quantize.mjs'
import { root } from '../scripts/command.mjs'
import { RESULTS, writeInto } from './report.mjs'
import { median } from './timing.mjs'

const MEGABYTES = 8
const argv = process.argv.slice(2)
const at = argv.indexOf('--rounds')
const [, rounds] = at < 0 ? [undefined, 7] : argv.splice(at, 2)
const isWritten = argv.includes('--write')
if (isWritten) argv.splice(argv.indexOf('--write'), 1)
const python = process.env.PYTHON ?? 'python3'
const printed = await runPeer(join(root, 'build/interop'), python, 'time', buildExample(), MEGABYTES, rounds, ...argv)

/** The widest vectors that our code uses on this machine. */
function vectors() {
  const flags = process.platform === 'linux' ? readFileSync('/proc/cpuinfo', 'utf8') : ''
  if (/\bavx512_vbmi2\b/.test(flags)) return 'AVX-512'
  return /\bavx2\b/.test(flags) ? 'AVX2' : 'the baseline'
}

console.log(`${cpus()[0]?.model}, ${vectors()}, ${rounds} rounds of ${MEGABYTES} MB; reference: ${REFERENCE}\n`)
const lines = ['| type | ztensor, MB/s | llama.cpp, MB/s | ratio |', '|---|---|---|---|']
for (const line of printed.trim().split('\n')) {
  const { type, bytes, ours, theirs } = JSON.parse(line)
  const speed = (times) => bytes / 1e3 / median(times)
  const ratio = (speed(ours) / speed(theirs)).toFixed(1)
  lines.push(`| ${type} | ${speed(ours).toFixed(0)} | ${speed(theirs).toFixed(0)} | ${ratio} |`)
}
console.log(lines.join('\n'))
if (isWritten) writeInto(RESULTS, 'quantize', lines.join('\n'))
