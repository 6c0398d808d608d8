// `node --max-old-space-size=8000 bench/turns.mjs`: how long work on a million tensors blocks the event loop, and how long blocking
// calls take. Prints a line per call: the total time and the longest block meanwhile, in ms.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { convert, open } from 'ztensor'
import { root } from '../scripts/command.mjs'
import { Inputs } from './inputs.mjs'

const folder = join(root, 'build/bench')
const { path } = new Inputs(folder, false).many(1_000_000)
const options = { maxIndexBytes: 2 ** 30 }

async function turns(what, work) {
  const started = performance.now()
  let [last, longest, working] = [started, 0, true]
  const turn = () => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
    if (working) setImmediate(turn)
  }
  setImmediate(turn)
  const result = await work()
  working = false
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
  const took = last - started
  console.log(`${what.padEnd(16)}${took.toFixed(0).padStart(7)}   longest turn ${longest.toFixed(0)}`)
  return result
}

function blocking(what, work) {
  const started = performance.now()
  const result = work()
  console.log(`${what.padEnd(16)}${(performance.now() - started).toFixed(0).padStart(7)}   blocking`)
  return result
}

const file = await turns('open', () => open(path, options))
blocking('the first name', () => file.keys().next().value)
blocking('list', () => {
  let seen = 0
  for (const { name, shape } of file.values()) seen += name.length + shape.length
  return seen
})
const plan = blocking('plan', () => file.plan({ rank: 0, worldSize: 2, rules: { '*': { dim: 0 } } }))
await turns('load a plan', () => file.load({ plan }))
await turns('load', () => file.load())
await turns('prefetch', () => file.prefetch())
blocking('evict', () => file.evict())
await turns('verify', () => file.verify())
const mapTime = growth([...file.keys()])
file.close()
const target = join(folder, 'turns.zt')
await turns('convert', () => convert(path, target, { overwrite: true, source: options }))
rmSync(target)
console.log(`of that, a Map of so many names growing: ${mapTime.toFixed(0)}`)

/** The time of growing a Map of as many names: the longest block of `load` by the runtime itself. */
function growth(names) {
  const map = new Map()
  let longest = 0
  for (const name of names) {
    const started = performance.now()
    map.set(name, undefined)
    longest = Math.max(longest, performance.now() - started)
  }
  return longest
}
