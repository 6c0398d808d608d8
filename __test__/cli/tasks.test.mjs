// `--plan`, `ztensor task` and `ztensor finish`.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { fixture, run } from '../helpers/command.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { filesOf, model } from '../helpers/tasks.mjs'
import { writeLlama } from '../helpers/tiny-models.mjs'

/** Plans, runs every task except those left out, and returns the result files. */
async function planned(t, folder, command, leftOut = []) {
  const { code, stdout, stderr } = await run(command)
  t.is(code, 0, stderr)
  const job = folder.path('job.json')
  writeFileSync(job, stdout)
  const results = []
  for (const { task } of JSON.parse(stdout).tasks) {
    if (leftOut.includes(task)) continue
    const done = await run(['task', job, String(task)])
    t.is(done.code, 0, done.stderr)
    writeFileSync(folder.path(`${task}.json`), done.stdout)
    results.push(folder.path(`${task}.json`))
  }
  return { job, results, tasks: JSON.parse(stdout).tasks }
}

test('convert: plan, tasks and finish write the same as one command', async (t) => {
  const [from, to, whole, work] = Array.from({ length: 4 }, scratchFolder)
  const source = await model(from.path('m.zt'))
  const options = ['--max-shard-size', '3000', '--cast', 'float32=bfloat16', '--filter', '!*1*']
  const { job, results } = await planned(t, work, ['convert', source, to.path('m.safetensors'), ...options, '--plan'])
  t.true(results.length > 1)
  const done = await run(['finish', job, job, ...results, '--verify'])
  t.is(done.code, 0, done.stderr)
  t.regex(done.stdout, /^wrote .*m\.safetensors\.index\.json: \d+ tensors, in \d shards\nread by: /)
  await run(['convert', source, whole.path('m.safetensors'), ...options])
  t.deepEqual(filesOf(to), filesOf(whole))
  const json = await run(['finish', job, ...results, '--json'])
  t.like(JSON.parse(json.stdout), { event: 'done', path: to.path('m.safetensors.index.json'), skipped: [] })
})

test('convert --plan takes --dequantize, --no-copy-metadata and patterns of --skip', async (t) => {
  const [to, whole, work] = Array.from({ length: 3 }, scratchFolder)
  const source = fixture('gguf/types.gguf')
  const all = await run(['convert', source, whole.path('m.safetensors'), '--dequantize', '--skip'])
  const left = Array.from(all.stdout.matchAll(/tensor "([^"]+)"/g), ([, name]) => name)
  for (const name of whole.names()) rmSync(whole.path(name))
  const options = ['--dequantize', 'f32', '--no-copy-metadata', '--max-shard-size', '4000']
  for (const name of left) options.push('--skip', name)
  const { job, results } = await planned(t, work, ['convert', source, to.path('m.safetensors'), ...options, '--plan'])
  t.true(results.length > 1)
  const done = await run(['finish', job, ...results, '--verify'])
  t.is(done.code, 0, done.stderr)
  t.is((await run(['convert', source, whole.path('m.safetensors'), ...options])).code, 0)
  t.deepEqual(filesOf(to), filesOf(whole))
})

test('convert --plan to GGUF takes --quantize and --metadata', async (t) => {
  const [from, to, whole, work] = Array.from({ length: 4 }, scratchFolder)
  await writeLlama(from.path('m.gguf'), { layers: 1, inner: 144 })
  const options = ['--quantize', 'q4_k_m', '--metadata', 'general.name=x', '--max-shard-size', '200KB']
  const command = ['convert', from.path('m.gguf'), to.path('m.gguf'), ...options, '--plan']
  const { job, results } = await planned(t, work, command)
  t.true(results.length > 1)
  const done = await run(['finish', job, ...results, '--verify'])
  t.is(done.code, 0, done.stderr)
  t.regex(done.stdout, /^wrote .*m-00001-of-0000\d\.gguf: \d+ tensors, in \d shards\n/)
  t.regex(done.stdout, /types: \d+ q4_k.*\n.*rows are not whole blocks/)
  t.is((await run(['convert', from.path('m.gguf'), whole.path('m.gguf'), ...options])).code, 0)
  t.deepEqual(filesOf(to), filesOf(whole))
})

