// The rows of first use: the cost of loading the package, and of the first load in a process.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { root } from '../scripts/command.mjs'
import { binaryOf, hostPlatform, packageOf } from '../scripts/platform.mjs'
import { warm } from './inputs.mjs'
import { firstRead } from './limits.mjs'
import { warmMemory } from './machine.mjs'
import { inTurns, measure, median, medians } from './timing.mjs'

const { resolve } = createRequire(import.meta.url)
const FRESH = 'a fresh process'
const read = (args, node = process.execPath) =>
  execFileSync(node, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

const LISTING = 'ztensor ls of 2.47 GB, 146 tensors, a new process, minus an idle Node'
/** Loads the package, and has V8 read a file without running it. */
const LOADED = `const [, ztensor, command] = process.argv; require(ztensor)
  require('node:vm').compileFunction(require('node:fs').readFileSync(command, 'utf8'))`

/** The time of its `require` in a fresh process, in ms. */
const required = (path) =>
  Number(
    read([
      '-e',
      // The first access to process.stdout takes longer than loading many modules.
      'const began = performance.now(); require(process.argv[1]); const took = performance.now() - began; process.stdout.write(String(took))',
      path,
    ]),
  )

/** The time that V8 takes to compile files of JavaScript without running them in a fresh process, in ms. */
const compiling = (files) =>
  Number(
    read([
      '-e',
      `const { compileFunction } = require('node:vm'); const { readFileSync } = require('node:fs'); const began = performance.now();
       for (const path of process.argv.slice(1)) compileFunction(readFileSync(path, 'utf8'))
       const took = performance.now() - began; process.stdout.write(String(took))`,
      ...files,
    ]),
  )

/** The times of the loads in a process, in ms: of the first and of the others. */
function loads(how, path) {
  const [first, ...rest] = JSON.parse(
    read(['--expose-gc', fileURLToPath(new URL('first-load.mjs', import.meta.url)), how, path]),
  )
  return { first, again: median(rest) }
}

export async function* first(given) {
  yield* requiring(given)
  yield* listing(given)
  yield* loading(given)
}

async function* requiring({ rounds }) {
  const built = join(root, binaryOf(hostPlatform))
  const addon = existsSync(built) ? built : resolve(packageOf(hostPlatform))
  const files = ['index.js', 'shared.js'].map((name) => join(root, 'dist', name))
  const { ours, alone, compiled } = await medians(3 * rounds, {
    ours: () => required(resolve('ztensor')),
    alone: () => required(addon),
    compiled: () => compiling(files),
  })
  const parts = `the addon ${alone.toFixed(1)}, compiling its JavaScript ${compiled.toFixed(1)}`
  const limit = { limit: alone + compiled, limitIs: parts }
  yield { work: "require('ztensor')", state: FRESH, ours, peers: {}, ...limit, reach: '3 ms', target: 3 }
}

/** Another Node, which `npm run test:runtimes` sets up. */
const NODE_24 = join(root, `build/runtimes/node-24/node_modules/node-${process.platform}-${process.arch}/bin/node`)

async function* listing({ inputs, rounds }) {
  const large = inputs.large()
  warm(large.path)
  const list = [join(root, 'dist/cli.js'), 'ls', large.path]
  const runs = (node) => ({
    idle: () => void read(['-e', '0'], node),
    loaded: () => void read(['-e', LOADED, resolve('ztensor'), join(root, 'dist/command.js')], node),
    ours: () => void read(list, node),
  })
  const nodes = [{ node: process.execPath, work: LISTING }]
  if (existsSync(NODE_24)) nodes.push({ node: NODE_24, work: '… with Node 24' })
  for (const { node, work } of nodes) {
    const { ours, idle, loaded } = await measure(3 * rounds, runs(node))
    const limit = { limit: loaded - idle, limitIs: 'loading the package and compiling the command' }
    yield { work, state: FRESH, ours: ours - idle, peers: {}, ...limit, reach: '25 ms', target: 25 }
  }
}

async function* loading({ inputs, rounds, quick }) {
  const { path, bytes } = inputs.large()
  warm(path)
  const how = ['ours', 'hand-written', 'into one buffer']
  const contenders = Object.fromEntries(how.map((name) => [name, () => loads(name, path)]))
  // It must be compiled, so a quick run leaves it out.
  if (!quick) contenders.limit = () => firstRead(path)
  const before = () => warmMemory(bytes)
  const all = await inTurns(Math.min(rounds, 5), contenders, { before })
  for (const [which, work, share] of [
    ['first', '2.47 GB: first load() of all tensors', 0.5],
    ['again', '… later loads, which reuse released memory', 0.2],
  ]) {
    const times = Object.fromEntries(
      Object.entries(all).map(([name, rounds]) => [name, rounds.map((one) => one[which])]),
    )
    const goal = (hand, one) => Math.min(share * hand, one)
    const shares = times.ours.map((ms, at) => ms / goal(times['hand-written'][at], times['into one buffer'][at]))
    const figures = Object.entries(times).map(([name, all]) => [name, median(all)])
    const { ours, 'hand-written': hand, 'into one buffer': one, limit } = Object.fromEntries(figures)
    yield {
      work,
      state: 'a new process, warm file, free memory prepared',
      ours,
      peers: { 'hand-written': hand, 'readSync into one buffer': one },
      limit,
      limitIs: 'native read into one block of huge pages, all cores',
      reach: `${share} × hand-written, and not slower than one buffer`,
      target: goal(hand, one),
      share: median(shares),
    }
  }
}
