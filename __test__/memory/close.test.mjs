// close(): views become empty immediately, later calls throw ZT_CLOSED, and running work does not crash.
import { execFileSync, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { open, openSync, ZTensorError } from 'ztensor'
import { frame } from '../corpus/zstd.mjs'
import { f32s, sparse10, square10, zt10 } from '../corpus/zt.mjs'
import { BIG_ENDIAN_HOST } from '../helpers/bytes.mjs'
import { rounds } from '../helpers/campaign.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFile } from '../helpers/scratch.mjs'

const BYTES = zt10({
  a: square10(),
  z: square10({}, { bytes: frame(f32s(5, 6, 7, 8)), encoding: 'zstd' }),
  ...sparse10(),
})
const root = fileURLToPath(new URL('../..', import.meta.url))

test('close() empties views of the mapping immediately', (t) => {
  const file = openSync(scratchFile(BYTES))
  const data = file.tensor('a').data
  const rows = file.tensor('a').slice([[0, 1], null]).data
  const component = file.tensor('a').components.get('data').data
  const { values, indices, indptr } = file.tensor('m').csr()
  file.close()
  t.true(file.closed)
  if (canMap(4)) {
    for (const view of [data, rows, component, values, indices, indptr]) t.is(view.length, 0)
    t.is(data.buffer.byteLength, 0)
  }
})

test('close() is idempotent, and so is disposing', async (t) => {
  const file = await open(scratchFile(BYTES))
  t.is(file.close(), undefined)
  t.is(file.close(), undefined)
  t.is(file[Symbol.dispose](), undefined)
  t.is(await file[Symbol.asyncDispose](), undefined)
  t.true(file.closed)
})

test('Symbol.dispose and Symbol.asyncDispose close', async (t) => {
  const first = openSync(scratchFile(BYTES))
  first[Symbol.dispose]()
  t.true(first.closed)
  const second = openSync(scratchFile(BYTES))
  await second[Symbol.asyncDispose]()
  t.true(second.closed)
})

const LATER = {
  'file.tensor': (file) => file.tensor('a'),
  'file.load': (file) => file.load(),
  'file.verify': (file) => file.verify(),
  'file.prefetch': (file) => file.prefetch(),
  'file.evict': (file) => file.evict(),
  'tensor.data': (file, { a }) => a.data,
  'tensor.data of zstd': (file, { z }) => z.data,
  'tensor.load': (file, { a }) => a.load(),
  'tensor.toFloat32': (file, { a }) => a.toFloat32(),
  'tensor.slice': (file, { a }) => a.slice([null, null]),
  'tensor.shard': (file, { a }) => a.shard({ dim: 0, rank: 0, worldSize: 2 }),
  'tensor.verify': (file, { a }) => a.verify(),
  'component.data': (file, { a }) => a.components.get('data').data,
  'component.load': (file, { a }) => a.components.get('data').load(),
  csr: (file, { m }) => m.csr(),
  loadCsr: (file, { m }) => m.loadCsr(),
  coo: (file, { k }) => k.coo(),
  loadCoo: (file, { k }) => k.loadCoo(),
}
for (const [what, call] of Object.entries(LATER)) {
  test(`${what} of a closed file: ZT_CLOSED`, async (t) => {
    for (const source of [scratchFile(BYTES), new Uint8Array(BYTES)]) {
      const file = openSync(source)
      const tensors = Object.fromEntries(['a', 'z', 'm', 'k'].map((name) => [name, file.tensor(name)]))
      file.close()
      const error = await rejectionOf(async () => call(file, tensors))
      t.true(error instanceof ZTensorError, String(error))
      t.is(error?.code, 'ZT_CLOSED')
    }
  })
}

test('a tensor of a closed file keeps its properties', (t) => {
  const file = openSync(scratchFile(BYTES))
  const tensor = file.tensor('a')
  file.close()
  t.is(tensor.name, 'a')
  t.is(tensor.dtype, 'float32')
  t.deepEqual(tensor.shape, [2, 2])
})

test('close() never detaches a source in memory', (t) => {
  const source = new Uint8Array(new ArrayBuffer(BYTES.length + 64)).subarray(64)
  source.set(BYTES)
  const file = openSync(source)
  const { data } = file.tensor('a')
  t.is(data.buffer === source.buffer, !BIG_ENDIAN_HOST)
  t.deepEqual([...data], [1, 2, 3, 4])
  file.close()
  t.is(source.length, BYTES.length)
  t.deepEqual([...data], [1, 2, 3, 4])
})

test('loads in progress when the file closes return the data or ZT_CLOSED', async (t) => {
  for (let round = 0; round < 20; round++) {
    const file = openSync(scratchFile(BYTES))
    const jobs = Array.from({ length: 16 }, (_, i) => file.tensor(i % 2 ? 'a' : 'z').load())
    jobs.push(file.load(), file.verify())
    file.close()
    const results = await Promise.allSettled(jobs)
    results.slice(0, 16).forEach((result, i) => {
      if (result.status === 'fulfilled') t.deepEqual([...result.value], i % 2 ? [1, 2, 3, 4] : [5, 6, 7, 8])
    })
    for (const { status, reason } of results) if (status === 'rejected') t.is(reason.code, 'ZT_CLOSED')
  }
})

test('small loads into arrays that are detached or resized before their turn: ZT_CLOSED', async (t) => {
  const file = openSync(scratchFile(BYTES))
  const into = (array) => [array, rejectionOf(() => file.tensor('a').load({ into: array, slice: [null, null] }))]
  // The first calls of a turn run immediately.
  const moved = Array.from({ length: 2000 }, () => into(new Float32Array(4)))
  const resized = Array.from({ length: 500 }, () => into(new Float32Array(new ArrayBuffer(16, { maxByteLength: 32 }))))
  for (const [array] of moved) structuredClone(array.buffer, { transfer: [array.buffer] })
  for (const [array] of resized) array.buffer.resize(32)
  for (const calls of [moved, resized]) {
    const errors = (await Promise.all(calls.map(([, call]) => call))).filter((error) => error !== undefined)
    t.true(errors.length > 0)
    for (const error of errors) t.is(error.code, 'ZT_CLOSED', String(error))
  }
  file.close()
})

test('opens and closes many times, and leaves views to the collector', (t) => {
  // More rounds than the 65,530 maps that Linux allows a process: shares must be given back by close(), not by finalizers.
  const cycles = Number(process.env.ZTENSOR_CYCLES ?? (process.platform === 'win32' ? 5_000 : rounds(70_000, 10_000)))
  const path = scratchFile(BYTES)
  for (let round = 0; round < cycles; round++) {
    const file = openSync(path)
    if (file.tensor('a').data[3] !== 4) t.fail(`round ${round}`)
    file.close()
  }
  t.pass()
})

/** Runs a module in a separate process, in the root of the package. */
const child = (source, env = {}, flags = []) =>
  spawnSync(process.execPath, [...flags, '--input-type=module', '-e', source], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, ...env },
  })