test('verify and stats run in tasks', async (t) => {
  const [from, work] = [scratchFolder(), scratchFolder()]
  const source = await model(from.path('m.zt'))
  const verified = await planned(t, work, ['verify', source, '--plan', '--max-task-size', '5000'])
  const ok = await run(['finish', verified.job, ...verified.results])
  t.is(ok.code, 0, ok.stderr)
  t.is(ok.stdout, (await run(['verify', source])).stdout)
  const stats = await planned(t, work, ['stats', source, '--plan', '--max-task-size', '5000', '--bins', '2'])
  const found = JSON.parse((await run(['finish', stats.job, ...stats.results, '--json'])).stdout)
  const whole = JSON.parse((await run(['stats', source, '--json', '--bins', '2'])).stdout)
  t.deepEqual(
    found,
    whole.map((row) => ({ ...row, dtype: null })),
  )
  t.regex((await run(['finish', stats.job, ...stats.results])).stdout, /name +count/)

  const file = openSync(source)
  const { offset } = file.tensor('layers.9.weight').components.get('data')
  file.close()
  const bytes = readFileSync(source)
  bytes[offset] ^= 1
  writeFileSync(source, bytes)
  const damaged = await planned(t, work, ['verify', source, '--plan'])
  const bad = await run(['finish', damaged.job, ...damaged.results])
  t.is(bad.code, 1)
  t.regex(bad.stdout, /FAILED[\s\S]*ZT_DIGEST_MISMATCH/)
})

test('rejects missing and invalid jobs and results', async (t) => {
  const [from, to, work] = Array.from({ length: 3 }, scratchFolder)
  const source = await model(from.path('m.zt'))
  const command = ['convert', source, to.path('m.safetensors'), '--max-shard-size', '6000', '--plan']
  const { job, results, tasks } = await planned(t, work, command, [1])
  writeFileSync(work.path('empty.json'), '')
  for (const [args, pattern, exit = 2] of [
    [['finish', job, ...results], /results of these tasks are missing: 1; run them/],
    [['finish', job, work.path('empty.json')], /empty\.json is not JSON: it is empty/],
    [['finish', results[0], ...results], /is not a job/],
    [['finish', job, ...results, '--verify'], /missing/],
    [['task', job], /from 0 to \d+, got none/],
    [['task', job, '99'], /from 0 to \d+, got 99/],
    [['task', job, '-1'], /unknown option|got -1/],
    [['task', results[0]], /task has an unknown key|task\./],
    [['convert', '-', to.path('x.zt'), '--plan'], /standard input/],
    [['convert', source, to.path('x.npz'), '--plan'], /write zTensor 2, safetensors or GGUF, not npz/],
    [['convert', source, to.path('x.zt'), '--plan', '--filter', 'nothing'], /matches no tensor/, 1],
    [['verify', source, '--plan', '--filter', '*'], /--plan takes no --filter/],
    [['verify', source, source, '--plan'], /exactly one file/],
    [['verify', source, '--plan', '--max-task-size', 'much'], /a size/],
  ]) {
    const { code, stderr } = await run(args)
    t.is(code, exit, args.join(' '))
    t.regex(stderr, pattern)
  }
  writeFileSync(work.path('one.json'), JSON.stringify(tasks[1]))
  t.is((await run(['task', work.path('one.json')])).code, 0, 'a task alone')
  await convert(source, source.replace('m.zt', 'n.zt'))
  writeFileSync(source, readFileSync(source.replace('m.zt', 'n.zt')))
  const { code, stderr } = await run(['task', job, '1'])
  t.is(code, 2)
  t.regex(stderr, /has changed since the job was planned/)
})
