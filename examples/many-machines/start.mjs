// Plans a conversion and hands it to BullMQ: node start.mjs SOURCE TARGET MAX_SHARD_SIZE
// A flow: its children are the tasks, and its parent, which ends the job, runs when all of them are done.
import { FlowProducer } from 'bullmq'
import { planJob } from 'ztensor/jobs'
import { connect, QUEUES } from './connection.mjs'

const [source, target, size] = process.argv.slice(2)
const job = await planJob('convert', source, target, { maxShardBytes: Number(size), cast: { float32: 'bfloat16' } })
const connection = connect()
const flow = new FlowProducer({ connection })
// A task may be done any number of times, so tasks that fail temporarily are retried.
const opts = { attempts: 5, backoff: { type: 'exponential', delay: 1000 } }
// TWICE=1 sends each task twice, for the test that it changes nothing.
const tasks = process.env.TWICE === '1' ? [...job.tasks, ...job.tasks] : job.tasks
await flow.add({
  name: 'finish',
  queueName: QUEUES.ends,
  data: job,
  opts,
  children: tasks.map((data) => ({
    name: 'task',
    queueName: QUEUES.tasks,
    data,
    opts: { ...opts, failParentOnFailure: true },
  })),
})
console.log(`${job.id}: ${job.tasks.length} tasks`)
await flow.close()
connection.disconnect()
