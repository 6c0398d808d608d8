// Large sparse tensors into and out of zTensor 2: rows are sorted, cells compared, indices keep their type, and memory
// stays small.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const bytesOf = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)
const same = (one, other) => one.constructor === other.constructor && bytesOf(one).equals(bytesOf(other))
const TWO = { version: '2', canonical: false }

/**
 * A matrix of rows with these lengths: in each row every third column from some column on, in descending order if `falls`.
 * The value contains the column.
 */
function matrix(lengths, columns, falls, Index = Uint32Array) {
  const nnz = lengths.reduce((sum, length) => sum + length, 0)
  const [indices, values] = [new Uint32Array(nnz), new Float32Array(nnz)]
  const indptr = [0]
  let at = 0
  for (const [row, length] of lengths.entries()) {
    for (let i = 0; i < length; i++) {
      const nth = falls(row) ? length - 1 - i : i
      indices[at] = (row % 3) + 3 * nth
      values[at] = indices[at] + 0.5
      at += 1
    }
    indptr.push(at)
  }
  const shape = [lengths.length, columns]
  if (Index === Uint32Array) return { shape, values, indices, indptr: Uint32Array.from(indptr) }
  return { shape, values, indices: Index.from(indices, BigInt), indptr: Index.from(indptr, BigInt) }
}

// Many rows, none, empty ones, and one longer than the buffer for sorting.
const LENGTHS = [...Array.from({ length: 900 }, (_, row) => (row % 7 === 0 ? 0 : 400 + (row % 50))), 1_300_000, 0, 3, 0]
const WIDTH = 4_000_000
const row = (at) => at === 900

for (const [name, Index, falls] of [
  ['rising rows', Uint32Array, () => false],
  ['some rows that fall', Uint32Array, (at) => at % 5 === 1 || at === 902],
  ['rows that fall, one of them long', BigInt64Array, (at) => at % 2 === 1 || row(at)],
]) {
  const given = matrix(LENGTHS, WIDTH, falls, Index)
  const rising = matrix(LENGTHS, WIDTH, () => false, BigUint64Array)

  test(`CSR, ${name}: version 2 has ascending rows, and the way back is lossless`, async (t) => {
    const source = await written({ version: '1.2' }, (writer) => writer.addCsr('m', given))
    for (const options of [TWO, { version: '2' }, { ...TWO, compression: { level: 1 } }]) {
      const target = scratchPath('two.zt')
      await convert(source, target, options)
      const file = openSync(target, { verify: true })
      const { values, indices, indptr } = file.tensor('m').csr()
      t.true(same(values, rising.values) && same(indices, rising.indices) && same(indptr, rising.indptr))
      file.close()
      const back = scratchPath('back.zt')
      await convert(target, back, { version: '1.2', digest: false })
      const sorted = await written({ version: '1.2', digest: false }, (writer) => writer.addCsr('m', rising))
      t.true(readFileSync(back).equals(readFileSync(sorted)))
    }
  })
}

test('keeps uint32 indices of version 2, and applies casts', async (t) => {
  const given = matrix(LENGTHS, WIDTH, () => false)
  const source = await written(TWO, (writer) => writer.addCsr('m', given))
  const target = scratchPath('two.zt')
  await convert(source, target, { ...TWO, cast: { float32: 'float64' } })
  const file = openSync(target, { verify: true })
  const { values, indices, indptr } = file.tensor('m').csr()
  t.true(same(indices, given.indices) && same(indptr, given.indptr))
  t.true(same(values, Float64Array.from(given.values)))
  file.close()
})

/** Every cell of a tensor of 3 dimensions, in no order. */
function cells(shape, step, twice) {
  const [a, b, c] = shape
  const nnz = a * b * c
  const coords = new Uint32Array(3 * nnz)
  for (let i = 0; i < nnz; i++) {
    const cell = i === twice ? 77 : (i * step) % nnz
    coords[i] = Math.floor(cell / (b * c))
    coords[nnz + i] = Math.floor(cell / c) % b
    coords[2 * nnz + i] = cell % c
  }
  return { shape, values: Float32Array.from({ length: nnz }, (_, i) => i), coords }
}

// More cells than the buffer for comparing.
const SHAPE = [17, 509, 509]

