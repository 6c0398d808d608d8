// load() of data with digests succeeds exactly if verify() finds nothing, and both fail with the same code: for damaged
// vectors, and for frames that decoders may accept or reject.
import test from 'ava'
import fc from 'fast-check'
import { openSync, ZTensorError } from 'ztensor'
import { frame, seekable } from '../corpus/zstd.mjs'
import { f32s, MAGIC_01, sparse10, square01, square10, square12, u64, zt01, zt10, zt12 } from '../corpus/zt.mjs'
import { lone } from '../corpus/zt2.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { verifiedAsLoaded } from '../helpers/readings.mjs'
import { digestOf } from '../helpers/sample-files.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { vectors } from '../helpers/vectors.mjs'

const small = vectors.filter(({ bytes }) => bytes.length <= 256 * 1024)

/** A file, unless opening rejects it. */
function opened(source) {
  try {
    return openSync(source)
  } catch (error) {
    if (error instanceof ZTensorError && error.code !== 'ZT_INTERNAL') return undefined
    throw error
  }
}

/** The bytes of blobs, where opening does not reject damage. */
function blobsOf({ path }) {
  const file = openSync(path)
  const parts = Array.from(file.values()).flatMap(({ components }) => Array.from(components.values()))
  file.close()
  return parts.filter(({ offset, storedLength }) => offset !== undefined && storedLength > 0)
}
const files = small.map(({ bytes, ...one }) => ({ bytes, blobs: blobsOf(one) })).filter(({ blobs }) => blobs.length > 0)

const damage = fc.record({
  at: fc.nat(),
  blob: fc.option(fc.nat(), { freq: 8 }),
  // Most of what identifies a frame is at its beginning.
  near: fc.boolean(),
  flip: fc.integer({ min: 1, max: 255 }),
})

test('rejects damaged vectors like load', async (t) => {
  let accepted = 0
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...files),
      fc.array(damage, { minLength: 1, maxLength: 3 }),
      async (file, edits) => {
        const bytes = Buffer.from(file.bytes)
        for (const { at, blob, near, flip } of edits) {
          const one = blob === null ? undefined : file.blobs[blob % file.blobs.length]
          const offset = one
            ? one.offset + (at % Math.min(one.storedLength, near ? 24 : one.storedLength))
            : at % bytes.length
          bytes[offset] ^= flip
        }
        const damaged = opened(bytes)
        if (damaged === undefined) return
        accepted += 1
        t.deepEqual(await verifiedAsLoaded(damaged), [])
        damaged.close()
      },
    ),
    { numRuns: scaled(500) },
  )
  t.true(accepted > 100, `${accepted}`)
})

const CONTENT = f32s(1, 2, 3, 4)
const changed = (bytes, at, value) =>
  Buffer.concat([bytes.subarray(0, at), Buffer.from([value]), bytes.subarray(at + 1)])
/** A frame whose window has 2^log bytes. */
const window = (log) => changed(frame(CONTENT), 5, (log - 10) << 3)
/** A frame with the checksum of its content. */
const sealed = () => seekable([CONTENT]).subarray(0, -25)
const skippable = (length) =>
  Buffer.concat([Buffer.from('502a4d18', 'hex'), u64(length).subarray(0, 4), Buffer.alloc(length, 7)])

/**
 * Bytes in the place of a frame of 16 bytes. Other tests check whether they are valid; here, all ways must accept or reject them
 * alike. A row is everything that another case needs.
 */
const FRAMES = {
  'a frame': frame(CONTENT),
  'a frame that states its size': frame(CONTENT, { declared: 16 }),
  'a frame that states less': frame(CONTENT, { declared: 15 }),
  'a frame that states more': frame(CONTENT, { declared: 17 }),
  'a frame that states 2^53': frame(CONTENT, { declared: 2 ** 53 }),
  'a frame that states 2^63': frame(CONTENT, { declared: 2n ** 63n }),
  'a frame that states 2^64 - 2': frame(CONTENT, { declared: 2n ** 64n - 2n }),
  'a frame of less': frame(CONTENT.subarray(4)),
  'a frame of more': frame(Buffer.concat([CONTENT, CONTENT])),
  'a frame with a checksum': sealed(),
  'a frame with a wrong checksum': changed(sealed(), sealed().length - 1, 0),
  'a frame with half a checksum': sealed().subarray(0, -2),
  'a truncated frame': frame(CONTENT).subarray(0, -1),
  'the head of a frame': frame(CONTENT).subarray(0, 6),
  'a byte after the frame': Buffer.concat([frame(CONTENT), Buffer.alloc(1)]),
  'zeros after the frame': Buffer.concat([frame(CONTENT), Buffer.alloc(64)]),
  'two frames of a half each': Buffer.concat([frame(CONTENT.subarray(0, 8)), frame(CONTENT.subarray(8))]),
  'two frames of the whole': Buffer.concat([frame(CONTENT), frame(CONTENT)]),
  'an empty frame after it': Buffer.concat([frame(CONTENT), frame(Buffer.alloc(0))]),
  'an empty frame before': Buffer.concat([frame(Buffer.alloc(0)), frame(CONTENT)]),
  'a skippable frame after it': Buffer.concat([frame(CONTENT), skippable(9)]),
  'a skippable frame before': Buffer.concat([skippable(9), frame(CONTENT)]),
  'an empty skippable frame before': Buffer.concat([skippable(0), frame(CONTENT)]),
  'a skippable frame that is truncated at its end': Buffer.concat([frame(CONTENT), skippable(9).subarray(0, -1)]),
  'only a skippable frame': skippable(9),
  'a reserved bit': changed(frame(CONTENT), 4, 0x08),
  'an unused bit': changed(frame(CONTENT), 4, 0x10),
  'a dictionary': Buffer.concat([
    changed(frame(CONTENT), 4, 0x01).subarray(0, 6),
    Buffer.from([9]),
    frame(CONTENT).subarray(6),
  ]),
  'a dictionary called 0': Buffer.concat([
    changed(frame(CONTENT), 4, 0x01).subarray(0, 6),
    Buffer.from([0]),
    frame(CONTENT).subarray(6),
  ]),
  'a reserved type of block': changed(frame(CONTENT), 6, 0x87),
  'no last block': changed(frame(CONTENT), 6, 0x80),
  'another magic': changed(frame(CONTENT), 0, 0x27),
  nothing: Buffer.alloc(0),
  'no frame': CONTENT,
  ...Object.fromEntries([10, 20, 26, 27, 28, 31].map((log) => [`a window of 2^${log}`, window(log)])),
}

