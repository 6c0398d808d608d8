// HDF5 (HDF5 File Format Specification 3.0), whose checksums none of these have: superblock 0, object headers of version 1.
import { deflateSync } from 'node:zlib'
import * as h from './hdf5.mjs'
import { failing, lost, warningOf } from './lost.mjs'
import { f32s } from './zt.mjs'
import { frame } from './zstd.mjs'

const { DATA, DATASET, INDEX, NONE, ROOT, VALUES, dataset, hdf5, header, link, tree, TYPES } = h
const refused = (name, bytes, code, error) => ({ name, bytes, code, error })
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['w'], data: { w: VALUES }, ...more })
const damaged = (name, bytes, code, warnings) => ({
  name,
  bytes,
  names: ['w'],
  warnings,
  uses: [{ call: 'load', tensor: 'w', code, error: { tensor: 'w' } }],
})
const warned = (code, tensor) => [{ code, ...(tensor && { tensor }) }]
/** An object beyond the limits: a warning, and no damage. */
const skipped = (name, change) => ({ name, bytes: hdf5(change), names: [], warnings: warned('ZT_WARN_SKIPPED') })
/** A tensor without readable values. */
const unread = (name, bytes, code, more) => ({
  name,
  bytes,
  names: ['w'],
  warnings: warned(warningOf(code), 'w'),
  uses: [{ call: 'load', tensor: 'w', code, error: { tensor: 'w' } }, { call: 'data', tensor: 'w', code }, ...failing(code, 'w')],
  ...more,
})
/** A tensor whose attribute cannot be read. */
const partly = (name, bytes, code) =>
  opens(name, bytes, { warnings: warned(warningOf(code), 'w'), uses: failing(code, 'w') })
const untyped = (name, kind, dims) => ({
  name: `no dtype: ${name}`,
  bytes: hdf5({ kind, dims }),
  names: ['w'],
  warnings: warned('ZT_WARN_UNKNOWN_TYPE', 'w'),
  uses: [
    { call: 'component', tensor: 'w', role: 'data' },
    { call: 'data', tensor: 'w', code: 'ZT_BAD_DTYPE' },
  ],
})
const rooted = (name, links, names, more) => ({ name, bytes: hdf5({ root: header(links) }), names, ...more })
/** Two links with one path: none is lost, and verify() fails. */
const twice = (name, links, names, at = {}) => ({
  name,
  bytes: hdf5({ root: header(links), at }),
  names,
  data: Object.fromEntries(names.map((one) => [one, VALUES])),
  warnings: [...warned('ZT_WARN_RENAMED', names[1]), ...warned('ZT_WARN_DAMAGED', names[1])],
  uses: failing('ZT_BAD_INDEX', names[1]),
})
/** Objects whose headers continue in the same 64 attributes, none of which can be read. */
const sharedProblems = (count) => {
  const broken = h.message(12, Buffer.from([3, 0, 255, 0, 1, 0, 1, 0]))
  const own = header([h.space(2, 3), h.type(), h.contiguous(), h.continuation(1 << 20, 64 * broken.length)])
  const offsets = Array.from({ length: count }, (_, at) => 8192 + at * own.length)
  return hdf5({
    block: h.superblock({ root: 1 << 19 }),
    at: {
      ...Object.fromEntries(offsets.map((offset) => [offset, own])),
      [1 << 19]: header(offsets.map((offset) => link(`w${offset}`, offset))),
      [1 << 20]: Buffer.concat(Array(64).fill(broken)),
    },
  })
}
/** A dataset of [3, 2] that may grow to [3, 4], in chunks of [2, 2]: its second chunk is the third of the index. */
const resizable = (index, address, at = {}) =>
  hdf5({
    header: header([h.growing([3, 2], [3, 4]), h.type(), h.chunked4([2, 2], index, address)]),
    data: Buffer.concat([f32s(1, 2, 3, 4), Buffer.alloc(16), f32s(5, 6, 0, 0), Buffer.alloc(16)]),
    at,
  })
