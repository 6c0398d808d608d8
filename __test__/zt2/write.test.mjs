// Canonical files of version 2: the bytes that the Python package 2.1.2 writes for the same tensors, in any order of
// calls; and files that are not canonical.
import { readFileSync } from 'node:fs'
import { Writable } from 'node:stream'
import test from 'ava'
import { littleEndian, numbersOf } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder, streamed, written } from '../helpers/sample-files.mjs'

const KIB64 = 65536
const attributes = { made: 'by a peer', epoch: 12, rate: 0.1, half: 1.5 }
const numbers = Int16Array.of(1, -2, 3, -4)
const CSR = {
  shape: [2, 3],
  values: Uint8Array.of(7, 8, 9),
  indices: Uint32Array.of(0, 2, 1),
  indptr: Uint32Array.of(0, 2, 3),
}
const adds = [
  (w) => w.add('a.bool', { dtype: 'bool', shape: [3], data: Uint8Array.of(1, 0, 1) }),
  (w) => w.add('b', { dtype: 'int16', shape: [2, 2], data: numbers }),
  (w) => w.add('c', numbers),
  (w) => w.addCsr('csr', CSR, { attributes: { k: 'v' } }),
  (w) => w.add('z', new Float32Array(0)),
]

// The output of the Python package 2.1.2: the first bytes of each blob, the manifest, and the footer.
const BLOBS = ['010001', '0100feff0300fcff', '000000000200000001000000', '000000000200000003000000', '070809']
const MANIFEST =
  'a2676f626a65637473a56162a3657061727473a16464617461a364626c6f62821a0002000008656474797065636931366664696765737475787868' +
  '333a33323731666338306132633433363361657368617065820202666c61796f75746564656e73656163a3657061727473a16464617461a364626c' +
  '6f62821a0002000008656474797065636931366664696765737475787868333a3332373166633830613263343336336165736861706581' +
  '04666c61796f75746564656e7365617aa3657061727473a16464617461a364626c6f62821a000600000065647479706563663332666469676573' +
  '7475787868333a32643036383030353338643339346332657368617065' +
  '8100666c61796f75746564656e736563637372a4657061727473a366696e64707472a364626c6f62821a000400000c656474797065637533326664' +
  '696765737475787868333a633630666261613565663138633064626676616c756573a364626c6f62821a000500000365647479706562753866646967' +
  '65737475787868333a3339333732643862336461656134363767696e6469636573a364626c6f62821a000300000c65647479706563753332666469' +
  '6765737475787868333a36363037396637303333363438306432657368617065820203666c61796f75746f7a742e7370617273655f6373722f316a' +
  '61747472696275746573a1616b617666612e626f6f6ca3657061727473a16464617461a464626c6f62821a0001000003647479706564626f6f6c65' +
  '64747970656275386664696765737475787868333a616564393436363831663835623737616573686170658103666c61796f75746564656e73656a' +
  '61747472696275746573a46468616c66f93e00646d616465696279206120706565726472617465fb3fb999999999999a6565706f63680c'
const FOOTER = '00000600000000009e020000000000004701742fb6bbd87a0200000000000000895a54320d0a1a0a'

function golden() {
  const manifest = Buffer.from(MANIFEST, 'hex')
  const bytes = Buffer.alloc((BLOBS.length + 1) * KIB64)
  bytes.write('895a54320d0a1a0a', 0, 'hex')
  for (const [at, hex] of BLOBS.entries()) bytes.write(hex, (at + 1) * KIB64, 'hex')
  return Buffer.concat([bytes, manifest, Buffer.from(FOOTER, 'hex')])
}

const ORDERS = {
  sorted: adds,
  reversed: adds.toReversed?.() ?? [...adds].reverse(),
  shuffled: [2, 4, 0, 3, 1].map((at) => adds[at]),
}

