// create(), add(), addObject(): tensors read back byte for byte, in every format and version.
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import test from 'ava'
import fc from 'fast-check'
import { create, open, openSync, TensorWriter } from 'ztensor'
import { readBtf } from '../helpers/btf-reader.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { DTYPES, digestOf, noise, sample, WRITE_FORMATS, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const SHAPES = [[], [0], [4], [2, 0, 3], [3, 8], [1, 2, 1, 3, 1, 4], [29, 64], [33, 128]]
// Compressible and incompressible data.
const repeats = (shape) => shape[0] === 33
const nameOf = (format, label, at) => (format.name === 'btf' ? String(at) : label)

/** The tensors of a format: each dtype in each shape that fills whole bytes. */
const tensorsOf = (format) =>
  format.dtypes
    .flatMap((dtype) => SHAPES.map((shape) => ({ dtype, shape })))
    .filter(({ dtype, shape }) => (shape.reduce((a, b) => a * b, 1) * DTYPES[dtype][1]) % 8 === 0)
    .map(({ dtype, shape }, i) => ({
      dtype,
      shape,
      name: nameOf(format, `${dtype} ${shape}`, i),
      data: sample(dtype, shape, i, repeats(shape) ? 96 : undefined),
    }))

async function readsBack(t, path, expected) {
  for (const file of [openSync(path), await open(path), openSync(readFileSync(path))]) {
    t.deepEqual(file.warnings, [])
    t.deepEqual([...file.keys()].sort(), expected.map(({ name }) => name).sort())
    for (const { name, dtype, shape, data } of expected) {
      const tensor = file.tensor(name)
      t.is(tensor.dtype, dtype, name)
      t.deepEqual([...tensor.shape], shape, name)
      t.is(tensor.layout, 'dense', name)
      t.is(tensor.data.constructor, data.constructor, name)
      t.true(littleEndian(tensor.data).equals(littleEndian(data)), name)
      t.true(littleEndian(await tensor.load()).equals(littleEndian(data)), name)
    }
    const verified = await file.verify()
    t.deepEqual(verified.failures, [])
    file.close()
  }
}

for (const format of WRITE_FORMATS) {
  for (const digest of format.zt ? ['crc32c', 'sha256', false] : [false]) {
    for (const compression of format.zt ? [false, {}, { level: 19, minSavings: 0 }] : [false]) {
      const how = `${format.name}, digest ${digest}, compression ${JSON.stringify(compression)}`
      test(`every dtype in every shape: ${how}`, async (t) => {
        const tensors = tensorsOf(format)
        const path = await written({ ...format.options, digest, compression }, async (writer) => {
          for (const { name, ...tensor } of tensors) await writer.add(name, tensor)
        })
        await readsBack(t, path, tensors)
        const bytes = readFileSync(path)
        const file = openSync(path)
        for (const { name, shape, data } of tensors) {
          const { offset, storedLength, encoding, digest: found } = file.tensor(name).components.get('data')
          const stored = bytes.subarray(offset, offset + storedLength)
          if (repeats(shape)) t.is(encoding, compression ? 'zstd' : 'raw', name)
          if (encoding === 'raw') t.true(stored.equals(littleEndian(data)), name)
          t.is(found, digest ? digestOf(digest, stored) : undefined, name)
        }
        file.close()
      })
    }
  }
}

test('BTF, as read by its specification', async (t) => {
  const format = WRITE_FORMATS.find(({ name }) => name === 'btf')
  const tensors = tensorsOf(format)
  const path = await written(format.options, async (writer) => {
    for (const { name, ...tensor } of tensors) await writer.add(name, tensor)
  })
  const expected = tensors.map(({ shape, data }) => ({ shape, layout: 'dense', values: data }))
  t.deepEqual(readBtf(readFileSync(path)), expected)
})

test('safetensors: the data has no holes, and every tensor is aligned to its element size', async (t) => {
  const format = WRITE_FORMATS.find(({ name }) => name === 'safetensors')
  const path = await written(format.options, async (writer) => {
    for (const { name, ...tensor } of tensorsOf(format)) await writer.add(name, tensor)
  })
  const bytes = readFileSync(path)
  const size = Number(bytes.readBigUInt64LE(0))
  t.is(size % 8, 0)
  t.is(bytes[8], 0x7b)
  const header = JSON.parse(bytes.subarray(8, 8 + size))
  const blobs = Object.values(header).sort((a, b) => a.data_offsets[0] - b.data_offsets[0])
  let end = 0
  for (const { dtype, data_offsets: offsets } of blobs) {
    if (offsets[0] === offsets[1]) continue
    t.is(offsets[0], end)
    end = offsets[1]
    const bits = Number(/\d+/.exec(dtype)?.[0] ?? 8)
    if (!dtype.startsWith('F8') && bits >= 8) t.is(offsets[0] % (bits / 8 / (dtype === 'C64' ? 2 : 1)), 0, dtype)
  }
  t.is(8 + size + end, bytes.length)
})

