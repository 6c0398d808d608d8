// safetensors: the length, the JSON, the entries, and the rule that the byte buffer is indexed without holes or overlaps.
// `official: 'accepts'` marks the files that the reference reader accepts and we reject; `__test__/runners/interop.mjs` compares.
import { entry, safetensors } from './safetensors.mjs'
import { SQUARE, u64 } from './zt.mjs'

const SQUARE_VALUES = [1, 2, 3, 4]
const EIGHT = Buffer.from([1, 2, 3, 4, 5, 6, 7, 8])
const file = (header, data = SQUARE, more) => safetensors(header, data, more)
const one = (parts) => file(`{"w":${entry(parts)}}`)
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['w'], data: { w: SQUARE_VALUES }, ...more })
const refused = (name, parts, code, error = { tensor: 'w' }) => ({ name, bytes: one(parts), code, error })
const syntax = (name, header, data) => ({ name, bytes: file(header, data), code: 'ZT_BAD_INDEX' })
const WELL = `{"w":${entry()}}`
const bytes8 = (dtype, shape) => file(`{"q":${entry({ dtype: `"${dtype}"`, shape, offsets: '[0,8]' })}}`, EIGHT)
const two = (a, b, data = Buffer.concat([SQUARE, SQUARE])) => file(`{"a":${entry(a)},"b":${entry(b)}}`, data)

