// Formats whose index comes first: convert(), which computes it in advance, writes the same bytes as create(), which
// spools the data.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { convert, create, openSync, saveFile } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const pattern = (ArrayOf, length) => new ArrayOf(length).map((_, at) => at % 97)
const tensors = {
  'layer.10': pattern(Float32Array, 300_000),
  'layer.2': pattern(Int16Array, 70_001),
  empty: new Float64Array(0),
  'äöü "quoted"\n': pattern(Uint8Array, 5),
  'layer.1': pattern(Float64Array, 200_000),
}
// ava's own comparison of long arrays takes seconds.
const view = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)
const same = (one, other) => one.constructor === other.constructor && view(one).equals(view(other))
const attributes = { framework: 'pt', 'with "quotes"': '\u0001' }

async function both(source, options) {
  const [direct, spooled] = [scratchPath('direct'), scratchPath('spooled')]
  await convert(source, direct, options)
  const file = openSync(source)
  const { copyMetadata = true, ...own } = options
  const writer = await create(spooled, copyMetadata ? { ...own, metadata: attributes } : own)
  let at = 0
  for (const [name, tensor] of file) await writer.add(options.format === 'btf' ? String(at++) : name, tensor.data)
  await writer.finish()
  file.close()
  return [direct, spooled].map((path) => readFileSync(path))
}

for (const compression of [undefined, { level: 1, minSavings: 0 }]) {
  const source = scratchPath('source.zt')
  test.serial(`safetensors, BTF and npy, ${compression === undefined ? 'raw' : 'compressed'} before`, async (t) => {
    await saveFile(source, tensors, { version: '1.2', metadata: attributes, compression })
    const [direct, spooled] = await both(source, { format: 'safetensors' })
    t.true(direct.equals(spooled))
    const simple = scratchPath('simple.zt')
    const { 'layer.10': a, 'layer.1': b } = tensors
    await saveFile(simple, { a, b }, { version: '1.2', compression })
    const [first, second] = await both(simple, { format: 'btf', copyMetadata: false })
    t.true(first.equals(second))
    const [one, other] = [scratchPath('one.zt'), scratchPath('a.npy')]
    await saveFile(one, { a }, { version: '1.2', compression })
    await convert(one, other, { format: 'npy' })
    const file = openSync(other)
    const [only] = file.values()
    t.true(same(only.data, a))
    file.close()
  })
}

test('the index has the new names, the filtered tensors, the cast and the attributes', async (t) => {
  const [source, target] = [scratchPath('source.zt'), scratchPath('target.safetensors')]
  await saveFile(source, tensors, { version: '1.2' })
  const { tensors: count } = await convert(source, target, {
    filter: ({ size }) => size > 0,
    rename: (name) => `${name.length}.${name}`,
    cast: { float32: 'float64' },
    copyMetadata: false,
    metadata: { made: 'new' },
  })
  const file = openSync(target)
  t.is(file.size, count)
  t.deepEqual(file.metadata, { made: 'new' })
  for (const [name, expected] of Object.entries(tensors).filter(([, { length }]) => length > 0)) {
    const { data } = file.tensor(`${name.length}.${name}`)
    t.true(same(data, expected instanceof Float32Array ? Float64Array.from(expected) : expected))
  }
  file.close()
})

test('a conversion that fails halfway leaves no new file, and an existing file unchanged', async (t) => {
  const [source, target] = [scratchPath('source.zt'), scratchPath('target.safetensors')]
  await saveFile(source, tensors, { version: '1.0', digest: 'crc32c' })
  const damaged = readFileSync(source)
  const file = openSync(source)
  damaged[file.tensor('layer.2').components.get('data').offset + 1000] ^= 1
  file.close()
  t.is((await rejectionOf(() => convert(damaged, target))).code, 'ZT_DIGEST_MISMATCH')
  t.throws(() => openSync(target), { code: 'ZT_IO' })
  await saveFile(target, { there: new Uint8Array([1]) })
  const before = readFileSync(target)
  t.is((await rejectionOf(() => convert(damaged, target, { overwrite: true }))).code, 'ZT_DIGEST_MISMATCH')
  t.true(readFileSync(target).equals(before))
})

test('canonical zTensor 2 stores equal tensors once, at any number and position', async (t) => {
  const large = pattern(Uint8Array, 3 * 2 ** 20 + 7)
  const other = Uint8Array.from(large)
  other[other.length - 1] ^= 1
  const small = pattern(Float32Array, 100)
  const given = { a: large, b: small, c: other, d: large, e: small, f: new Uint8Array(0), g: other, h: small }
  const [source, target, added] = [scratchPath('source.safetensors'), scratchPath('target.zt'), scratchPath('added.zt')]
  await saveFile(source, given)
  await convert(source, target, { version: '2' })
  const writer = await create(added, { version: '2' })
  for (const [name, array] of Object.entries(given).reverse()) await writer.add(name, array)
  await writer.finish()
  t.true(readFileSync(target).equals(readFileSync(added)))
  const file = openSync(target)
  const { ok } = await file.verify({ canonical: true })
  t.true(ok)
  for (const [name, array] of Object.entries(given)) t.true(same(file.tensor(name).data, array), name)
  const offsets = [...file.values()].map(({ components }) => components.get('data').offset)
  t.is(new Set(offsets.filter((_, at) => at !== 5)).size, 3)
  file.close()
})
