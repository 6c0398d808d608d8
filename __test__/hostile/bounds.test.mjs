// Resources that a file or a caller can use: each case once crashed the process or cost far more than its bytes.
import { spawnSync } from 'node:child_process'
import { closeSync, ftruncateSync, openSync as openFile, writeSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { safetensors } from '../corpus/safetensors.mjs'
import { frame } from '../corpus/zstd.mjs'
import { f32s, square10, u64, u64s, zt10 } from '../corpus/zt.mjs'
import { isCopied } from '../helpers/data-placement.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const child = (source) =>
  spawnSync(process.execPath, ['--input-type=module', '-e', source], { cwd: root, encoding: 'utf8' })

test('thousands of concurrent verifications do not overflow a stack', (t) => {
  const compressed = { bytes: frame(f32s(5, 6, 7, 8)), encoding: 'zstd' }
  const tensors = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`t${at}`, square10({}, compressed)]))
  const path = scratchFile(zt10(tensors))
  const { status, signal, stdout, stderr } = child(`
    import { openSync } from 'ztensor'
    const file = openSync(${JSON.stringify(path)})
    const all = await Promise.all(Array.from({ length: 4000 }, () => file.verify()))
    console.log(all.every(({ ok, undigested }) => ok && undigested === 16))
  `)
  t.deepEqual({ status, signal, stdout }, { status: 0, signal: null, stdout: 'true\n' }, stderr)
})

test('data past 4 GiB is returned, or rejected with ZT_LIMIT, and nothing is freed twice', (t) => {
  const path = scratchPath('large.safetensors')
  const elements = 1_350_000_000
  const header = safetensors(`{"a":{"dtype":"F32","shape":[${elements}],"data_offsets":[0,${elements * 4}]}}`)
  const descriptor = openFile(path, 'w')
  writeSync(descriptor, header)
  ftruncateSync(descriptor, header.length + elements * 4)
  closeSync(descriptor)
  const { status, signal, stdout, stderr } = child(`
    import { openSync } from 'ztensor'
    const file = openSync(${JSON.stringify(path)})
    const tensor = file.tensor('a')
    for (let at = 0; at < 3; at++) console.log(tensor.slice([[at, at + 5]]).data.length)
    try {
      console.log(tensor.data.length === ${elements})
    } catch ({ code }) {
      console.log(code === 'ZT_LIMIT')
    }
    file.close()
    await new Promise((resolve) => setImmediate(resolve))
    console.log('alive')
  `)
  t.deepEqual({ status, signal, stdout }, { status: 0, signal: null, stdout: '5\n5\n5\ntrue\nalive\n' }, stderr)
})

test('warnings shorten a long name', (t) => {
  const name = 'n'.repeat(1 << 20)
  const parts = Array.from({ length: 1500 }, (_, at) => [`c${at}`, { bytes: f32s(1), lead: 4 }])
  const tensor = { dtype: 'float32', shape: [1], format: 'own', components: Object.fromEntries(parts) }
  const file = openSync(zt10({ [name]: tensor }))
  const { warnings } = file
  t.true(warnings.reduce((bytes, { message, tensor = '' }) => bytes + message.length + tensor.length, 0) < 6 << 20)
  t.is(warnings.at(-1).code, 'ZT_WARN_TRUNCATED_LIST')
  file.close()
})

test('lists up to a thousand failures, and counts the rest', async (t) => {
  const broken = square10({}, { bytes: Buffer.from('no frame'), encoding: 'zstd' })
  const file = openSync(zt10(Object.fromEntries(Array.from({ length: 1200 }, (_, at) => [`t${at}`, broken]))))
  const onDisk = openSync(
    scratchFile(zt10(Object.fromEntries(Array.from({ length: 1200 }, (_, at) => [`t${at}`, broken])))),
  )
  const { ok, failures } = await onDisk.verify()
  t.false(ok)
  t.is(failures.length, 1001)
  t.is(failures.at(-1).message, '200 more failures are not listed')
  t.is((await file.verify()).ok, false)
  file.close()
  onDisk.close()
})

test('rejects a tensor with too many components', (t) => {
  const parts = Array.from({ length: 5000 }, (_, at) => [`c${at}`, { bytes: Buffer.alloc(0) }])
  const tensor = { dtype: 'float32', shape: [0], format: 'own', components: Object.fromEntries(parts) }
  t.is(thrownBy(() => openSync(zt10({ w: tensor })))?.code, 'ZT_LIMIT')
})

