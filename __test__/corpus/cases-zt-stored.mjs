// zTensor 1.0 to 1.2: digests and encodings, the faults of stored bytes. Sections are those of the 1.0 specification.
import { createHash } from 'node:crypto'
import { f32s, SQUARE, square01, square10, square12, zt01, zt10, zt12 } from './zt.mjs'
import { bomb, frame, sealedFrame, seekable, skippable } from './zstd.mjs'

const SQUARE_VALUES = [1, 2, 3, 4]
const sha256 = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const GOOD = sha256(SQUARE)
const WRONG = sha256(Buffer.from('other bytes'))
// CRC-32C of SQUARE, computed bit by bit with the Castagnoli polynomial (reflected 0x82f63b78).
function crc32c(bytes) {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1
  }
  return (crc ^ 0xffffffff) >>> 0
}
const hex8 = (value) => (value >>> 0).toString(16).padStart(8, '0')
const CRC = hex8(crc32c(SQUARE))

const digest10 = (digest, component = {}) => zt10({ w: square10({}, { digest, ...component }) })
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['w'], data: { w: SQUARE_VALUES }, ...more })
const malformed = (what, digest) => ({
  name: `digest ${what}`,
  bytes: digest10(digest),
  code: 'ZT_BAD_DIGEST',
  error: { tensor: 'w', component: 'data', rule: true },
})
const IN_W = { tensor: 'w', component: 'data' }

const mismatch = (name, bytes) =>
  opens(name, bytes, {
    uses: [
      { call: 'load', tensor: 'w', code: 'ZT_DIGEST_MISMATCH', error: IN_W },
      { call: 'loadComponent', tensor: 'w', role: 'data', code: 'ZT_DIGEST_MISMATCH', error: IN_W },
      { call: 'verify', code: 'ZT_DIGEST_MISMATCH', error: IN_W },
      { call: 'openVerify', code: 'ZT_DIGEST_MISMATCH', error: IN_W },
    ],
  })

/** A tensor whose stored bytes do not decode to its contents: it opens, and every way of reading it reports that. */
const undecodable = (name, bytes, code = 'ZT_DECODE') => ({
  name,
  bytes,
  names: ['w'],
  uses: [
    { call: 'data', tensor: 'w', code, error: { tensor: 'w' } },
    { call: 'load', tensor: 'w', code, error: { tensor: 'w' } },
    { call: 'verify', code, error: { tensor: 'w' } },
  ],
})
const zstd10 = (bytes, component = {}) => zt10({ w: square10({}, { bytes, encoding: 'zstd', ...component }) })

const [A, B, NOTHING] = [SQUARE.subarray(0, 7), SQUARE.subarray(7), Buffer.alloc(0)]
const SKIPPED = skippable(Buffer.from('anything'))
const joined = (...frames) => Buffer.concat(frames)
/** Frames that decode to SQUARE. The comments describe ztensor 0.1.4, 1.0.1 and 1.2.3, each with its own version. */
const SEQUENCES = {
  'two frames': joined(frame(A), frame(B)),
  'two frames with their content sizes': joined(frame(A, { declared: 7 }), frame(B, { declared: 9 })),
  'frames with checksums': joined(sealedFrame(A), sealedFrame(B)),
  'frames of nothing around one': joined(frame(NOTHING), frame(SQUARE), frame(NOTHING, { declared: 0 })),
  'a skippable frame first': joined(SKIPPED, frame(SQUARE)),
  'a skippable frame last': joined(frame(SQUARE), skippable(NOTHING)),
  'a skippable frame of the last kind between two': joined(frame(A), skippable(Buffer.from('x'), 15), frame(B)),
  'the frames and seek table of zt.zstd-seekable/1': seekable([A, B]),
  'sixteen frames of a byte': joined(...[...SQUARE].map((byte) => frame(Buffer.from([byte])))),
  'a dictionary of number 0': frame(SQUARE, { dictionary: 0 }),
  'a window of 2^27': frame(SQUARE, { window: 27 }),
}
/** Bytes that are not such frames, and the expected error. The same three reject all of them, except as noted. */
const NO_SEQUENCES = {
  'bytes after two frames': [joined(frame(A), frame(B), Buffer.from('more')), 'ZT_DECODE'],
  'one byte after the frame': [joined(frame(SQUARE), Buffer.from('m')), 'ZT_DECODE'],
  'zeros after the frame': [joined(frame(SQUARE), Buffer.alloc(8)), 'ZT_DECODE'],
  'a skippable frame and no other': [SKIPPED, 'ZT_DECODE'], // 1.2.3 fills with zeros
  'frames of a byte too few': [joined(frame(A), frame(B.subarray(1))), 'ZT_DECODE'], // 1.2.3 fills with zeros
  'frames of a byte too many': [joined(frame(A), frame(SQUARE.subarray(6))), 'ZT_DECODE'],
  'a second frame that lost its last byte': [joined(frame(A), frame(B).subarray(0, -1)), 'ZT_DECODE'],
  'a second frame that lost its head': [joined(frame(SQUARE), frame(NOTHING).subarray(0, 4)), 'ZT_DECODE'],
  'a skippable frame that lost its last byte': [joined(frame(SQUARE), SKIPPED.subarray(0, -1)), 'ZT_DECODE'],
  'a skippable frame that lost its head': [joined(frame(SQUARE), SKIPPED.subarray(0, 7)), 'ZT_DECODE'],
  'a second frame of another size than it says': [joined(frame(A, { declared: 8 }), frame(B, { declared: 8 })), 'ZT_DECODE'],
  'a dictionary': [frame(SQUARE, { dictionary: 42 }), 'ZT_DECODE'],
  'a window of 2^28': [frame(SQUARE, { window: 28 }), 'ZT_LIMIT'],
  'a window of 2^28 with the content size': [frame(SQUARE, { window: 28, declared: 16 }), 'ZT_LIMIT'], // taken up to 32 bytes
  'a window of 2^31': [frame(SQUARE, { window: 31 }), 'ZT_LIMIT'],
  'a window of 2^41': [frame(SQUARE, { window: 41 }), 'ZT_LIMIT'],
  'a window of 2^28 in the second frame': [joined(frame(A), frame(B, { window: 28 })), 'ZT_LIMIT'],
  'a content size of 2^64 - 1': [frame(SQUARE, { declared: 2n ** 64n - 1n }), 'ZT_DECODE'],
  'a content size of 2^64 - 1 in a small window': [frame(SQUARE, { declared: 2n ** 64n - 1n, window: 20 }), 'ZT_DECODE'], // taken for none
  'content sizes that add up to 2^64 + 16': [joined(frame(A, { declared: 7 }), frame(B, { declared: 2n ** 64n - 7n })), 'ZT_DECODE'],
}
const VERSIONS = {
  0.1: (fields) => zt01([square01(fields)]),
  '1.0': (fields) => zt10({ w: square10({}, fields) }),
  1.2: (fields) => zt12({ w: square12({}, fields) }),
}

