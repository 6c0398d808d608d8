// `npm run bench`: the same work by this package, by a hand-written loader and by the Python packages, and what the machine
// can do, in one run. Prints medians; the JSON goes to build/bench/result.json.
//   --quick        inputs a twentieth of the size that are not kept, few rounds: a look at whether everything works
//   --only GROUPS  of reading, numpy, gguf, onnx, hdf5, flax, pytorch, tensorflow, arrow, remote and writing, by commas
//   --write PAGE   puts the table between the marks of a page, such as docs/performance.md
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { arrow } from './arrow.mjs'
import { flax } from './flax.mjs'
import { ggufRows } from './gguf.mjs'
import { hdf5 } from './hdf5.mjs'
import { Inputs } from './inputs.mjs'
import { machineLimits } from './limits.mjs'
import { numpy } from './numpy.mjs'
import { onnxRows } from './onnx.mjs'
import { missing } from './peers.mjs'
import { pytorch } from './pytorch.mjs'
import { reading } from './reading.mjs'
import { remote } from './remote.mjs'
import { table, writeInto } from './report.mjs'
import { tensorflow } from './tensorflow.mjs'
import { writing } from './writing.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const argv = process.argv.slice(2)
if (globalThis.gc === undefined) {
  // Each contender begins without the garbage of the one before it.
  const { status } = spawnSync(process.execPath, ['--expose-gc', fileURLToPath(import.meta.url), ...argv], {
    stdio: 'inherit',
  })
  process.exit(status ?? 1)
}

const quick = argv.includes('--quick')
const page = argv.includes('--write') ? argv[argv.indexOf('--write') + 1] : undefined
const rounds = quick ? 3 : 7
const GROUPS = {
  reading,
  numpy,
  gguf: ggufRows,
  onnx: onnxRows,
  hdf5,
  flax,
  pytorch,
  tensorflow,
  arrow,
  remote,
  writing,
}
const only = argv.includes('--only') ? argv[argv.indexOf('--only') + 1].split(',') : Object.keys(GROUPS)
const inputs = new Inputs(join(root, 'build/bench'), quick)
const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`
const size = quick ? ' Inputs of a twentieth of the size that the rows name.' : ''
const heading = `Medians of up to ${rounds} rounds in ms, taken in turns.${size} ${machine}. \`npm run bench${quick ? ' -- --quick' : ''}\`, ${new Date().toISOString().slice(0, 10)}.`

const limits =
  quick || !(only.includes('reading') || only.includes('writing'))
    ? {}
    : machineLimits(inputs.large().path, inputs.sample().path)
const rows = []
for (const group of only) {
  for await (const row of GROUPS[group]({ inputs, limits, rounds, quick })) {
    rows.push(row)
    console.error(`${(performance.now() / 1e3).toFixed(0).padStart(4)} s  ${row.work}: ${row.ours.toFixed(2)}`)
  }
}
console.log(`${heading}\n\n${table(rows)}`)
const absent = missing()
if (absent.length > 0)
  console.log(`\nNot run: ${absent.join(', ')}. "npm run interop" sets them up, or BENCH_VENVS names their folder.`)
const result = { machine, node: process.version, rounds, quick, limits, rows }
writeFileSync(join(root, 'build/bench/result.json'), `${JSON.stringify(result, null, 2)}\n`)
if (quick) inputs.remove()
if (page !== undefined) writeInto(join(root, page), rows, heading)