const of = (name, change, code) => refused(name, hdf5(change), code)
const badLayout = (name, layout, code, more) => unread(`layout: ${name}`, hdf5({ layout, ...more }), code)
/** Chunks of [2, 2] in [2, 3]: the first two columns, and the last one with other bytes after it. */
const CHUNKS = [f32s(1, 2, 4, 5), f32s(3, 0, 6, 0)]
const CHUNK = CHUNKS[0].length
const two = (first = {}, second = {}) =>
  tree(2, [
    { offsets: [0, 0], address: DATA, size: CHUNK, ...first },
    { offsets: [0, 2], address: DATA + CHUNK, size: CHUNK, ...second },
  ])
const chunks = (change = {}, index = two()) =>
  hdf5({ layout: h.chunked([2, 2]), data: Buffer.concat(CHUNKS), ...change, at: { [INDEX]: index, ...change.at } })
const filtered = (stored, ...list) =>
  hdf5({
    layout: h.chunked([2, 3]),
    more: [h.filters(...list)],
    data: stored,
    at: { [INDEX]: tree(2, [{ address: DATA, size: stored.length }]) },
  })
const DEFLATED = deflateSync(h.ELEMENTS)
const shuffled = Buffer.from(h.ELEMENTS.map((_, at) => h.ELEMENTS[(at % 6) * 4 + Math.floor(at / 6)]))
const texts = (data, heap = h.globalHeap('text')) =>
  hdf5({ more: [h.attribute('a', { type: h.TEXTS, data })], at: { [INDEX]: heap } })

/** A dataset after everything else, whose attribute has a type that may be long. */
const deepAttribute = (type) => {
  const own = h.dataset({ more: [h.attribute('a', { type, data: f32s(1) })] })
  return hdf5({ root: header([h.link('w', 4096)]), at: { 4096: own } })
}

