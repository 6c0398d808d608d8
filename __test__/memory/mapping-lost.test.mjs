// A file that is truncated, replaced or removed while it is mapped crashes nothing and returns no zeros as data.
// Everything that may raise a signal runs in a separate process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { convert, openSync, verify, ZTensorError } from 'ztensor'
import { safetensors } from '../corpus/safetensors.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const ELEMENTS = 2 ** 20
const ones = littleEndian(new Float32Array(ELEMENTS).fill(1))
const header = `{"w":{"dtype":"F32","shape":[${ELEMENTS}],"data_offsets":[0,${ones.length}]}}`
const BYTES = safetensors(header.padEnd(88), ones)
/** The remaining length of the file. */
const LEFT = 65536
const root = fileURLToPath(new URL('../..', import.meta.url))

/** Runs a module with `path`, `truncate()` and `sum(array)`, and returns its output and its exit status. */
async function child(source, { flags = [], bytes = BYTES } = {}) {
  const path = scratchFile(bytes)
  const program = `
    import { truncateSync } from 'node:fs'
    import { open, openSync } from 'ztensor'
    const path = ${JSON.stringify(path)}
    const truncate = () => truncateSync(path, ${LEFT})
    const sum = (array) => { let total = 0; for (let i = 0; i < array.length; i++) total += array[i]; return total }
    const raised = (run) => { try { run() } catch (error) { return error.code } }
    const turn = () => new Promise((resolve) => setTimeout(resolve, 5))
    /** Waits for the report of the loss, which comes from another thread. */
    const until = async (done) => { while (!done()) await turn() }
    ${source}`
  const { NODE_OPTIONS: _, ...env } = process.env
  const running = spawn(process.execPath, [...flags, '--input-type=module', '-e', program], { cwd: root, env })
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) running[name].setEncoding('utf8').on('data', (text) => (texts[name] += text))
  const [status, signal] = await once(running, 'close')
  return { status, signal, lines: texts.stdout.trim().split('\n'), stderr: texts.stderr }
}

const ends = (t, { status, signal, lines, stderr }, expected) =>
  t.deepEqual({ status, signal, lines, stderr }, { status: 0, signal: null, stderr: '', ...expected })

/** The readable part of the file before the truncation: whole elements. */
const REMAINING = (LEFT - (BYTES.length - ones.length)) / 4