/** The places of a frame. */
const FILES = {
  0.1: (bytes) => zt01([square01({ bytes, encoding: 'zstd' })]),
  '0.1 with a checksum': (bytes) =>
    zt01([square01({ bytes, encoding: 'zstd', checksum: `sha256:${digestOf('sha256', bytes).slice(7)}` })]),
  '1.0': (bytes) => zt10({ w: square10({}, { bytes, encoding: 'zstd' }) }),
  '1.0 with a digest': (bytes) =>
    zt10({ w: square10({}, { bytes, encoding: 'zstd', digest: digestOf('sha256', bytes) }) }),
  '1.0, an additional component': (bytes) => {
    const w = square10()
    return zt10({ w: { ...w, components: { ...w.components, other: { bytes, encoding: 'zstd' } } } })
  },
  '1.0 in a layout that is not known': (bytes) => zt10({ w: square10({ format: 'x' }, { bytes, encoding: 'zstd' }) }),
  1.2: (bytes) => zt12({ w: square12({}, { bytes, encoding: 'zstd', uncompressed_length: 16 }) }),
  '1.2 without a length': (bytes) => zt12({ w: square12({}, { bytes, encoding: 'zstd' }) }),
  '1.0 values of a sparse tensor': (bytes) =>
    zt10({
      w: {
        dtype: 'float32',
        shape: [4],
        format: 'sparse_coo',
        components: {
          values: { bytes, encoding: 'zstd' },
          coords: { bytes: Buffer.concat([0, 1, 2, 3].map(u64)) },
        },
      },
    }),
  2: (bytes) => lone([4], 'dense', { data: { dtype: 'f32', bytes, encoding: 'zstd', decoded_length: 16 } }),
  '2 as a stream of frames': (bytes) =>
    lone([4], 'dense', { data: { dtype: 'f32', bytes, encoding: 'zt.zstd-seekable/1', decoded_length: 16 } }),
}

for (const [location, build] of Object.entries(FILES)) {
  test(`handles frames in ${location} like load`, async (t) => {
    const wrong = []
    for (const [what, bytes] of Object.entries(FRAMES)) {
      const made = build(bytes)
      for (const source of [made, scratchFile(made, 'frame.zt')]) {
        const file = opened(source)
        if (file === undefined) continue
        for (const fault of await verifiedAsLoaded(file)) wrong.push(`${what}: ${fault}`)
        file.close()
      }
    }
    t.deepEqual(wrong, [])
  })
}

test('rejects damage in additional components of a sparse tensor like load', async (t) => {
  const { m, k } = sparse10()
  const other = { bytes: f32s(5), digest: digestOf('crc32c', f32s(6)) }
  for (const [name, one] of Object.entries({ m, k })) {
    const file = openSync(zt10({ [name]: { ...one, components: { ...one.components, other } } }))
    const { failures, checked } = await file.verify()
    t.deepEqual(
      failures.map(({ code, tensor, component }) => [code, tensor, component]),
      [['ZT_DIGEST_MISMATCH', name, 'other']],
    )
    t.is(checked, 1)
    t.deepEqual(await verifiedAsLoaded(file), [])
    file.close()
  }
})

test('rejects a wrong digest of no bytes', async (t) => {
  const none = { bytes: Buffer.alloc(0), digest: digestOf('crc32c', Buffer.from('other')) }
  for (const made of [zt10({ w: square10({ shape: [0] }, none) }), zt12({ w: square12({ shape: [0] }, none) })]) {
    for (const source of [made, scratchFile(made, 'empty.zt')]) {
      const file = openSync(source)
      t.is((await rejectionOf(() => file.load()))?.code, 'ZT_DIGEST_MISMATCH')
      t.deepEqual(await verifiedAsLoaded(file), [])
      file.close()
    }
  }
})

test('the tables contain the stated cases', (t) => {
  t.is(MAGIC_01.length, 8)
  const loads = Object.entries(FILES).filter(([, build]) => opened(build(FRAMES['a frame'])) !== undefined)
  t.true(loads.length >= 9, loads.map(([location]) => location).join())
})
