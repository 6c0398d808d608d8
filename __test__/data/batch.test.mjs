// file.load() of many tensors: small neighbors are read together and share a block, large ones are divided.
import { readFileSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { BIG_ENDIAN_HOST, littleEndian, sameBytes } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

/** A file of many small tensors of several widths, a large one and a sparse one. */
async function many(count, { sparse = true, ...options } = {}) {
  const path = scratchPath('many.zt')
  const writer = await create(path, { version: '1.2', ...options })
  for (let at = 0; at < count; at++) {
    const kinds = [Float32Array, Uint8Array, Float64Array, Uint16Array]
    await writer.add(
      `t${at}`,
      kinds[at % 4].from({ length: (at % 7) + 1 }, (_, i) => (at + i) % 251),
    )
    if (at === 40)
      await writer.add(
        'large',
        Int32Array.from({ length: 30_000 }, (_, i) => i),
      )
    if (at === 50 && sparse) {
      await writer.addCsr('sparse', {
        shape: [2, 2],
        values: Float32Array.of(1, 2),
        indices: Uint32Array.of(0, 1),
        indptr: Uint32Array.of(0, 1, 2),
      })
    }
  }
  await writer.finish()
  return path
}

/** A safetensors file of named spans over one byte buffer. */
function safetensors(entries, data) {
  let header = Buffer.from(JSON.stringify(entries))
  header = Buffer.concat([header, Buffer.alloc((8 - (header.length % 8)) % 8, ' ')])
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  return Buffer.concat([length, header, data])
}

for (const [how, options] of [
  ['raw', {}],
  ['of safetensors, without digests', { format: 'safetensors', version: undefined, sparse: false }],
  ['of 1.0, with sha256', { version: '1.0', digest: 'sha256' }],
  ['compressed', { compression: { level: 1 } }],
  ['of 0.1, which begins each blob at a multiple of 64', { version: '0.1' }],
]) {
  test(`loading everything returns the values of data: ${how}`, async (t) => {
    const file = openSync(await many(100, options))
    for (const concurrency of [undefined, 1]) {
      const loaded = await file.load({ concurrency })
      t.deepEqual([...loaded.keys()], [...file.keys()])
      for (const [name, { data: array }] of loaded) {
        if (name === 'sparse') continue
        const { data } = file.tensor(name)
        t.is(array.constructor, data.constructor, name)
        sameBytes(t, littleEndian(array), littleEndian(data), name)
      }
      if (options.sparse !== false) t.deepEqual([...loaded.get('sparse').values], [1, 2])
    }
    file.close()
  })
}

test('small neighbors share a buffer that the caller owns; a large tensor has a separate one', async (t) => {
  const file = openSync(await many(100))
  const loaded = await file.load()
  const buffers = new Set([...loaded.values()].flatMap(({ data }) => data?.buffer ?? []))
  // Elements that must be swapped are not read together.
  if (!BIG_ENDIAN_HOST) t.true(buffers.size < 10, `${buffers.size} buffers`)
  const large = loaded.get('large').data
  t.is(large.buffer.byteLength, large.byteLength)
  for (const [name, { data }] of loaded) if (name !== 'sparse') data.fill(0)
  t.is(file.tensor('t0').data[0], 0)
  t.is(file.tensor('t4').data[0], 4)
  const again = await file.load({ names: ['t4'] })
  t.is(again.get('t4').data[0], 4)
  file.close()
  t.is(again.get('t4').data[0], 4)
})

test('loads names in any order, and far apart', async (t) => {
  const file = openSync(await many(100))
  const names = ['t99', 't0', 'large', 't98', 't1', 't50']
  const loaded = await file.load({ names })
  t.deepEqual([...loaded.keys()], names)
  for (const name of names)
    sameBytes(t, littleEndian(loaded.get(name).data), littleEndian(file.tensor(name).data), name)
  file.close()
})

test('loads tensors over the same bytes separately', async (t) => {
  const path = scratchPath('tied.zt')
  const writer = await create(path, { version: '1.0' })
  await writer.add('a', Float32Array.of(1, 2))
  await writer.add('b', Float32Array.of(1, 2))
  await writer.finish()
  // b's offset, 128, becomes a's, 64: both are one byte after a head in the index.
  const bytes = readFileSync(path)
  const at = bytes.lastIndexOf(Buffer.from('offset')) + 6
  t.deepEqual([...bytes.subarray(at, at + 2)], [0x18, 128])
  bytes[at + 1] = 64
  const file = openSync(scratchFile(bytes))
  const loaded = await file.load()
  loaded.get('a').data.fill(7)
  t.deepEqual([...loaded.get('b').data], [1, 2])
  file.close()
})

test('loads misaligned and empty tensors', async (t) => {
  const data = Buffer.alloc(9)
  data[0] = 5
  data.writeFloatLE(1.5, 1)
  data.writeFloatLE(2.5, 5)
  const entries = {
    byte: { dtype: 'U8', shape: [1], data_offsets: [0, 1] },
    none: { dtype: 'F32', shape: [0, 3], data_offsets: [1, 1] },
    floats: { dtype: 'F32', shape: [2], data_offsets: [1, 9] },
  }
  const file = openSync(scratchFile(safetensors(entries, data)))
  const loaded = await file.load()
  t.deepEqual([...loaded.get('byte').data], [5])
  t.deepEqual([...loaded.get('floats').data], [1.5, 2.5])
  t.is(loaded.get('none').data.length, 0)
  t.true(loaded.get('none').data instanceof Float32Array)
  file.close()
})

for (const digest of ['crc32c', 'sha256']) {
  test(`finds and names a flipped byte among many: ${digest}`, async (t) => {
    const path = await many(100, { digest })
    const opened = openSync(path)
    const { offset } = opened.tensor('t60').components.get('data')
    opened.close()
    const bytes = readFileSync(path)
    bytes[offset] ^= 1
    writeFileSync(path, bytes)
    const file = openSync(path)
    const error = await rejectionOf(() => file.load())
    t.is(error.code, 'ZT_DIGEST_MISMATCH')
    t.is(error.tensor, 't60')
    t.is((await file.load({ names: ['t59', 't61'] })).size, 2)
    file.close()
  })
}

test('reads a tensor of 40 MiB in pieces and combines their digests', async (t) => {
  const words = Uint32Array.from({ length: 10 << 20 }, (_, at) => Math.imul(at, 2654435761))
  const path = scratchPath('large.zt')
  const writer = await create(path, { version: '1.2', digest: 'crc32c' })
  await writer.add('words', words)
  await writer.finish()
  const file = openSync(path)
  t.true(littleEndian(words).equals(littleEndian(await file.tensor('words').load())))
  t.true(littleEndian(words).equals(littleEndian((await file.load()).get('words').data)))
  t.true((await file.verify()).ok)
  const { offset } = file.tensor('words').components.get('data')
  file.close()
  const bytes = readFileSync(path)
  bytes[offset + (33 << 20)] ^= 1
  writeFileSync(path, bytes)
  const damaged = openSync(path)
  t.is((await rejectionOf(() => damaged.tensor('words').load())).code, 'ZT_DIGEST_MISMATCH')
  t.is((await rejectionOf(() => damaged.load())).code, 'ZT_DIGEST_MISMATCH')
  t.is((await damaged.verify()).failures[0]?.code, 'ZT_DIGEST_MISMATCH')
  damaged.close()
})

test('widens millions of elements equally on several threads', async (t) => {
  const bits = Uint16Array.from({ length: 5_000_003 }, (_, at) => Math.imul(at, 40503))
  const path = scratchPath('wide.zt')
  const writer = await create(path)
  await writer.add('w', { dtype: 'bfloat16', shape: [bits.length], data: bits })
  await writer.finish()
  const file = openSync(path)
  const loaded = await file.tensor('w').load({ as: 'float32' })
  const expected = Uint32Array.from(bits, (half) => half << 16)
  t.true(littleEndian(expected).equals(littleEndian(loaded)))
  t.true(littleEndian(expected).equals(littleEndian(file.tensor('w').toFloat32())))
  file.close()
})

test('progress covers all batches, up to the total', async (t) => {
  const count = 10_500
  const entries = {}
  for (let at = 0; at < count; at++) entries[`t${at}`] = { dtype: 'U8', shape: [1], data_offsets: [at, at + 1] }
  const file = openSync(scratchFile(safetensors(entries, Buffer.alloc(count, 3))))
  const events = []
  const loaded = await file.load({ onProgress: (progress) => events.push(progress) })
  t.is(loaded.size, count)
  t.true([...loaded.values()].every(({ data }) => data.length === 1 && data[0] === 3))
  t.true(events.every(({ tensors }, at) => at === 0 || tensors >= events[at - 1].tensors))
  t.true(events.every(({ bytes }, at) => at === 0 || bytes >= events[at - 1].bytes))
  t.like(events.at(-1), { bytes: count, totalBytes: count, tensors: count, totalTensors: count })
  file.close()
})
