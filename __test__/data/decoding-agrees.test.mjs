// zstd data of zTensor 0.1 to 1.2, read in every way: each returns the same elements, or rejects with the same code.
// Small data is decoded as a whole, larger data in pieces (from 16 MiB on by convert, from 32 MiB on by load), and verify keeps nothing.
import { createHash } from 'node:crypto'
import { Writable } from 'node:stream'
import test from 'ava'
import { compare, convert, open, openSync } from 'ztensor'
import { bomb, frame, skippable } from '../corpus/zstd.mjs'
import { u64s, zt01, zt10, zt12 } from '../corpus/zt.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFile } from '../helpers/scratch.mjs'

const MIB = 2 ** 20
const SIZES = { 'of 16 bytes': 16, 'of 18 MiB': 18 * MIB, 'of 34 MiB': 34 * MIB }
const SKIPPED = skippable(Buffer.from('anything'), 7)

/** Half of the tensor is 1, half is 2. Each kind: the frames of `size` bytes, and the code with which all ways reject them. */
const KINDS = {
  'two frames': (size) => [[bomb(size / 2, 1), bomb(size / 2, 2)]],
  'frames, skippable ones among them': (size) => [
    [SKIPPED, bomb(size / 2, 1), SKIPPED, bomb(size / 2, 2, { declared: size / 2 }), SKIPPED],
  ],
  'frames of nothing': (size) => [
    [frame(Buffer.alloc(0)), bomb(size / 2, 1), frame(Buffer.alloc(0)), bomb(size / 2, 2)],
  ],
  'a window of 2^27': (size) => [[bomb(size / 2, 1, { window: 27 }), bomb(size / 2, 2)]],
  'a window of 2^28': (size) => [[bomb(size / 2, 1), bomb(size / 2, 2, { window: 28 })], 'ZT_LIMIT'],
  'a window of 2 GiB': (size) => [[bomb(size / 2, 1, { window: 31 }), bomb(size / 2, 2)], 'ZT_LIMIT'],
  'a window of 2 TiB': (size) => [[bomb(size / 2, 1, { window: 41 }), bomb(size / 2, 2)], 'ZT_LIMIT'],
  'a content size of 2^64 - 1': (size) => [
    [bomb(size / 2, 1), bomb(size / 2, 2, { declared: 2n ** 64n - 1n })],
    'ZT_DECODE',
  ],
  'a content size of 2^64 - 1 in a small window': (size) => [
    [bomb(size / 2, 1), bomb(size / 2, 2, { declared: 2n ** 64n - 1n, window: 20 })],
    'ZT_DECODE',
  ],
  'a content size of 2^64 - 2': (size) => [
    [bomb(size / 2, 1), bomb(size / 2, 2, { declared: 2n ** 64n - 2n, window: 20 })],
    'ZT_DECODE',
  ],
  'a dictionary': (size) => [[bomb(size / 2, 1), bomb(size / 2, 2, { dictionary: 1 })], 'ZT_DECODE'],
  'a byte too few': (size) => [[bomb(size / 2, 1), bomb(size / 2 - 1, 2)], 'ZT_DECODE'],
  'a byte too many': (size) => [[bomb(size / 2, 1), bomb(size / 2 + 1, 2)], 'ZT_DECODE'],
  'bytes after the frames': (size) => [[bomb(size / 2, 1), bomb(size / 2, 2), Buffer.alloc(8)], 'ZT_DECODE'],
  'a truncated last frame': (size) => [[bomb(size / 2, 1), bomb(size / 2, 2).subarray(0, -1)], 'ZT_DECODE'],
  'skippable frames alone': () => [[SKIPPED, SKIPPED], 'ZT_DECODE'],
  'no bytes': () => [[], 'ZT_DECODE'],
}
const VERSIONS = {
  0.1: (size, bytes) => zt01([{ name: 'w', dtype: 'uint8', shape: [2, size / 2], encoding: 'zstd', bytes }]),
  '1.0': (size, bytes) =>
    zt10({
      w: { dtype: 'uint8', shape: [2, size / 2], format: 'dense', components: { data: { bytes, encoding: 'zstd' } } },
    }),
  1.2: (size, bytes) =>
    zt12({
      w: { shape: [2, size / 2], format: 'dense', components: { data: { dtype: 'u8', bytes, encoding: 'zstd' } } },
    }),
}