test('COO, ordered and not: converting to version 2 and back is lossless', async (t) => {
  for (const step of [1, 1_000_003]) {
    const given = cells(SHAPE, step)
    const source = await written({ version: '1.0', digest: false }, (writer) => writer.addCoo('c', given))
    const [target, back] = [scratchPath('two.zt'), scratchPath('back.zt')]
    await convert(source, target, TWO)
    const file = openSync(target)
    const { values, coords } = file.tensor('c').coo()
    t.true(same(values, given.values))
    t.true(same(coords, BigUint64Array.from(given.coords, BigInt)))
    file.close()
    await convert(target, back, { version: '1.0', digest: false })
    t.true(readFileSync(back).equals(readFileSync(source)))
  }
})

test('rejects a duplicate column or cell, and leaves no file', async (t) => {
  const { names, path } = scratchFolder()
  for (const [at, message] of [
    [5, /column \d+ appears twice in row 1;/],
    [LENGTHS.slice(0, 900).reduce((sum, length) => sum + length, 0) + 1_200_000, /column 7 appears twice in row 900;/],
  ]) {
    const given = matrix(LENGTHS, WIDTH, row)
    given.indices[at] = at === 5 ? given.indices[4] : 7
    if (at !== 5) given.indices[at - 1] = 7
    const source = await written({ version: '1.2' }, (writer) => writer.addCsr('m', given))
    const error = await rejectionOf(() => convert(source, path('two.zt'), { version: '2' }))
    t.is(error.code, 'ZT_BAD_SPARSE')
    t.is(error.tensor, 'm')
    t.regex(error.message, message)
  }
  const source = await written({ version: '1.2' }, (writer) => writer.addCoo('c', cells(SHAPE, 1_000_003, 4_000_000)))
  const error = await rejectionOf(() => convert(source, path('two.zt'), { version: '2' }))
  t.is(error.code, 'ZT_BAD_SPARSE')
  t.regex(error.message, /cell 77 of 4404377 has two elements/)
  t.deepEqual(names(), [])
})

test('checks the guarantees of version 2 when it reads such a file', async (t) => {
  const given = matrix(LENGTHS, WIDTH, () => false)
  const source = await written({ ...TWO, digest: false }, (writer) => writer.addCsr('m', given))
  const file = openSync(source)
  const { offset } = file.tensor('m').components.get('indices')
  file.close()
  const bytes = readFileSync(source)
  const at = 300_000
  bytes.writeUInt32LE(bytes.readUInt32LE(offset + 4 * at), offset + 4 * (at + 1))
  writeFileSync(source, bytes)
  const error = await rejectionOf(() => convert(source, scratchPath('target.zt')))
  t.is(error.code, 'ZT_BAD_SPARSE')
  t.regex(error.message, /column \d+ at position 300001 follows \d+ in row \d+/)
  t.regex(error.rule, /zt\.sparse_csr\/1/)
})

const child = `
import { readFileSync } from 'node:fs'
import { convert } from ${JSON.stringify(new URL('../../dist/index.mjs', import.meta.url).href)}
const [source, target, warm] = process.argv.slice(1)
await convert(warm, target, { overwrite: true })
const before = process.memoryUsage().rss
await convert(source, target, { overwrite: true, version: '2' })
const { maxRSS } = process.resourceUsage()
const peak = process.platform === 'linux' ? Number(/VmHWM:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) : maxRSS
console.log(peak * 1024 - before)
`

for (const [name, add] of [
  [
    'CSR',
    (writer) =>
      writer.addCsr(
        'x',
        matrix(Array(40).fill(400_000), 2_000_000, (at) => at % 2 === 1),
      ),
  ],
  ['COO', (writer) => writer.addCoo('x', cells([47, 509, 509], 1_000_003))],
]) {
  test(`${name} into version 2: memory stays below 256 MiB`, async (t) => {
    const source = await written({ version: '1.2' }, add)
    const warm = await written({}, (writer) => writer.add('x', new Float32Array(10)))
    const args = ['--input-type=module', '-e', child, source, scratchPath('target.zt'), warm]
    const cwd = fileURLToPath(new URL('../..', import.meta.url))
    const more = Number(execFileSync(process.execPath, args, { encoding: 'utf8', cwd }))
    t.log(`${Math.round(more / 2 ** 20)} MiB`)
    t.true(more > 0 && more < 256 * 2 ** 20, `${more / 2 ** 20} MiB`)
  })
}
