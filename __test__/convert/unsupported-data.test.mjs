// Tensors whose data a target cannot store are reported before anything is written, all at once, and `skip` leaves them out.

import { readFileSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { f32s, u64s, zt12 } from '../corpus/zt.mjs'
import { lone } from '../corpus/zt2.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { ended, start } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { collecting, oneCell, scratchFolder, twoRows, written } from '../helpers/sample-files.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const TWO = { version: '2', canonical: false }
const bools = (...data) => ({ dtype: 'bool', shape: [data.length], data: Uint8Array.from(data) })

// Longer than the buffer for sorting.
const MANY = 1_100_000
const falling = Uint32Array.from({ length: MANY }, (_, i) => MANY - 1 - i)
const row = (indices) => ({
  shape: [1, MANY],
  values: new Float32Array(MANY),
  indices,
  indptr: Uint32Array.of(0, MANY),
})
const column = (coords) => ({ shape: [MANY], values: new Float32Array(MANY), coords })
const doubled = falling.with(MANY - 2, 77)

const mixed = await written({ version: '1.2', digest: 'crc32c' }, async (writer) => {
  await writer.add('plain', Float32Array.of(1, 2))
  await writer.add('bools', bools(0, 1, 1))
  await writer.add('not bools', bools(0, 1, 2, 0))
  await writer.add('many not bools', { dtype: 'bool', shape: [5_000_000], data: new Uint8Array(5_000_000).fill(3, -1) })
  await writer.addCoo('cells', oneCell(5))
  await writer.addCoo('twice', { shape: [4], values: Float32Array.of(1, 2), coords: Uint32Array.of(2, 2) })
  await writer.addCsr('rows', twoRows(1, 2))
  const pair = { shape: [1, 4], values: Float32Array.of(1, 2), indptr: Uint32Array.of(0, 2) }
  await writer.addCsr('row twice', { ...pair, indices: Uint32Array.of(3, 3) })
  await writer.addCsr('row falls', { ...pair, indices: Uint32Array.of(3, 1) })
  await writer.addCsr('long row', row(falling))
  await writer.addCsr('long row twice', row(doubled))
  await writer.addCoo('many cells', column(falling))
  await writer.addCoo('many cells twice', column(doubled))
  const components = { flags: { dtype: 'bool', data: Uint8Array.of(9) } }
  await writer.addObject('object', { layout: 'x.y/1', shape: [1], dtype: 'uint8', components })
  await writer.addCsr('bool values', { ...twoRows(1, 2), dtype: 'bool', values: Uint8Array.of(1, 4) })
  await writer.add('last', Int8Array.of(1))
})
const BAD = [
  ['not bools', 'ZT_BAD_DTYPE', /element 2 is 2, and a bool is 0 or 1/],
  ['many not bools', 'ZT_BAD_DTYPE', /element 4999999 is 3/],
  ['twice', 'ZT_BAD_SPARSE', /cell 2 of 4 has two elements|twice|two elements/],
  ['row twice', 'ZT_BAD_SPARSE', /column 3 appears twice in row 0/],
  ['long row twice', 'ZT_BAD_SPARSE', /column 77 appears twice in row 0/],
  ['many cells twice', 'ZT_BAD_SPARSE', /cell 77 of 1100000 has two elements/],
  ['object', 'ZT_BAD_DTYPE', /element 0 is 9/],
  ['bool values', 'ZT_BAD_DTYPE', /element 1 is 4/],
]

function areAllBad(t, errors) {
  t.deepEqual(
    errors.map(({ tensor, code }) => [tensor, code]),
    BAD.map(([tensor, code]) => [tensor, code]),
  )
  for (const [at, { message }] of errors.entries()) t.regex(message, BAD[at][2])
}

/** The names of the tensors of a valid file. */
async function validNames(t, path) {
  const file = openSync(path)
  const { ok, failures } = await file.verify()
  t.true(ok, failures.join())
  const names = [...file.keys()].sort()
  file.close()
  return names
}
const good = ['plain', 'bools', 'cells', 'rows', 'row falls', 'long row', 'many cells', 'last'].sort()

for (const [kind, source] of [
  ['a path', mixed],
  ['memory', readFileSync(mixed)],
]) {
  test(`from ${kind}: reports all unsupported tensors together, and skip leaves them out`, async (t) => {
    const { names, path } = scratchFolder()
    const error = await rejectionOf(() => convert(source, path('two.zt'), TWO))
    t.is(error.code, 'ZT_BAD_DTYPE')
    areAllBad(t, error.cause)
    t.deepEqual(names(), [])
    for (const options of [TWO, { version: '2' }, { ...TWO, compression: { level: 1 } }]) {
      const { tensors, skipped } = await convert(source, path('two.zt'), { ...options, skip: true, overwrite: true })
      areAllBad(t, skipped)
      t.is(tensors, good.length)
      t.deepEqual(names(), ['two.zt'])
      t.deepEqual(await validNames(t, path('two.zt')), good)
    }
  })
}

test('lists problems in the index and in the data together, in tensor order', async (t) => {
  const source = await written({ version: '1.2' }, async (writer) => {
    await writer.add('a', bools(2))
    await writer.add('cafe\u0301', Int8Array.of(1))
    await writer.addCoo('c', { shape: [4], values: Float32Array.of(1, 2), coords: Uint32Array.of(2, 2) })
    await writer.add('d', Int8Array.of(1))
  })
  const error = await rejectionOf(() => convert(source, scratchPath('two.zt'), { version: '2' }))
  t.deepEqual(
    error.cause.map(({ tensor }) => tensor),
    ['a', 'cafe\u0301', 'c'],
  )
  const { skipped } = await convert(source, scratchPath('two.zt'), { version: '2', skip: true })
  t.deepEqual(
    skipped.map(({ tensor }) => tensor),
    ['a', 'cafe\u0301', 'c'],
  )
})

test('a stream gets nothing from a rejected conversion, and the remaining tensors with skip', async (t) => {
  const { stream, chunks, bytes } = collecting()
  areAllBad(t, (await rejectionOf(() => convert(mixed, stream, TWO))).cause)
  t.is(chunks.length, 0)
  t.false(stream.destroyed)
  t.is(stream.listenerCount('error'), 0)
  areAllBad(t, (await convert(mixed, stream, { ...TWO, skip: true })).skipped)
  t.deepEqual(await validNames(t, scratchFile(bytes(), 'two.zt')), good)
})

test('leaves invalid sparse matrices out of every target', async (t) => {
  const csr = (indices, indptr) => ({
    shape: [2, 3],
    format: 'sparse_csr',
    components: {
      values: { dtype: 'f32', bytes: f32s(1, 2) },
      indices: { dtype: 'u64', bytes: u64s(...indices) },
      indptr: { dtype: 'u64', bytes: u64s(...indptr) },
    },
  })
  const tensors = { far: csr([0, 3], [0, 1, 2]), rises: csr([0, 1], [0, 1, 2]), falls: csr([0, 1], [0, 2, 1]) }
  const source = scratchFile(zt12(tensors), 'source.zt')
  for (const version of ['0.1', '1.0', '1.2', '2']) {
    const { names, path } = scratchFolder()
    const error = await rejectionOf(() => convert(source, path('a.zt'), { version }))
    t.is(error.code, 'ZT_BAD_SPARSE')
    t.deepEqual(
      error.cause.map(({ tensor, component }) => [tensor, component]),
      [
        ['far', 'indices'],
        ['falls', 'indptr'],
      ],
    )
    t.deepEqual(names(), [])
    t.is((await convert(source, path('a.zt'), { version, skip: true })).tensors, 1)
    t.deepEqual(await validNames(t, path('a.zt')), ['rises'])
  }
})

test('leaves invalid bools of version 2 out of every target', async (t) => {
  const source = await written({ ...TWO, digest: false }, async (writer) => {
    await writer.add('a', bools(1, 0, 1))
    await writer.add('b', Int8Array.of(1))
  })
  const file = openSync(source)
  const { offset } = file.tensor('a').components.get('data')
  file.close()
  const bytes = readFileSync(source)
  bytes[offset + 1] = 7
  writeFileSync(source, bytes)
  for (const target of ['a.zt', 'a.safetensors']) {
    const { path } = scratchFolder()
    await t.throwsAsync(convert(source, path(target)), { code: 'ZT_BAD_DTYPE', message: /element 1 is 7/ })
    const { tensors, skipped } = await convert(source, path(target), { skip: true })
    t.is(tensors, 1)
    t.regex(skipped[0].rule, /Appendix A/)
  }
})

test('never skips damage', async (t) => {
  const source = await written({ version: '1.2', digest: 'crc32c' }, async (writer) => {
    await writer.add('a', bools(1, 0, 1))
    await writer.addCsr('m', twoRows(1, 2))
  })
  const file = openSync(source)
  const components = [file.tensor('a').components.get('data'), file.tensor('m').components.get('values')]
  file.close()
  const { names, path } = scratchFolder()
  for (const { offset } of components) {
    const bytes = readFileSync(source)
    bytes[offset] ^= 3
    const damaged = scratchFile(bytes, 'damaged.zt')
    await t.throwsAsync(convert(damaged, path('two.zt'), { ...TWO, skip: true }), { code: 'ZT_DIGEST_MISMATCH' })
    t.deepEqual(names(), [])
  }
})

test('rejects components that a layout or format does not have before it writes anything', async (t) => {
  const data = new Float32Array(4)
  const source = await written({ version: '1.2' }, async (writer) => {
    await writer.add('a', data)
    const components = { data: { dtype: 'float32', data }, more: { dtype: 'float32', data } }
    await writer.addObject('two parts', { layout: 'dense', shape: [4], dtype: 'float32', components })
    const unlike = { layout: 'zt.mx/1', shape: [4], dtype: 'float32', components: { data: { data } } }
    await writer.addObject('no mx', unlike)
  })
  for (const [options, bad] of [
    [{ format: 'safetensors' }, ['two parts', 'no mx']],
    [{ version: '2' }, ['two parts', 'no mx']],
    [{ version: '0.1' }, ['two parts', 'no mx']],
    // It records values without a field.
    [{ version: '1.0' }, []],
  ]) {
    const { skipped } = await convert(source, scratchPath('target.zt'), { ...options, skip: true })
    t.deepEqual(
      skipped.map(({ tensor }) => tensor),
      bad,
    )
  }
  const named = await written({ version: '1.2' }, (writer) => writer.add('a', data, { attributes: { offset: 1 } }))
  await t.throwsAsync(convert(named, scratchPath('a.zt'), { version: '0.1', strictMetadata: true }), {
    message: /option skip/,
  })
})

test('progress increases over both passes over the data and ends at the total', async (t) => {
  const seen = []
  const onProgress = (progress) => seen.push(progress)
  const { tensors } = await convert(mixed, scratchPath('two.zt'), { ...TWO, skip: true, onProgress })
  for (const [at, { bytes, totalBytes }] of seen.entries()) {
    t.true(bytes <= totalBytes)
    t.true(at === 0 || bytes >= seen[at - 1].bytes)
  }
  const last = seen.at(-1)
  t.is(last.bytes, last.totalBytes)
  t.deepEqual([last.tensors, last.totalTensors], [tensors, tensors])
})

test('an abort ends the first pass over the data', async (t) => {
  const { names, path } = scratchFolder()
  const stop = new AbortController()
  const onProgress = () => stop.abort(new Error('enough'))
  await t.throwsAsync(convert(mixed, path('two.zt'), { ...TWO, onProgress, signal: stop.signal }), {
    message: 'enough',
  })
  t.deepEqual(names(), [])
})

test('ztensor convert lists unsupported tensors, and --skip reports what was left out', async (t) => {
  const target = scratchPath('two.zt')
  const args = ['convert', mixed, target, '--version', '2', '--no-canonical']
  const refused = await ended(start(args))
  t.is(refused.code, 2)
  t.regex(refused.stderr, /tensor "|tensors: /)
  const { code, stdout } = await ended(start([...args, '--skip']))
  t.is(code, 1)
  t.regex(stdout, /: 8 tensors/)
  t.regex(stdout, /^left out: /m)
})

// Types whose elements take more than one scalar, or part of a byte, and more elements than the buffer holds.
test('checks large sparse tensors of complex values', async (t) => {
  const nnz = 1_200_000
  const values = Float32Array.from({ length: 2 * nnz }, (_, i) => i)
  const indices = Uint32Array.from({ length: nnz }, (_, i) => nnz - 1 - i)
  const indptr = Uint32Array.of(0, nnz)
  const shape = [1, nnz]
  const complex = await written({ version: '1.2' }, async (writer) => {
    await writer.addCsr('csr', { dtype: 'complex64', shape, values, indices, indptr })
    await writer.addCoo('coo', { dtype: 'complex64', shape: [nnz], values, coords: indices })
  })
  const two = scratchPath('two.zt')
  await convert(complex, two, TWO)
  const file = openSync(two, { verify: true })
  const sorted = file.tensor('csr').csr()
  t.deepEqual([...sorted.values.subarray(0, 4)], [2 * nnz - 2, 2 * nnz - 1, 2 * nnz - 4, 2 * nnz - 3])
  t.true(littleEndian(file.tensor('coo').coo().values).equals(littleEndian(values)))
  file.close()
})

test('checks large sparse tensors of packed values', async (t) => {
  const count = 2_000_001
  const rising = Uint32Array.from({ length: count }, (_, i) => i)
  const bytes = Uint8Array.from({ length: (count + 1) / 2 }, (_, i) => i % 251)
  bytes[bytes.length - 1] &= 0x0f
  const values = { dtype: 'u8', type: 'f4_e2m1', bytes: littleEndian(bytes) }
  const numbers = (array) => ({ dtype: 'u32', bytes: littleEndian(array) })
  const csr = { indices: numbers(rising), indptr: numbers(Uint32Array.of(0, count)), values }
  for (const [shape, layout, parts] of [
    [[count], 'zt.sparse_coo/1', { coords: numbers(rising), values }],
    [[1, count], 'zt.sparse_csr/1', csr],
  ]) {
    const again = scratchPath('again.zt')
    await convert(scratchFile(lone(shape, layout, parts), 'packed.zt'), again, TWO)
    const file = openSync(again, { verify: true })
    for (const [role, part] of Object.entries(parts)) {
      t.true(littleEndian(file.tensor('t').components.get(role).data).equals(part.bytes), `${layout} ${role}`)
    }
    file.close()
  }
})
