// zTensor 2: magic, footer, manifest, deterministic CBOR, names, root, objects, parts, blobs and the shard table.
import { encode, float16, float32, float64, nestedArrays, openArray, openMap, openText, pairs, raw, selfDescribed, tag, wide } from './cbor.mjs'
import { u64 } from './zt.mjs'
import { dense, deterministic, digestOf, file, footer, MAGIC, object, part, RULE } from './zt2.mjs'

const EIGHT = Buffer.from([1, 2, 3, 4, 5, 6, 7, 8])
const blobs = { 4096: EIGHT }
const W = dense('u8', [8], 4096, 8)
const valid = (more = {}) => file({ blobs, manifest: { objects: { w: W } }, ...more })
const VALID = valid()
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['w'], data: { w: [...EIGHT] }, ...more })
const refused = (name, bytes, code, rule, error = {}) => ({ name, bytes, code, error: { rule, ...error } })

/** A file whose manifest is exactly these bytes. */
const encoded = (...manifest) => file({ blobs, manifest: Buffer.concat(manifest.map((bytes) => Buffer.from(bytes))) })
/** A file whose root has these further pairs, after `objects` and in their own order. */
const root = (...entries) => encoded(encode(pairs([['objects', raw(deterministic({ w: W }))], ...entries])))
/** A file whose attributes hold this item. */
const attribute = (value) => root(['attributes', pairs([['a', value]])])
const one = (tensor) => file({ blobs, manifest: { objects: { w: tensor } } })
const data = (fields) => one(object([8], 'dense', { data: { ...part('u8', 4096, 8), ...fields } }))
const IN_W = { tensor: 'w' }
const IN_DATA = { tensor: 'w', component: 'data' }
const two = (a, b, more = {}) => file({ blobs: { 4096: Buffer.alloc(8192) }, manifest: { objects: { a, b }, ...more } })
const shard = (fields = {}) => ({ size: 1 << 20, digest: 'xxh3:00112233445566aa', ...fields })
const table = (shards) => file({ blobs, manifest: { objects: { w: W }, shards } })
const shifted = (bytes, by) => Buffer.concat([bytes.subarray(0, -40), Buffer.alloc(by), bytes.subarray(-40)])

