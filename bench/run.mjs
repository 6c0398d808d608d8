// `npm run bench`: the same work by this package, by a hand-written loader and by the Python packages, and what the machine
// can do, in one run. Prints medians; the JSON goes to build/bench/result.json.
//   --quick        inputs a twentieth of the size that are deleted afterward, few rounds: checks that everything works
//   --only GROUPS  of first, reading, server, memory, numpy, gguf, onnx, hdf5, flax, pytorch, tensorflow, arrow, remote, writing and
//                  metadata, by commas
//   --runs N       repeats everything N times: the table has the worst run of each row, with the spread of all by its goal, and of the limit or peer
//   --cores LIST   runs on these cores alone, such as 0-1: everything, where the system has taskset
//   --counts       only counts instructions, and fails if a path takes 3 % more or less than bench/counts.json says (counts.mjs)
//   --write        puts the tables of these groups between their marks in bench/RESULTS.md
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { arrow } from './arrow.mjs'
import { counts } from './counts.mjs'
import { first } from './first.mjs'
import { flax } from './flax.mjs'
import { ggufRows } from './gguf.mjs'
import { hdf5 } from './hdf5.mjs'
import { Inputs } from './inputs.mjs'
import { Unrest } from './machine.mjs'
import { memory } from './memory.mjs'
import { metadata } from './metadata.mjs'
import { numpy } from './numpy.mjs'
import { onnxRows } from './onnx.mjs'
import { missing } from './peers.mjs'
import { pytorch } from './pytorch.mjs'
import { reading } from './reading.mjs'
import { remote } from './remote.mjs'
import { markdown, RESULTS, table, worst, writeInto } from './report.mjs'
import { server } from './server.mjs'
import { tensorflow } from './tensorflow.mjs'
import { writing } from './writing.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const argv = process.argv.slice(2)
if (argv.includes('--counts')) process.exit((await counts({ record: argv.includes('--write') })) ? 0 : 1)
if (globalThis.gc === undefined) {
  // Each contender begins without the garbage of the one before it.
  const at = argv.indexOf('--cores')
  const pinned = at < 0 ? [] : ['taskset', '-c', argv[at + 1]]
  const [program, ...args] = [...pinned, process.execPath, '--expose-gc', fileURLToPath(import.meta.url), ...argv]
  const { status } = spawnSync(program, args, { stdio: 'inherit' })
  process.exit(status ?? 1)
}

const quick = argv.includes('--quick')
const isWritten = argv.includes('--write')
const rounds = quick ? 3 : 7
const GROUPS = {
  first,
  reading,
  server,
  memory,
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
  metadata,
}
const only = argv.includes('--only') ? argv[argv.indexOf('--only') + 1].split(',') : Object.keys(GROUPS)
const inputs = new Inputs(join(root, 'build/bench'), quick)
const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`
const size = quick ? ' Inputs have a twentieth of the named sizes.' : ''
const runs = argv.includes('--runs') ? Number(argv[argv.indexOf('--runs') + 1]) : 1
const date = new Date().toISOString().slice(0, 10)
const several = runs > 1 ? `; the worst of ${runs} runs, and the spread of the runs` : ''
const results = {}
for (const group of only) {
  const [all, unrest] = [[], new Unrest()]
  for (let run = 1; run <= runs; run++) {
    for await (const row of GROUPS[group]({ inputs, rounds, quick })) {
      all.push(row)
      unrest.listen()
      console.error(`${(performance.now() / 1e3).toFixed(0).padStart(4)} s  ${row.work}: ${row.ours.toFixed(2)}`)
    }
  }
  if (all.length === 0) {
    console.log(`\n${group}: not run, for want of the peer that writes its file`)
    continue
  }
  const rows = worst(all)
  results[group] = { date, runs, rows }
  const how = `Medians of up to ${rounds} interleaved rounds, in ms${several}. ${date}, ${machine}.${size} ${unrest}`
  console.log(`\n${group}: ${how}\n\n${table(rows)}`)
  if (isWritten) writeInto(RESULTS, group, markdown(rows, how))
}
const absent = missing()
if (absent.length > 0)
  console.log(`\nNot run: ${absent.join(', ')}. "npm run interop" sets them up, or BENCH_VENVS names their folder.`)
const file = join(root, `build/bench/result${quick ? '-quick' : ''}.json`)
writeFileSync(file, `${JSON.stringify({ machine, rounds, quick, results }, null, 2)}\n`)
if (quick) inputs.remove()
