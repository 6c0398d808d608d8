// GGUF files of the gguf package (fixtures/gguf-files.py), and files that it cannot write, by helpers/gguf-writer.mjs.
import { Buffer } from 'node:buffer'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import test from 'ava'
import { convert, open, openSync, verify } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { canMap, expectedReason } from '../helpers/data-placement.mjs'
import { thrownBy } from '../helpers/errors.mjs'
import { decoded } from '../helpers/gguf-files.mjs'
import { gguf } from '../helpers/gguf-writer.mjs'
import { differing } from '../helpers/quantized.mjs'
import { readings } from '../helpers/readings.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const path = (name) => fixturePath(`gguf/${name}`)

const cases = decoded(fixturePath('gguf'))

test('every type of the gguf package: listed, aliased, decoded bit for bit, also by rows', async (t) => {
  t.is(cases.length, 23)
  for (const source of [path('types.gguf'), readFileSync(path('types.gguf'))]) {
    const file = await open(source)
    t.is(file.format, 'gguf')
    t.is(file.version, '3')
    t.deepEqual(file.warnings, [])
    t.deepEqual(
      [...file.keys()],
      cases.map(({ name }) => name),
    )
    for (const { name, type, shape, expected } of cases) {
      const tensor = file.tensor(name)
      t.is(tensor.layout, `gguf.${type}/1`)
      t.is(tensor.dtype, undefined)
      t.deepEqual([...tensor.shape], shape)
      const { data } = Object.fromEntries(tensor.components)
      t.is(data.encoding, 'raw')
      t.is(data.data.length, data.byteLength)
      t.is(differing(tensor.toFloat32(), expected), 0, type)
      t.is(differing(await tensor.load({ as: 'float32' }), expected), 0, type)
      const [rows, columns] = shape
      for (let row = 0; row < rows; row++) {
        const one = await tensor.load({ as: 'float32', slice: [[row, row + 1]] })
        t.is(differing(one, expected.subarray(row * columns, (row + 1) * columns)), 0, `${type} row ${row}`)
      }
      const stats = await tensor.stats()
      t.is(stats.count ?? tensor.size, expected.length, type)
    }
    file.close()
  }
})

const NUMBERS = [...Array(15).keys()].map((n) => n - 7)

for (const name of ['plain.gguf', 'plain-big-endian.gguf']) {
  test(`${name}: reads plain types and all types of metadata`, async (t) => {
    const file = openSync(path(name))
    const { metadata: attributes } = file
    t.is(attributes['general.architecture'], 'llama')
    const kinds = Object.fromEntries(Object.entries(attributes).filter(([key]) => key.startsWith('kinds.')))
    t.deepEqual(kinds, {
      'kinds.uint8': 7,
      'kinds.int8': -7,
      'kinds.uint16': 7,
      'kinds.int16': -7,
      'kinds.uint32': 7,
      'kinds.int32': -7,
      'kinds.uint64': 7,
      'kinds.int64': -7,
      'kinds.float32': 0.5,
      'kinds.float64': -1e300,
      'kinds.bool': true,
      'kinds.largest': 2n ** 64n - 1n,
      'kinds.string': 'Straße ✓',
      'kinds.strings': ['a', '', 'ü'],
      'kinds.numbers': [1, -2, 3],
      'kinds.floats': [0.5, 1.5],
      'kinds.flags': [true, false],
    })
    const dtypes = {
      f32: 'float32',
      f16: 'float16',
      f64: 'float64',
      i8: 'int8',
      i16: 'int16',
      i32: 'int32',
      i64: 'int64',
    }
    for (const [key, dtype] of Object.entries(dtypes)) {
      const tensor = file.tensor(key)
      t.is(tensor.dtype, dtype)
      t.deepEqual([...tensor.shape], [3, 5])
      t.deepEqual([...tensor.toFloat32()], NUMBERS, key)
      t.deepEqual([...(await tensor.load({ as: 'float32' }))], NUMBERS, key)
      const swapped = name.includes('big') && dtype !== 'int8'
      const width = tensor.data.BYTES_PER_ELEMENT
      t.is(tensor.mapped, !swapped && canMap(width))
      t.is(tensor.copyReason, expectedReason(swapped ? 'byte-order' : undefined, width))
    }
    t.is(file.tensor('bf16').dtype, 'bfloat16')
    t.deepEqual([...file.tensor('cube').shape], [2, 3, 4])
    t.deepEqual([...file.tensor('cube').slice([[1, 2], [0, 2], null]).data], [12, 13, 14, 15, 16, 17, 18, 19])
    file.close()
  })
}