if (canMap(4) && process.platform !== 'win32') {
  for (const [code, flags] of Object.entries({ interpreted: ['--no-opt', '--no-sparkplug'], compiled: [] })) {
    test(`${code} code that reads a lost page gets zeros; the listener is called once, every call throws`, async (t) => {
      const ended = await child(
        `
        let calls = 0
        const file = openSync(path, { onMappingLost: (error) => { calls++; console.log(error.code, error.message.includes(path)) } })
        const tensor = file.tensor('w')
        const { data } = tensor
        for (let i = 0; i < 20; i++) sum(data)
        truncate()
        console.log(sum(data))
        for (const call of [() => tensor.data, () => file.tensor('w'), () => [...file.keys()], () => tensor.toFloat32(), () => tensor.slice([[0, 1]]), () => file.metadata, () => file.evict()])
          console.log(raised(call))
        for (const call of [() => tensor.load(), () => file.load(), () => file.verify(), () => file.prefetch(), async () => tensor.components.get('data').load()])
          console.log(await call().catch((error) => error.code))
        await until(() => calls > 0)
        await turn()
        console.log(calls, data[0], data.at(-1))
        data[data.length - 1] = 5
        console.log(data.at(-1))
        file.close()
        console.log(data.length, raised(() => tensor.data))`,
        { flags },
      )
      ends(t, ended, {
        lines: [
          String(REMAINING),
          ...Array(12).fill('ZT_MAPPING_LOST'),
          'ZT_MAPPING_LOST true',
          '1 1 0',
          '5',
          '0 ZT_CLOSED',
        ],
      })
    })
  }

  test('without a listener, it is an uncaught error on the event loop', async (t) => {
    const ended = await child(
      `
      const { data } = openSync(path).tensor('w')
      process.on('uncaughtException', (error) => { console.log(error.constructor.name, error.code); clearInterval(waiting) })
      const waiting = setInterval(() => {}, 1000)
      truncate()
      sum(data)`,
    )
    ends(t, ended, { lines: ['ZTensorError ZT_MAPPING_LOST'] })
  })

  test('… which ends a process without a handler for those, even if it never returns to its event loop', async (t) => {
    for (const after of ['setInterval(() => {}, 1000)', '', 'process.exit(0)']) {
      const ended = await child(
        `const { data } = openSync(path).tensor('w'); truncate(); console.log(sum(data)); ${after}`,
      )
      t.deepEqual([ended.signal, ended.lines], [null, [String(REMAINING)]], after)
      t.not(ended.status, 0, after)
      t.regex(ended.stderr, /ZT_MAPPING_LOST/, after)
    }
  })

  test('… unless a call has thrown the error before', async (t) => {
    const ended = await child(
      `const tensor = openSync(path).tensor('w'); const { data } = tensor; truncate(); sum(data); console.log(raised(() => tensor.slice([[0, 1]]))); await turn(); await turn()`,
    )
    ends(t, ended, { lines: ['ZT_MAPPING_LOST'] })
  })

  test('other files are unaffected, and the lost one can be opened again', async (t) => {
    const ended = await child(
      `
      import { copyFileSync } from 'node:fs'
      copyFileSync(path, path + '2')
      const other = openSync(path + '2')
      const whole = other.tensor('w').data
      const file = openSync(path, { onMappingLost: () => {} })
      const { data } = file.tensor('w')
      truncate()
      console.log(sum(data), raised(() => file.tensor('w')), sum(whole), sum(await other.tensor('w').load()))
      copyFileSync(path + '2', path)
      console.log(sum(openSync(path).tensor('w').data))`,
    )
    ends(t, ended, { lines: [`${REMAINING} ZT_MAPPING_LOST ${ELEMENTS} ${ELEMENTS}`, String(ELEMENTS)] })
  })

  test('survives native threads of others that read a view: a running compression', async (t) => {
    const ended = await child(
      `
      import { gzip, gunzipSync } from 'node:zlib'
      let calls = 0
      const { data } = openSync(path, { onMappingLost: () => calls++ }).tensor('w')
      truncate()
      const packed = await new Promise((resolve, reject) => gzip(data, (error, bytes) => (error ? reject(error) : resolve(bytes))))
      const bytes = gunzipSync(packed)
      console.log(sum(new Float32Array(bytes.buffer, bytes.byteOffset, data.length)))
      await until(() => calls)
      console.log(calls)`,
    )
    ends(t, ended, { lines: [String(REMAINING), '1'] })
  })

  test('in a worker: its listener is called there; without one the worker fails, not the process', async (t) => {
    const ended = await child(
      `
      import { Worker } from 'node:worker_threads'
      const code = (options) => \`
        const { openSync } = require('ztensor'), { truncateSync } = require('fs'), { parentPort } = require('worker_threads')
        const { data } = openSync(\${JSON.stringify(path)}, \${options}).tensor('w')
        truncateSync(\${JSON.stringify(path)}, ${LEFT})
        parentPort.postMessage(data.reduce((a, b) => a + b))
        setInterval(() => {}, 1000)\`
      const run = (options) => new Promise((resolve) => {
        const heard = []
        const worker = new Worker(code(options), { eval: true, execArgv: [] })
        worker.on('message', (text) => { heard.push(text); if (heard.length === 2) worker.terminate() })
        worker.on('error', (error) => { heard.push(error.code); worker.terminate() })
        // A message and the end of a worker arrive independently.
        worker.on('exit', () => resolve(heard.sort()))
      })
      const whole = (await import('node:fs')).readFileSync(path)
      console.log((await run('{ onMappingLost: (error) => parentPort.postMessage(error.code) }')).join())
      ;(await import('node:fs')).writeFileSync(path, whole)
      console.log((await run('{}')).join())
      console.log('alive')`,
    )
    ends(t, ended, { lines: [`${REMAINING},ZT_MAPPING_LOST`, `${REMAINING},ZT_MAPPING_LOST`, 'alive'] })
  })

  test('a buffer that outlives its file reports the loss', async (t) => {
    const ended = await child(
      `
      let heard
      process.on('uncaughtException', (error) => { heard = error.code })
      let data = (() => openSync(path).tensor('w').data)()
      for (let i = 0; i < 5; i++) { globalThis.gc(); await turn() }
      truncate()
      console.log(sum(data))
      await until(() => heard)
      console.log(heard)`,
      { flags: ['--expose-gc'] },
    )
    ends(t, ended, { lines: [String(REMAINING), 'ZT_MAPPING_LOST'] })
  })

  const LISTENING = {
    'added before': ["process.on('SIGBUS', heard)", ''],
    'added after the view': ['', "process.on('SIGBUS', heard)"],
    'added and removed': ["process.on('SIGBUS', heard)", "process.off('SIGBUS', heard)"],
  }
  for (const [when, [before, after]] of Object.entries(LISTENING)) {
    test(`a listener of the host for SIGBUS ${when}`, async (t) => {
      const gone = after.includes('off')
      const ended = await child(
        `
        let calls = 0, signals = 0
        const heard = () => { signals++ }
        ${before}
        const { data } = openSync(path, { onMappingLost: () => calls++ }).tensor('w')
        ${after}
        truncate()
        console.log(sum(data))
        await until(() => calls)
        console.log(calls, signals)
        process.kill(process.pid, 'SIGBUS')
        await until(() => signals)
        console.log(signals)`,
      )
      const lines = [String(REMAINING), '1 0']
      if (gone) t.deepEqual([ended.signal, ended.lines], ['SIGBUS', lines])
      else ends(t, ended, { lines: [...lines, '1'] })
    })
  }

  test('a SIGBUS that another process sends ends the process, as usual', async (t) => {
    const ended = await child(
      `const { data } = openSync(path).tensor('w'); console.log(sum(data)); process.kill(process.pid, 'SIGBUS'); await new Promise((r) => setTimeout(r, 60_000))`,
    )
    t.deepEqual([ended.signal, ended.lines], ['SIGBUS', [String(ELEMENTS)]])
  })

  test('detects a truncation inside the last page, which raises no signal, at the next read and the next view', async (t) => {
    const header =
      '{"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}}'
    const bytes = safetensors(header, littleEndian(new Float32Array(6).fill(1)))
    for (const call of ["file.tensor('w').load()", 'file.load()', 'file.verify()', "file.tensor('v').data"]) {
      const ended = await child(
        `
        const calls = []
        const file = openSync(path, { onMappingLost: (error) => calls.push(error.code) })
        const { data } = file.tensor('w')
        truncateSync(path, ${bytes.length - 8})
        console.log(sum(data), await (async () => ${call})().catch((error) => error.code), raised(() => file.tensor('w').data))
        await until(() => calls.length > 0)
        await turn()
        console.log(calls.join())`,
        { bytes },
      )
      ends(t, ended, { lines: ['2 ZT_MAPPING_LOST ZT_MAPPING_LOST', 'ZT_MAPPING_LOST'] })
    }
  })

  test('a hundred files lost together, from several threads', async (t) => {
    const ended = await child(
      `
      import { copyFileSync } from 'node:fs'
      let calls = 0
      const views = Array.from({ length: 100 }, (_, i) => openSync(path, { onMappingLost: () => calls++ }).tensor('w').data)
      truncate()
      console.log(views.map(sum).every((total) => total === ${REMAINING}))
      await until(() => calls === 100)
      console.log(calls)`,
    )
    ends(t, ended, { lines: ['true', '100'] })
  })
}