test('a moved buffer keeps its bytes after close()', (t) => {
  const { status, signal, stdout, stderr } = child(`
    import { openSync } from 'ztensor'
    const file = openSync(${JSON.stringify(scratchFile(BYTES))})
    const { data } = file.tensor('a')
    // Node 20 cannot move external memory: it copies instead
    const { buffer } = data
    const moved = typeof buffer.transfer === 'function' ? buffer.transfer() : structuredClone(buffer, { transfer: [buffer] })
    file.close()
    for (let i = 0; i < 100; i++) { const other = openSync(${JSON.stringify(scratchFile(BYTES))}); other.tensor('z').data; other.close() }
    console.log(new Float32Array(moved).join())
  `)
  t.deepEqual(
    { status, signal, stdout: stdout.trim(), stderr },
    { status: 0, signal: null, stdout: '1,2,3,4', stderr: '' },
  )
})

test('an unreferenced file is collected', (t) => {
  const { status, signal, stdout, stderr } = child(
    `
    import { openSync } from 'ztensor'
    const path = ${JSON.stringify(scratchFile(BYTES))}
    let sum = 0
    for (let i = 0; i < 5000; i++) { sum += openSync(path).tensor('a').data[0]; if (i % 500 === 0) { globalThis.gc(); await new Promise(setImmediate) } }
    console.log(sum)
  `,
    {},
    ['--expose-gc'],
  )
  t.deepEqual(
    { status, signal, stdout: stdout.trim(), stderr },
    { status: 0, signal: null, stdout: '5000', stderr: '' },
  )
})

test('process.exit() with loads in progress ends the process', (t) => {
  const { status, signal, stderr } = child(`
    import { openSync } from 'ztensor'
    const file = openSync(${JSON.stringify(scratchFile(BYTES))})
    for (let i = 0; i < 100; i++) file.load().catch(() => {})
    file.tensor('a').data
    setImmediate(() => process.exit(7))
  `)
  t.deepEqual({ status, signal, stderr }, { status: 7, signal: null, stderr: '' })
})

test('a worker that ends with files open does not affect the process', (t) => {
  const path = scratchFile(BYTES)
  const { status, signal, stdout, stderr } = child(`
    import { Worker } from 'node:worker_threads'
    const code = "const { openSync } = require('ztensor'); const f = openSync(" + ${JSON.stringify(JSON.stringify(path))} + "); const d = f.tensor('a').data; require('worker_threads').parentPort.postMessage(d[3]); f.load(); setInterval(() => {}, 1000)"
    for (let i = 0; i < 10; i++) {
      const worker = new Worker(code, { eval: true, execArgv: [] })
      await new Promise((resolve, reject) => { worker.once('message', resolve); worker.once('error', reject) })
      await worker.terminate()
    }
    const { openSync } = await import('ztensor')
    console.log(openSync(${JSON.stringify(path)}).tensor('a').data.join())
  `)
  t.deepEqual(
    { status, signal, stdout: stdout.trim(), stderr },
    { status: 0, signal: null, stdout: '1,2,3,4', stderr: '' },
  )
})

test('ZTENSOR_NO_EXTERNAL=1: copies, with the reason runtime, and the same values', (t) => {
  const out = execFileSync(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `
    import { openSync } from 'ztensor'
    const file = openSync(${JSON.stringify(scratchFile(BYTES))})
    const a = file.tensor('a')
    const facts = { mapped: a.mapped, copyReason: a.copyReason, data: [...a.data], same: a.data === a.data, rows: [...a.slice([[1, 2], null]).data], loaded: [...(await a.load())], csr: [...file.tensor('m').csr().toDense()] }
    a.data[0] = 9
    facts.first = a.data[0]
    file.close()
    console.log(JSON.stringify(facts))`,
    ],
    { cwd: root, encoding: 'utf8', env: { ...process.env, ZTENSOR_NO_EXTERNAL: '1' } },
  )
  t.deepEqual(JSON.parse(out), {
    mapped: false,
    copyReason: 'runtime',
    data: [1, 2, 3, 4],
    same: true,
    rows: [3, 4],
    loaded: [1, 2, 3, 4],
    csr: [1],
    first: 9,
  })
})
