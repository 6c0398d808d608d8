// The row of a server: 1,000 files open in each of four workers, which together alias and read 10,000 random tensors a second, at a
// steady pace. Memory and collections are measured after the warm-up: V8 releases the memory of the program's start in collections that
// end some 25 s later.
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { saveFile } from 'ztensor'

const [FILES, WORKERS, A_SECOND] = [1000, 4, 10_000]
const STATE = 'warm; 16 tensors of 16 KiB per file'

async function models(folder, count) {
  mkdirSync(folder, { recursive: true })
  const tensors = Object.fromEntries(
    Array.from({ length: 16 }, (_, at) => [`layer.${at}`, new Float32Array(4096).fill(at)]),
  )
  const paths = Array.from({ length: count }, (_, at) => join(folder, `${at}.safetensors`))
  for (const path of paths) if (!existsSync(path)) await saveFile(path, tensors)
  return paths
}

/** Runs the workers, over files or over their own memory. After `before` seconds, measures them for `looked` seconds. */
async function served(workerData, before, looked) {
  const workers = Array.from(
    { length: WORKERS },
    () => new Worker(new URL('server-worker.mjs', import.meta.url), { workerData }),
  )
  const messages = () => Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0]))
  const tell = (what) => {
    for (const worker of workers) worker.postMessage(what)
  }
  await messages()
  tell('begin')
  await sleep(before * 1e3)
  const warm = process.memoryUsage.rss()
  tell('look')
  await sleep(looked * 1e3)
  const growth = Math.max(0, process.memoryUsage.rss() - warm)
  tell('end')
  const all = await messages()
  await Promise.all(workers.map((worker) => worker.terminate()))
  const micros = all.flatMap(({ times }) => [...times]).sort((a, b) => a - b)
  const major = all.reduce((sum, { major }) => sum + major, 0)
  return { growth, major, percentile: micros[Math.floor(micros.length * 0.99)] / 1e3, count: micros.length }
}

export async function* server({ inputs, quick }) {
  const paths = await models(inputs.path('server'), quick ? FILES / 20 : FILES)
  const [before, looked] = quick ? [1, 2] : [30, 20]
  const aSecond = A_SECOND / WORKERS
  const ours = await served({ paths, aSecond, own: false }, before, looked)
  const own = await served({ paths, aSecond, own: true }, before, looked)
  const row = (work, figure, limit, reach, target) => ({
    work,
    state: STATE,
    ours: figure,
    peers: {},
    limit,
    limitIs: 'the same workers, over their own memory',
    reach,
    target,
  })
  const work = `a server, ${paths.length} files open, 4 workers: 99th percentile latency of aliasing and reading a random tensor`
  const note = `${(ours.count / looked / 1e3).toFixed(1)} thousand per second`
  yield { ...row(work, ours.percentile, own.percentile, '1 ms', 1), note }
  yield row(`… memory growth in ${looked} s, MiB`, ours.growth / 2 ** 20, own.growth / 2 ** 20, '16 MiB', 16)
  yield row('… major garbage collections', ours.major, own.major, 'none', 0)
}