for (const [label, order] of Object.entries(ORDERS)) {
  test(`canonical bytes equal the peer's, added ${label}`, async (t) => {
    const { folder, path, names } = scratchFolder()
    await written(
      { version: '2', metadata: attributes },
      async (w) => {
        for (const add of order) await add(w)
      },
      path('a.zt'),
    )
    t.true(readFileSync(path('a.zt')).equals(golden()))
    t.deepEqual(names(), ['a.zt'], folder)
  })
}

test('pieces and streams make the same canonical bytes', async (t) => {
  const [bool, , c, csr, z] = adds
  const path = await written({ version: '2', metadata: attributes }, async (w) => {
    await z(w)
    await streamed(w.stream('b', { dtype: 'int16', shape: [2, 2] }), [
      Buffer.from('01', 'hex'),
      Buffer.from('00feff0300fcff', 'hex'),
    ])
    await Promise.all([csr, c, bool].map((add) => add(w)))
  })
  t.true(readFileSync(path).equals(golden()))
})

test('sorts rows, and the type of indices is that of their arrays', async (t) => {
  const add = (matrix) => (w) => w.addCsr('m', { shape: [2, 300], ...matrix })
  const file = async (matrix) => readFileSync(await written({ version: '2' }, add(matrix)))
  const sorted = await file({
    values: Int16Array.of(1, 2, 3),
    indices: BigUint64Array.of(1n, 299n, 7n),
    indptr: BigUint64Array.of(0n, 2n, 3n),
  })
  const loose = await file({
    values: Int16Array.of(2, 1, 3),
    indices: Int32Array.of(299, 1, 7),
    indptr: Uint8Array.of(0, 2, 3),
  })
  t.true(sorted.equals(loose))
  const narrow = await file({
    values: Int16Array.of(2, 1, 3),
    indices: Uint32Array.of(299, 1, 7),
    indptr: Uint32Array.of(0, 2, 3),
  })
  t.deepEqual([...numbersOf(Uint32Array, narrow.subarray(KIB64, KIB64 + 12))], [1, 299, 7])
})

test('stores equal content once only if all of it is equal', async (t) => {
  const big = new Uint8Array(3 * KIB64 + 5).fill(1)
  const other = big.slice()
  other[other.length - 1] = 2
  const bytes = readFileSync(
    await written({ version: '2' }, async (w) => {
      await w.add('3', big)
      await w.add('2', other)
      await w.add('1', big.slice())
    }),
  )
  const manifest = Number(bytes.readBigUInt64LE(bytes.length - 40))
  t.is(manifest, 9 * KIB64)
  t.true(bytes.subarray(KIB64, KIB64 + big.length).equals(big))
  t.true(bytes.subarray(5 * KIB64, 5 * KIB64 + big.length).equals(other))
})

test('without canonical form, stores blobs in the order of calls, at any multiple of 4096', async (t) => {
  const file = async (options) =>
    readFileSync(
      await written({ version: '2', canonical: false, ...options }, async (w) => {
        await w.add('b', numbers)
        await w.add('a', numbers)
      }),
    )
  const bytes = await file({ alignment: 12288, digest: false })
  t.is(bytes.length, 3 * 12288 + Number(bytes.readBigUInt64LE(bytes.length - 32)) + 40)
  for (const at of [1, 2])
    t.deepEqual([...numbersOf(Int16Array, bytes.subarray(at * 12288, at * 12288 + 8))], [...numbers])
  t.false(bytes.includes('digest'))
  t.true((await file({ digest: 'sha256' })).includes('sha256:'))
  t.is((await file({})).readBigUInt64LE((await file({})).length - 40), BigInt(3 * KIB64))
})

