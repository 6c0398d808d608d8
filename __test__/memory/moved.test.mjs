// Memory that JavaScript moves out of its thread with transfer(). In separate processes, because a bug would crash them.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { safetensors } from '../helpers/command.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { scratchFile } from '../helpers/scratch.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const moves = typeof ArrayBuffer.prototype.transfer === 'function'

function child(t, args) {
  const { NODE_OPTIONS: _, ...env } = process.env
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, env, encoding: 'utf8' })
  t.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' })
  return JSON.parse(stdout)
}

test('memory that was moved to another thread keeps its contents when its first thread ends, and is not reused', (t) => {
  const { cases, refused, faults } = child(t, [
    fileURLToPath(new URL('../helpers/transferred-memory.mjs', import.meta.url)),
  ])
  for (const line of refused) t.log('rejected:', line)
  t.deepEqual(faults, [])
  // Before Node 22, external memory cannot be moved: it is copied.
  t.true(cases >= (moves ? 36 : 6), `${cases} cases`)
})

/** Runs workers that end in a given way with open files, aliases and finished loads, and reports what remains. */
const left = (t, end) =>
  child(t, [
    '--input-type=module',
    '-e',
    `
    import fs from 'node:fs'
    import { once } from 'node:events'
    import { Worker } from 'node:worker_threads'
    const path = ${JSON.stringify(scratchFile(safetensors({ w: ['U8', [8 * 2 ** 20]], s: ['U8', [4096]] })))}
    const code = \`
      const { parentPort, workerData } = require('node:worker_threads')
      const { openSync } = require('ztensor')
      const run = async () => {
        const file = openSync(workerData)
        globalThis.arrays = []
        for (let i = 0; i < 4; i++) arrays.push(await file.tensor('w').load(), await file.tensor('s').load())
        for (const array of arrays) array.fill(1)
        for (let i = 0; i < 100; i++) arrays.push(file.tensor('w').slice([[i * 4096, (i + 1) * 4096]]).data)
        arrays.push(openSync(workerData).tensor('w').data)
        ${end}
      }
      run()\`
    const maps = () => fs.readFileSync('/proc/self/maps', 'utf8').split('\\n').filter((line) => line.includes(path)).length
    const run = async () => {
      const worker = new Worker(code, { eval: true, execArgv: [], workerData: path })
      const exited = once(worker, 'exit')
      if (${end.includes('postMessage')}) {
        await once(worker, 'message')
        await worker.terminate()
      }
      await exited
    }
    for (let i = 0; i < 4; i++) await run()
    const before = process.memoryUsage.rss()
    for (let i = 0; i < 8; i++) await run()
    console.log(JSON.stringify({ maps: maps(), grownMiB: (process.memoryUsage.rss() - before) / 2 ** 20 }))`,
  ])

const ends = {
  normally: '',
  'by process.exit()': 'process.exit()',
  'by terminate()': "setInterval(() => parentPort.postMessage('ready'), 1)",
}
for (const [name, end] of Object.entries(ends)) {
  const there = process.platform === 'linux' && canMap(1) ? test : test.skip
  there(`memory that was not moved is freed with its thread, which ends ${name}`, (t) => {
    const { maps, grownMiB } = left(t, end)
    t.is(maps, 0)
    // Each worker loads 32 MiB.
    t.true(grownMiB < 96, `${grownMiB} MiB more`)
  })
}