test('a typed array implies dtype and shape', async (t) => {
  const plain = [Float64Array, Float32Array, BigInt64Array, Int32Array, Int16Array, Int8Array]
  const unsigned = [BigUint64Array, Uint32Array, Uint16Array, Uint8Array]
  const arrays = [...plain, ...unsigned].map((Class) => new Class(noise(24, 1).buffer))
  const path = await written({}, async (writer) => {
    t.true(writer instanceof TensorWriter)
    for (const array of arrays) await writer.add(array.constructor.name, array)
    await writer.add('Buffer', Buffer.from('bytes'))
  })
  const file = openSync(path)
  for (const array of arrays) {
    t.deepEqual([...file.tensor(array.constructor.name).shape], [array.length])
    t.deepEqual(file.tensor(array.constructor.name).data, array)
  }
  t.is(file.tensor('Buffer').dtype, 'uint8')
  t.is(Buffer.from(file.tensor('Buffer').data).toString(), 'bytes')
  file.close()
})

test('data may be a part of a buffer, shared, or a DataView', async (t) => {
  const shared = new Float32Array(new SharedArrayBuffer(40000 * 4)).fill(3.5)
  const buffer = noise(64, 5).buffer
  const path = await written({}, async (writer) => {
    await writer.add('part', new Uint8Array(buffer, 3, 20))
    await writer.add('view', { dtype: 'int16', shape: [5, 2], data: new DataView(buffer, 1, 20) })
    await writer.add('bits', { dtype: 'float16', shape: [4], data: new Uint8Array(buffer, 7, 8) })
    await writer.add('shared', shared)
  })
  const file = openSync(path)
  t.deepEqual(file.tensor('part').data, Uint8Array.from(new Uint8Array(buffer, 3, 20)))
  t.true(littleEndian(file.tensor('view').data).equals(Buffer.from(buffer, 1, 20)))
  t.true(littleEndian(file.tensor('bits').data).equals(Buffer.from(buffer, 7, 8)))
  t.true(littleEndian(file.tensor('shared').data).equals(littleEndian(shared)))
  file.close()
})

for (const { name: format, options } of WRITE_FORMATS) {
  test(`${format}: writes a file without tensors`, async (t) => {
    const path = await written(options, () => {})
    const file = openSync(path, format === 'btf' ? { format: 'btf' } : {})
    t.is(file.size, 0)
    t.is(file.format, options.format ?? 'zt')
    file.close()
  })
}

test('the defaults are zTensor 1.0 and crc32c; the path may be a URL', async (t) => {
  const path = scratchPath('plain é %20.zt')
  await written(undefined, (writer) => writer.add('x', Uint8Array.of(1)), pathToFileURL(path))
  const file = openSync(path)
  t.is(file.format, 'zt')
  t.is(file.version, '1.0')
  t.regex(file.tensor('x').components.get('data').digest, /^crc32c:0x[0-9A-F]{8}$/)
  t.is(typeof file.generator, 'string')
  file.close()
  const named = openSync(await written({ generator: 'a tool' }, () => {}))
  t.is(named.generator, 'a tool')
  named.close()
  const newer = openSync(await written({ version: '1.2' }, () => {}))
  t.is(newer.version, '1.2.0')
  newer.close()
})

const NAMES = [
  '',
  ' ',
  'a.b/c',
  '層',
  '\u{1f600}',
  'é',
  '"quoted\\"',
  'tab\t\0\x1f\x7f\n',
  '__proto__',
  'x'.repeat(70000),
]

for (const { name: format, options } of WRITE_FORMATS.filter(({ name }) => name !== 'btf')) {
  test(`${format}: writes names of every kind`, async (t) => {
    const path = await written(options, async (writer) => {
      for (const [i, name] of NAMES.entries()) await writer.add(name, Uint8Array.of(i))
    })
    const file = openSync(path)
    t.deepEqual([...file.keys()].sort(), [...NAMES].sort())
    for (const [i, name] of NAMES.entries()) t.deepEqual([...file.tensor(name).data], [i])
    file.close()
  })

  test(`${format}: writes any names that are text`, async (t) => {
    const anyNames = fc.uniqueArray(
      fc.string({ unit: 'binary' }).filter((name) => name !== '__metadata__'),
      { maxLength: 20 },
    )
    const body = async (names) => {
      const path = await written(options, async (writer) => {
        await Promise.all(names.map((name, i) => writer.add(name, Uint8Array.of(i))))
      })
      const file = openSync(path)
      t.is(file.size, names.length)
      for (const [i, name] of names.entries()) t.is(file.tensor(name).data[0], i)
      file.close()
    }
    await fc.assert(fc.asyncProperty(anyNames, body), { numRuns: scaled(25) })
  })
}