for (const name of ['types', 'plain', 'plain-big-endian', 'aligned-4096', 'split-00002-of-00003']) {
  test(`${name}.gguf: all ways of reading agree`, async (t) => {
    const file = await open(path(`${name}.gguf`))
    const { wrong } = await readings(file)
    t.deepEqual(wrong, [])
    file.close()
  })
}

test('reads a custom alignment', (t) => {
  const file = openSync(path('aligned-4096.gguf'))
  t.deepEqual([...file.tensor('a').data], [0, 1, 2])
  t.deepEqual([...file.tensor('b').data], [0, 1, 2, 3, 4])
  for (const tensor of file.values()) t.is(tensor.components.get('data').offset % 4096, 0)
  t.is(file.metadata['general.alignment'], 4096)
  file.close()
})

const SPLIT = [1, 2, 3].map((number) => `split-0000${number}-of-00003.gguf`)

for (const name of SPLIT) {
  test(`${name} opens the whole set, with the metadata of the first file`, async (t) => {
    const file = await open(path(name))
    t.deepEqual([...file.keys()].sort(), [
      'blk.0.weight',
      'blk.1.weight',
      'blk.2.weight',
      'blk.3.weight',
      'blk.4.weight',
    ])
    t.is(file.files.length, 3)
    t.is(file.metadata['general.name'], 'three files')
    t.deepEqual(file.metadata['tokenizer.ggml.tokens'], ['<s>', '</s>'])
    t.deepEqual(file.warnings, [])
    for (let at = 0; at < 5; at++) {
      const tensor = file.tensor(`blk.${at}.weight`)
      t.deepEqual([...tensor.data], Array(6).fill(at))
      t.deepEqual([...(await tensor.load())], Array(6).fill(at))
    }
    t.true((await file.verify()).ok)
    file.close()
  })
}

function setIn(folder, change = {}) {
  mkdirSync(folder)
  for (const name of SPLIT) cpSync(path(name), join(folder, name))
  for (const [name, bytes] of Object.entries(change)) {
    if (bytes === undefined) rmSync(join(folder, name))
    else writeFileSync(join(folder, name), bytes)
  }
  return join(folder, SPLIT[0])
}

test('a folder and a list of the files of a set open the set', async (t) => {
  const folder = dirname(setIn(scratchPath('set')))
  for (const source of [folder, SPLIT.map((name) => join(folder, name))]) {
    const file = await open(source)
    t.is(file.size, 5)
    t.is(file.metadata['general.name'], 'three files')
    t.deepEqual(file.warnings, [])
    file.close()
  }
})

const part = (no, count, total) => [
  ['split.no', 'u16', no],
  ['split.count', 'u16', count],
  ['split.tensors.count', 'i32', total],
]
const WRONG_SETS = {
  'another number of files': gguf({ metadata: part(1, 4, 5), tensors: [{ name: 'x' }] }),
  'another position in the set': gguf({ metadata: part(2, 3, 5), tensors: [{ name: 'x' }] }),
  'no part of a set': gguf({ tensors: [{ name: 'x' }] }),
  'other tensors than the set counts': gguf({ metadata: part(1, 3, 5), tensors: [{ name: 'x' }] }),
  'a tensor of another file': gguf({ metadata: part(1, 3, 5), tensors: [{ name: 'blk.0.weight' }] }),
}
for (const [name, bytes] of Object.entries(WRONG_SETS)) {
  test(`rejects a set whose second file is ${name}`, (t) => {
    const first = setIn(scratchPath('set'), { [SPLIT[1]]: bytes })
    t.is(thrownBy(() => openSync(first))?.code, 'ZT_BAD_INDEX')
  })
}

