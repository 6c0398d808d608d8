// Tasks in several processes: two that run the same one concurrently, and one that is killed during a task.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { verify } from 'ztensor'
import { finishJob, planJob } from 'ztensor/jobs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { filesOf, model } from '../helpers/tasks.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const WORKER = `
  import { runTask } from 'ztensor/jobs'
  let text = ''
  for await (const piece of process.stdin) text += piece
  const { tasks, die } = JSON.parse(text)
  const results = []
  for (const task of tasks) {
    // Bytes of the shard are written; the last report comes before it gets its name.
    const onProgress = () => { if (die) process.kill(process.pid, 'SIGKILL') }
    results.push(await runTask(task, { onProgress }))
  }
  console.log(JSON.stringify(results))
`

/** Runs tasks in a separate process. */
async function worker(tasks, die = false) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', WORKER], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(JSON.stringify({ tasks, die }))
  let text = ''
  child.stdout.on('data', (piece) => {
    text += piece
  })
  const [code, signal] = await once(child, 'close')
  return { code, signal, results: text === '' ? [] : JSON.parse(text) }
}

for (const ending of ['zt', 'safetensors']) {
  test(`${ending}: two processes run all tasks concurrently`, async (t) => {
    const [from, to, alone] = [scratchFolder(), scratchFolder(), scratchFolder()]
    const source = await model(from.path('m.zt'))
    const options = { maxShardBytes: ending === 'zt' ? 300_000 : 3000 }
    const one = await planJob('convert', source, alone.path(`m.${ending}`), options)
    const { results } = await worker(one.tasks)
    await finishJob(one, results)
    const job = await planJob('convert', source, to.path(`m.${ending}`), options)
    const both = await Promise.all([worker(job.tasks), worker([...job.tasks].reverse())])
    t.true(both.every(({ code }) => code === 0))
    await finishJob(
      job,
      both.flatMap(({ results }) => results),
      { verify: true },
    )
    t.deepEqual(filesOf(to), filesOf(alone))
  })
}

test('a killed worker leaves no shard, and another runs its task', async (t) => {
  for (const ending of ['zt', 'safetensors']) {
    const [from, to] = [scratchFolder(), scratchFolder()]
    const source = await model(from.path('m.zt'))
    const maxShardBytes = ending === 'zt' ? 300_000 : 3000
    const job = await planJob('convert', source, to.path(`m.${ending}`), { maxShardBytes })
    const killed = await worker(job.tasks.slice(0, 1), true)
    if (process.platform !== 'win32') t.is(killed.signal, 'SIGKILL')
    t.deepEqual(killed.results, [])
    t.false(to.names().some((name) => name.endsWith(`.${ending}`)))
    const { results } = await worker(job.tasks)
    const { path, files } = await finishJob(job, results)
    t.true((await verify(path)).ok)
    const all = [...files, path].map((name) => basename(name)).sort()
    // On other systems, a hidden file of the killed worker remains until the next one writes there.
    if (process.platform === 'linux') t.deepEqual(to.names(), all)
  }
})