/** [first, last, length] of the elements, which should be ones and twos. */
const ends = (array) => [array[0], array.at(-1), array.length]
/** Converts into a stream, which does not wait for a disk. */
const converted = async (path, options) => {
  const chunks = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(Buffer.from(chunk))
      done()
    },
  })
  await convert(path, stream, options)
  const file = openSync(new Uint8Array(Buffer.concat(chunks)))
  const found = ends(await file.tensor('w').load())
  file.close()
  return found
}
/** The result of each way: the ends of the whole, or of its second half. */
const WAYS = {
  data: ({ t }) => ends(t.data),
  load: async ({ t }) => ends(await t.load()),
  'load into': async ({ t }) => ends(await t.load({ into: new Uint8Array(t.size) })),
  'file.load': async ({ file }) => ends((await file.load()).get('w').data),
  'component.data': ({ t }) => ends(t.components.get('data').data),
  'component.load': async ({ t }) => ends(await t.components.get('data').load()),
  'load of a sliced part': async ({ t }) => half(await t.load({ slice: [[1, 2], null] }), t.size / 2),
  slice: ({ t }) => half(t.slice([[1, 2], null]).data, t.size / 2),
  'load of a shard': async ({ t }) => half(await t.load({ shard: { dim: 0, rank: 1, worldSize: 2 } }), t.size / 2),
  shard: ({ t }) => half(t.shard({ dim: 0, rank: 1, worldSize: 2 }).data, t.size / 2),
  stats: async ({ t }) => {
    const { min, max, count } = await t.stats()
    return [min, max, count]
  },
  verify: async ({ file, t }) => {
    const { ok, failures } = await file.verify()
    if (!ok) throw failures[0]
    return [1, 2, t.size]
  },
  'open with verify': async ({ path, t }) => {
    ;(await open(path, { verify: true })).close()
    return [1, 2, t.size]
  },
  compare: async ({ t }) => {
    const other = openSync(
      scratchFile(VERSIONS['1.0'](t.size, Buffer.concat([bomb(t.size / 2, 1), bomb(t.size / 2, 2)]))),
    )
    const { equal } = await compare(t, other.tensor('w'))
    other.close()
    return equal ? [1, 2, t.size] : 'not equal'
  },
  'convert to 1.0': ({ path }) => converted(path, { version: '1.0' }),
  'convert to 1.2, compressed': ({ path }) => converted(path, { version: '1.2', compression: { level: 1 } }),
  'convert with a cast': ({ path }) => converted(path, { cast: { uint8: 'float32' } }),
  'load as float32': async ({ t }) => ends(await t.load({ as: 'float32' })),
}
/** Ways that equal another one after decoding: small data is enough. */
const SMALL_ONLY = [
  'load into',
  'component.data',
  'load of a shard',
  'shard',
  'open with verify',
  'load as float32',
  'compare',
  'convert with a cast',
  'convert to 1.2, compressed',
]
const half = (array, size) => (array[0] === 2 && array.length === size ? [1, array.at(-1), 2 * size] : ends(array))

for (const [version, make] of Object.entries(VERSIONS)) {
  for (const [sized, size] of Object.entries(SIZES)) {
    // Reading in pieces is the same for every version: large data is tested once.
    if (size > 16 && version !== '1.0') continue
    test(`${version}: all ways of reading agree on data ${sized}`, async (t) => {
      const differing = []
      for (const [kind, frames] of Object.entries(KINDS)) {
        const [parts, code] = frames(size)
        const path = scratchFile(make(size, Buffer.concat(parts)))
        for (const [way, read] of Object.entries(WAYS)) {
          if (size > 16 && SMALL_ONLY.includes(way)) continue
          const file = openSync(path)
          let found
          const error = await rejectionOf(async () => {
            found = await read({ path, file, t: file.tensor('w') })
          })
          file.close()
          const outcome = error === undefined ? JSON.stringify(found) : (error.code ?? error.stack)
          const expected = code ?? JSON.stringify([1, 2, size])
          if (outcome !== expected) differing.push(`${kind}: ${way}: ${outcome}, not ${expected}: ${error?.message}`)
        }
      }
      t.deepEqual(differing, [])
    })
  }
}

