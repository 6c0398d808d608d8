// The rows of first use: what a process pays before it has opened anything, and for the first load in it.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { root } from '../scripts/command.mjs'
import { binaryOf, hostPlatform, packageOf } from '../scripts/platform.mjs'
import { warm } from './inputs.mjs'
import { measure, median } from './timing.mjs'

const { resolve } = createRequire(import.meta.url)
const FRESH = 'a fresh process'
const read = (args) => execFileSync(process.execPath, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

/** What its `require` takes in a process that has done nothing else, in ms. */
const required = (path) =>
  Number(
    read([
      '-e',
      'const { now } = performance; const began = now.call(performance); require(process.argv[1]); process.stdout.write(String(now.call(performance) - began))',
      path,
    ]),
  )

/** How the loads of a process went, in ms: the first, and those that followed. */
function loads(how, path) {
  const [first, ...rest] = JSON.parse(
    read(['--expose-gc', fileURLToPath(new URL('first-load.mjs', import.meta.url)), how, path]),
  )
  return { first, again: median(rest) }
}

export async function* first({ inputs, rounds }) {
  const built = join(root, binaryOf(hostPlatform))
  const modules = {
    ours: resolve('ztensor'),
    'the addon alone': existsSync(built) ? built : resolve(packageOf(hostPlatform)),
  }
  const work = Object.fromEntries(Object.entries(modules).map(([name, path]) => [name, () => required(path)]))
  const { ours, ...others } = medians(3 * rounds, work)
  yield {
    work: "require('ztensor')",
    state: FRESH,
    ours,
    peers: {},
    limit: others['the addon alone'],
    limitIs: 'its addon alone',
    reach: '3 ms',
    target: 3,
  }

  const large = inputs.large()
  warm(large.path)
  const command = join(root, 'dist/cli.js')
  const run = (...args) => {
    read(args)
  }
  const processes = await measure(3 * rounds, {
    idle: () => run('-e', '0'),
    parsing: () => run('-e', "require('commander')"),
    ours: () => run(command, 'ls', large.path),
  })
  yield {
    work: 'ztensor ls of 2.47 GB, 146 tensors, as a process, beyond a Node that does nothing',
    state: FRESH,
    ours: processes.ours - processes.idle,
    peers: {},
    limit: processes.parsing - processes.idle,
    limitIs: 'loading commander',
    reach: '25 ms',
    target: 25,
  }

  const how = ['ours', 'by hand', 'into one buffer']
  const all = Object.fromEntries(how.map((name) => [name, []]))
  for (let round = 0; round < Math.min(rounds, 5); round++) {
    for (const name of how) all[name].push(loads(name, large.path))
  }
  for (const [which, work, share] of [
    ['first', '2.47 GB: the first load() of all', 0.5],
    ['again', '… and again, the memory of the one before given back', 0.2],
  ]) {
    const [mine, hand, one] = how.map((name) => median(all[name].map((times) => times[which])))
    yield {
      work,
      state: 'a fresh process, the file warm',
      ours: mine,
      peers: { 'by hand': hand, 'readSync into one buffer': one },
      reach: `${share} × by hand, no slower than into one buffer`,
      target: Math.min(share * hand, one),
    }
  }
}

/** Medians of what contenders say of themselves, in turns. */
function medians(rounds, contenders) {
  const all = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    for (const [name, work] of Object.entries(contenders)) {
      const said = work()
      // The first one brings the files into the page cache.
      if (round > 0) all[name].push(said)
    }
  }
  return Object.fromEntries(Object.entries(all).map(([name, said]) => [name, median(said)]))
}