export const cases = [
  // Frame
  opens('valid: one tensor', VALID),
  opens('valid: reserved bytes of the footer set', valid({ reserved: 0xffffffff })),
  opens('valid: bytes between manifest and footer', shifted(VALID, 100)),
  opens('valid: padding that is not zero', Buffer.concat([VALID.subarray(0, 5000), Buffer.from([1]), VALID.subarray(5001)])),
  { name: 'valid: no tensors', bytes: file({ manifest: { objects: {} } }), names: [] },
  { name: 'valid: a data shard', bytes: Buffer.concat([MAGIC, Buffer.alloc(8192), footer()]), names: [], warnings: [{ code: 'ZT_WARN_DATA_SHARD' }], uses: [{ call: 'verify', code: 'ZT_INCOMPLETE' }] },
  { name: 'valid: a data shard of 48 bytes', bytes: Buffer.concat([MAGIC, footer()]), names: [], warnings: [{ code: 'ZT_WARN_DATA_SHARD' }], uses: [{ call: 'verify', code: 'ZT_INCOMPLETE' }] },
  refused('47 bytes', Buffer.concat([MAGIC, footer().subarray(1)]), 'ZT_TRUNCATED', RULE.file),
  refused('the magic alone', MAGIC, 'ZT_TRUNCATED', RULE.file),
  { name: 'a first byte stripped to 7 bits', bytes: valid({ header: Buffer.from('095a54320d0a1a0a', 'hex') }), code: 'ZT_BAD_MAGIC' },
  { name: 'line endings translated in the first magic', bytes: valid({ header: Buffer.from('895a54320a1a0a00', 'hex') }), code: 'ZT_BAD_MAGIC' },
  refused('another magic at the end', valid({ magic: Buffer.from('895a54330d0a1a0a', 'hex') }), 'ZT_TRUNCATED', RULE.magic),
  refused('one byte too short', VALID.subarray(0, -1), 'ZT_TRUNCATED', RULE.magic),
  refused('an append that broke off', Buffer.concat([VALID, Buffer.alloc(4096)]), 'ZT_TRUNCATED', RULE.magic),
  ...[0, 1, 3, 0xffffffff].map((version) => refused(`version ${version}`, valid({ version }), 'ZT_UNSUPPORTED_VERSION', RULE.footer)),
  refused('a data shard whose footer has an offset', Buffer.concat([MAGIC, footer({ offset: 4096 })]), 'ZT_BAD_INDEX', RULE.dataShards),
  refused('a data shard whose footer has a hash', Buffer.concat([MAGIC, footer({ hash: 1 })]), 'ZT_BAD_INDEX', RULE.dataShards),
  refused('manifest of 1 GiB and a byte', valid({ length: (1 << 30) + 1 }), 'ZT_LIMIT', RULE.encoding),
  refused('manifest of 2^64 - 1 bytes', valid({ length: (1n << 64n) - 1n }), 'ZT_LIMIT', RULE.encoding),
  { name: 'manifest larger than maxIndexBytes', bytes: VALID, options: { maxIndexBytes: 16 }, code: 'ZT_LIMIT' },
  refused('manifest beyond the end', valid({ offset: 1 << 20 }), 'ZT_OUT_OF_BOUNDS', RULE.blobs),
  refused('manifest over the footer', valid({ length: 4096 }), 'ZT_OUT_OF_BOUNDS', RULE.blobs),
  refused('manifest at an offset that wraps', valid({ offset: (1n << 64n) - 4096n }), 'ZT_OUT_OF_BOUNDS', RULE.blobs),
  refused('manifest off the pages', file({ manifest: { objects: {} }, at: 4100 }), 'ZT_BAD_INDEX', RULE.blobs),
  refused('manifest at offset 0', valid({ offset: 0 }), 'ZT_BAD_INDEX', RULE.blobs),
  refused('manifest of another hash', valid({ hash: 1 }), 'ZT_DIGEST_MISMATCH', RULE.footer),
  refused('a byte of the manifest changed', Buffer.concat([VALID.subarray(0, 8192), Buffer.from([0xa2]), VALID.subarray(8193)]), 'ZT_DIGEST_MISMATCH', RULE.footer),

  // Deterministic CBOR
  refused('bytes after the root', encoded(deterministic({ objects: {} }), [0]), 'ZT_BAD_INDEX', RULE.encoding),
  refused('a truncated root', encoded(deterministic({ objects: {} }).subarray(0, -1)), 'ZT_BAD_INDEX', RULE.encoding),
  refused('the root of indefinite length', encoded(encode(openMap([['objects', {}]]))), 'ZT_BAD_INDEX', RULE.encoding),
  refused('the root with the tag of CBOR', encoded(encode(selfDescribed({ objects: {} }))), 'ZT_BAD_INDEX', RULE.encoding),
  refused('the root with a wide head', encoded(encode(wide({ objects: {} }, 1))), 'ZT_BAD_INDEX', RULE.encoding),
  refused('keys in the wrong order', encoded(encode(pairs([['objects', {}], ['shards', {}]]))), 'ZT_BAD_INDEX', RULE.encoding),
  refused('a longer key before a shorter one', encoded(encode(pairs([['attributes', {}], ['objects', {}]]))), 'ZT_BAD_INDEX', RULE.encoding),
  refused('a key twice', encoded(encode(pairs([['objects', {}], ['objects', {}]]))), 'ZT_BAD_INDEX', RULE.encoding),
  refused('a name twice', encoded(encode(pairs([['objects', pairs([['w', raw(deterministic(W))], ['w', raw(deterministic(W))]])]]))), 'ZT_BAD_INDEX', RULE.encoding),
  refused('a key of a kind that is ignored twice', encoded(encode(pairs([[1, 0], [1, 0], ['objects', {}]]))), 'ZT_BAD_INDEX', RULE.encoding),
  refused('a text that is not UTF-8', attribute(raw(0x61, 0xff)), 'ZT_BAD_INDEX', RULE.encoding),
  ...[
    ['an integer a byte too wide', wide(5, 1)],
    ['an integer of 2 bytes below 256', wide(255, 2)],
    ['an integer of 8 bytes below 2^32', wide(0xffffffff, 8)],
    ['a negative integer too wide', wide(-1, 1)],
    ['a text with a wide head', wide('a', 1)],
    ['an array with a wide head', wide([1], 2)],
    ['an array of indefinite length', openArray([1])],
    ['a text of indefinite length', openText('a')],
    ['a tag', tag(0, 'now')],
    ['a bignum', raw(0xc2, 0x41, 0x01)],
    ['undefined', raw(0xf7)],
    ['a simple value', raw(0xe0)],
    ['a reserved head', raw(0x1c)],
    ['a double that is a half', float64(1.5)],
    ['a single that is a half', float32(1.5)],
    ['a double that is a single', float64(16777216 * 3)],
    ['a NaN with a payload', float16(0x7e01)],
    ['a negative NaN', float16(0xfe00)],
    ['a NaN as a single', raw(0xfa, 0x7f, 0xc0, 0, 0)],
    ['a map in the wrong order', pairs([['b', 0], ['a', 0]])],
    ['a map with a key twice', pairs([['a', 0], ['a', 1]])],
    ['values 33 levels below the root', nestedArrays(32)],
  ].map(([name, value]) => refused(`in an attribute: ${name}`, attribute(value), 'ZT_BAD_INDEX', RULE.encoding)),
  ...[
    ['a tag', tag(1, 0)],
    ['a double that is a half', float64(1)],
    ['a key twice', pairs([['a', 0], ['a', 1]])],
    ['values 33 levels below the root', nestedArrays(33)],
  ].map(([name, value]) => refused(`under a key that is ignored: ${name}`, root(['z-unknown', value]), 'ZT_BAD_INDEX', RULE.encoding)),
  opens('valid: values 32 levels below the root', attribute(nestedArrays(31))),
  opens('valid: attributes of every kind', attribute([0, -1, 2n ** 64n - 1n, 'x', Buffer.from([1]), true, false, null, float16(0x3e00), float16(0x7e00), raw(deterministic({ b: 1, aa: 2 }))])),
  opens('valid: keys that are ignored', encoded(encode(pairs([[3, 'x'], [raw(0x41, 0x00), []], ['objects', raw(deterministic({ w: W }))], ['z-unknown', [1, { k: null }]]])))),

  // The root
  refused('the root an array', encoded([0x80]), 'ZT_BAD_INDEX', RULE.root),
  refused('objects absent', encoded([0xa0]), 'ZT_BAD_INDEX', RULE.root),
  refused('objects an array', encoded(deterministic({ objects: [] })), 'ZT_BAD_INDEX', RULE.root),
  refused('objects null', encoded(deterministic({ objects: null })), 'ZT_BAD_INDEX', RULE.root),
  refused('attributes a number', root(['attributes', 7]), 'ZT_BAD_INDEX', RULE.root),
  refused('attributes null', root(['attributes', null]), 'ZT_BAD_INDEX', RULE.root),
  refused('attribute key a number', root(['attributes', pairs([[1, 0]])]), 'ZT_BAD_INDEX', RULE.encoding),
  ...[['empty', ''], ['with U+0000', 'a\0b'], ['of 1025 bytes', 'k'.repeat(1025)]].flatMap(([kind, name]) => [
    refused(`attribute key ${kind}`, root(['attributes', pairs([[name, 0]])]), 'ZT_BAD_INDEX', RULE.names),
    refused(`tensor name ${kind}`, file({ blobs, manifest: { objects: { [name]: W } } }), 'ZT_BAD_INDEX', RULE.names, { tensor: name }),
    refused(`part name ${kind}`, one(object([8], 'x.y/1', { [name]: part('u8', 4096, 8) })), 'ZT_BAD_INDEX', RULE.names, { component: name }),
    refused(`a tensor's attribute key ${kind}`, one({ ...W, attributes: { [name]: 0 } }), 'ZT_BAD_INDEX', RULE.names, IN_W),
  ]),
  { name: 'valid: a name of 1024 bytes', bytes: file({ blobs, manifest: { objects: { ['é'.repeat(512)]: W } } }), names: ['é'.repeat(512)] },
  { name: 'valid: names that are not in Normalization Form C', bytes: file({ blobs, manifest: { objects: { 'e\u0301': W } } }), names: ['e\u0301'] },
  { name: 'valid: names in the order of their bytes, shorter ones first', bytes: file({ blobs, manifest: { objects: { aaa: W, b: W, a: W } } }), names: ['a', 'b', 'aaa'] },
  refused('a name that is not text', encoded(encode(pairs([['objects', pairs([[1, raw(deterministic(W))]])]]))), 'ZT_BAD_INDEX', RULE.root),

  // Objects
  refused('an object a text', one('w'), 'ZT_BAD_INDEX', RULE.object, IN_W),
  ...['shape', 'layout', 'parts'].map((key) => refused(`${key} absent`, one({ ...W, [key]: undefined }), 'ZT_BAD_INDEX', RULE.object, IN_W)),
  refused('parts empty', one(object([8], 'x.y/1', {})), 'ZT_BAD_LAYOUT', RULE.object, IN_W),
  refused('shape a number', one({ ...W, shape: 8 }), 'ZT_BAD_INDEX', RULE.object, IN_W),
  refused('a dimension negative', one({ ...W, shape: [-8] }), 'ZT_BAD_INDEX', RULE.object, IN_W),
  refused('a dimension a float', one({ ...W, shape: [float16(0x4800)] }), 'ZT_BAD_INDEX', RULE.object, IN_W),
  refused('rank 65', one({ ...W, shape: Array(65).fill(1) }), 'ZT_BAD_SHAPE', RULE.object, IN_W),
  refused('elements past 2^64', one({ ...W, shape: [2n ** 64n - 1n, 2] }), 'ZT_BAD_SHAPE', RULE.object, IN_W),
  { name: 'a dimension past 2^53', bytes: one({ ...W, layout: 'x.y/1', shape: [2n ** 54n] }), code: 'ZT_LIMIT', error: IN_W },
  { name: 'valid: rank 64', bytes: one(dense('u8', Array(64).fill(1), 4096, 1)), names: ['w'], data: { w: [1] } },
  { name: 'valid: a scalar', bytes: one(dense('u8', [], 4096, 1)), names: ['w'], data: { w: [1] } },
  { name: 'valid: no elements', bytes: one(dense('f32', [0, 4], 4096, 0)), names: ['w'], data: { w: [] } },
  refused('layout a number', one({ ...W, layout: 1 }), 'ZT_BAD_INDEX', RULE.object, IN_W),
  refused('a layout by our own name', one(object([8], 'sparse_csr', { data: part('u8', 4096, 8) })), 'ZT_BAD_LAYOUT', RULE.layouts, IN_W),
  refused('attributes of a tensor a list', one({ ...W, attributes: [] }), 'ZT_BAD_INDEX', RULE.object, IN_W),

  // Parts
  refused('a part a list', one(object([8], 'dense', { data: [] })), 'ZT_BAD_INDEX', RULE.part, IN_DATA),
  ...['dtype', 'blob'].map((key) => refused(`${key} absent`, data({ [key]: undefined }), 'ZT_BAD_INDEX', RULE.part, IN_DATA)),
  ...['f4', 'bool', 'U8', ''].map((dtype) => refused(`dtype ${JSON.stringify(dtype)}`, data({ dtype }), 'ZT_BAD_DTYPE', RULE.storage, IN_DATA)),
  refused('type null', data({ type: null }), 'ZT_BAD_INDEX', RULE.part, IN_DATA),
  refused('bool over f32', one(dense('f32', [2], 4096, 8, { type: 'bool' })), 'ZT_BAD_DTYPE', RULE.logical, IN_DATA),
  refused('complex64 over f64', one(dense('f64', [1], 4096, 8, { type: 'complex64' })), 'ZT_BAD_DTYPE', RULE.logical, IN_DATA),
  ...[[4096], [4096, 8, 0], [], 4096, [4096, -1]].map((blob) => refused(`blob ${JSON.stringify(blob)}`, data({ blob }), 'ZT_BAD_INDEX', RULE.part, IN_DATA)),
  ...[0, 8, 2048, 4097].map((offset) => refused(`blob at ${offset}`, data({ blob: [offset, 8] }), 'ZT_BAD_INDEX', RULE.blobs, IN_DATA)),
  refused('an empty blob off the pages', one(dense('u8', [0], 4100, 0)), 'ZT_BAD_INDEX', RULE.blobs, IN_DATA),
  refused('an empty blob beyond the end', one(dense('u8', [0], 1 << 20, 0)), 'ZT_OUT_OF_BOUNDS', RULE.blobs, IN_DATA),
  refused('blob beyond the end', data({ blob: [1 << 20, 8] }), 'ZT_OUT_OF_BOUNDS', RULE.blobs, IN_DATA),
  refused('blob over the footer', file({ manifest: { objects: { w: dense('u8', [9], 8192, 9) } }, at: 4096, blobs: { 8192: EIGHT } }), 'ZT_OUT_OF_BOUNDS', RULE.blobs, IN_DATA),
  refused('blob that wraps', data({ blob: [2n ** 64n - 4096n, 8192] }), 'ZT_OUT_OF_BOUNDS', RULE.blobs, IN_DATA),
  refused('encoding without decoded_length', data({ encoding: 'x.z/1' }), 'ZT_BAD_INDEX', RULE.part, IN_DATA),
  refused('decoded_length without encoding', data({ decoded_length: 8 }), 'ZT_BAD_INDEX', RULE.part, IN_DATA),
  ...['xxh3', 'xxh3:', ':00', 'xxh3:00FF00FF00FF00FF', 'xxh3:00', 'XXH3:0011223344556677', 'sha256:00', 'md-5:00', 'md5:0x00'].map((digest) =>
    refused(`digest ${JSON.stringify(digest)}`, data({ digest }), 'ZT_BAD_DIGEST', RULE.part, IN_DATA),
  ),
  opens('valid: a digest of an unknown algorithm', data({ digest: 'blake3:00ff' }), { warnings: [{ code: 'ZT_WARN_UNKNOWN_DIGEST', tensor: 'w', component: 'data' }], uses: [{ call: 'verify', undigested: 1 }] }),
  opens('valid: its digest', data({ digest: digestOf(EIGHT) }), { uses: [{ call: 'verify', undigested: 0 }, { call: 'load', tensor: 'w', value: [...EIGHT] }] }),
  opens('another digest', data({ digest: 'xxh3:0000000000000000' }), {
    uses: ['load', 'verify', 'openVerify'].map((call) => ({ call, tensor: 'w', code: 'ZT_DIGEST_MISMATCH', error: { ...IN_DATA, rule: RULE.part } })),
  }),

  // Blobs of one file
  { name: 'valid: one blob under two names', bytes: two(dense('u8', [8], 4096, 8), dense('i8', [2, 4], 4096, 8)), names: ['a', 'b'], data: { a: Array(8).fill(0), b: Array(8).fill(0) } },
  { name: 'valid: empty blobs inside others', bytes: two(dense('u8', [8192], 4096, 8192), dense('u8', [0], 8192, 0)), names: ['a', 'b'] },
  { name: 'valid: the manifest as a tensor', bytes: file({ manifest: { objects: { w: dense('u8', [68], 4096, 68) } } }), names: ['w'] },
  refused('a blob inside another', two(dense('u8', [8192], 4096, 8192), dense('u8', [8], 8192, 8)), 'ZT_BAD_INDEX', RULE.blobs, { tensor: 'b' }),
  refused('blobs of one offset and two lengths', two(dense('u8', [8], 4096, 8), dense('u8', [9], 4096, 9)), 'ZT_BAD_INDEX', RULE.blobs, { component: 'data' }),
  refused('a blob over the manifest', file({ blobs, manifest: { objects: { w: dense('u8', [4097], 4096, 4097) } } }), 'ZT_BAD_INDEX', RULE.blobs, { tensor: 'w' }),

  // Shards
  opens('valid: a shard table', table({ base: shard() }), { options: { shards: 'none' } }),
  opens('valid: shard names of every character', table({ 'A-z_0.9': shard(), ['s'.repeat(64)]: shard({ digest: `sha256:${'0'.repeat(64)}` }) }), { options: { shards: 'none' } }),
  ...['', '.hidden', '..', '../up', 'a/b', 'a\\b', 'a b', 'é', 'a\0', 's'.repeat(65)].map((name) =>
    refused(`shard name ${JSON.stringify(name)}`, table({ [name]: shard() }), 'ZT_BAD_INDEX', RULE.shards),
  ),
  refused('shard name a number', table(new Map([[1, shard()]])), 'ZT_BAD_INDEX', RULE.shards),
  refused('shard table a list', table([]), 'ZT_BAD_INDEX', RULE.shards),
  refused('shard without a size', table({ base: shard({ size: undefined }) }), 'ZT_BAD_INDEX', RULE.shards),
  refused('shard without a digest', table({ base: shard({ digest: undefined }) }), 'ZT_BAD_INDEX', RULE.shards),
  refused('shard with a malformed digest', table({ base: shard({ digest: 'xxh3:ABCD' }) }), 'ZT_BAD_DIGEST', true),
  refused('shard smaller than any file', table({ base: shard({ size: 47 }) }), 'ZT_BAD_INDEX', RULE.shards),
  refused('a part in a shard without a table', data({ shard: 'base' }), 'ZT_BAD_INDEX', RULE.part, IN_DATA),
  refused('a part in a shard that is not in the table', file({ blobs, manifest: { objects: { w: dense('u8', [8], 4096, 8, { shard: 'other' }) }, shards: { base: shard() } } }), 'ZT_BAD_INDEX', RULE.part, IN_DATA),
  refused('a part beyond its shard', file({ manifest: { objects: { w: dense('u8', [8], 1 << 20, 8, { shard: 'base' }) }, shards: { base: shard() } } }), 'ZT_OUT_OF_BOUNDS', RULE.blobs, IN_DATA),
  refused("a part over its shard's footer", file({ manifest: { objects: { w: dense('u8', [4096], (1 << 20) - 4096, 4096, { shard: 'base' }) }, shards: { base: shard() } } }), 'ZT_OUT_OF_BOUNDS', RULE.blobs, IN_DATA),
  refused('parts that overlap in their shard', two(dense('u8', [8192], 4096, 8192, { shard: 'base' }), dense('u8', [8], 8192, 8, { shard: 'base' }), { shards: { base: shard() } }), 'ZT_BAD_INDEX', RULE.blobs, { tensor: 'b' }),
  refused('the size of a manifest instead of its offset', Buffer.concat([VALID.subarray(0, -40), u64(8), VALID.subarray(-32)]), 'ZT_BAD_INDEX', RULE.blobs),
]