test('reads versions 1 and 2, and both byte orders', (t) => {
  const floats = littleEndian(Float32Array.of(1, 2, 3, 4, 5, 6))
  for (const version of [1, 2, 3]) {
    for (const big of [false, true]) {
      const data = big ? Buffer.from(floats).swap32() : floats
      const metadata = [
        [
          'list',
          'array',
          [
            'array',
            [
              ['u8', [1, 2]],
              ['string', ['x']],
            ],
          ],
        ],
        ['raw', 'string', text(version, big)],
      ]
      const file = openSync(gguf({ version, big, metadata, tensors: [{ name: 't', shape: [2, 3], data }] }))
      t.is(file.version, `${version}`)
      t.deepEqual([...file.tensor('t').toFloat32()], [1, 2, 3, 4, 5, 6])
      t.deepEqual([...file.tensor('t').shape], [2, 3])
      t.deepEqual(file.metadata.list, [[1, 2], ['x']])
      t.deepEqual(file.metadata.raw, Uint8Array.of(0xff, 0xfe))
      file.close()
    }
  }
})

/** A string of two bytes that are not UTF-8. */
function text(version, big) {
  const length = Buffer.alloc(version === 1 ? 4 : 8)
  length[big ? length.length - 1 : 0] = 2
  return Buffer.concat([length, Buffer.of(0xff, 0xfe)])
}

test('lists an unknown type with its bytes, and the other tensors', (t) => {
  const tensors = [
    { name: 'odd', shape: [4], type: 999, data: Buffer.from([1, 2, 3]) },
    { name: 'good', data: littleEndian(Float32Array.of(2)) },
    { name: 'last', shape: [7], type: 36, data: Buffer.from([9]) },
  ]
  const file = openSync(gguf({ tensors }))
  const odd = file.tensor('odd')
  t.is(odd.layout, 'gguf.type_999')
  t.is(odd.components.get('data').byteLength, 32)
  t.deepEqual([...odd.components.get('data').data.subarray(0, 3)], [1, 2, 3])
  t.is(thrownBy(() => odd.toFloat32())?.code, 'ZT_BAD_LAYOUT')
  t.deepEqual([...file.tensor('good').data], [2])
  t.is(file.tensor('last').components.get('data').byteLength, 32)
  t.deepEqual(
    file.warnings.map(({ code, tensor }) => [code, tensor]),
    [
      ['ZT_WARN_UNKNOWN_LAYOUT', 'odd'],
      ['ZT_WARN_UNKNOWN_LAYOUT', 'last'],
    ],
  )
  file.close()
})

test('lists the blocks of a big-endian file, and does not decode them wrongly', (t) => {
  const file = openSync(gguf({ big: true, tensors: [{ name: 'q', shape: [1, 32], type: 8, data: Buffer.alloc(34) }] }))
  t.is(file.tensor('q').layout, 'gguf_be.q8_0/1')
  t.is(thrownBy(() => file.tensor('q').toFloat32())?.code, 'ZT_BAD_LAYOUT')
  t.is(file.warnings[0].code, 'ZT_WARN_BYTE_ORDER')
  file.close()
})

test('omits attributes beyond the limit, with a warning', (t) => {
  const metadata = [
    ['before', 'u32', 1],
    ['many', 'array', ['u8', Array(100).fill(1)]],
    ['after', 'u32', 2],
  ]
  const file = openSync(gguf({ metadata }), { maxAttributeValues: 50 })
  t.deepEqual(Object.keys(file.metadata), ['before', 'after'])
  t.is(file.warnings[0].code, 'ZT_WARN_SKIPPED')
  file.close()
})