for (const { name: format, options } of WRITE_FORMATS.filter(({ zt }) => zt)) {
  for (const alignment of [64, 128, 4096, 65536]) {
    test(`${format}: aligns blobs to multiples of ${alignment}, with zeros between them`, async (t) => {
      const path = await written({ ...options, alignment }, async (writer) => {
        for (const [i, length] of [1, 0, 64, 65, 0, 3].entries())
          await writer.add(`${i}`, new Uint8Array(length).fill(0xff))
      })
      const bytes = readFileSync(path)
      const file = openSync(path)
      let end = 8
      for (const tensor of file.values()) {
        const { offset, storedLength } = tensor.components.get('data')
        // Empty ones are aligned as well: peers reject a file because of them.
        t.is(offset % alignment, 0)
        if (storedLength === 0) continue
        t.is(offset, Math.ceil(end / alignment) * alignment)
        t.true(bytes.subarray(end, offset).every((byte) => byte === 0))
        end = offset + storedLength
      }
      const footer = format === '1.2' ? 16 : 8
      t.is(Number(bytes.readBigUInt64LE(bytes.length - footer)), bytes.length - footer - end, 'the index follows')
      file.close()
    })
  }

  test(`${format}: data that zstd hardly shrinks stays raw, and minSavings sets the threshold`, async (t) => {
    const zeros = new Uint8Array(100_000)
    const random = noise(100_000, 3)
    const mixed = noise(100_000, 4).fill(0, 0, 50_000)
    const stored = async (minSavings) => {
      const compression = minSavings === undefined ? {} : { minSavings }
      const path = await written({ ...options, compression }, async (writer) => {
        await Promise.all([writer.add('zeros', zeros), writer.add('random', random), writer.add('mixed', mixed)])
      })
      const file = openSync(path)
      const encodings = [...file.values()].map((tensor) => tensor.components.get('data').encoding)
      for (const [name, bytes] of Object.entries({ zeros, random, mixed }))
        t.deepEqual(await file.tensor(name).load(), bytes)
      t.true(file.tensor('zeros').components.get('data').storedLength < 100)
      file.close()
      return encodings
    }
    t.deepEqual(await stored(), ['zstd', 'raw', 'zstd'])
    t.deepEqual(await stored(0), ['zstd', 'raw', 'zstd'])
    t.deepEqual(await stored(0.4), ['zstd', 'raw', 'zstd'])
    t.deepEqual(await stored(0.6), ['zstd', 'raw', 'raw'])
  })
}

test('a custom layout, by its components', async (t) => {
  const packed = noise(32, 1)
  const scale = Float32Array.of(0.5, 2)
  for (const version of ['1.0', '1.2']) {
    const path = await written({ version, digest: 'sha256', compression: {} }, (writer) =>
      writer.addObject('q', {
        layout: 'quantized_4bit',
        shape: [8, 8],
        dtype: 'uint8',
        attributes: { bits: 4 },
        components: { packed: { dtype: 'uint8', data: packed }, scale: { dtype: 'float32', data: scale } },
      }),
    )
    const file = openSync(path)
    const tensor = file.tensor('q')
    t.is(tensor.layout, 'quantized_4bit')
    t.deepEqual([...tensor.shape], [8, 8])
    t.deepEqual({ ...tensor.attributes }, { bits: 4 })
    t.deepEqual([...tensor.components.keys()], ['packed', 'scale'])
    t.true(littleEndian(tensor.components.get('packed').data).equals(littleEndian(packed)))
    t.true(littleEndian(tensor.components.get('scale').data).equals(littleEndian(scale)))
    if (version === '1.2') t.is(tensor.components.get('scale').dtype, 'float32')
    t.true((await file.verify()).ok)
    file.close()
  }
})

test('calls that are not awaited run in order', async (t) => {
  const big = noise(9 * 2 ** 20, 1)
  for (const { options } of WRITE_FORMATS) {
    const path = scratchPath('order')
    const writer = await create(path, options)
    const small = Array.from({ length: 50 }, (_, i) => Int32Array.of(i))
    const done = []
    const calls = [new Int8Array(big.buffer), ...small].map((array, i) =>
      writer.add(String(i), array).then(() => done.push(i)),
    )
    await Promise.all([...calls, writer.finish().then(() => done.push('finish'))])
    t.deepEqual(done, [...calls.keys(), 'finish'])
    const file = openSync(path)
    t.is(file.size, 51)
    t.deepEqual(littleEndian(file.tensor('0').data).compare(big), 0)
    for (let i = 1; i <= 50; i++) t.deepEqual([...file.tensor(String(i)).data], [i - 1])
    file.close()
  }
})
