// The cost of dividing work into tasks: node bench/many-machines.mjs [GIGABYTES]. A conversion by `convert`, and in tasks by 1 and by 2
// workers, each a separate process that takes the next task when it has finished one. The page cache is warm.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const { convert, create, finishJob, open, planJob, runTask } = createRequire(import.meta.url)('ztensor')

/** The number of runs of each median. */
const ROUNDS = 5

if (process.send !== undefined) {
  process.on('message', async (task) => process.send(await runTask(task)))
  process.send('ready')
} else await main()

async function source(path, gigabytes) {
  const writer = await create(path)
  const data = Float32Array.from({ length: 2 ** 22 }, () => Math.fround(Math.random() - 0.5))
  const count = Math.round((gigabytes * 1e9) / data.byteLength)
  for (let at = 0; at < count; at++)
    await writer.add(`layers.${at}.weight`, { dtype: 'float32', shape: [2048, 2048], data })
  await writer.finish()
}

/** Runs all tasks in `count` processes. Returns the results. */
async function byWorkers(tasks, count) {
  const waiting = [...tasks]
  const results = []
  const children = Array.from({ length: count }, () => fork(fileURLToPath(import.meta.url)))
  await Promise.all(children.map((child) => once(child, 'message')))
  const began = performance.now()
  await Promise.all(
    children.map(async (child) => {
      for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) {
        child.send(task)
        results.push((await once(child, 'message'))[0])
      }
    }),
  )
  const seconds = (performance.now() - began) / 1000
  for (const child of children) child.kill()
  return { results, seconds }
}

async function timed(work) {
  const began = performance.now()
  const value = await work()
  return { value, seconds: (performance.now() - began) / 1000 }
}

async function main() {
  const gigabytes = Number(process.argv[2] ?? 2)
  const folder = fileURLToPath(new URL('../build/bench/many', import.meta.url))
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const path = join(folder, 'source.safetensors')
  await source(path, gigabytes)
  ;(await open(path, { verify: true })).close()
  console.log(
    `${gigabytes} GB of float32, shards of 200 MB, ${cpus().length} × ${cpus()[0]?.model}, Node ${process.version}; seconds`,
  )
  console.log('| | convert | plan | 1 worker | 2 workers | finish |\n|---|---|---|---|---|---|')
  const cases = {
    'safetensors, unchanged': ['safetensors', {}],
    'safetensors, bfloat16': ['safetensors', { cast: { float32: 'bfloat16' } }],
    'zTensor 2, with digests': ['zt', {}],
    'zTensor 2, zstd': ['zt', { compression: true }],
  }
  const show = (seconds) => {
    const median = seconds.sort((a, b) => a - b)[Math.floor(seconds.length / 2)]
    return median.toFixed(median < 1 ? 3 : 1)
  }
  for (const [title, [ending, options]] of Object.entries(cases)) {
    const out = (name) => {
      rmSync(join(folder, 'out'), { recursive: true, force: true })
      mkdirSync(join(folder, 'out'))
      return join(folder, 'out', `${name}.${ending}`)
    }
    const given = { ...options, maxShardBytes: 2e8 }
    const version = ending === 'zt' ? { version: '2' } : {}
    const times = { convert: [], plan: [], 1: [], 2: [], finish: [] }
    for (let round = 0; round < ROUNDS; round++) {
      const whole = out('whole')
      times.convert.push((await timed(() => convert(path, whole, { ...given, ...version }))).seconds)
      for (const workers of [1, 2]) {
        const target = out(`by${workers}`)
        const planning = await timed(() => planJob('convert', path, target, given))
        const { results, seconds } = await byWorkers(planning.value.tasks, workers)
        const finishing = await timed(() => finishJob(planning.value, results))
        times[workers].push(seconds)
        times.plan.push(planning.seconds)
        times.finish.push(finishing.seconds)
      }
    }
    console.log(
      `| ${[title, ...['convert', 'plan', 1, 2, 'finish'].map((column) => show(times[column]))].join(' | ')} |`,
    )
  }
  rmSync(folder, { recursive: true, force: true })
}