test('compression is seekable, and equal with any number of pieces', async (t) => {
  const data = Uint32Array.from({ length: 1 << 18 }, (_, at) => at >> 4)
  const options = { version: '2', canonical: false, compression: { frameSize: 4096 * 25 } }
  const whole = readFileSync(await written(options, (w) => w.add('a', data)))
  const pieces = readFileSync(
    await written(options, (w) =>
      streamed(w.stream('a', { dtype: 'uint32', shape: [1 << 18] }), [
        littleEndian(data).subarray(0, 777),
        littleEndian(data).subarray(777),
      ]),
    ),
  )
  t.true(whole.equals(pieces))
  t.true(whole.includes('zt.zstd-seekable/1'))
  t.true(whole.length < data.byteLength / 2 + 2 * KIB64)
  // The seek table: frames of equal size, and a last one with the rest.
  const end = whole.indexOf(Buffer.from('b1ea928f', 'hex'))
  const frames = whole.readUInt32LE(end - 5)
  const plain = Array.from({ length: frames }, (_, at) => whole.readUInt32LE(end - 5 - 8 * (frames - at) + 4))
  const last = data.byteLength % (4096 * 25)
  t.deepEqual(plain, [...new Array(Math.floor(data.byteLength / (4096 * 25))).fill(4096 * 25), last])
})

const OPTIONS = [
  ['compression in a canonical file', { version: '2', compression: {} }, /canonical: false/],
  ['another digest in a canonical file', { version: '2', digest: 'sha256' }, /canonical: false/],
  ['no digest in a canonical file', { version: '2', digest: false }, /canonical: false/],
  ['another alignment in a canonical file', { version: '2', alignment: 4096 }, /canonical: false/],
  ['an alignment below a page', { version: '2', canonical: false, alignment: 2048 }, /4096/],
  ['crc32c', { version: '2', digest: 'crc32c' }, /xxh3/],
  ['xxh3 in another version', { version: '1.2', digest: 'xxh3' }, /zTensor 1\.2/],
  ['canonical form in another version', { version: '1.2', canonical: true }, /zTensor 2/],
  ['frames of deflate', { format: 'npz', compression: { frameSize: 4096 } }, /zTensor 1\.2/],
  ['frames that are too large', { version: '2', canonical: false, compression: { frameSize: 2 ** 24 + 1 } }, /2\^24/],
  ['shards of a canonical file', { version: '2', canonical: true, maxShardBytes: 1 }, /canonical: false/],
  ['shards of another version', { version: '1.0', maxShardBytes: 1 }, /zTensor 2, safetensors and GGUF/],
  ['a generator', { version: '2', generator: 'x' }, /generator/],
  ['an attribute without a name', { version: '2', metadata: { '': 1 } }, /empty/, 'ZT_BAD_INDEX'],
  ['an attribute whose name is not text', { version: '2', metadata: new Map([[1, 2]]) }, /texts/],
  ['an attribute that needs a tag', { version: '2', metadata: { big: 2n ** 64n } }, /tag/],
  ['attributes nested too deep', { version: '2', metadata: { a: JSON.parse('['.repeat(31) + ']'.repeat(31)) } }, /32/],
  ['an attribute not in NFC', { version: '2', metadata: { 'e\u0301': 1 } }, /NFC/, 'ZT_BAD_INDEX'],
]

for (const [what, options, message, code = 'ZT_INVALID_ARG'] of OPTIONS) {
  test(`rejects ${what}`, async (t) => {
    const { path, names } = scratchFolder()
    const error = await rejectionOf(() => written(options, () => {}, path('a.zt')))
    t.is(error.code, code)
    t.regex(error.message, message)
    t.deepEqual(names(), [])
  })
}