test('all ways of reading agree on data without elements', async (t) => {
  const nothing = Buffer.alloc(0)
  const kinds = {
    'no frame': [{ bytes: nothing, encoding: 'zstd' }, 'ZT_DECODE'],
    'an empty frame': [{ bytes: frame(nothing), encoding: 'zstd' }],
    'a skippable frame': [{ bytes: SKIPPED, encoding: 'zstd' }],
    'a frame of a byte': [{ bytes: frame(Buffer.alloc(1)), encoding: 'zstd' }, 'ZT_DECODE'],
    'another digest': [{ bytes: nothing, digest: `sha256:${'0'.repeat(64)}` }, 'ZT_DIGEST_MISMATCH'],
    'another encoding': [{ bytes: nothing, encoding: 'lz77' }, 'ZT_UNSUPPORTED_ENCODING'],
  }
  const ways = {
    load: ({ tensor }) => tensor.load(),
    'file.load': async ({ file }) => (await file.load()).get('w').data,
    'component.load': ({ tensor }) => tensor.components.get('data').load(),
    'load as float32': ({ tensor }) => tensor.load({ as: 'float32' }),
    convert: async ({ path }) => {
      await convert(path, new Writable({ write: (_chunk, _encoding, done) => done() }), { version: '1.0' })
      return nothing
    },
  }
  for (const [kind, [data, code]] of Object.entries(kinds)) {
    const path = scratchFile(zt10({ w: { dtype: 'uint8', shape: [0], format: 'dense', components: { data } } }))
    for (const [way, read] of Object.entries(ways)) {
      const file = openSync(path)
      let found
      const error = await rejectionOf(async () => {
        found = await read({ path, file, tensor: file.tensor('w') })
      })
      file.close()
      t.is(error?.code, code, `${kind}: ${way}: ${error?.stack}`)
      if (code === undefined) t.is(found.length, 0, `${kind}: ${way}`)
    }
  }
})

test('decodes the arrays of a sparse tensor, each in frames', async (t) => {
  const split = (bytes) => Buffer.concat([frame(bytes.subarray(0, 3)), SKIPPED, frame(bytes.subarray(3))])
  const zstd = (bytes, more = []) => ({ bytes: Buffer.concat([split(bytes), ...more]), encoding: 'zstd' })
  const matrix = (more) =>
    zt10({
      m: {
        dtype: 'uint8',
        shape: [2, 4],
        format: 'sparse_csr',
        components: {
          values: zstd(Buffer.from([5, 6, 7, 8])),
          indices: zstd(u64s(0, 2, 1, 3)),
          indptr: zstd(u64s(0, 2, 4), more),
        },
      },
    })
  const reads = {
    csr: (path) => rejecting(path, ({ tensor }) => tensor.csr().toDense()),
    loadCsr: (path) => rejecting(path, async ({ tensor }) => (await tensor.loadCsr()).toDense()),
    verify: (path) =>
      rejecting(path, async ({ file }) => {
        const { ok, failures } = await file.verify()
        if (!ok) throw failures[0]
      }),
    convert: (path) =>
      rejecting(path, () =>
        convert(path, new Writable({ write: (_chunk, _encoding, done) => done() }), { version: '1.2' }),
      ),
    compare: (path) => rejecting(path, ({ tensor }) => compare(tensor, tensor)),
  }
  for (const [way, read] of Object.entries(reads)) {
    t.is(await read(scratchFile(matrix([SKIPPED]))), undefined, way)
    t.is(await read(scratchFile(matrix([frame(Buffer.alloc(1))]))), 'ZT_DECODE', way)
    t.is(await read(scratchFile(matrix([frame(Buffer.alloc(0), { window: 28 })]))), 'ZT_LIMIT', way)
  }
})

async function rejecting(path, read) {
  const file = openSync(path)
  const error = await rejectionOf(() => read({ file, tensor: file.tensor('m') }))
  file.close()
  return error?.code ?? error
}

test('a digest covers the stored frames, including skippable ones', async (t) => {
  const bytes = Buffer.concat([SKIPPED, bomb(8, 1), SKIPPED, bomb(8, 2)])
  const make = (digest) =>
    scratchFile(
      zt10({
        w: {
          dtype: 'uint8',
          shape: [16],
          format: 'dense',
          components: { data: { bytes, encoding: 'zstd', digest: `sha256:${digest}` } },
        },
      }),
    )
  const [right, wrong] = [bytes, bytes.subarray(1)].map((of) => make(createHash('sha256').update(of).digest('hex')))
  t.deepEqual(ends(await openSync(right).tensor('w').load()), [1, 2, 16])
  t.true((await openSync(right).verify()).ok)
  t.is((await rejectionOf(() => openSync(wrong).tensor('w').load())).code, 'ZT_DIGEST_MISMATCH')
})
