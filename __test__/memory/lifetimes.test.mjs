// Files, views and threads that end in any order: nothing crashes, and nothing remains. Each case runs in a separate process,
// because mappings, handles and memory belong to a process. ZTENSOR_CYCLES=1000000 makes the long cases long.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { safetensors } from '../corpus/safetensors.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { rounds } from '../helpers/campaign.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { canBeSparse, endlessFile } from '../helpers/endless.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const ELEMENTS = 2 ** 18
const ones = littleEndian(new Float32Array(ELEMENTS).fill(1))
const header = `{"w":{"dtype":"F32","shape":[${ELEMENTS}],"data_offsets":[0,${ones.length}]}}`
const BYTES = safetensors(header.padEnd(88), ones)
const root = fileURLToPath(new URL('../..', import.meta.url))
const CYCLES = Number(process.env.ZTENSOR_CYCLES ?? rounds(20_000, 4_000))

/** Runs a module with `path`, `fs`, `ztensor`, `worker(code)`, `leaks()` and `collect()`. */
async function child(t, source, expected = {}) {
  const path = scratchFile(BYTES)
  const program = `
    import fs from 'node:fs'
    import { Worker } from 'node:worker_threads'
    import * as ztensor from 'ztensor'
    const { open, openSync, create, convert } = ztensor
    const path = ${JSON.stringify(path)}
    const turn = () => new Promise((resolve) => setTimeout(resolve, 2))
    const collect = async () => { for (let i = 0; i < 6; i++) { globalThis.gc(); await turn() } }
    const worker = (code) => new Worker("const ztensor = require('ztensor'), { parentPort } = require('worker_threads'), path = " + ${JSON.stringify(JSON.stringify(path))} + ";" + code, { eval: true, execArgv: [] })
    const count = (file, pattern) => fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\\n').filter((line) => line.includes(pattern)).length : 0
    /** Mappings of a file, and handles of it. */
    const held = (of = path) => ({
      maps: count('/proc/self/maps', of),
      handles: fs.existsSync('/proc/self/fd') ? fs.readdirSync('/proc/self/fd').filter((fd) => { try { return fs.readlinkSync('/proc/self/fd/' + fd) === of } catch { return false } }).length : 0,
    })
    const rss = () => process.memoryUsage.rss() / 2 ** 20
    ${source}`
  const { NODE_OPTIONS: _, ...env } = process.env
  const running = spawn(process.execPath, ['--expose-gc', '--input-type=module', '-e', program], { cwd: root, env })
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) running[name].setEncoding('utf8').on('data', (text) => (texts[name] += text))
  const [status, signal] = await once(running, 'close')
  const printed = texts.stdout.trim().split('\n')
  const figure = (line) => line.startsWith('# ')
  for (const line of printed.filter(figure)) t.log(line)
  const lines = printed.filter((line) => !figure(line))
  t.deepEqual(
    { status, signal, stderr: texts.stderr, lines },
    { status: 0, signal: null, stderr: '', lines: ['{"maps":0,"handles":0}'], ...expected },
  )
  return path
}
const NOTHING = 'console.log(JSON.stringify(held()))'

test('opens, aliases and closes repeatedly, without a turn of the event loop', async (t) => {
  const batch = Math.min(CYCLES / 4, 25_000)
  await child(
    t,
    `
    const cycles = (count) => { for (let i = 0; i < count; i++) { const file = openSync(path); if (file.tensor('w').data[9] !== 1) throw new Error('data'); file.close() } }
    // V8's heap and the allocator's arenas grow to their size first: to that of the longest batch without a turn, in which
    // nothing is finalized.
    cycles(${Math.min(CYCLES, 20_000)})
    await collect()
    const before = rss()
    for (let done = ${batch}; done <= ${CYCLES}; done += ${batch}) {
      cycles(${batch})
      await collect()
      if (done % ${CYCLES / 4} === 0) console.log('#', done, 'cycles: resident memory grew by', (rss() - before).toFixed(1), 'MiB')
    }
    // Quarantined memory has addresses and no pages.
    if (rss() > before + 64) console.log('grew by', rss() - before)
    // Far more than the system's limit of mappings.
    if (${CYCLES} >= 200_000) cycles(200_000)
    await collect()
    ${NOTHING}`,
  )
})

