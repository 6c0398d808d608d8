// `node bench/quantize-files.mjs [--layers N] [--write] [TYPE ...]`: a llama in bfloat16 quantized from file to file on all cores, beside
// llama.cpp's library of node-llama-cpp, in turns. Prints seconds (medians of 3), and our speed as a multiple of theirs. `--write` puts them
// into bench/RESULTS.md. Needs what `npm run interop` needs, and disk for a few copies of the model (95 MB a layer).
import { mkdirSync, rmSync, statSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { convert } from 'ztensor'
import { MIXTURES, writeLlama } from '../__test__/helpers/tiny-models.mjs'
import { environment } from '../interop/peers.mjs'
import { npmPackage } from '../interop/servers/programs.mjs'
import { capture, root } from '../scripts/command.mjs'
import { RESULTS, writeInto } from './report.mjs'
import { median } from './timing.mjs'

const argv = process.argv.slice(2)
const at = argv.indexOf('--layers')
const [, layers] = at < 0 ? [undefined, 8] : argv.splice(at, 2)
const isWritten = argv.includes('--write')
if (isWritten) argv.splice(argv.indexOf('--write'), 1)
const types = argv.length > 0 ? argv : ['q4_k_m', 'q8_0']
const build = join(root, 'build/interop')
const folder = join(root, 'build/bench/quantize-files')
mkdirSync(folder, { recursive: true })
const python = await environment(join(build, 'venv-llama'), process.env.PYTHON ?? 'python3', [
  'numpy==2.4.6',
  'gguf==0.19.0',
])
const libraries = join(await npmPackage(build, '@node-llama-cpp/linux-x64', '3.21.1'), 'bins/linux-x64')
const [wide, source, theirs, ours] = ['f32', 'bf16', 'theirs', 'ours'].map((name) => join(folder, `${name}.gguf`))

await writeLlama(wide, { width: 2048, inner: 5632, heads: 32, keyHeads: 8, words: 4096, layers: Number(layers) })
await convert(wide, source, { quantize: 'bf16', overwrite: true })
rmSync(wide)

/** Seconds of llama_model_quantize, with a thread for each core. */
async function reference(type) {
  const started = performance.now()
  const job = JSON.stringify([[MIXTURES[type], theirs, null]])
  const { output } = await capture(python, [join(root, 'interop/llama_peer.py'), libraries, source, job])
  if (!/^RESULTS \[0\]$/m.test(output)) throw new Error(output)
  return (performance.now() - started) / 1000
}

async function own(type) {
  const started = performance.now()
  await convert(source, ours, { quantize: type, overwrite: true })
  return (performance.now() - started) / 1000
}

const gigabytes = (statSync(source).size / 1e9).toFixed(2)
console.log(`${cpus()[0]?.model}, ${cpus().length} cores, ${gigabytes} GB of bfloat16\n`)
const lines = ['| type | ztensor, s | llama.cpp, s | ratio |', '|---|---|---|---|']
for (const type of types) {
  const times = { own: [], reference: [] }
  for (let round = 0; round < 3; round++) {
    times.own.push(await own(type))
    times.reference.push(await reference(type))
  }
  const [a, b] = [median(times.own), median(times.reference)]
  lines.push(`| ${type} | ${a.toFixed(2)} | ${b.toFixed(2)} | ${(b / a).toFixed(1)} |`)
}
console.log(lines.join('\n'))
if (isWritten) writeInto(RESULTS, 'quantize-files', lines.join('\n'))
rmSync(folder, { recursive: true })
