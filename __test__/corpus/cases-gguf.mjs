// Malformed GGUF files.
import { gguf } from '../helpers/gguf-writer.mjs'

const one = (tensor) => gguf({ tensors: [{ name: 't', ...tensor }] })
const part = (no, count, total) => [
  ['split.no', 'u16', no],
  ['split.count', 'u16', count],
  ['split.tensors.count', 'i32', total],
]
const REFUSED = {
  'another magic': [gguf({ magic: 'GGML' }), 'ZT_BAD_MAGIC'],
  'version 4': [gguf({ version: 4 }), 'ZT_UNSUPPORTED_VERSION'],
  'version 0': [gguf({ version: 0 }), 'ZT_UNSUPPORTED_VERSION'],
  'more metadata than there is': [gguf({ metadataCount: 5 }), 'ZT_TRUNCATED'],
  'a huge count of metadata': [gguf({ metadataCount: 2n ** 63n }), 'ZT_LIMIT'],
  'a huge count of tensors': [gguf({ tensorCount: 2n ** 63n }), 'ZT_TRUNCATED'],
  'a key twice': [
    gguf({
      metadata: [
        ['k', 'u8', 1],
        ['k', 'u8', 2],
      ],
    }),
    'ZT_BAD_INDEX',
  ],
  'a key that is not UTF-8': [Buffer.from(gguf({ metadata: [['k', 'u8', 1]] })).fill(0xff, 32, 33), 'ZT_BAD_INDEX'],
  'an unknown type of metadata': [gguf({ metadata: [['k', 13, Buffer.alloc(8)]] }), 'ZT_BAD_INDEX'],
  'an array of an unknown type': [gguf({ metadata: [['k', 'array', [99, [], 0]]] }), 'ZT_BAD_INDEX'],
  'a huge array': [gguf({ metadata: [['k', 'array', ['u64', [], 2n ** 63n]]], tail: 64 }), 'ZT_TRUNCATED'],
  'a huge array of texts': [gguf({ metadata: [['k', 'array', ['string', [], 2n ** 62n]]], tail: 64 }), 'ZT_TRUNCATED'],
  'arrays too deep': [gguf({ metadata: [['k', 'array', nested(40)]] }), 'ZT_LIMIT'],
  'a text beyond the end': [gguf({ metadata: [['k', 'string', Buffer.alloc(8, 0x7f)]], tail: 64 }), 'ZT_TRUNCATED'],
  'an alignment of 0': [gguf({ metadata: [['general.alignment', 'u32', 0]] }), 'ZT_BAD_INDEX'],
  'an alignment of 48': [gguf({ metadata: [['general.alignment', 'u32', 48]] }), 'ZT_BAD_INDEX'],
  'an alignment beyond 32 bits': [gguf({ metadata: [['general.alignment', 'u64', 2n ** 63n]] }), 'ZT_BAD_INDEX'],
  'an alignment that is text': [gguf({ metadata: [['general.alignment', 'string', '32']] }), 'ZT_BAD_INDEX'],
  'too many dimensions': [one({ dims: Array(65).fill(1) }), 'ZT_LIMIT'],
  'a huge dimension': [one({ dims: [2n ** 63n] }), 'ZT_LIMIT'],
  'a shape beyond 64 bits': [one({ dims: [2n ** 40n, 2n ** 40n] }), 'ZT_LIMIT'],
  'rows that are not whole blocks': [one({ shape: [32, 1], type: 8, data: Buffer.alloc(34) }), 'ZT_BAD_SHAPE'],
  'a scalar of blocks': [one({ dims: [], type: 8, data: Buffer.alloc(34) }), 'ZT_BAD_SHAPE'],
  'data beyond the end': [one({ shape: [100] }), 'ZT_TRUNCATED'],
  'blocks beyond the end': [
    one({ shape: [2, 32], type: 8, data: Buffer.alloc(34), offset: 0, dims: [32, 20] }),
    'ZT_TRUNCATED',
  ],
  'an offset beyond 64 bits': [one({ offset: 2n ** 64n - 32n }), 'ZT_BAD_INDEX'],
  'an offset that is not aligned': [one({ offset: 4, data: Buffer.alloc(64) }), 'ZT_BAD_INDEX'],
  'a name twice': [gguf({ tensors: [{ name: 't' }, { name: 't' }] }), 'ZT_BAD_INDEX'],
  'a part beyond its set': [gguf({ metadata: part(3, 3, 5) }), 'ZT_BAD_INDEX'],
}

function nested(depth) {
  return depth === 0 ? ['u8', [1]] : ['array', [nested(depth - 1)]]
}

export const cases = Object.entries(REFUSED).map(([name, [bytes, code]]) => ({
  name,
  bytes,
  code,
  options: { format: 'gguf' },
}))