test('files that are dropped without closing', async (t) => {
  await child(
    t,
    `
    let total = 0
    for (let i = 0; i < ${Math.min(CYCLES, 2000)}; i++) { total += openSync(path).tensor('w').data[i % 100]; if (i % 200 === 199) await collect() }
    await collect()
    ${NOTHING}`,
  )
})

test('files with listeners for lost mappings are collected', async (t) => {
  await child(
    t,
    `
    for (let i = 0; i < 500; i++) { const file = openSync(path, { onMappingLost: () => file.close() }); file.tensor('w').data; if (i % 100 === 99) await collect() }
    await collect()
    ${NOTHING}`,
  )
})

test('close() during a compression of a view', async (t) => {
  await child(
    t,
    `
    import { gzip } from 'node:zlib'
    for (let i = 0; i < 30; i++) {
      const file = openSync(path)
      const packed = new Promise((resolve, reject) => gzip(file.tensor('w').data, { level: 1 }, (error, bytes) => error ? reject(error) : resolve(bytes)))
      if (i % 2) await new Promise(setImmediate)
      file.close()
      await packed
    }
    ${NOTHING}`,
  )
})

// Newer runtimes cannot move external memory: they copy it.
test('workers that end with live views, and one that transfers its view first', async (t) => {
  await child(
    t,
    `
    for (let i = 0; i < 8; i++) {
      const running = worker("const { data } = ztensor.openSync(path).tensor('w'); const retained = ztensor.openSync(path).tensor('w').data; try { parentPort.postMessage(data, [data.buffer]) } catch { parentPort.postMessage(data) } setInterval(() => retained, 1000)")
      const moved = await new Promise((resolve, reject) => { running.once('message', resolve); running.once('error', reject) })
      await running.terminate()
      if (moved[ELEMENTS() - 1] !== 1 && moved.length !== 0) throw new Error('moved data: ' + moved[0])
    }
    function ELEMENTS() { return ${ELEMENTS} }
    await collect()
    console.log(held().handles)`,
    { lines: ['0'] },
  )
})

test('workers terminated during loads, verifications and conversions', async (t) => {
  const path = await child(
    t,
    `
    for (let i = 0; i < 12; i++) {
      const running = worker("const file = ztensor.openSync(path); for (let i = 0; i < 20; i++) { file.load().catch(() => {}); file.verify().catch(() => {}) } ztensor.convert(path, path + '." + i + ".zt').catch(() => {}); parentPort.postMessage(1); setInterval(() => {}, 1000)")
      await new Promise((resolve, reject) => { running.once('message', resolve); running.once('error', reject) })
      if (i % 3) await new Promise((resolve) => setTimeout(resolve, i))
      await running.terminate()
    }
    await collect()
    // Running work ends between two pieces.
    for (let i = 0; i < 500 && held().handles > 0; i++) await turn()
    ${NOTHING}`,
  )
  t.false(readdirSync(dirname(path)).some((name) => name.endsWith('.tmp')))
})