export const cases = [
  opens('valid: contiguous', hdf5()),
  // Version 1 is 4 bytes longer, so that the root group moves.
  opens(
    'valid: superblock 1',
    hdf5({
      block: h.superblock({ version: 1, root: 104 }),
      root: Buffer.alloc(0),
      at: { 104: header([link('w', DATASET)]) },
    }),
  ),
  opens('valid: behind a user block', Buffer.concat([Buffer.alloc(512), hdf5()])),
  opens('valid: big-endian', hdf5({ kind: TYPES.big, data: Buffer.from(h.ELEMENTS).swap32() })),
  opens('valid: compact', hdf5({ layout: h.compact(h.ELEMENTS) })),
  opens('valid: in chunks', chunks()),
  opens('valid: a tree of two levels', chunks({ at: { 3328: two() } }, tree(2, [{ address: 3328 }], { level: 1 }))),
  opens('valid: a chunk outside of the dataset is left', chunks({}, two({}, { offsets: [0, 2] }))),
  opens('valid: chunks that were never written', chunks({ more: [h.fill(f32s(9))] }, tree(2, [{ address: DATA, size: CHUNK }])), {
    data: { w: [1, 2, 9, 4, 5, 9] },
  }),
  opens('valid: data that was never written', hdf5({ layout: h.contiguous(NONE, 0), more: [h.fill(f32s(7))] }), {
    data: { w: [7, 7, 7, 7, 7, 7] },
  }),
  opens('valid: no index', hdf5({ layout: h.chunked([2, 2], NONE) }), { data: { w: [0, 0, 0, 0, 0, 0] } }),
  opens('valid: one chunk, layout 4', hdf5({ layout: h.chunked4([2, 3], [[1]], DATA) })),
  opens('valid: implicit chunks', hdf5({ layout: h.chunked4([1, 3], [[2]], DATA) })),
  opens('valid: chunks at the edge without filters', (() => {
    const first = deflateSync(CHUNKS[0])
    const layout = h.chunked([2, 2])
    return hdf5({
      layout,
      more: [h.filters([1, 6])],
      data: Buffer.concat([first, CHUNKS[1]]),
      at: {
        [INDEX]: tree(2, [
          { address: DATA, size: first.length },
          { offsets: [0, 2], address: DATA + first.length, size: CHUNK, mask: 1 },
        ]),
      },
    })
  })()),
  opens('valid: deflated', filtered(DEFLATED, [1, 6])),
  opens('valid: shuffled', filtered(shuffled, [2, 4])),
  opens('valid: zstd', filtered(frame(h.ELEMENTS), [32_015])),
  opens('valid: shuffled and deflated', filtered(deflateSync(shuffled), [2, 4], [1, 6])),
  opens('valid: arrays as elements', hdf5({ dims: [2], kind: h.arrayOf(12, 3) })),
  opens('valid: bfloat16', hdf5({ kind: TYPES.bfloat16, dims: [2], data: Buffer.from('803f0040', 'hex') }), {
    data: { w: [0x3f80, 0x4000] },
  }),
  opens('valid: float8', hdf5({ kind: TYPES.e4m3, dims: [1], data: Buffer.from([0x38]) }), { data: { w: [0x38] } }),
  opens('valid: complex', hdf5({ kind: TYPES.complex, dims: [3] })),
  opens('valid: bits', hdf5({ kind: TYPES.bits, dims: [1], data: Buffer.from([1, 0, 0, 0]) }), { data: { w: [1] } }),
  opens('valid: an attribute', hdf5({ more: [h.attribute('a', { data: f32s(1) })] })),
  opens('valid: a text in a heap', texts(h.reference(4, INDEX, 1))),
  opens('valid: an empty text', texts(h.reference(0, 0, 0))),
  opens('valid: an unknown message', hdf5({ more: [h.message(200, Buffer.alloc(8))] })),
  opens('valid: a message that is wrong, and not needed', hdf5({ more: [h.message(18, Buffer.from([9]))] })),
  rooted('valid: nothing', [h.message(10, Buffer.alloc(2))], []),
  rooted('valid: the same twice', [link('a', DATASET), link('b', DATASET)], ['a', 'b']),
  rooted('valid: a group in itself', [link('g', ROOT), link('w', DATASET)], ['w']),
  rooted('valid: a soft link', [link('w', DATASET), h.softLink('z', '/w')], ['w', 'z']),
  rooted('a soft link in a circle', [h.softLink('a', 'b'), h.softLink('b', '/a')], [], {
    warnings: [...warned('ZT_WARN_SKIPPED'), ...warned('ZT_WARN_SKIPPED')],
  }),
  // Each of 30,000 names in a path is a link whose own path has 60,000 bytes: 1.8 GB to look through in a file of 130 KB.
  of(
    'soft links that multiply',
    {
      block: h.superblock({ root: 8192 }),
      at: { 8192: header([h.softLink('x', '/'.repeat(60000)), h.softLink('a', 'x/'.repeat(30000))]) },
    },
    'ZT_LIMIT',
  ),
  rooted('a soft link to nowhere', [h.softLink('a', '/b/c')], [], { warnings: warned('ZT_WARN_SKIPPED') }),
  rooted('a soft link through a dataset', [link('w', DATASET), h.softLink('a', '/w/c')], ['w'], {
    warnings: warned('ZT_WARN_SKIPPED'),
  }),
  rooted('a link into another file', [h.externalLink('a', '/etc/passwd', '/x')], [], { warnings: warned('ZT_WARN_SKIPPED') }),
  rooted('a link of an unknown kind', [h.userLink('a')], [], { warnings: warned('ZT_WARN_SKIPPED') }),
  twice('a link name that appears twice', [link('w', DATASET), link('w', DATASET)], ['w', 'w~2']),
  twice(
    'a link name with a slash, and a link of a group',
    [link('g', 4096), link('g/w', DATASET)],
    ['g/w', 'g/w~2'],
    { 4096: header([link('w', DATASET)]) },
  ),
  ...[
    ['a link to no object', DATA, 'ZT_BAD_INDEX'],
    ['a link beyond the end', 1 << 30, 'ZT_TRUNCATED'],
    ['a link to no address', NONE, 'ZT_TRUNCATED'],
  ].map(([name, address, code]) => lost(name, hdf5({ root: header([link('w', address)]) }), code)),
  lost('an item vanishes: a link that is cut off next to others', hdf5({ root: header([link('w', DATASET), h.message(6, Buffer.from([1, 0, 200, 1]))]) }), 'ZT_TRUNCATED', { names: ['w'], data: { w: VALUES } }),
  lost('an item vanishes: an empty object header', hdf5({ header: header([]) }), 'ZT_BAD_INDEX'),
  lost('an item vanishes: an object header of zeros', hdf5({ header: Buffer.alloc(64) }), 'ZT_BAD_INDEX'),
  lost('an item vanishes: a header that ends before its messages', hdf5({ header: header([h.space(2, 3), h.type(), h.contiguous()], { size: 0 }) }), 'ZT_BAD_INDEX'),
  lost('an item vanishes: a dataset without a layout', hdf5({ header: header([h.space(2, 3), h.type()]) }), 'ZT_BAD_INDEX', {
    names: ['w'],
    warnings: warned('ZT_WARN_DAMAGED', 'w'),
  }),
  lost('an item vanishes: a dataset without a shape', hdf5({ header: header([h.type(), h.contiguous()]) }), 'ZT_BAD_INDEX'),
  lost('an item vanishes: a message beyond the header of a dataset', hdf5({ header: header([h.space(2, 3), h.type(), h.message(8, Buffer.alloc(8), { size: 65_528 })]) }), 'ZT_BAD_INDEX', {
    names: ['w'],
    warnings: [...warned('ZT_WARN_DAMAGED', 'w'), ...warned('ZT_WARN_DAMAGED', 'w')],
    uses: [{ call: 'load', tensor: 'w', code: 'ZT_BAD_INDEX' }],
  }),
  opens('a named type is not a tensor, and nothing is lost', hdf5({ root: header([link('t', 4096), link('w', DATASET)]), at: { 4096: header([h.type()]) } })),
  rooted('a link that is cut off', [h.message(6, Buffer.from([1, 0, 200, 1]))], [], { code: 'ZT_TRUNCATED' }),
  untyped('an integer of 3 bytes', TYPES.int24, [4]),
  untyped('an integer of 12 bits', TYPES.twelve, [4]),
  untyped('a float of VAX', TYPES.vax, [4]),
  untyped('a time', TYPES.time, [4]),
  lost('no type of any bytes', hdf5({ kind: TYPES.nothing }), 'ZT_BAD_INDEX'),
  untyped('a class that is not known', TYPES.class15, [4]),
  lost('types in types without end', hdf5({ kind: h.nested(40), dims: [6] }), 'ZT_BAD_INDEX'),
  lost('an array of another size than its elements', hdf5({ kind: h.arrayOf(8, 3), dims: [2] }), 'ZT_BAD_INDEX'),
  lost('a type that is cut off', hdf5({ header: header([h.space(6), h.message(3, TYPES.float32.subarray(0, 8)), h.contiguous()]) }), 'ZT_TRUNCATED'),
  of('superblock: version 9', { block: h.superblock({ version: 9 }) }, 'ZT_UNSUPPORTED_VERSION'),
  of('superblock: addresses of 3 bytes', { block: h.superblock({ sizes: [3, 8] }) }, ['ZT_UNSUPPORTED_VERSION', 'ZT_BAD_INDEX']),
  of('superblock: lengths of no bytes', { block: h.superblock({ sizes: [8, 0] }) }, ['ZT_UNSUPPORTED_VERSION', 'ZT_BAD_INDEX']),
  of('superblock: the root beyond the end', { block: h.superblock({ root: 2 ** 40 }) }, 'ZT_TRUNCATED'),
  of('superblock: no root', { block: h.superblock({ root: NONE }) }, 'ZT_TRUNCATED'),
  refused('superblock: cut off', hdf5().subarray(0, 40), 'ZT_TRUNCATED'),
  refused('cut off in the root group', hdf5().subarray(0, 120), 'ZT_TRUNCATED'),
  unread('cut off in the data', hdf5().subarray(0, DATA + 23), 'ZT_TRUNCATED'),
  of('header: version 7', { root: header([], { version: 7 }) }, 'ZT_BAD_INDEX'),
  of('header: beyond the end', { root: header([], { size: 1 << 20 }) }, 'ZT_TRUNCATED'),
  of('header: 4 GiB', { root: header([], { size: 0xffff_ffff }) }, 'ZT_TRUNCATED'),
  of('header: a message beyond it', { root: header([h.message(6, Buffer.alloc(8), { size: 65_528 })]) }, 'ZT_BAD_INDEX'),
  of('header: a circle of continuations', {
    root: header([h.continuation(DATASET, 24)]),
    at: { [DATASET]: h.continuation(DATASET, 24) },
  }, 'ZT_BAD_INDEX'),
  of('header: a continuation beyond the end', { root: header([h.continuation(1 << 30, 8)]) }, 'ZT_TRUNCATED'),
  partly('header: a shared message without a table', hdf5({
    more: [h.message(12, Buffer.from([3, 1, 0, 0, 0, 0, 0, 0, 0, 0]), { flags: 2 })],
  }), 'ZT_BAD_INDEX'),
  partly('header: a shared message of no object', hdf5({
    more: [h.message(12, Buffer.concat([Buffer.from([3, 2]), h.u64(1 << 30)]), { flags: 2 })],
  }), 'ZT_TRUNCATED'),
  lost('header: a dataset without a type', hdf5({ header: header([h.space(6), h.contiguous()]) }), 'ZT_BAD_INDEX'),
  skipped('shape: 2^53 bytes', { dims: [1n << 51n, 2] }),
  skipped('shape: a product beyond 2^64', { dims: [1n << 40n, 1n << 40n] }),
  skipped('shape: a dimension of 2^60', { dims: [1n << 60n] }),
  skipped('shape: 65 dimensions', { dims: Array(65).fill(1) }),
  badLayout('contiguous and too short', h.contiguous(DATA, 23), 'ZT_TRUNCATED'),
  badLayout('contiguous and beyond the end', h.contiguous(DATA + 4), 'ZT_TRUNCATED'),
  badLayout('contiguous at the end of all addresses', h.contiguous(-2n, 24), 'ZT_TRUNCATED'),
  badLayout('compact and too short', h.compact(h.ELEMENTS.subarray(0, 20)), 'ZT_TRUNCATED'),
  badLayout('compact and beyond its message', h.compact(h.ELEMENTS, 500), 'ZT_TRUNCATED'),
  { name: 'layout: an unknown class', bytes: hdf5({ layout: h.layout([3, 9]) }), names: [], warnings: warned('ZT_WARN_SKIPPED') },
  badLayout('chunks of another rank', h.chunked([2]), 'ZT_BAD_INDEX'),
  badLayout('chunks of no elements', h.chunked([0, 2]), 'ZT_BAD_INDEX'),
  badLayout('chunks of 4 GiB', h.chunked([65_536, 65_536]), 'ZT_BAD_INDEX'),
  badLayout('implicit chunks beyond the end', h.chunked4([2, 2], [[2]], DATA), 'ZT_TRUNCATED'),
  badLayout('one chunk beyond the end', h.chunked4([2, 3], [[1]], DATA + 4), 'ZT_TRUNCATED'),
  badLayout('an invalid fixed array', h.chunked4([2, 2], [[3, 10]], DATA), 'ZT_BAD_INDEX', { data: Buffer.alloc(512) }),
  badLayout('an invalid extensible array', h.chunked4([2, 2], [[4, 32, 4, 4, 16, 10]], DATA), 'ZT_BAD_INDEX', { data: Buffer.alloc(512) }),
  badLayout('an invalid tree of version 2', h.chunked4([2, 2], [[5, 0, 0, 0, 0, 0, 0]], DATA), 'ZT_BAD_INDEX', { data: Buffer.alloc(512) }),
  opens(
    'valid: a fixed array of a resizable dataset',
    resizable([[3, 10]], INDEX, {
      [INDEX]: h.fixedHeader(4, INDEX + 64),
      [INDEX + 64]: h.fixedBlock(INDEX, h.u64(DATA), h.u64(NONE), h.u64(DATA + 32), h.u64(NONE)),
    }),
  ),
  opens('valid: implicit chunks of a resizable dataset', resizable([[2]], DATA)),
  unread(
    'chunks: a fixed array of more elements than chunks',
    resizable([[3, 10]], INDEX, { [INDEX]: h.fixedHeader(1n << 27n, INDEX + 64) }),
    'ZT_BAD_INDEX',
  ),
  {
    name: 'chunks: a fixed array whose pages go beyond the file',
    bytes: hdf5({
      header: header([h.growing([1], [1 << 20]), h.type(), h.chunked4([1], [[3, 1]])]),
      at: {
        [INDEX]: h.fixedHeader(1 << 20, 4096, 1),
        4096: h.fixedBlock(INDEX, Buffer.alloc(1 << 16)),
      },
    }),
    names: ['w'],
    uses: [{ call: 'load', tensor: 'w', code: 'ZT_TRUNCATED' }, ...failing('ZT_TRUNCATED', 'w')],
  },
  unread('chunks: two with the same offset', chunks({}, two({}, { offsets: [0, 0] })), 'ZT_BAD_INDEX'),
  unread('chunks: beyond the end', chunks({}, two({}, { address: DATA + CHUNK + 4 })), 'ZT_TRUNCATED'),
  unread('chunks: at the end of all addresses', chunks({}, two({}, { address: -2n })), 'ZT_TRUNCATED'),
  unread('chunks: no tree', chunks({}, tree(2, [], { signature: 'TRUE' })), 'ZT_BAD_INDEX'),
  unread('chunks: a tree of groups', chunks({}, tree(2, [{ address: DATA }], { kind: 0 })), 'ZT_BAD_INDEX'),
  unread('chunks: a tree in itself', chunks({}, tree(2, [{ address: INDEX }], { level: 1 })), 'ZT_BAD_INDEX'),
  unread('chunks: the tree beyond the end', hdf5({ layout: h.chunked([2, 2], 1 << 30) }), 'ZT_TRUNCATED'),
  unread('a fill value of another size', hdf5({ layout: h.contiguous(NONE, 0), more: [h.fill(Buffer.alloc(3))] }), 'ZT_BAD_INDEX'),
  damaged('filters: an unknown one', filtered(DEFLATED, [32_001]), 'ZT_UNSUPPORTED_ENCODING', warned('ZT_WARN_UNKNOWN_ENCODING', 'w')),
  {
    name: 'filters: an unknown one, and a damaged index of chunks',
    bytes: hdf5({
      layout: h.chunked([2, 3]),
      more: [h.filters([32_001])],
      at: { [INDEX]: tree(2, [{ address: DATA, size: 24 }], { signature: 'TRUE' }) },
    }),
    names: ['w'],
    warnings: [...warned('ZT_WARN_UNKNOWN_ENCODING', 'w'), ...warned('ZT_WARN_DAMAGED', 'w')],
    uses: failing('ZT_BAD_INDEX', 'w'),
  },
  damaged('filters: szip', filtered(DEFLATED, [4, 141, 8]), 'ZT_UNSUPPORTED_ENCODING', warned('ZT_WARN_UNKNOWN_ENCODING', 'w')),
  damaged('filters: deflate that is damaged', filtered(Buffer.from(DEFLATED).fill(255, 4), [1, 6]), 'ZT_DECODE'),
  damaged('filters: deflate of other data', filtered(deflateSync(h.ELEMENTS.subarray(4)), [1, 6]), 'ZT_DECODE'),
  damaged('filters: a shuffle without a width', filtered(shuffled, [2]), 'ZT_DECODE'),
  damaged('filters: a shuffle of no width', filtered(shuffled, [2, 0]), 'ZT_DECODE'),
  damaged('filters: a checksum that is wrong', filtered(Buffer.concat([h.ELEMENTS, Buffer.from([1, 2, 3, 4])]), [3]), 'ZT_DIGEST_MISMATCH'),
  damaged('filters: two chunks that are damaged, the first of which is reported', hdf5({
    layout: h.chunked([2, 2]),
    more: [h.filters([3])],
    data: Buffer.concat([CHUNKS[0], Buffer.from([1, 2, 3, 4]), Buffer.alloc(3)]),
    at: { [INDEX]: two({ size: CHUNK + 4 }, { address: DATA + CHUNK + 4, size: 3 }) },
  }), 'ZT_DIGEST_MISMATCH'),
  damaged('filters: lzf that is damaged', filtered(Buffer.from([0x20, 0x00, 0x00, 0x01]), [32_000, 4, 1, 24]), 'ZT_DECODE'),
  damaged('data in other files', hdf5({ more: [h.externalFiles()] }), 'ZT_UNSUPPORTED_ENCODING', warned('ZT_WARN_UNKNOWN_ENCODING', 'w')),
  damaged('data in other datasets', hdf5({ layout: h.layout([4, 3], h.u64(0), [0, 0, 0, 0]) }), 'ZT_UNSUPPORTED_ENCODING', warned('ZT_WARN_UNKNOWN_ENCODING', 'w')),
  {
    name: 'much data of a small file that was never written',
    bytes: hdf5({ dims: [1 << 15, 1 << 15], layout: h.chunked([1, 1], NONE) }),
    names: ['w'],
    uses: [{ call: 'load', tensor: 'w', code: 'ZT_LIMIT' }],
  },
  {
    name: 'much data that was never written',
    bytes: hdf5({ dims: [1 << 20, 1 << 20], layout: h.chunked([1024, 1024], NONE) }),
    names: ['w'],
    uses: [{ call: 'load', tensor: 'w', code: 'ZT_LIMIT' }],
  },
  {
    name: 'problems of shared attributes count',
    bytes: sharedProblems(200),
    options: { maxIndexBytes: 1 << 20 },
    code: 'ZT_LIMIT',
  },
  {
    name: 'attribute: cut off, of a dataset of two names',
    bytes: hdf5({
      root: header([link('a', DATASET), link('b', DATASET)]),
      more: [h.message(12, Buffer.from([3, 0, 255, 0, 1, 0, 1, 0]))],
    }),
    names: ['a', 'b'],
    data: { a: VALUES, b: VALUES },
    warnings: warned('ZT_WARN_TRUNCATED', 'a'),
    uses: failing('ZT_TRUNCATED', 'a'),
  },
  ...[
    ['a link', h.message(6, Buffer.from([7, 0, 1, 97, ...h.u64(DATASET)])), ['w']],
    ['a shape', h.link('x', 4096), ['w']],
  ].map(([what, link, names]) =>
    lost(
      `an item vanishes: ${what} of an unknown version`,
      hdf5({ root: header([h.link('w', DATASET), link]), at: { 4096: header([h.message(1, Buffer.from([9, 1, 0, 0])), h.type(), h.contiguous()]) } }),
      'ZT_UNSUPPORTED_VERSION',
      { names },
    ),
  ),
  opens('attribute: version 9', hdf5({ more: [h.attribute('a', { data: f32s(1), version: 9 })] }), { warnings: warned('ZT_WARN_SKIPPED', 'w') }),
  opens('attribute: 7905 dimensions', deepAttribute(h.manyDimensions(31)), { warnings: warned('ZT_WARN_SKIPPED', 'w') }),
  opens('attribute: 33 dimensions', deepAttribute(h.arrayOf(4, ...Array(33).fill(1))), { warnings: warned('ZT_WARN_SKIPPED', 'w') }),
  partly('attribute: cut off', hdf5({ more: [h.message(12, Buffer.from([3, 0, 255, 0, 1, 0, 1, 0]))] }), 'ZT_TRUNCATED'),
  partly('attribute: fewer bytes than its shape', hdf5({
    more: [h.attribute('a', { shape: Buffer.concat([Buffer.from([2, 1, 0, 1]), h.u64(1 << 20)]), data: f32s(1) })],
  }), 'ZT_TRUNCATED'),
  partly('attribute: a text in no heap', texts(h.reference(4, DATA, 1)), 'ZT_BAD_INDEX'),
  partly('attribute: a text that the heap has not', texts(h.reference(4, INDEX, 9)), 'ZT_BAD_INDEX'),
  partly('attribute: a text longer than the heap says', texts(h.reference(400, INDEX, 1)), 'ZT_BAD_INDEX'),
  partly('attribute: a heap beyond the end', texts(h.reference(4, 1 << 30, 1)), 'ZT_TRUNCATED'),
]