export const cases = [
  // §4.3 digest: algorithm:value
  malformed('empty', ''),
  malformed('without a colon', 'crc32c'),
  malformed('without a value', 'crc32c:'),
  malformed('without an algorithm', ':0x1a2b3c4d'),
  malformed('crc32c with no digits after 0x', 'crc32c:0x'),
  malformed('crc32c that is not hexadecimal', 'crc32c:0x1a2b3c4g'),
  malformed('crc32c of nine digits', 'crc32c:0x123456789'),
  malformed('crc32c with a sign', 'crc32c:-1a2b3c4'),
  malformed('crc32c with a space', 'crc32c: 0x1a2b3c4'),
  malformed('sha256 one digit short', GOOD.slice(0, -1)),
  malformed('sha256 one digit long', `${GOOD}0`),
  malformed('sha256 of two digits fewer', GOOD.slice(0, -2)),
  malformed('sha256 that is not hexadecimal', `${GOOD.slice(0, -1)}x`),
  malformed('sha256 of a character outside ASCII', `${GOOD.slice(0, -1)}é`),

  opens('valid: sha256', digest10(GOOD)),
  opens('valid: sha256 in capitals', digest10(`sha256:${GOOD.slice(7).toUpperCase()}`), { uses: [{ call: 'load', tensor: 'w', value: SQUARE_VALUES }] }),
  opens('valid: crc32c in small letters', digest10(`crc32c:0x${CRC}`), { uses: [{ call: 'load', tensor: 'w', value: SQUARE_VALUES }] }),
  opens('valid: crc32c in capitals', digest10(`crc32c:0x${CRC.toUpperCase()}`), { uses: [{ call: 'load', tensor: 'w', value: SQUARE_VALUES }] }),
  opens('digest of an unknown algorithm', digest10('md5:d41d8cd98f00b204e9800998ecf8427e'), {
    warnings: [{ code: 'ZT_WARN_UNKNOWN_DIGEST', ...IN_W }],
    uses: [{ call: 'load', tensor: 'w', value: SQUARE_VALUES }, { call: 'verify', undigested: 1 }],
  }),
  mismatch('sha256 of other bytes', digest10(WRONG)),
  mismatch('crc32c off by one bit', digest10(`crc32c:0x${hex8(crc32c(SQUARE) ^ 1)}`)),
  mismatch('sha256 of other bytes, in 1.2', zt12({ w: square12({}, { digest: WRONG }) })),
  opens('valid: digest of the compressed bytes', zstd10(frame(SQUARE), { digest: sha256(frame(SQUARE)) }), { uses: [{ call: 'load', tensor: 'w', value: SQUARE_VALUES }] }),
  {
    name: 'digest of the decoded bytes of a compressed component',
    bytes: zstd10(frame(SQUARE), { digest: GOOD }),
    names: ['w'],
    uses: [{ call: 'load', tensor: 'w', code: 'ZT_DIGEST_MISMATCH', error: IN_W }, { call: 'verify', code: 'ZT_DIGEST_MISMATCH' }],
  },

  // §4.3 encoding
  ...['lz4', '', 'RAW', 'zstd1'].map((encoding) => ({
    name: `encoding ${JSON.stringify(encoding)}`,
    bytes: zt10({ w: square10({}, { encoding }) }),
    names: ['w'],
    warnings: [{ code: 'ZT_WARN_UNKNOWN_ENCODING', ...IN_W }],
    uses: [
      { call: 'data', tensor: 'w', code: 'ZT_UNSUPPORTED_ENCODING', error: { tensor: 'w' } },
      { call: 'load', tensor: 'w', code: 'ZT_UNSUPPORTED_ENCODING', error: { tensor: 'w' } },
    ],
  })),
  opens('valid: explicit encoding raw', zt10({ w: square10({}, { encoding: 'raw' }) })),
  opens('valid: zstd without a content size', zstd10(frame(SQUARE))),
  opens('valid: zstd with its content size', zstd10(frame(SQUARE, { declared: 16 }))),

  undecodable('zstd that is not zstd', zstd10(Buffer.from('these bytes are no frame'))),
  undecodable('zstd of no bytes', zstd10(Buffer.alloc(0))),
  undecodable('zstd frame that lost its last byte', zstd10(frame(SQUARE).subarray(0, -1))),
  undecodable('zstd magic alone', zstd10(frame(SQUARE).subarray(0, 4))),
  undecodable('zstd frame of one element too few', zstd10(frame(f32s(1, 2, 3)))),
  undecodable('zstd frame of one element too many', zstd10(frame(f32s(1, 2, 3, 4, 5)))),
  undecodable('zstd frame of one byte too many', zstd10(frame(Buffer.concat([SQUARE, Buffer.alloc(1)])))),
  undecodable('zstd frame of nothing', zstd10(frame(Buffer.alloc(0)))),
  undecodable('bytes after the zstd frame', zstd10(Buffer.concat([frame(SQUARE), Buffer.from('more')]))),
  ...Object.entries(VERSIONS).flatMap(([version, file]) => [
    ...Object.entries(SEQUENCES).map(([what, bytes]) => opens(`valid: zstd: ${what}, in ${version}`, file({ bytes, encoding: 'zstd' }))),
    ...Object.entries(NO_SEQUENCES).map(([what, [bytes, code]]) => undecodable(`zstd: ${what}, in ${version}`, file({ bytes, encoding: 'zstd' }), code)),
  ]),
  undecodable('zstd content size of 12 for 16 bytes', zstd10(frame(SQUARE, { declared: 12 }))),
  undecodable('zstd content size of 2^63', zstd10(frame(SQUARE, { declared: 1n << 63n })), ['ZT_DECODE', 'ZT_LIMIT']),
  undecodable('zstd bomb: 16 MiB where 16 bytes should be', zstd10(bomb(1 << 24))),
  undecodable('zstd garbage with a digest that matches it', zstd10(Buffer.from('garbage'), { digest: sha256(Buffer.from('garbage')) })),
  {
    name: 'tensor larger than maxDecodedBytes',
    bytes: zt10({ w: { dtype: 'uint8', shape: [4096], format: 'dense', components: { data: { bytes: bomb(4096, 7), encoding: 'zstd' } } } }),
    options: { maxDecodedBytes: 1024 },
    names: ['w'],
    uses: [{ call: 'data', tensor: 'w', code: 'ZT_LIMIT' }, { call: 'load', tensor: 'w', code: 'ZT_LIMIT' }],
  },
  {
    name: 'zstd component of an unknown format larger than maxDecodedBytes',
    bytes: zt10({ q: { dtype: 'uint8', shape: [1], format: 'other', components: { data: { bytes: bomb(4096, 7), encoding: 'zstd' } } } }),
    options: { maxDecodedBytes: 1024 },
    names: ['q'],
    warnings: [{ code: 'ZT_WARN_UNKNOWN_LAYOUT' }],
    uses: [{ call: 'component', tensor: 'q', role: 'data', code: 'ZT_LIMIT' }, { call: 'loadComponent', tensor: 'q', role: 'data', code: 'ZT_LIMIT' }],
  },
  {
    name: 'valid: zstd component of an unknown format',
    bytes: zt10({ q: { dtype: 'uint8', shape: [1], format: 'other', components: { data: { bytes: bomb(5, 9), encoding: 'zstd' } } } }),
    names: ['q'],
    warnings: [{ code: 'ZT_WARN_UNKNOWN_LAYOUT' }],
    uses: [{ call: 'component', tensor: 'q', role: 'data', value: [9, 9, 9, 9, 9] }],
  },
]