/** Endless work of each kind, started by a worker that reports when it runs. */
const ENDLESS = {
  'a verification': 'ztensor.verify(endless, { onProgress }).catch(() => {})',
  statistics:
    "const file = ztensor.openSync(endless); file.tensor('endless').stats().catch(() => {}); file.prefetch(['endless'], { onProgress }).catch(() => {})",
  'a mapped file and a load':
    "const file = ztensor.openSync(endless); globalThis.retained = file.tensor('large').data; file.verify({ onProgress }).catch(() => {}); for (let i = 0; i < 64; i++) file.tensor('large').load().catch(() => {})",
  'a conversion':
    "ztensor.convert(endless, folder + '/x.zt', { version: '1.2', compression: { level: 15 }, filter, onProgress }).catch(() => {})",
  'a conversion that is judged':
    "ztensor.convert(endless, folder + '/x.zt', { version: '2', canonical: false, filter: ({ name }) => name === 'flags', onProgress }).catch(() => {})",
  'a conversion into an unread stream':
    "ztensor.convert(endless, new (require('stream').Writable)({ write() { parentPort.postMessage(1) } }), { version: '1.2', filter }).catch(() => {})",
  'more conversions than there are cores':
    "for (let i = 0; i <= 2 * require('os').availableParallelism(); i++) ztensor.convert(endless, folder + '/' + i + '.zt', { version: '1.2', compression: { level: 15 }, filter, onProgress }).catch(() => {})",
  'a writer':
    "ztensor.create(folder + '/x.zt', { version: '2', canonical: false, compression: { level: 19 } }).then((writer) => { globalThis.retained = writer; for (let i = 0; i < 99; i++) writer.add('' + i, new Uint8Array(2 ** 24)).catch(() => {}); setTimeout(() => parentPort.postMessage(1), 50) })",
}
if (canBeSparse) {
  for (const [what, work] of Object.entries(ENDLESS)) {
    test(`a worker terminated during ${what}: the work ends, and nothing of it remains`, async (t) => {
      const endless = endlessFile()
      const folder = scratchPath('folder')
      mkdirSync(folder)
      const names = `const endless = ${JSON.stringify(endless)}, folder = ${JSON.stringify(folder)};`
      const common =
        "const filter = ({ name }) => name === 'endless', onProgress = ({ bytes }) => { if (bytes > 0) parentPort.postMessage(1) }; setInterval(() => {}, 1000);"
      await child(
        t,
        `
        ${names}
        const running = worker(${JSON.stringify(names + common + work)})
        await new Promise((resolve, reject) => { running.once('message', resolve); running.once('error', reject) })
        await running.terminate()
        const left = () => ({ ...held(endless), files: fs.readdirSync(folder) })
        const isLeft = ({ maps, handles, files }) => maps + handles + files.length > 0
        // Much longer than the interval of checks of the stop flag, much shorter than the work.
        for (let i = 0; i < 10_000 && isLeft(left()); i++) await turn()
        console.log(JSON.stringify(left()))
        // Its thread stops too: the work of another worker finishes.
        const next = worker(${JSON.stringify(names)} + "ztensor.openSync(endless).tensor('large').load().then(({ length }) => parentPort.postMessage(length))")
        console.log(await new Promise((resolve, reject) => { next.once('message', resolve); next.once('error', reject) }))`,
        { lines: ['{"maps":0,"handles":0,"files":[]}', String(2 ** 26)] },
      )
    })
  }
}

test('process.exit() during a write leaves nothing at the path', async (t) => {
  const path = await child(
    t,
    `
    const writer = await create(path + '.zt')
    for (let i = 0; i < 8; i++) writer.add('w' + i, new Float32Array(2 ** 18)).catch(() => {})
    setTimeout(() => process.exit(3), 5)`,
    { status: 3, lines: [''] },
  )
  t.deepEqual(
    readdirSync(dirname(path)).filter((name) => name === `${path.split('/').at(-1)}.zt`),
    [],
  )
})

test('close() during loads: each returns its data or ZT_CLOSED, and nothing of the file remains', async (t) => {
  await child(
    t,
    `
    for (let i = 0; i < 50; i++) {
      const file = await open(path)
      const { data } = file.tensor('w')
      const jobs = [file.load(), file.verify(), file.prefetch(), file.tensor('w').load(), file.tensor('w').load({ as: 'float32', slice: [[0, 1000]] })]
      if (i % 2) await new Promise(setImmediate)
      file.close()
      for (const { status, reason, value } of await Promise.allSettled(jobs))
        if (status === 'rejected' && reason.code !== 'ZT_CLOSED') console.log(reason)
      if (${canMap(4)} && data.length > 0) console.log('the view exists')
    }
    for (let i = 0; i < 500 && held().handles > 0; i++) await turn()
    ${NOTHING}`,
  )
})

test('the process ends with open views, files, loads and writers', async (t) => {
  for (const end of ['', 'process.exit(0)', 'setImmediate(() => process.exit(0))']) {
    await child(
      t,
      `
      const file = openSync(path)
      globalThis.retained = [file, file.tensor('w').data, await create(path + '.zt')]
      file.load().catch(() => {})
      console.log('end')
      ${end}`,
      { lines: ['end'] },
    )
  }
})