const F = Float32Array.of(1, 2)
const object = (fields) => ({
  layout: 'x.y/1',
  shape: [2],
  components: { data: { dtype: 'float32', data: F } },
  ...fields,
})
const quantGroup = (fields) => ({
  layout: 'zt.quant_group/1',
  shape: [2, 8],
  attributes: {
    bits: 4,
    group_size: 4,
    axis: 1,
    packing: { word: 'u32', order: 'lsb_first', per_word: 8 },
    scale_form: 'f32_factors',
    zero_point: { form: 'implied', value: 8 },
    ...fields,
  },
  components: {
    scales: { dtype: 'float32', data: Float32Array.of(1, 2, 3, 4) },
    data: { dtype: 'uint32', data: Uint32Array.of(0x76543210, 0xfedcba98) },
  },
})
const ADDS = [
  ['a name without characters', 'ZT_BAD_INDEX', (w) => w.add('', F), '§3.5'],
  ['a name with a null', 'ZT_BAD_INDEX', (w) => w.add('a\0b', F), '§3.5'],
  ['a name of more than 1024 bytes', 'ZT_BAD_INDEX', (w) => w.add('ä'.repeat(513), F), '§3.5'],
  ['a name not in NFC', 'ZT_BAD_INDEX', (w) => w.add('e\u0301', F), '§6.3'],
  [
    'a type that version 2 has not',
    'ZT_BAD_DTYPE',
    (w) => w.add('x', { dtype: 'float6_e2m3fn', shape: [4], data: new Uint8Array(3) }),
  ],
  [
    'a layout without a name space',
    'ZT_BAD_LAYOUT',
    (w) => w.addObject('x', object({ layout: 'quantized_group' })),
    '§5.2',
  ],
  ['a layout without a version', 'ZT_BAD_LAYOUT', (w) => w.addObject('x', object({ layout: 'x.y' })), '§5.2'],
  ['a missing layout of the registry', 'ZT_BAD_LAYOUT', (w) => w.addObject('x', object({ layout: 'zt.mx/2' })), '§5.2'],
  ['no component', 'ZT_BAD_LAYOUT', (w) => w.addObject('x', object({ components: {} })), '§3.3'],
  ['a component without a name', 'ZT_BAD_INDEX', (w) => w.addObject('x', object({ components: { '': { data: F } } }))],
  [
    'a dense tensor of two components',
    'ZT_BAD_LAYOUT',
    (w) =>
      w.addObject(
        'x',
        object({
          layout: 'dense',
          dtype: 'float32',
          components: { data: { dtype: 'float32', data: F }, more: { data: F } },
        }),
      ),
  ],
  [
    'groups that do not divide the axis',
    'ZT_BAD_LAYOUT',
    (w) => w.addObject('x', quantGroup({ group_size: 3 })),
    'zt.quant_group/1',
  ],
  [
    'groups without a scale form',
    'ZT_BAD_LAYOUT',
    (w) => w.addObject('x', quantGroup({ scale_form: 'x' })),
    'zt.quant_group/1',
  ],
  ['attributes with a tag', 'ZT_INVALID_ARG', (w) => w.add('x', F, { attributes: { a: [2n ** 70n] } })],
  [
    'a column that appears twice',
    'ZT_BAD_SPARSE',
    (w) => w.addCsr('x', { shape: [1, 3], values: F, indices: Uint8Array.of(1, 1), indptr: Uint8Array.of(0, 2) }),
    'zt.sparse_csr/1',
  ],
  [
    'a cell that appears twice',
    'ZT_BAD_SPARSE',
    (w) => w.addCoo('x', { shape: [3, 3], values: F, coords: Uint8Array.of(1, 1, 2, 2) }),
    'zt.sparse_coo/1',
  ],
  [
    'a scalar by coordinates',
    'ZT_BAD_LAYOUT',
    (w) => w.addCoo('x', { shape: [], values: F.subarray(1), coords: new Uint8Array(0) }),
  ],
]

for (const [what, code, add, rule] of ADDS) {
  test(`rejects ${what}, and continues`, async (t) => {
    const path = await written({ version: '2' }, async (w) => {
      const error = await rejectionOf(() => add(w))
      t.is(error.code, code, error.message)
      if (rule !== undefined) t.true(String(error.rule).includes(rule), error.rule)
      await w.add('good', F)
    })
    t.true(readFileSync(path).includes('good'))
  })
}

test('a stream gets the bytes of a file, canonical or not', async (t) => {
  for (const options of [{ version: '2' }, { version: '2', canonical: false }]) {
    const chunks = []
    const sink = new Writable({
      write(chunk, _encoding, done) {
        chunks.push(chunk)
        done()
      },
    })
    await written(options, (w) => w.add('a', F), sink)
    t.true(Buffer.concat(chunks).equals(readFileSync(await written(options, (w) => w.add('a', F)))))
  }
})
