// verify(): digests and the data rules of layouts, counted and reported without throwing.
import { createHash } from 'node:crypto'
import test from 'ava'
import { create, open, openSync, verify, ZTensorError } from 'ztensor'
import { SQUARE, square10, u64s, zt10 } from '../corpus/zt.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { fixturePath, vector } from '../helpers/vectors.mjs'

const sha256 = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const good = square10({}, { digest: sha256(SQUARE) })
const bad = square10({}, { digest: sha256(Buffer.from('else')) })
const csr = (indices) => ({
  dtype: 'float32',
  shape: [2, 2],
  format: 'sparse_csr',
  components: {
    values: { bytes: SQUARE.subarray(0, 8) },
    indices: { bytes: u64s(...indices) },
    indptr: { bytes: u64s(0, 1, 2) },
  },
})

test('accepts a valid file', async (t) => {
  const result = await verify(vector('zt12-crc32c.zt').path)
  t.deepEqual(result, { ok: true, checked: 26, undigested: 0, failures: [], warnings: [] })
})

test('returns the same for a path, a URL, bytes and an open file', async (t) => {
  const { bytes } = vector('zt10h-sha256.zt')
  const path = fixturePath('zt10h-sha256.zt')
  const { pathToFileURL } = await import('node:url')
  const file = openSync(path)
  const results = [
    await verify(path),
    await verify(pathToFileURL(path)),
    await verify(new Uint8Array(bytes)),
    await file.verify(),
  ]
  for (const result of results)
    t.deepEqual(result, { ok: true, checked: 26, undigested: 0, failures: [], warnings: [] })
  file.close()
})

test('counts components without a digest, and does not fail them', async (t) => {
  const result = await verify(scratchFile(zt10({ a: good, b: square10(), c: square10() })))
  t.deepEqual(result, { ok: true, checked: 1, undigested: 2, failures: [], warnings: [] })
})

test('never counts a digest of an unknown algorithm as checked', async (t) => {
  const { ok, checked, undigested } = await verify(zt10({ a: square10({}, { digest: 'md5:00' }) }))
  t.deepEqual({ ok, checked, undigested }, { ok: true, checked: 0, undigested: 1 })
})

test('reports every failure, each with its tensor and code', async (t) => {
  const { ok, failures } = await verify(
    scratchFile(
      zt10({ a: good, b: bad, c: square10({}, { encoding: 'zstd' }), d: csr([0, 7]), e: csr([0, 1]), f: bad }),
    ),
  )
  t.false(ok)
  t.true(failures.every((failure) => failure instanceof ZTensorError))
  t.deepEqual(failures.map(({ tensor, code }) => [tensor, code]).sort(), [
    ['b', 'ZT_DIGEST_MISMATCH'],
    ['c', 'ZT_DECODE'],
    ['d', 'ZT_BAD_SPARSE'],
    ['f', 'ZT_DIGEST_MISMATCH'],
  ])
})

test('verifies a single tensor', async (t) => {
  const file = openSync(zt10({ a: good, b: bad }))
  t.deepEqual(await file.tensor('a').verify(), { ok: true, checked: 1, undigested: 0, failures: [], warnings: [] })
  const result = await file.tensor('b').verify()
  t.false(result.ok)
  t.is(result.failures[0]?.code, 'ZT_DIGEST_MISMATCH')
  file.close()
})

test('open({ verify: true }) rejects everything that verify() reports', async (t) => {
  const path = scratchFile(zt10({ a: good, b: bad }))
  for (const error of [
    thrownBy(() => openSync(path, { verify: true })),
    await rejectionOf(() => open(path, { verify: true })),
  ]) {
    t.is(error?.code, 'ZT_DIGEST_MISMATCH')
    t.is(error?.tensor, 'b')
  }
  const sparse = scratchFile(zt10({ m: csr([0, 7]) }))
  t.is(thrownBy(() => openSync(sparse, { verify: true }))?.code, 'ZT_BAD_SPARSE')
  const file = await open(scratchFile(zt10({ a: good })), { verify: true })
  t.deepEqual([...file.tensor('a').data], [1, 2, 3, 4])
  file.close()
})

test('progress counts up to the total', async (t) => {
  const events = []
  await verify(vector('zt12-crc32c.zt').path, { onProgress: (progress) => events.push(progress) })
  t.true(events.length > 0)
  for (let i = 1; i < events.length; i++) t.true(events[i].bytes >= events[i - 1].bytes)
  const last = events.at(-1)
  t.is(last.bytes, last.totalBytes)
  t.is(last.tensors, last.totalTensors)
  t.is(last.totalTensors, 26)
})

test('rejects invalid options', async (t) => {
  const { path } = vector('zt12-crc32c.zt')
  isArgumentError(t, await rejectionOf(() => verify(7)), 'source')
  isArgumentError(t, await rejectionOf(() => verify(path, { onProgress: 'x' })), 'onProgress')
  isArgumentError(t, await rejectionOf(() => verify(path, { signal: 'x' })), 'signal')
})

test('rejects if the file does not open', async (t) => {
  t.is((await rejectionOf(() => verify(scratchFile(Buffer.alloc(100)))))?.code, 'ZT_BAD_MAGIC')
  t.is((await rejectionOf(() => verify('/no/such/file')))?.code, 'ZT_IO')
})

test('handles data that another view of the file has changed', async (t) => {
  const file = openSync(scratchFile(zt10({ a: good })))
  const { data } = file.tensor('a')
  t.is(data[0], 1)
  // load() hashes the bytes that it returns: they match, or it rejects
  data[0] = 7
  const outcome = await file
    .tensor('a')
    .load()
    .then(
      (array) => [...array],
      (error) => error.code,
    )
  t.true(outcome === 'ZT_DIGEST_MISMATCH' || outcome[0] === 1, String(outcome))
  file.close()
})

test('progress counts checked bytes, and ends at the total', async (t) => {
  const sparse = scratchPath('sparse.zt')
  const writer = await create(sparse, { version: '1.2', digest: false })
  await writer.add('a', Float32Array.of(1, 2))
  await writer.addCsr('m', {
    dtype: 'float32',
    shape: [2, 2],
    values: Float32Array.of(1),
    indices: Uint32Array.of(1),
    indptr: Uint32Array.of(0, 1, 1),
  })
  await writer.finish()
  const undigested = scratchPath('undigested.safetensors')
  const other = await create(undigested)
  await other.add('a', new Float32Array(1 << 16))
  await other.finish()
  for (const [source, bytes] of [
    [undigested, 0],
    [sparse, 36],
    [fixturePath('zt12-crc32c.zt')],
    [fixturePath('zt12-zstd.zt')],
    [fixturePath('numpy/csr-deflated.npz')],
    [fixturePath('arrow/few-zstd.arrow')],
    [fixturePath('hdf5/small.h5')],
  ]) {
    let last
    const { ok } = await verify(source, { onProgress: (progress) => (last = progress) })
    t.true(ok)
    t.deepEqual([last.bytes, last.tensors], [last.totalBytes, last.totalTensors], source)
    if (bytes !== undefined) t.is(last.totalBytes, bytes, source)
  }
})