test('the components of a tensor in memory may be far apart', async (t) => {
  const gap = Buffer.alloc(1 << 20)
  const far = {
    first: { dtype: 'uint8', shape: [2], format: 'own', components: { a: { bytes: Buffer.from([1, 2]) } } },
    between: { dtype: 'uint8', shape: [gap.length], format: 'dense', components: { data: { bytes: gap } } },
    last: { dtype: 'uint8', shape: [2], format: 'own', components: { b: { bytes: Buffer.from([3, 4]) } } },
  }
  const bytes = zt10(far)
  const file = openSync(bytes)
  t.deepEqual([...(await file.tensor('first').components.get('a').load())], [1, 2])
  t.deepEqual([...(await file.tensor('last').components.get('b').load())], [3, 4])
  t.true((await file.verify()).ok)
  file.close()
})

test('a dimension of 0 makes a size of 0 with any other dimensions', async (t) => {
  const shape = [...Array(20).fill(2 ** 53 - 1), 0]
  const file = openSync(safetensors(`{"a":{"dtype":"F32","shape":[${shape}],"data_offsets":[0,0]}}`))
  t.is(file.tensor('a').size, 0)
  const into = new Float32Array(0)
  t.is(await file.tensor('a').load({ into }), into)
  file.close()
})

test('toCsr() has the same limit as toDense()', (t) => {
  const components = { values: { bytes: f32s(1) }, coords: { bytes: u64s(0, 0) } }
  const file = openSync(zt10({ m: { dtype: 'float32', shape: [2 ** 30, 1], format: 'sparse_coo', components } }))
  const coo = file.tensor('m').coo()
  t.is(thrownBy(() => coo.toCsr())?.code, 'ZT_LIMIT')
  isArgumentError(
    t,
    thrownBy(() => coo.toCsr({ maxBytes: -1 })),
    'maxBytes',
  )
  file.close()
})

test('rejects a compressed array whose size overflows', (t) => {
  const zstd = { bytes: frame(u64s(0)), encoding: 'zstd' }
  const components = { values: { bytes: Buffer.alloc(0) }, indices: { bytes: Buffer.alloc(0) }, indptr: zstd }
  const tensor = { dtype: 'float32', shape: [2 ** 53 - 1, 1], format: 'sparse_csr', components }
  t.is(thrownBy(() => openSync(zt10({ m: tensor })))?.code, 'ZT_LIMIT')
})

test('misalignment of data is known without reading it', (t) => {
  const file = openSync(zt10({ w: square10({}, { lead: 2 }) }))
  const tensor = file.tensor('w')
  isCopied(t, tensor, 'misaligned')
  isCopied(t, tensor.components.get('data'), 'misaligned')
  const row = tensor.slice([[1, 2], null])
  t.deepEqual([...row.data], [3, 4])
  t.is(row.data.buffer.byteLength, 8)
  file.close()
})

test('every call on a closed source throws ZT_CLOSED', async (t) => {
  const source = new Uint8Array(zt10({ w: square10() })).buffer
  const file = openSync(source)
  const tensor = file.tensor('w')
  t.deepEqual([...tensor.data], [1, 2, 3, 4])
  structuredClone(source, { transfer: [source] })
  for (const call of [
    () => tensor.data,
    () => tensor.toFloat32(),
    () => tensor.slice([[0, 1], null]),
    () => tensor.slice([null, [0, 1]]),
  ]) {
    t.is(thrownBy(call)?.code, 'ZT_CLOSED')
  }
  t.is((await rejectionOf(() => tensor.load()))?.code, 'ZT_CLOSED')
})

test('names arguments that only look valid', async (t) => {
  const bytes = zt10({ w: square10() })
  const detached = new ArrayBuffer(8)
  structuredClone(detached, { transfer: [detached] })
  // Windows has files on other hosts.
  const elsewhere = process.platform === 'win32' ? [] : [new URL('file://host/x')]
  for (const source of [...elsewhere, new URL('file:///%2F'), new Proxy(bytes, {}), detached]) {
    isArgumentError(
      t,
      thrownBy(() => openSync(source)),
      'source',
    )
  }
  const file = openSync(bytes)
  isArgumentError(
    t,
    await rejectionOf(() => file.tensor('w').load({ into: new Proxy(new Float32Array(4), {}) })),
    'into',
  )
  isArgumentError(
    t,
    await rejectionOf(() => file.verify({ signal: { aborted: false, addEventListener() {} } })),
    'signal',
  )
  file.close()
})

test('an abort ends the copy of a source in memory', async (t) => {
  const size = 64 << 20
  const header = Buffer.from(`{"a":{"dtype":"U8","shape":[${size}],"data_offsets":[0,${size}]}}`)
  const bytes = Buffer.concat([u64(header.length), header, Buffer.alloc(size)])
  const file = await open(bytes)
  const stop = new AbortController()
  const loading = rejectionOf(() => file.load({ signal: stop.signal }))
  stop.abort(new Error('enough'))
  t.is((await loading)?.message, 'enough')
  const closing = rejectionOf(() => file.tensor('a').load())
  file.close()
  t.is((await closing)?.code, 'ZT_CLOSED')
})
