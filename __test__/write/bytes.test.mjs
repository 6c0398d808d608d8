// A tiny file of each format and version, byte for byte by its specification; and the same bytes for the same input.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { writtenOnProcessors } from '../helpers/processors.mjs'
import { noise, sample, streamed, WRITE_FORMATS, written } from '../helpers/sample-files.mjs'

const ZT01 = [
  ['5a54454e30303031', '"ZTEN0001"'],
  [
    '0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000',
    'zeros up to 64',
  ],
  ['0100 feff', '1, -2'],
  ['81', 'array of 1'],
  ['a9', 'map of 9'],
  ['64 6e616d65', 'text "name"'],
  ['61 61', 'text "a"'],
  ['66 6f6666736574', 'text "offset"'],
  ['18 40', '64'],
  ['64 73697a65', 'text "size"'],
  ['04', '4'],
  ['65 6474797065', 'text "dtype"'],
  ['65 696e743136', 'text "int16"'],
  ['66 6c61796f7574', 'text "layout"'],
  ['65 64656e7365', 'text "dense"'],
  ['65 7368617065', 'text "shape"'],
  ['81 02', '[2]'],
  ['68 656e636f64696e67', 'text "encoding"'],
  ['63 726177', 'text "raw"'],
  ['6f 646174615f656e6469616e6e657373', 'text "data_endianness"'],
  ['66 6c6974746c65', 'text "little"'],
  ['68 636865636b73756d', 'text "checksum"'],
  ['71 6372633332633a30783838314530454441', 'text "crc32c:0x881E0EDA"'],
  ['7800000000000000', 'the index has 120 bytes'],
]

const ZT10 = [
  ['5a54454e31303030', '"ZTEN1000"'],
  [
    '0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000',
    'zeros up to 64',
  ],
  ['0100 feff', '1, -2'],
  ['a4', 'map of 4'],
  ['67 76657273696f6e', 'text "version"'],
  ['63 312e30', 'text "1.0"'],
  ['69 67656e657261746f72', 'text "generator"'],
  ['61 67', 'text "g"'],
  ['6a 61747472696275746573', 'text "attributes"'],
  ['a1', 'map of 1'],
  ['61 6b', 'text "k"'],
  ['1a 00010000', '65536'],
  ['67 74656e736f7273', 'text "tensors"'],
  ['a1', 'map of 1'],
  ['61 61', 'text "a"'],
  ['a4', 'map of 4'],
  ['65 6474797065', 'text "dtype"'],
  ['65 696e743136', 'text "int16"'],
  ['65 7368617065', 'text "shape"'],
  ['81 02', '[2]'],
  ['66 666f726d6174', 'text "format"'],
  ['65 64656e7365', 'text "dense"'],
  ['6a 636f6d706f6e656e7473', 'text "components"'],
  ['a1', 'map of 1'],
  ['64 64617461', 'text "data"'],
  ['a3', 'map of 3'],
  ['66 6f6666736574', 'text "offset"'],
  ['18 40', '64'],
  ['66 6c656e677468', 'text "length"'],
  ['04', '4'],
  ['66 646967657374', 'text "digest"'],
  ['71 6372633332633a30783838314530454441', 'text "crc32c:0x881E0EDA"'],
  ['9500000000000000', 'the index has 149 bytes'],
]

const ZT12 = [
  ['5a54454e31303030', '"ZTEN1000"'],
  [
    '0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000',
    'zeros up to 64',
  ],
  ['0100 feff', '1, -2'],
  ['a3', 'map of 3'],
  ['67 76657273696f6e', 'text "version"'],
  ['65 312e322e30', 'text "1.2.0"'],
  ['6a 61747472696275746573', 'text "attributes"'],
  ['a1', 'map of 1'],
  ['61 6b', 'text "k"'],
  ['1a 00010000', '65536'],
  ['67 6f626a65637473', 'text "objects"'],
  ['a1', 'map of 1'],
  ['61 61', 'text "a"'],
  ['a3', 'map of 3'],
  ['65 7368617065', 'text "shape"'],
  ['81 02', '[2]'],
  ['66 666f726d6174', 'text "format"'],
  ['65 64656e7365', 'text "dense"'],
  ['6a 636f6d706f6e656e7473', 'text "components"'],
  ['a1', 'map of 1'],
  ['64 64617461', 'text "data"'],
  ['a4', 'map of 4'],
  ['65 6474797065', 'text "dtype"'],
  ['63 693136', 'text "i16"'],
  ['66 6f6666736574', 'text "offset"'],
  ['18 40', '64'],
  ['66 6c656e677468', 'text "length"'],
  ['04', '4'],
  ['66 646967657374', 'text "digest"'],
  ['71 6372633332633a30783838314530454441', 'text "crc32c:0x881E0EDA"'],
  ['8900000000000000', 'the index has 137 bytes'],
  ['5a54454e31303030', '"ZTEN1000"'],
]

const SAFETENSORS = [
  ['5000000000000000', 'the header has 80 bytes'],
  ['7b225f5f6d657461646174615f5f223a7b226b223a2276227d', '{"__metadata__":{"k":"v"}'],
  [
    '2c2261223a7b226474797065223a22493136222c227368617065223a5b325d2c22646174615f6f666673657473223a5b302c345d7d7d',
    ',"a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}',
  ],
  ['20', 'spaces up to a multiple of 8'],
  ['0100 feff', '1, -2'],
]