export const cases = [
  opens('valid: one float32 tensor', file(WELL)),

  // The length of the header
  { name: 'empty file', bytes: Buffer.alloc(0), code: 'ZT_TRUNCATED' },
  { name: 'seven bytes', bytes: Buffer.alloc(7), code: 'ZT_TRUNCATED', options: { format: 'safetensors' } },
  { name: 'header of no bytes', bytes: Buffer.alloc(8), code: ['ZT_BAD_INDEX', 'ZT_TRUNCATED'], options: { format: 'safetensors' } },
  { name: 'header longer than the file', bytes: file(WELL, SQUARE, { size: 4096 }), code: 'ZT_TRUNCATED' },
  { name: 'header one byte longer than the file', bytes: file('{} ', Buffer.alloc(0), { size: 4 }), code: 'ZT_TRUNCATED' },
  { name: 'header of exactly 100,000,000 bytes in a small file', bytes: file(WELL, SQUARE, { size: 100_000_000 }), code: 'ZT_TRUNCATED' },
  { name: 'header of 100,000,001 bytes', bytes: file(WELL, SQUARE, { size: 100_000_001 }), code: 'ZT_TRUNCATED' },
  { name: 'header of 2^63 bytes', bytes: file(WELL, SQUARE, { size: 1n << 63n }), code: 'ZT_TRUNCATED' },
  { name: 'header of 2^64 - 1 bytes', bytes: file(WELL, SQUARE, { size: (1n << 64n) - 1n }), code: 'ZT_TRUNCATED' },
  { name: 'header of 2^64 - 8 bytes: the sum wraps to 0', bytes: file(WELL, SQUARE, { size: (1n << 64n) - 8n }), code: 'ZT_TRUNCATED' },
  { name: 'header larger than maxIndexBytes', bytes: file(WELL), options: { maxIndexBytes: 16 }, code: 'ZT_LIMIT', official: 'accepts' },
  { name: 'length one short: cuts the last brace off', bytes: file(WELL, SQUARE, { size: WELL.length - 1 }), code: 'ZT_BAD_INDEX' },

  // The begin and the end of the header
  { name: 'leading space', bytes: file(` ${WELL}`), code: 'ZT_BAD_MAGIC', official: 'accepts' },
  { name: 'leading space, asked for as safetensors', bytes: file(` ${WELL}`), options: { format: 'safetensors' }, code: 'ZT_BAD_INDEX', official: 'accepts' },
  { name: 'byte order mark', bytes: file(`\ufeff${WELL}`), code: 'ZT_BAD_MAGIC' },
  { name: 'byte order mark, asked for as safetensors', bytes: file(`\ufeff${WELL}`), options: { format: 'safetensors' }, code: 'ZT_BAD_INDEX' },
  { name: 'header an array', bytes: file('[]', Buffer.alloc(0)), code: 'ZT_BAD_MAGIC' },
  { name: 'header an array, asked for as safetensors', bytes: file('[]', Buffer.alloc(0)), options: { format: 'safetensors' }, code: 'ZT_BAD_INDEX' },
  { name: 'header null, asked for as safetensors', bytes: file('null', Buffer.alloc(0)), options: { format: 'safetensors' }, code: 'ZT_BAD_INDEX' },
  opens('valid: trailing spaces', file(`${WELL}      `)),
  opens('valid: white space between all tokens', file(`{ "w" : { "dtype" : "F32" ,\n\t"shape" : [ 2 , 2 ] ,\r\n "data_offsets" : [ 0 , 16 ] } }`)),
  { name: 'valid: no tensors', bytes: file('{}', Buffer.alloc(0)), names: [] },
  { name: 'valid: metadata alone', bytes: file('{"__metadata__":{"a":"b"}}', Buffer.alloc(0)), names: [] },
  syntax('zero bytes as padding', `${WELL}\0\0\0`),
  syntax('a second object', `${WELL}{}`),
  syntax('a comma after the object', `${WELL},`),
  syntax('an opening brace alone', '{', Buffer.alloc(0)),

  // JSON
  syntax('trailing comma in the header', `{"w":${entry()},}`),
  syntax('trailing comma in the entry', `{"w":${entry({ more: ',' })}}`),
  syntax('trailing comma in the shape', `{"w":${entry({ shape: '[2,2,]' })}}`),
  syntax('two commas', `{"w":${entry({ shape: '[2,,2]' })}}`),
  syntax('missing comma', `{"w":${entry({ shape: '[2 2]' })}}`),
  syntax('missing colon', `{"w"${entry()}}`),
  syntax('key without quotes', `{w:${entry()}}`),
  syntax('key in single quotes', `{'w':${entry()}}`),
  syntax('key a number', `{1:${entry()}}`),
  syntax('a comment', `{/* w */"w":${entry()}}`),
  syntax('NaN under an unknown key', `{"w":${entry({ more: ',"x":NaN' })}}`),
  syntax('Infinity under an unknown key', `{"w":${entry({ more: ',"x":Infinity' })}}`),
  syntax('a word that is no literal', `{"w":${entry({ more: ',"x":nul' })}}`),
  syntax('mismatched brackets', `{"w":${entry({ shape: '[2,2}' })}}`),
  syntax('unclosed string', '{"w', Buffer.alloc(0)),
  syntax('line feed inside a string', `{"w":${entry({ more: ',"x":"a\nb"' })}}`),
  syntax('control character inside a name', `{"w\u0001":${entry()}}`),
  syntax('unknown escape', `{"w":${entry({ more: ',"x":"\\x41"' })}}`),
  syntax('escape of three digits', `{"w":${entry({ more: ',"x":"\\u041"' })}}`),
  syntax('lone high surrogate in a name', `{"\\ud800":${entry()}}`),
  syntax('lone low surrogate in a name', `{"\\udc00":${entry()}}`),
  syntax('surrogates the wrong way round', `{"\\udc00\\ud800":${entry()}}`),
  syntax('high surrogate before a letter', `{"\\ud800a":${entry()}}`),
  syntax('name that is not UTF-8', Buffer.concat([Buffer.from('{"'), Buffer.from([0xff]), Buffer.from(`":${entry()}}`)])),
  syntax('name with an overlong form', Buffer.concat([Buffer.from('{"'), Buffer.from([0xc0, 0xaf]), Buffer.from(`":${entry()}}`)])),
  syntax('unknown key that is not UTF-8', Buffer.concat([Buffer.from(`{"w":${entry({ more: ',"x":"' })}`).subarray(0, -1), Buffer.from([0x80]), Buffer.from('"}}')])),
  { name: 'unknown key 200 arrays deep', bytes: one({ more: `,"x":${'['.repeat(200)}${']'.repeat(200)}` }), code: 'ZT_LIMIT' },
  { name: 'unknown key 100,000 arrays deep, never closed', bytes: () => one({ more: `,"x":${'['.repeat(100_000)}` }), code: 'ZT_LIMIT' },
  { name: 'unknown key 100,000 objects deep, never closed', bytes: () => one({ more: `,"x":${'{"k":'.repeat(100_000)}` }), code: 'ZT_LIMIT' },
  opens('valid: unknown key 100 arrays deep', one({ more: `,"x":${'['.repeat(100)}${']'.repeat(100)}` })),
  opens('valid: unknown keys of every type', one({ more: ',"a":null,"b":[1.5e3,-2],"c":{"d":true},"e":"\\u00e9\\ud83d\\ude00\\n"' })),
  opens('valid: keys in another order', file('{"w":{"data_offsets":[0,16],"shape":[2,2],"dtype":"F32"}}')),
  { name: 'valid: name written with escapes', bytes: file(`{"\\u0061\\/\\"\\ud83d\\ude00":${entry()}}`), names: ['a/"\u{1f600}'], data: { 'a/"\u{1f600}': SQUARE_VALUES } },
  { name: 'valid: empty name', bytes: file(`{"":${entry()}}`), names: [''], data: { '': SQUARE_VALUES } },
  { name: 'valid: names like properties of every object', bytes: file(`{"__proto__":${entry()},"toString":${entry({ offsets: '[16,32]' })}}`, Buffer.concat([SQUARE, SQUARE])), names: ['__proto__', 'toString'] },

  // Duplicates
  { name: 'name twice', bytes: file(`{"w":${entry()},"w":${entry()}}`), code: 'ZT_BAD_INDEX', error: { tensor: 'w', rule: true }, official: 'accepts' },
  { name: 'name twice, the data of both present', bytes: file(`{"w":${entry()},"w":${entry({ offsets: '[16,32]' })}}`, Buffer.concat([SQUARE, SQUARE])), code: 'ZT_BAD_INDEX' },
  { name: 'name twice, once with an escape', bytes: file(`{"w":${entry()},"\\u0077":${entry()}}`), code: 'ZT_BAD_INDEX', official: 'accepts' },
  { name: 'dtype twice', bytes: one({ more: ',"dtype":"F32"' }), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  { name: 'data_offsets twice', bytes: one({ more: ',"data_offsets":[0,16]' }), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  { name: 'unknown key twice', bytes: one({ more: ',"x":1,"x":1' }), code: 'ZT_BAD_INDEX', error: { tensor: 'w' }, official: 'accepts' },
  { name: '__metadata__ twice', bytes: file(`{"__metadata__":{},"__metadata__":{},"w":${entry()}}`), code: 'ZT_BAD_INDEX' },
  { name: 'metadata key twice', bytes: file(`{"__metadata__":{"a":"1","a":"2"},"w":${entry()}}`), code: 'ZT_BAD_INDEX', official: 'accepts' },

  // __metadata__
  ...[
    ['a number', '7'],
    ['a text', '"x"'],
    ['an array', '[]'],
    ['with a number', '{"a":1}'],
    ['with null', '{"a":null}'],
    ['with a boolean', '{"a":true}'],
    ['with an object', '{"a":{}}'],
    ['with an array', '{"a":["b"]}'],
  ].map(([what, value]) => ({ name: `__metadata__ ${what}`, bytes: file(`{"__metadata__":${value},"w":${entry()}}`), code: 'ZT_BAD_INDEX' })),
  opens('valid: __metadata__ last', file(`{"w":${entry()},"__metadata__":{"a":"b"}}`)),

  // Entries
  ...[
    ['an array', '[]'],
    ['a number', '1'],
    ['null', 'null'],
    ['empty', '{}'],
  ].map(([what, value]) => ({ name: `entry ${what}`, bytes: file(`{"w":${value}}`, Buffer.alloc(0)), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } })),
  { name: 'dtype absent', bytes: file('{"w":{"shape":[2,2],"data_offsets":[0,16]}}'), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  { name: 'shape absent', bytes: file('{"w":{"dtype":"F32","data_offsets":[0,16]}}'), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  { name: 'data_offsets absent', bytes: file('{"w":{"dtype":"F32","shape":[2,2]}}'), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  refused('dtype a number', { dtype: '32' }, 'ZT_BAD_INDEX'),
  refused('dtype null', { dtype: 'null' }, 'ZT_BAD_INDEX'),
  refused('dtype unknown', { dtype: '"F31"' }, 'ZT_BAD_DTYPE'),
  refused('dtype in small letters', { dtype: '"f32"' }, 'ZT_BAD_DTYPE'),
  refused('dtype empty', { dtype: '""' }, 'ZT_BAD_DTYPE'),
  refused('shape a number', { shape: '4' }, 'ZT_BAD_INDEX'),
  refused('shape null', { shape: 'null' }, 'ZT_BAD_INDEX'),
  refused('shape an object', { shape: '{}' }, 'ZT_BAD_INDEX'),
  ...['-2', '2.0', '2e0', '2E0', '02', '+2', '0x2', '-0', '.2', '2.', '"2"', 'null', 'true', '[2]', '2_0'].map((number) =>
    refused(`dimension ${number}`, { shape: `[${number},2]` }, 'ZT_BAD_INDEX', {}),
  ),
  refused('dimension of 2^64', { shape: '[18446744073709551616,2]' }, ['ZT_BAD_INDEX', 'ZT_LIMIT']),
  refused('dimension of 400 digits', { shape: `[${'9'.repeat(400)}]` }, ['ZT_BAD_INDEX', 'ZT_LIMIT']),
  refused('data_offsets a number', { offsets: '16' }, 'ZT_BAD_INDEX'),
  refused('data_offsets of one number', { offsets: '[0]' }, 'ZT_BAD_INDEX'),
  refused('data_offsets of three numbers', { offsets: '[0,16,16]' }, 'ZT_BAD_INDEX'),
  refused('data_offsets with a negative number', { offsets: '[-16,0]' }, 'ZT_BAD_INDEX'),
  refused('data_offsets with a float', { offsets: '[0,16.0]' }, 'ZT_BAD_INDEX'),
  refused('data_offsets with a text', { offsets: '["0","16"]' }, 'ZT_BAD_INDEX'),
  refused('data_offsets that go backwards', { offsets: '[16,0]' }, 'ZT_BAD_INDEX'),
  refused('data_offsets of 2^64', { offsets: '[0,18446744073709551616]' }, ['ZT_BAD_INDEX', 'ZT_LIMIT']),

  // Shape against length
  refused('one element too many', { shape: '[5]' }, 'ZT_BAD_SHAPE'),
  refused('one element too few', { shape: '[3]' }, 'ZT_BAD_SHAPE'),
  refused('other width', { dtype: '"F64"' }, 'ZT_BAD_SHAPE'),
  refused('empty shape with bytes', { shape: '[0]' }, 'ZT_BAD_SHAPE'),
  refused('scalar with the bytes of four', { shape: '[]' }, 'ZT_BAD_SHAPE'),
  refused('elements past 2^64', { shape: '[4294967296,4294967296]' }, 'ZT_LIMIT'),
  refused('elements of 2^64 + 4, which wraps to 4', { shape: '[4611686018427387905,4]' }, 'ZT_LIMIT'),
  refused('bytes past 2^53', { dtype: '"F64"', shape: '[2251799813685248]' }, 'ZT_LIMIT'),
  { name: 'rank 65', bytes: file(`{"w":${entry({ shape: `[4,${Array(64).fill(1)}]` })}}`), code: 'ZT_LIMIT', error: { tensor: 'w' }, official: 'accepts' },
  { name: 'rank above maxRank', bytes: file(WELL), options: { maxRank: 1 }, code: 'ZT_LIMIT', official: 'accepts' },

  // Elements narrower than a byte
  { name: 'valid: F4 of 16 elements in 8 bytes', bytes: bytes8('F4', '[4,4]'), names: ['q'], data: { q: [...EIGHT] } },
  { name: 'F4 of 15 elements: half a byte over', bytes: bytes8('F4', '[15]'), code: 'ZT_BAD_SHAPE', error: { tensor: 'q' } },
  { name: 'F4 of 8 elements in 8 bytes', bytes: bytes8('F4', '[8]'), code: 'ZT_BAD_SHAPE', error: { tensor: 'q' } },
  { name: 'F6_E2M3 of 10 elements: 60 bits', bytes: bytes8('F6_E2M3', '[10]'), code: 'ZT_BAD_SHAPE', error: { tensor: 'q' } },
  { name: 'valid: F6_E3M2 of 4 elements in 3 bytes', bytes: file(`{"q":${entry({ dtype: '"F6_E3M2"', shape: '[4]', offsets: '[0,3]' })}}`, EIGHT.subarray(0, 3)), names: ['q'], data: { q: [1, 2, 3] } },
  { name: 'valid: F8_E8M0', bytes: bytes8('F8_E8M0', '[8]'), names: ['q'], data: { q: [...EIGHT] } },
  { name: 'valid: C64', bytes: file(`{"w":${entry({ dtype: '"C64"', shape: '[2]' })}}`), names: ['w'], data: { w: SQUARE_VALUES } },

  // The buffer: wholly indexed, no holes, no overlaps
  { name: 'data shorter than the offsets say', bytes: file(WELL, SQUARE.subarray(0, 15)), code: 'ZT_TRUNCATED' },
  { name: 'no data', bytes: file(WELL, Buffer.alloc(0)), code: 'ZT_TRUNCATED' },
  { name: 'offsets far past the end', bytes: one({ shape: '[1000]', offsets: '[0,4000]' }), code: 'ZT_TRUNCATED' },
  { name: 'offsets near 2^64', bytes: one({ offsets: '[18446744073709551599,18446744073709551615]' }), code: ['ZT_TRUNCATED', 'ZT_BAD_INDEX', 'ZT_LIMIT'] },
  { name: 'one byte after the last tensor', bytes: file(WELL, Buffer.concat([SQUARE, Buffer.alloc(1)])), code: 'ZT_BAD_INDEX', error: { rule: true } },
  { name: 'data without tensors', bytes: file('{}', SQUARE), code: 'ZT_BAD_INDEX' },
  { name: 'hole before the first tensor', bytes: file(`{"w":${entry({ offsets: '[4,20]' })}}`, Buffer.concat([SQUARE, SQUARE]).subarray(0, 20)), code: 'ZT_BAD_INDEX', error: { rule: true } },
  { name: 'hole between two tensors', bytes: two({}, { offsets: '[20,36]' }, Buffer.alloc(36)), code: 'ZT_BAD_INDEX', error: { rule: true } },
  { name: 'two tensors over the same bytes', bytes: two({}, {}, SQUARE), code: 'ZT_BAD_INDEX', error: { rule: true } },
  { name: 'two tensors overlap by half', bytes: two({}, { offsets: '[8,24]' }, Buffer.alloc(24)), code: 'ZT_BAD_INDEX', error: { rule: true } },
  { name: 'small tensor inside a large one', bytes: two({}, { shape: '[1]', offsets: '[4,8]' }, SQUARE), code: 'ZT_BAD_INDEX', error: { rule: true } },
  { name: 'empty tensor inside a large one', bytes: two({}, { shape: '[0]', offsets: '[4,4]' }, SQUARE), code: 'ZT_BAD_INDEX', error: { rule: true } },
  { name: 'empty tensor past the end', bytes: two({}, { shape: '[0]', offsets: '[100,100]' }, SQUARE), code: ['ZT_BAD_INDEX', 'ZT_TRUNCATED'] },
  { name: 'valid: header in another order than the data', bytes: two({ offsets: '[16,32]' }, { offsets: '[0,16]' }), names: ['a', 'b'], data: { a: SQUARE_VALUES, b: SQUARE_VALUES } },
  { name: 'valid: empty tensors before, between and after', bytes: file(`{"e":${entry({ shape: '[0]', offsets: '[0,0]' })},"w":${entry()},"f":${entry({ shape: '[3,0]', offsets: '[16,16]' })},"g":${entry({ shape: '[0]', offsets: '[16,16]' })}}`), names: ['e', 'w', 'f', 'g'], data: { e: [], w: SQUARE_VALUES, f: [] } },
  opens('valid: data right after a header of odd length', file(`${WELL} `.padEnd(WELL.length + 3))),
  { name: 'a whole file shifted by one byte', bytes: Buffer.concat([Buffer.from([0]), u64(WELL.length), Buffer.from(WELL), SQUARE]), code: ['ZT_BAD_MAGIC', 'ZT_LIMIT', 'ZT_TRUNCATED'] },
]
