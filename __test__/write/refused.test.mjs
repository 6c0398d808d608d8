// Invalid tensors are rejected before a byte is written, and the writer continues as before.
import { existsSync, readFileSync } from 'node:fs'
import test from 'ava'
import { create, openSync, ZTensorError } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { DTYPES, sample, scratchFolder, streamed, WRITE_FORMATS, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const F = Float32Array.of(1, 2)
const GOOD = Int32Array.of(1, 2, 3)
const bytes = (length) => new Uint8Array(length)
const csr = (fields) => ({
  shape: [2, 3],
  values: Float32Array.of(1, 2),
  indices: Int32Array.of(0, 2),
  indptr: Int32Array.of(0, 1, 2),
  ...fields,
})
const coo = (fields) => ({ shape: [2, 3], values: Float32Array.of(1, 2), coords: Int32Array.of(0, 1, 2, 0), ...fields })
const dense = (fields, component) => ({
  layout: 'dense',
  shape: [2],
  dtype: 'float32',
  components: { data: { dtype: 'float32', data: F, ...component } },
  ...fields,
})
const stream =
  (shape, dtype = 'float32') =>
  (w) =>
    streamed(w.stream('x', { dtype, shape }), [bytes(1)])
const ARGUMENT = 'ZT_INVALID_ARG'
const huge = 2 ** 53 - 1

/** [what, code, the call, the only formats to test it with]. After a name 'x' the tensor is read. */
const ADDS = [
  ['an existing name', 'ZT_BAD_INDEX', (w) => w.add('0', F)],
  ['a name that is not a string', ARGUMENT, (w) => w.add(1, F)],
  ['no tensor', ARGUMENT, (w) => w.add('x')],
  ['no matrix', ARGUMENT, (w) => w.addCsr('x')],
  ['no coordinates', ARGUMENT, (w) => w.addCoo('x', null)],
  ['no object', ARGUMENT, (w) => w.addObject('x')],
  ['no component', ARGUMENT, (w) => w.addObject('x', { layout: 'q', shape: [], components: { data: undefined } })],
  ['a stream of nothing', ARGUMENT, async (w) => w.stream('x')],
  ['null', ARGUMENT, (w) => w.add('x', null)],
  ['an array of numbers', ARGUMENT, (w) => w.add('x', [1, 2])],
  ['an array type without a dtype', ARGUMENT, (w) => w.add('x', Uint8ClampedArray.of(1))],
  ['a DataView alone', ARGUMENT, (w) => w.add('x', new DataView(new ArrayBuffer(4)))],
  ['an ArrayBuffer as data', ARGUMENT, (w) => w.add('x', { dtype: 'uint8', shape: [4], data: new ArrayBuffer(4) })],
  ['an unknown dtype', ARGUMENT, (w) => w.add('x', { dtype: 'f32', shape: [2], data: F })],
  ['a dtype from the prototype', ARGUMENT, (w) => w.add('x', { dtype: 'constructor', shape: [2], data: F })],
  ['a shape that is not an array', ARGUMENT, (w) => w.add('x', { dtype: 'float32', shape: 2, data: F })],
  ['a negative size', ARGUMENT, (w) => w.add('x', { dtype: 'float32', shape: [-1], data: F })],
  ['a size of a half', ARGUMENT, (w) => w.add('x', { dtype: 'float32', shape: [0.5], data: F })],
  ['a size that is not a number', ARGUMENT, (w) => w.add('x', { dtype: 'float32', shape: ['2'], data: F })],
  ['a size past 2^53', ARGUMENT, (w) => w.add('x', { dtype: 'float32', shape: [2 ** 53], data: F })],
  ['bytes too few', 'ZT_BAD_SHAPE', (w) => w.add('x', { dtype: 'float32', shape: [3], data: F })],
  ['bytes too many', 'ZT_BAD_SHAPE', (w) => w.add('x', { dtype: 'float32', shape: [1], data: F })],
  ['bytes for an empty shape', 'ZT_BAD_SHAPE', (w) => w.add('x', { dtype: 'float32', shape: [0], data: F })],
  ['elements past 2^53', 'ZT_LIMIT', (w) => w.add('x', { dtype: 'float32', shape: [huge, huge], data: F })],
  ['a rank of 65', 'ZT_LIMIT', (w) => w.add('x', { dtype: 'int8', shape: Array(65).fill(1), data: bytes(1) })],
  ['invalid options', ARGUMENT, (w) => w.add('x', F, 1)],
  ['a stream of elements past 2^53', 'ZT_LIMIT', stream([huge, huge])],
  ['a stream of a bad shape', ARGUMENT, async (w) => w.stream('x', { dtype: 'int8', shape: [-1] })],
  ['a stream without a dtype', ARGUMENT, async (w) => w.stream('x', { shape: [1] })],
  [
    'a stream under an existing name',
    'ZT_BAD_INDEX',
    (w) => streamed(w.stream('0', { dtype: 'int8', shape: [1] }), [bytes(1)]),
  ],
  ['COO without values', ARGUMENT, (w) => w.addCoo('x', coo({ values: undefined }))],
  [
    'COO of a dtype that its array does not say',
    ARGUMENT,
    (w) => w.addCoo('x', coo({ values: new DataView(new ArrayBuffer(8)) })),
  ],
  ['COO outside its shape', 'ZT_BAD_SPARSE', (w) => w.addCoo('x', coo({ coords: Int32Array.of(0, 2, 2, 0) }))],
  ['COO with negative coordinates', 'ZT_BAD_SPARSE', (w) => w.addCoo('x', coo({ coords: Int32Array.of(0, -1, 2, 0) }))],
  ['COO with too few coordinates', 'ZT_BAD_SPARSE', (w) => w.addCoo('x', coo({ coords: Int32Array.of(0, 1, 2) }))],
  ['COO with coordinates of no type', undefined, (w) => w.addCoo('x', coo({ coords: Float32Array.of(0, 1, 2, 0) }))],
  ['CSR outside its columns', 'ZT_BAD_SPARSE', (w) => w.addCsr('x', csr({ indices: Int32Array.of(0, 3) }))],
  ['CSR whose indptr falls', 'ZT_BAD_SPARSE', (w) => w.addCsr('x', csr({ indptr: Int32Array.of(0, 3, 2) }))],
  ['CSR whose indptr begins late', 'ZT_BAD_SPARSE', (w) => w.addCsr('x', csr({ indptr: Int32Array.of(1, 1, 2) }))],
  ['CSR whose indptr ends early', 'ZT_BAD_SPARSE', (w) => w.addCsr('x', csr({ indptr: Int32Array.of(0, 1, 1) }))],
  ['CSR with an indptr too short', 'ZT_BAD_SPARSE', (w) => w.addCsr('x', csr({ indptr: Int32Array.of(0, 2) }))],
  ['CSR with fewer values than indices', 'ZT_BAD_SPARSE', (w) => w.addCsr('x', csr({ values: Float32Array.of(1) }))],
  ['CSR of 3 dimensions', undefined, (w) => w.addCsr('x', csr({ shape: [2, 3, 1] }))],
  ['CSR through addObject', ARGUMENT, (w) => w.addObject('x', { layout: 'sparse_csr', shape: [2, 3], components: {} })],
  ['an object without components', ARGUMENT, (w) => w.addObject('x', { layout: 'q', shape: [2] })],
  ['an object without a layout', ARGUMENT, (w) => w.addObject('x', { shape: [2], components: {} })],
  ['a dense object without data', 'ZT_BAD_LAYOUT', (w) => w.addObject('x', dense({ components: {} }))],
  ['a dense object of two dtypes', undefined, (w) => w.addObject('x', dense({ dtype: 'int8' }))],
  [
    'a dense object with bytes too few',
    undefined,
    (w) => w.addObject('x', dense({}, { dtype: undefined, data: bytes(3) })),
  ],
  ['BTF names', ARGUMENT, (w) => w.add('weight', F), ['btf']],
  ['the key of the metadata as a name', ARGUMENT, (w) => w.add('__metadata__', F), ['safetensors']],
  ['CSR', 'ZT_BAD_LAYOUT', (w) => w.addCsr('1', csr({})), ['safetensors', 'btf']],
  ['COO', 'ZT_BAD_LAYOUT', (w) => w.addCoo('x', coo({})), ['safetensors']],
  [
    'another layout',
    'ZT_BAD_LAYOUT',
    (w) => w.addObject('1', { layout: 'q', shape: [], components: {} }),
    ['0.1', 'safetensors', 'btf'],
  ],
  ['attributes of a tensor', ARGUMENT, (w) => w.add('1', F, { attributes: { a: 'b' } }), ['safetensors', 'btf']],
  [
    'half a byte',
    'ZT_BAD_SHAPE',
    (w) => w.add('x', { dtype: 'float4_e2m1fn', shape: [3], data: bytes(2) }),
    ['safetensors'],
  ],
  ['a stream of half a byte', 'ZT_BAD_SHAPE', stream([3], 'float4_e2m1fn'), ['safetensors']],
  ...['0.1', 'safetensors', 'btf'].map((format) => [
    'a second component where a tensor is one blob',
    'ZT_BAD_LAYOUT',
    (w) =>
      w.addObject(
        '1',
        dense({ components: { extra: { dtype: 'int8', data: bytes(8) }, data: { dtype: 'float32', data: F } } }),
      ),
    [format],
  ]),
  ...['name', 'offset', 'size', 'dtype', 'shape', 'encoding', 'layout', 'data_endianness', 'checksum'].map((key) => [
    `an attribute called ${key}, which the metadata has itself`,
    ARGUMENT,
    (w) => w.add('x', F, { attributes: { [key]: 'big' } }),
    ['0.1'],
  ]),
  [
    'an attribute without a text key in 0.1',
    ARGUMENT,
    (w) => w.add('x', F, { attributes: new Map([[1, 2]]) }),
    ['0.1'],
  ],
]

for (const format of WRITE_FORMATS) {
  const cases = ADDS.filter(([, , , only]) => only === undefined || only.includes(format.name))
  const plain = written(format.options, (writer) => writer.add('0', GOOD))
  for (const [what, code, call] of cases) {
    test(`${format.name} rejects ${what}, and continues`, async (t) => {
      const path = await written(format.options, async (writer) => {
        await writer.add('0', GOOD)
        const error = await rejectionOf(() => call(writer))
        // BTF first checks that the name is the next number.
        if (code === undefined || format.name === 'btf') t.regex(error?.code ?? 'nothing thrown', /^ZT_(?!INTERNAL)/)
        else t.is(error?.code, code, error?.stack)
      })
      t.true(readFileSync(path).equals(readFileSync(await plain)))
    })
  }

  for (const dtype of Object.keys(DTYPES).filter((d) => !format.dtypes.includes(d))) {
    test(`${format.name} rejects ${dtype}, dense and sparse, and continues`, async (t) => {
      const path = await written(format.options, async (writer) => {
        await writer.add('0', GOOD)
        const values = sample(dtype, [4], 1)
        const calls = [
          () => writer.add('1', { dtype, shape: [4], data: values }),
          () => writer.addCoo('1', { dtype, shape: [9], values, coords: Int32Array.of(0, 1, 2, 3) }),
          () => streamed(writer.stream('1', { dtype, shape: [4] }), [littleEndian(values)]),
        ]
        const layouts = format.name === 'safetensors' ? ['ZT_BAD_LAYOUT', 'ZT_BAD_DTYPE'] : ['ZT_BAD_DTYPE']
        for (const call of calls) t.true(layouts.includes((await rejectionOf(call))?.code))
      })
      t.true(readFileSync(path).equals(readFileSync(await plain)))
    })
  }
}

class Own {
  a = 1
}
const cyclic = {}
cyclic.self = cyclic
const ATTRIBUTES = [
  ['a string', 'text'],
  ['an array', [1]],
  ['null', null],
  ['undefined inside', { a: undefined }],
  ['a function', { a: () => 1 }],
  ['a symbol', { a: [Symbol('s')] }],
  ['a Float32Array', { a: F }],
  ['a cycle', cyclic],
  ['a Date', { a: new Date(0) }],
  ['a Set', { a: new Set([1]) }],
  ['an object of a class', { a: new Own() }],
  ['a hole', { a: Array(1) }],
  [
    'two keys that are one in a file',
    new Map([
      [1, 'a'],
      [1n, 'b'],
    ]),
  ],
  ['half a surrogate pair in a value', { a: '\ud800' }],
  ['half a surrogate pair in a key', { '\udc00': 1 }],
]

for (const [what, attributes] of ATTRIBUTES) {
  test(`attributes: rejects ${what}, of a file and of a tensor`, async (t) => {
    const path = scratchPath('attributes.zt')
    const error = await rejectionOf(() => create(path, { metadata: attributes }))
    t.is(error?.code, ARGUMENT, error?.stack)
    t.false(existsSync(path))
    const good = await written({}, async (writer) => {
      t.is((await rejectionOf(() => writer.add('x', F, { attributes })))?.code, ARGUMENT)
      await writer.add('0', GOOD)
    })
    t.true(readFileSync(good).equals(readFileSync(await written({}, (writer) => writer.add('0', GOOD)))))
  })
}

test('rejects lone surrogates in names: a file could not distinguish them', async (t) => {
  for (const { options } of WRITE_FORMATS.filter(({ name }) => name !== 'btf')) {
    const path = await written(options, async (writer) => {
      t.is((await rejectionOf(() => writer.add('\ud800', F)))?.code, ARGUMENT)
      await writer.add('\ufffd', F)
    })
    const file = openSync(path)
    t.deepEqual([...file.keys()], ['\ufffd'])
    file.close()
  }
})

const OPTIONS = [
  ['options', 1],
  ['format', { format: 'pickle' }],
  ['version', { version: '2.0' }],
  ['version', { format: 'safetensors', version: '1.0' }],
  ['version', { format: 'btf', version: '0.1' }],
  ['digest', { digest: 'md5' }],
  ['digest', { digest: true }],
  ['digest', { format: 'safetensors', digest: 'crc32c' }],
  ['digest', { format: 'btf', digest: 'sha256' }],
  ['compress', { format: 'safetensors', compression: {} }],
  ['compress', { format: 'btf', compression: { level: 3 } }],
  ['compress', { format: 'npy', compression: true }],
  ['compress', { format: 'npz', compression: { frameSize: 1 << 20 } }],
  ['compression.level', { format: 'npz', compression: { level: 10 } }],
  ['compression', { compression: 3 }],
  ['compression.level', { compression: { level: 0 } }],
  ['compression.level', { compression: { level: 23 } }],
  ['compression.level', { compression: { level: 2.5 } }],
  ['compression.minSavings', { compression: { minSavings: -0.1 } }],
  ['compression.minSavings', { compression: { minSavings: 1 } }],
  ['compression.minSavings', { compression: { minSavings: Number.NaN } }],
  ['alignment', { alignment: 32 }],
  ['alignment', { alignment: 96 }],
  ['alignment', { alignment: 2 ** 31 }],
  ['alignment', { alignment: '64' }],
  ['overwrite', { overwrite: 1 }],
  ['generator', { generator: 1 }],
  ['metadata', { format: 'btf', metadata: { a: 'b' } }],
  ['metadata', { version: '0.1', metadata: { a: 'b' } }],
  ['metadata', { format: 'safetensors', metadata: { a: 1 } }],
  ['metadata', { format: 'safetensors', metadata: new Map([[1, 'a']]) }],
]

for (const [argument, options] of OPTIONS) {
  test(`create rejects ${JSON.stringify(options)}`, async (t) => {
    const { folder, names, path } = scratchFolder()
    isArgumentError(t, await rejectionOf(() => create(path('x.zt'), options)), argument)
    t.deepEqual(names(), [], folder)
  })
}

test('create rejects invalid paths', async (t) => {
  isArgumentError(t, await rejectionOf(() => create(new URL('https://example.org/x.zt'))), 'https:')
  for (const path of [undefined, 1, '', 'a\0b', null, Buffer.from('x')]) {
    isArgumentError(t, await rejectionOf(() => create(path)), 'path')
  }
})

test('a rejection of a tensor names it; one of an argument is a TypeError or RangeError', async (t) => {
  await written({}, async (writer) => {
    const error = await rejectionOf(() => writer.add('w', { dtype: 'float32', shape: [3], data: F }))
    t.true(error instanceof ZTensorError)
    t.is(error.tensor, 'w')
    isArgumentError(t, await rejectionOf(() => writer.add('w', { dtype: 'float32', shape: [-3], data: F })), 'shape[0]')
    isArgumentError(t, await rejectionOf(() => writer.add('w', { dtype: 'float33', shape: [3], data: F })), 'dtype')
    isArgumentError(
      t,
      thrownBy(() => writer.stream('w', { dtype: 'float33', shape: [3] })),
      'dtype',
    )
  })
})

test('rejects content that the reader of the format rejects: BTF of unsigned integers', async (t) => {
  for (const values of [BigUint64Array.of(1n, 2n), Uint32Array.of(1, 2)]) {
    const path = await written({ format: 'btf' }, async (writer) => {
      t.is((await rejectionOf(() => writer.add('0', values)))?.code, 'ZT_BAD_DTYPE')
      const sparse = { shape: [4], values, coords: Uint8Array.of(0, 1) }
      t.is((await rejectionOf(() => writer.addCoo('0', sparse)))?.code, 'ZT_BAD_DTYPE')
      await writer.add('0', GOOD)
    })
    const file = openSync(path)
    t.deepEqual(file.tensor('0').data, GOOD)
    file.close()
  }
})

test('a dense object that states its dtype once is rejected, or reads back with it', async (t) => {
  for (const version of ['0.1', '1.0', '1.2']) {
    const { dtype: _, ...untyped } = dense({})
    for (const object of [untyped, dense({}, { dtype: undefined })]) {
      let error
      const path = await written({ version }, async (writer) => {
        error = await rejectionOf(() => writer.addObject('x', object))
      })
      const file = openSync(path)
      t.is(file.has('x'), error === undefined)
      if (error === undefined) t.deepEqual(file.tensor('x').data, F)
      else t.is(error.code, 'ZT_BAD_DTYPE')
      file.close()
    }
  }
})