const BTF = [
  ['0100000000000000', '1 tensor'],
  ['1000000000000000', 'at 16'],
  ['0100000000000000', 'rank 1'],
  ['01', 'int16'],
  ['00', 'dense'],
  ['000000000000', 'reserved'],
  ['0200000000000000', '[2]'],
  ['0100 feff', '1, -2'],
  ['00000000', 'zeros up to a multiple of 8'],
]

const bytesOf = (parts) => Buffer.from(parts.map(([hex]) => hex.replaceAll(' ', '')).join(''), 'hex')
const GOLDEN = [
  ['0.1', ZT01, { version: '0.1' }, 'a'],
  ['1.0', ZT10, { version: '1.0', generator: 'g', metadata: { k: 65536 } }, 'a'],
  ['1.2', ZT12, { version: '1.2', metadata: { k: 65536 } }, 'a'],
  ['safetensors', SAFETENSORS, { format: 'safetensors', metadata: { k: 'v' } }, 'a'],
  ['btf', BTF, { format: 'btf' }, '0'],
]

for (const [format, parts, options, name] of GOLDEN) {
  test(`${format}: writes a file of one tensor, byte for byte`, async (t) => {
    const path = await written(options, (writer) => writer.add(name, Int16Array.of(1, -2)))
    t.is(readFileSync(path).toString('hex'), bytesOf(parts).toString('hex'))
  })
}

const NONE = {
  0.1: '5a54454e30303031 80 0100000000000000',
  // a4: version "1.0", generator "", attributes {}, tensors {}
  '1.0': `5a54454e31303030 a4 6776657273696f6e 63312e30 6967656e657261746f72 60 6a61747472696275746573 a0
    6774656e736f7273 a0 2d00000000000000`,
  // a3: version "1.2.0", attributes {}, objects {}
  1.2: `5a54454e31303030 a3 6776657273696f6e 65312e322e30 6a61747472696275746573 a0 676f626a65637473 a0
    2400000000000000 5a54454e31303030`,
  safetensors: '0800000000000000 7b7d 202020202020',
  btf: '0000000000000000',
}

for (const { name: format, options } of WRITE_FORMATS) {
  test(`${format}: writes a file without tensors, byte for byte`, async (t) => {
    const path = await written(format === '1.0' ? { ...options, generator: '' } : options, () => {})
    t.is(readFileSync(path).toString('hex'), NONE[format].replaceAll(/\s/g, ''))
  })
}

const BIG = 9 * 2 ** 20
// Shrinks by a third: enough for zstd to be worth it, and work for it all the way.
const large = noise(BIG, 7).map((byte, i) => (i % 3 === 0 ? 0 : byte))

for (const { name: format, options, dtypes, zt } of WRITE_FORMATS) {
  for (const compression of zt ? [false, { level: 1 }] : [false]) {
    const how = { ...options, compression, digest: zt ? 'sha256' : false }
    const everything = async (writer) => {
      for (const [i, dtype] of dtypes.entries()) {
        await writer.add(String(i), { dtype, shape: [40, 60], data: sample(dtype, [40, 60], i, 300) })
      }
      await writer.add(String(dtypes.length), new Int8Array(large.buffer))
    }
    const first = written(how, everything)

    test(`${format}, compression ${JSON.stringify(compression)}: the same input makes the same bytes`, async (t) => {
      const bytes = readFileSync(await first)
      t.is(bytes.length < BIG, compression !== false)
      t.true(bytes.equals(readFileSync(await written(how, everything))))
    })

    test(`${format}, compression ${JSON.stringify(compression)}: streams in any pieces make the same bytes`, async (t) => {
      for (const pieces of [[BIG], [1, 300_000, 5, 4_000_000], [65_536, 65_537, 2 ** 20]]) {
        const chunks = []
        for (let at = 0, i = 0; at < BIG; at += pieces[i++ % pieces.length]) {
          chunks.push(large.subarray(at, at + pieces[i % pieces.length]))
        }
        const path = await written(how, async (writer) => {
          for (const [i, dtype] of dtypes.entries()) {
            await writer.add(String(i), { dtype, shape: [40, 60], data: sample(dtype, [40, 60], i, 300) })
          }
          await streamed(writer.stream(String(dtypes.length), { dtype: 'int8', shape: [BIG] }), chunks)
        })
        t.true(readFileSync(await first).equals(readFileSync(path)), pieces.join(' '))
      }
    })
  }
}

if (process.platform === 'linux') {
  test('compression on one processor and on all makes the same bytes', async (t) => {
    const source = `
      import { create } from 'ztensor'
      const writer = await create(process.argv[1], { compression: { level: 1 } })
      const values = new Float32Array(2 ** 22).map((_, i) => Math.sin(i >> 4))
      await writer.add('x', values)
      await writer.finish()`
    const { one, all } = writtenOnProcessors(source)
    t.true(one.length < 2 ** 23)
    t.true(one.equals(all))
  })
}
