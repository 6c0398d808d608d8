// `npm run bench [-- --quick]`: the same work by this package, by a hand-written loader and by Python safetensors, in one
// run. Prints medians and ratios; the JSON goes to build/bench/result.json.
import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as byHand from './by-hand.mjs'
import { makeInputs } from './inputs.mjs'
import * as ours from './ours.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const quick = process.argv.includes('--quick')
const rounds = quick ? 3 : 7

async function time(work, path) {
  const start = performance.now()
  const result = await work(path)
  return { ms: performance.now() - start, result }
}

const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1]

/** Medians of several contenders, taken in turns after a round that does not count; they must agree. */
async function measure(contenders, path) {
  const times = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    const results = new Set()
    for (const [name, work] of Object.entries(contenders)) {
      const { ms, result } = await time(work, path)
      if (round > 0) times[name].push(ms)
      results.add(result)
    }
    if (results.size !== 1) throw new Error(`the contenders disagree on ${path}: ${[...results].join(', ')}`)
  }
  return Object.fromEntries(Object.entries(times).map(([name, all]) => [name, median(all)]))
}

/** The interpreter that the interop suite set up, with safetensors in it. */
function python() {
  const path = process.env.BENCH_PYTHON ?? join(root, 'build/interop/venv-safetensors-0.8.0/bin/python')
  return existsSync(path) ? path : undefined
}

function byPython(path) {
  const interpreter = python()
  if (interpreter === undefined) return {}
  const script = join(root, 'bench/python_peer.py')
  return JSON.parse(execFileSync(interpreter, [script, String(rounds), path], { encoding: 'utf8' }))
}

const inputs = makeInputs(join(root, 'build/bench'), quick)
const rows = []
for (const [name, { path, bytes }] of Object.entries(inputs)) {
  ours.touch(path) // warm: every page is in the cache before anything is timed
  const peer = byPython(path)
  const opened = await measure({ ours: ours.justOpen }, path)
  const listed = await measure({ ours: ours.list, byHand: byHand.list }, path)
  const loaded = await measure({ ours: ours.load }, path)
  const touched = await measure({ ours: ours.touch, byHand: byHand.touch }, path)
  const add = (work, medians, python) => rows.push({ input: name, bytes, work, ...medians, python })
  add('open', opened)
  add('open, list names, dtypes, shapes', listed, peer.list)
  add('open, touch each page of all data', touched, peer.touch)
  add('load all into memory', loaded)
}

const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.version}`
console.log(`Medians of ${rounds} rounds in ms, files warm, written in 8 MiB pieces. ${machine}`)
if (python() === undefined) console.log('Python safetensors was not run: "npm run interop" sets it up.')
const cell = (value) => (value === undefined ? '-' : value.toFixed(2)).padStart(10)
const ratio = (theirs, mine) => (theirs === undefined ? '-' : `${(theirs / mine).toFixed(1)}×`).padStart(9)
console.log(
  `${'input'.padEnd(7)}${'work'.padEnd(36)}${'ours'.padStart(10)}${'by hand'.padStart(10)}${'ratio'.padStart(9)}${'Python'.padStart(10)}${'ratio'.padStart(9)}`,
)
for (const { input, work, ours: mine, byHand: hand, python: peer } of rows) {
  console.log(
    `${input.padEnd(7)}${work.padEnd(36)}${cell(mine)}${cell(hand)}${ratio(hand, mine)}${cell(peer)}${ratio(peer, mine)}`,
  )
}
writeFileSync(join(root, 'build/bench/result.json'), `${JSON.stringify({ machine, rounds, quick, rows }, null, 2)}\n`)