test('warns about overlapping tensors, not about tied ones', (t) => {
  const data = Buffer.alloc(64)
  const overlapping = openSync(
    gguf({
      tensors: [
        { name: 'a', shape: [16], data },
        { name: 'b', shape: [8], offset: 32 },
      ],
    }),
  )
  t.is(overlapping.warnings[0].code, 'ZT_WARN_OVERLAP')
  overlapping.close()
  const tied = openSync(
    gguf({
      tensors: [
        { name: 'a', shape: [16], data },
        { name: 'b', shape: [16], offset: 0 },
      ],
    }),
  )
  t.deepEqual(tied.warnings, [])
  tied.close()
})

test('rejects every proper prefix of a file', (t) => {
  const bytes = readFileSync(path('plain.gguf'))
  const file = openSync(bytes)
  const ends = [...file.values()]
    .map((tensor) => tensor.components.get('data'))
    .map((data) => data.offset + data.byteLength)
  file.close()
  const end = Math.max(...ends)
  for (let length = 0; length < end; length++) {
    const error = thrownBy(() => openSync(bytes.subarray(0, length), { format: 'gguf' }).close())
    if (error?.code !== 'ZT_TRUNCATED') t.fail(`${length}: ${error}`)
  }
  t.pass()
})

test('reads an index of many strings, some longer than a read', (t) => {
  // The first reads have 64 KiB; the strings end on both sides of their borders.
  const tokens = Array.from({ length: 60_000 }, (_, at) => (at % 9000 === 17 ? '▁'.repeat(at * 3) : `▁${at % 101}`))
  for (const big of [false, true]) {
    const metadata = [
      ['tokens', 'array', ['string', tokens]],
      ['scores', 'array', ['f32', tokens.map((_, at) => -at)]],
      ['after', 'string', 'the texts'],
    ]
    const bytes = gguf({ big, metadata, tensors: [{ name: 't' }] })
    const file = openSync(bytes)
    t.deepEqual(file.metadata.tokens, tokens)
    t.true(file.metadata.scores.every((score, at) => score === -at))
    t.is(file.metadata.after, 'the texts')
    t.deepEqual([...file.keys()], ['t'])
    file.close()
    for (const length of [70_000, 200_000, 500_000])
      t.is(thrownBy(() => openSync(bytes.subarray(0, length)))?.code, 'ZT_TRUNCATED', `${length}`)
  }
})

test('maxIndexBytes limits the index', (t) => {
  const bytes = readFileSync(path('plain.gguf'))
  t.is(thrownBy(() => openSync(bytes, { maxIndexBytes: 100 }))?.code, 'ZT_LIMIT')
})

test('converting to zTensor 2 keeps blocks unchanged', async (t) => {
  const out = scratchPath('out.zt')
  const { skipped } = await convert(path('types.gguf'), out, { version: '2', skip: true })
  // It registers no names for these.
  const unregistered = ['tq1_0', 'tq2_0', 'nvfp4']
  t.deepEqual(
    skipped.map(({ tensor }) => tensor),
    unregistered.map((type) => `blk.0.${type}.weight`),
  )
  const held = cases.filter(({ type }) => !unregistered.includes(type))
  const file = openSync(out)
  for (const { name, type, expected } of held) {
    t.is(file.tensor(name).layout, `gguf.${type}/1`)
    t.is(differing(file.tensor(name).toFloat32(), expected), 0, type)
  }
  t.is(file.metadata['general.name'], 'every type')
  file.close()
  t.true((await verify(out)).ok)
})

test('converts plain tensors to safetensors', async (t) => {
  const out = scratchPath('out.safetensors')
  await convert(path('aligned-4096.gguf'), out, { copyMetadata: false })
  const file = openSync(out)
  t.deepEqual([...file.tensor('b').data], [0, 1, 2, 3, 4])
  file.close()
})
