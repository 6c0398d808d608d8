// Does tasks, and ends jobs, as they come: node worker.mjs, on each machine, as often as it has work for
import { Worker } from 'bullmq'
import { finishJob, runTask } from 'ztensor/jobs'
import { connect, QUEUES } from './connection.mjs'

// A worker that dies is detected when the lock of its task is not renewed: after 30 s, or LOCK_MS.
const lock = Number(process.env.LOCK_MS ?? 30_000)
const options = () => ({ connection: connect(), lockDuration: lock, stalledInterval: lock, maxStalledCount: 5 })

const tasks = new Worker(
  QUEUES.tasks,
  async (queued) => {
    const onProgress = ({ bytes, totalBytes }) =>
      queued.updateProgress(totalBytes === 0 ? 100 : (100 * bytes) / totalBytes)
    const result = await runTask(queued.data, { onProgress })
    console.log(`task ${result.task}: ${result.file}, ${result.byteLength} bytes`)
    return result
  },
  options(),
)

const ends = new Worker(
  QUEUES.ends,
  async (queued) => {
    const results = Object.values(await queued.getChildrenValues())
    const { path, tensors } = await finishJob(queued.data, results)
    console.log(`done: ${path}, ${tensors} tensors`)
    return path
  },
  options(),
)

for (const worker of [tasks, ends]) worker.on('failed', (_queued, error) => console.error(error.message))

process.once('SIGTERM', async () => {
  await Promise.all([tasks.close(), ends.close()])
  process.exit()
})