test('truncated before it is mapped: data and every reading call throw ZT_TRUNCATED', async (t) => {
  const path = scratchFile(BYTES)
  const file = openSync(path)
  const tensor = file.tensor('w')
  truncateSync(path, LEFT)
  for (const call of [
    async () => tensor.data,
    () => tensor.load(),
    () => file.load(),
    () => file.verify(),
    () => tensor.load({ slice: [[ELEMENTS - 1, ELEMENTS]] }),
    async () => tensor.toFloat32(),
    () => tensor.load({ as: 'float32' }),
    () => verify(path),
    () => convert(path, scratchPath('out.zt')),
  ]) {
    const error = await rejectionOf(call)
    t.true(error instanceof ZTensorError, String(call))
    t.true(['ZT_TRUNCATED', 'ZT_IO', 'ZT_OUT_OF_BOUNDS'].includes(error?.code), `${call}: ${error?.code}`)
  }
  file.close()
})

test('loads while the file shrinks return the data or ZT_TRUNCATED', async (t) => {
  for (let round = 0; round < 20; round++) {
    const path = scratchFile(BYTES)
    const file = openSync(path)
    const loads = Array.from({ length: 4 }, () => file.tensor('w').load())
    if (round % 2) await new Promise(setImmediate)
    truncateSync(path, LEFT)
    for (const result of await Promise.allSettled(loads)) {
      if (result.status === 'fulfilled') t.true(result.value.every((value) => value === 1))
      else t.is(result.reason.code, 'ZT_TRUNCATED')
    }
    file.close()
    rmSync(path)
  }
})

for (const io of ['mmap', 'read']) {
  // Windows keeps the name of an open file.
  const replaceable = process.platform === 'win32' ? test.skip : test
  replaceable(`removed, or replaced by another file with its name: the open one is unchanged, io: ${io}`, async (t) => {
    const path = scratchFile(BYTES)
    const file = openSync(path, { io })
    const { data } = file.tensor('w')
    const other = scratchFile(Buffer.alloc(100))
    renameSync(other, path)
    t.is(data[ELEMENTS - 1], 1)
    t.is((await file.tensor('w').load())[ELEMENTS - 1], 1)
    rmSync(path)
    t.is(data[ELEMENTS - 2], 1)
    t.true((await file.verify()).ok)
    t.is((await file.load()).get('w').data[5], 1)
    file.close()
  })

  test(`overwritten in place: nothing breaks, and a digest detects it, io: ${io}`, async (t) => {
    const path = scratchFile(BYTES)
    const out = scratchPath('digested.zt')
    await convert(path, out)
    const file = openSync(out, { io })
    const { data } = file.tensor('w')
    t.is(data[7], 1)
    writeFileSync(out, Buffer.alloc(file.byteLength, 9), { flag: 'r+' })
    t.is(data.length, ELEMENTS)
    const error = await rejectionOf(() => file.tensor('w').load())
    t.is(error?.code, 'ZT_DIGEST_MISMATCH')
    t.false((await file.verify()).ok)
    file.close()
  })
}

test('onMappingLost must be a function', (t) => {
  for (const onMappingLost of [7, 'x', {}, null]) {
    const error = t.throws(() => openSync(BYTES, { onMappingLost }), { instanceOf: TypeError })
    t.is(error.code, 'ZT_INVALID_ARG')
    t.regex(error.message, /onMappingLost/)
  }
})
