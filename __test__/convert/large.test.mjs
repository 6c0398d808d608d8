// convert() of tensors larger than its buffers: compressed, sparse, packed; memory; damage.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const ZT = [{ version: '0.1' }, { version: '1.0' }, { version: '1.2' }]
const compressed = { compression: { level: 1, minSavings: 0 } }
const bytesOf = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)
/** Compares arrays of millions of elements, which ava would compare one by one. */
const same = (one, other) => bytesOf(one).equals(bytesOf(other))

/** Compressible numbers below `limit`. */
function numbers(Class, length, limit) {
  const array = new Class(length)
  for (let i = 0; i < length; i++) {
    const value = (Math.imul(i, 2654435761) >>> 12) % limit
    array[i] = array instanceof BigUint64Array ? BigInt(value) : value
  }
  return array
}

const rows = 3000
const nnz = 700_000
const indptr = Uint32Array.from({ length: rows + 1 }, (_, row) => Math.floor((row * nnz) / rows))
const csr = {
  shape: [rows, 5000],
  values: numbers(Float32Array, nnz, 1000),
  indices: numbers(Uint32Array, nnz, 5000),
  indptr,
}
const wide = { indices: BigUint64Array.from(csr.indices, BigInt), indptr: BigUint64Array.from(indptr, BigInt) }
const coords = numbers(BigUint64Array, 3 * nnz, 50)
const coo = { shape: [60, 50, 70], values: numbers(Float32Array, nnz, 99), coords }
const dense = numbers(Float32Array, 6_000_001, 70_000)

for (const from of ZT) {
  for (const encoding of [{}, compressed]) {
    const label = `${from.version}${encoding === compressed ? ', compressed' : ''}`
    test(`${label}: copies large dense and sparse tensors into every format`, async (t) => {
      const source = await written({ ...from, ...encoding }, async (writer) => {
        await writer.add('dense', { dtype: 'float32', shape: [dense.length], data: dense })
        await writer.addCsr('csr', csr)
        await writer.addCoo('coo', coo)
      })
      for (const to of [...ZT, { version: '1.0', ...compressed }, { format: 'btf' }]) {
        const target = scratchPath('target.zt')
        await convert(source, target, { ...to, skip: true })
        const file = openSync(target, { verify: true })
        const name = (known, btf) => (to.format === 'btf' ? btf : known)
        t.true(same(file.tensor(name('dense', '0')).data, dense))
        const { values, coords: found } = file.tensor(name('coo', '1')).coo()
        t.true(same(values, coo.values) && same(found, coords))
        if (to.format !== 'btf') {
          const matrix = file.tensor('csr').csr()
          t.true(same(matrix.values, csr.values))
          t.true(same(matrix.indices, wide.indices) && same(matrix.indptr, wide.indptr))
        }
        file.close()
      }
    })
  }
}

test('writes the same target from compressed and uncompressed tensors', async (t) => {
  const add = async (writer) => {
    await writer.addCsr('csr', csr)
    await writer.addCoo('coo', coo)
  }
  const targets = []
  for (const encoding of [{}, compressed]) {
    const target = scratchPath('target.zt')
    await convert(await written(encoding, add), target)
    targets.push(readFileSync(target))
  }
  t.true(targets[0].equals(targets[1]))
})

test('damage within a large tensor is the same error as in load(), and leaves no file', async (t) => {
  const source = (options) => written({ version: '1.0', ...options }, (writer) => writer.add('dense', dense))
  for (const [path, code] of [
    [await source({}), 'ZT_DIGEST_MISMATCH'],
    // Each frame has a checksum, which is compared before the digest of all.
    [await source(compressed), 'ZT_DECODE'],
    [await source({ digest: false, ...compressed }), 'ZT_DECODE'],
  ]) {
    const file = openSync(path)
    const { offset, storedLength } = file.tensor('dense').components.get('data')
    file.close()
    const bytes = readFileSync(path)
    // Two blocks long, so that it hits the header of one.
    bytes.fill(0xff, offset + (storedLength >> 1), offset + (storedLength >> 1) + 2 ** 18)
    writeFileSync(path, bytes)
    const { names, path: inside } = scratchFolder()
    const damaged = openSync(path)
    t.is((await rejectionOf(() => damaged.tensor('dense').load())).code, code)
    damaged.close()
    const error = await rejectionOf(() => convert(path, inside('target.zt')))
    t.is(error.code, code)
    t.is(error.tensor, 'dense')
    t.deepEqual(names(), [])
  }
})

test('checks the rules of sparse data for large tensors', async (t) => {
  const source = await written({ version: '1.0', digest: false }, (writer) => writer.addCsr('csr', csr))
  const file = openSync(source)
  const components = Object.fromEntries(
    [...file.tensor('csr').components].map(([role, { offset, byteLength }]) => [role, { offset, byteLength }]),
  )
  file.close()
  const good = readFileSync(source)
  const middle = 1 << 20
  for (const [role, message] of [
    ['indices', /column \d+ at position 131072 is out of range: the matrix has 5000 columns/],
    ['indptr', /indptr falls|indptr must/],
  ]) {
    const bytes = Buffer.from(good)
    bytes.writeBigUInt64LE(1n << 40n, components[role].offset + (role === 'indices' ? middle : 800))
    writeFileSync(source, bytes)
    const error = await rejectionOf(() => convert(source, scratchPath('target.zt')))
    t.is(error.code, 'ZT_BAD_SPARSE')
    t.regex(error.message, message)
  }
})

const child = `
import { readFileSync } from 'node:fs'
import { convert, openSync } from ${JSON.stringify(new URL('../../dist/index.mjs', import.meta.url).href)}
const [source, target, warm] = process.argv.slice(1)
await convert(warm, target, { overwrite: true })
const before = process.memoryUsage().rss
await convert(source, target, { overwrite: true, cast: { float32: 'bfloat16' } })
// On Linux a child inherits the memory peak of its parent, but not that of the address space.
const { maxRSS } = process.resourceUsage()
const peak = process.platform === 'linux' ? Number(/VmHWM:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) : maxRSS
console.log(peak * 1024 - before)
`

for (const [name, add] of [
  ['compressed', (writer) => writer.add('x', new Float32Array(70_000_000))],
  [
    'sparse',
    (writer) =>
      writer.addCoo('x', {
        shape: [1 << 20, 4],
        values: new Float32Array(16_000_000),
        coords: new Uint8Array(32_000_000),
      }),
  ],
]) {
  test(`${name}: memory stays below 256 MiB for tensors of any size`, async (t) => {
    const source = await written({ version: '1.0', ...compressed }, add)
    const warm = await written({}, (writer) => writer.add('x', new Float32Array(10)))
    const args = ['--input-type=module', '-e', child, source, scratchPath('target.zt'), warm]
    const more = Number(
      execFileSync(process.execPath, args, { encoding: 'utf8', cwd: fileURLToPath(new URL('../..', import.meta.url)) }),
    )
    t.true(more > 0 && more < 256 * 2 ** 20, `${more / 2 ** 20} MiB`)
  })
}
