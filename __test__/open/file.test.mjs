// TensorFile: the properties of the file, and its behavior as a ReadonlyMap of tensors.
import { createRequire } from 'node:module'
import { inspect } from 'node:util'
import test from 'ava'
import * as esm from 'ztensor'
import { open, openSync, Tensor, TensorFile, ZTensorError } from 'ztensor'
import { square10, zt10, zt12 } from '../corpus/zt.mjs'
import { isArgumentError, thrownBy } from '../helpers/errors.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { vector } from '../helpers/vectors.mjs'

const shapes = vector('zt101-shapes.zt')
const THREE = zt10({ 'layer1.weight': square10(), 'layer1.bias': square10(), head: square10() })
const NAMES = ['layer1.weight', 'layer1.bias', 'head']

test('a file has its properties', async (t) => {
  for (const file of [openSync(shapes.path), await open(shapes.path)]) {
    t.true(file instanceof TensorFile)
    t.is(file.format, 'zt')
    t.is(file.version, '1.0')
    t.is(file.generator, 'zTensor-Rust v0.1.0')
    t.is(file.path, shapes.path)
    t.is(file.byteLength, shapes.bytes.length)
    t.is(file.size, 8)
    t.false(file.closed)
    t.deepEqual(file.warnings, [])
    file.close()
    t.true(file.closed)
  }
})

test('properties that a format lacks are undefined', (t) => {
  const file = openSync(vector('st-dtypes.safetensors').bytes)
  t.is(file.format, 'safetensors')
  t.is(file.version, undefined)
  t.is(file.generator, undefined)
  t.is(file.path, undefined)
  file.close()
})

test('a tensor has its properties', (t) => {
  const file = openSync(shapes.path)
  const tensor = file.tensor('r6')
  t.true(tensor instanceof Tensor)
  t.is(tensor.name, 'r6')
  t.is(tensor.dtype, 'int16')
  t.deepEqual(tensor.shape, [1, 2, 1, 3, 1, 2])
  t.is(tensor.size, 12)
  t.is(tensor.byteLength, 24)
  t.is(tensor.layout, 'dense')
  t.deepEqual([...tensor.components.keys()], ['data'])
  const component = tensor.components.get('data')
  t.is(component.role, 'data')
  t.is(component.dtype, 'int16')
  t.is(component.byteLength, 24)
  t.is(component.storedLength, 24)
  t.is(component.offset, 384)
  t.is(component.encoding, 'raw')
  t.is(component.digest, undefined)
  file.close()
})

test('a compressed component reports its encoding', (t) => {
  const file = openSync(vector('zt12-zstd.zt').path)
  const { encoding, storedLength, byteLength, offset } = file.tensor('lvl9').components.get('data')
  t.deepEqual(
    { encoding, storedLength, byteLength, offset },
    { encoding: 'zstd', storedLength: 83, byteLength: 16640, offset: 1792 },
  )
  t.is(file.tensor('lvl9').byteLength, 16640)
  file.close()
})

test('dtype: of the values of sparse tensors, the declared one of an unknown layout, otherwise undefined', (t) => {
  const q8 = { dtype: 'u8', bytes: Buffer.from([1, 2]) }
  const newer = openSync(
    zt12({
      unknownLayout: { shape: [2], format: 'ternary_blocks', components: { packed: q8 } },
      unknownType: {
        shape: [4],
        format: 'dense',
        components: { data: { ...q8, type: 'nf4', bytes: Buffer.from([3]) } },
      },
    }),
  )
  t.is(newer.tensor('unknownLayout').dtype, undefined)
  t.is(newer.tensor('unknownLayout').layout, 'ternary_blocks')
  t.is(newer.tensor('unknownType').dtype, undefined)
  newer.close()
  const extension = openSync(vector('zt10h-extension-format.zt').path)
  t.is(extension.tensor('q').dtype, 'uint8')
  t.is(extension.tensor('q').layout, 'quantized_4bit')
  extension.close()
  const sparse = openSync(vector('zt111-sparse.zt').path)
  t.is(sparse.tensor('csr_bfloat16').dtype, 'bfloat16')
  t.is(sparse.tensor('coo_3d').dtype, 'float32')
  sparse.close()
})

test('reports a digest as the file spells it', (t) => {
  const file = openSync(vector('zt12-crc32c.zt').path)
  t.is(file.tensor('t_bfloat16').components.get('data').digest, 'crc32c:0x28F9C073')
  file.close()
})

test('shapes and warnings are frozen', (t) => {
  const file = openSync(zt10({ w: square10({}, { lead: 4 }) }))
  t.throws(() => file.tensor('w').shape.push(1), { instanceOf: TypeError })
  t.throws(() => file.warnings.push({}), { instanceOf: TypeError })
  t.deepEqual(file.tensor('w').shape, [2, 2])
  file.close()
})

test('a file is a map of its tensors, in index order', (t) => {
  const file = openSync(THREE)
  t.is(file.size, 3)
  t.deepEqual([...file.keys()], NAMES)
  t.deepEqual(
    [...file.values()].map((tensor) => tensor.name),
    NAMES,
  )
  t.deepEqual(
    [...file.entries()].map(([name, tensor]) => [name, tensor.name]),
    NAMES.map((name) => [name, name]),
  )
  t.deepEqual(
    [...file].map(([name]) => name),
    NAMES,
  )
  t.deepEqual([...new Map(file).keys()], NAMES)
  for (const name of NAMES) {
    t.true(file.has(name))
    t.is(file.get(name).name, name)
    t.is(file.tensor(name).name, name)
  }
  for (const name of ['layer1', 'HEAD', '', 'head ', '__proto__', 'constructor', 'size']) {
    t.false(file.has(name), name)
    t.is(file.get(name), undefined, name)
  }
  file.close()
})

test('forEach passes value, name, file, and the given this', (t) => {
  const file = openSync(THREE)
  const seen = []
  const self = {}
  const returned = file.forEach(function (tensor, name, map) {
    seen.push([tensor.name, name, map === file, this === self])
  }, self)
  t.is(returned, undefined)
  t.deepEqual(
    seen,
    NAMES.map((name) => [name, name, true, true]),
  )
  file.close()
})

test('iterators have next, done, and are iterable', (t) => {
  const file = openSync(THREE)
  for (const iterator of [file.keys(), file.values(), file.entries(), file[Symbol.iterator]()]) {
    t.is(iterator[Symbol.iterator](), iterator)
    t.false(iterator.next().done)
    t.is([...iterator].length, 2)
    t.deepEqual(iterator.next(), { value: undefined, done: true })
  }
  file.close()
})

test('rejects map writes', (t) => {
  const file = openSync(THREE)
  for (const method of ['set', 'delete', 'clear']) t.is(file[method], undefined)
  file.close()
})

test('components are a map', (t) => {
  const file = openSync(vector('zt101-sparse.zt').path)
  const { components } = file.tensor('csr_float32')
  t.is(components.size, 3)
  t.deepEqual([...components.keys()].sort(), ['indices', 'indptr', 'values'])
  t.true(components.has('values'))
  t.false(components.has('data'))
  t.is(components.get('data'), undefined)
  t.deepEqual(
    [...components].map(([role, component]) => role === component.role),
    [true, true, true],
  )
  file.close()
})

test('a missing name: ZT_NOT_FOUND, with similar names', (t) => {
  const file = openSync(THREE)
  for (const [asked, close] of [
    ['layer1.wieght', 'layer1.weight'],
    ['layer1.bia', 'layer1.bias'],
    ['Head', 'head'],
  ]) {
    const error = thrownBy(() => file.tensor(asked))
    t.true(error instanceof ZTensorError)
    t.is(error?.code, 'ZT_NOT_FOUND')
    t.true(error?.message.includes(asked), error?.message)
    t.true(error?.message.includes(close), error?.message)
  }
  const far = thrownBy(() => file.tensor('something else entirely'))
  t.is(far?.code, 'ZT_NOT_FOUND')
  t.false(far?.message.includes('layer1'), far?.message)
  file.close()
})

test('a missing name in a file without tensors', (t) => {
  const file = openSync(zt10({}))
  t.is(thrownBy(() => file.tensor('w'))?.code, 'ZT_NOT_FOUND')
  t.deepEqual([...file], [])
  file.close()
})

test('rejects a name that is not a string', (t) => {
  const file = openSync(THREE)
  for (const name of [undefined, null, 7, {}, ['head'], Symbol.iterator])
    isArgumentError(
      t,
      thrownBy(() => file.tensor(name)),
      'name',
    )
  file.close()
})

test('tensor() with a dtype returns a tensor of that dtype, or throws ZT_BAD_DTYPE', (t) => {
  const file = openSync(THREE)
  t.is(file.tensor('head', { dtype: 'float32' }).dtype, 'float32')
  const error = thrownBy(() => file.tensor('head', { dtype: 'float16' }))
  t.true(error instanceof ZTensorError)
  t.is(error?.code, 'ZT_BAD_DTYPE')
  t.is(error?.tensor, 'head')
  t.regex(error?.message ?? '', /float32/)
  t.regex(error?.message ?? '', /float16/)
  for (const dtype of ['f32', 'Float32', 32, null])
    isArgumentError(
      t,
      thrownBy(() => file.tensor('head', { dtype })),
      'dtype',
    )
  isArgumentError(
    t,
    thrownBy(() => file.tensor('head', 'float32')),
    'options',
  )
  file.close()
})

test('finds any names', (t) => {
  const names = [
    '',
    ' ',
    '__proto__',
    'constructor',
    'toString',
    'a\0b',
    '層',
    '\u{1f600}',
    'é',
    'e\u0301',
    'x'.repeat(10_000),
    '0',
    '-1',
  ]
  const objects = new Map(
    names.map((name) => [
      name,
      { shape: [0], format: 'dense', components: { data: { dtype: 'f32', offset: 64, length: 0 } } },
    ]),
  )
  const file = openSync(zt12({}, { root: { objects } }))
  t.deepEqual([...file.keys()], names)
  for (const name of names) t.is(file.tensor(name).name, name)
  t.is(new Set([...file.values()]).size, names.length)
  file.close()
})

test('inspect, toJSON and JSON.stringify show properties and read no data', (t) => {
  // Reading any of this data is an error, so any access would throw.
  const bytes = zt10(
    {
      broken: square10({}, { encoding: 'zstd' }),
      strange: square10({ format: 'other' }),
      lost: square10({}, { encoding: 'lz4' }),
    },
    { root: { attributes: { big: (1n << 63n) + 1n, text: 'x' } } },
  )
  const file = openSync(bytes)
  t.is(thrownBy(() => file.tensor('broken').data)?.code, 'ZT_DECODE')
  const json = JSON.parse(JSON.stringify(file))
  t.is(typeof json, 'object')
  t.regex(JSON.stringify(file), /broken/)
  t.regex(inspect(file), /TensorFile/)
  for (const tensor of file.values()) {
    t.regex(inspect(tensor), /Tensor/)
    t.true(inspect(tensor).includes(tensor.name))
    const json = JSON.parse(JSON.stringify(tensor))
    t.is(json.name, tensor.name)
    t.deepEqual(json.shape, [2, 2])
    for (const component of tensor.components.values()) {
      t.true(inspect(component).length > 0)
      t.true(JSON.stringify(component).length > 0)
    }
  }
  t.true(inspect(file, { depth: 10 }).length > 0)
  file.close()
  t.regex(inspect(file), /closed/i)
  t.notThrows(() => JSON.stringify(file))
})

test('import and require return the same classes', (t) => {
  const cjs = createRequire(import.meta.url)('ztensor')
  for (const name of ['TensorFile', 'Tensor', 'CsrTensor', 'CooTensor', 'ZTensorError', 'open', 'openSync', 'verify']) {
    t.is(typeof cjs[name], 'function', name)
    t.is(cjs[name], esm[name], name)
  }
  t.deepEqual(
    Object.keys(cjs)
      .filter((key) => key !== '__esModule')
      .sort(),
    Object.keys(esm)
      .filter((key) => key !== 'module.exports')
      .sort(),
  )
  t.is(cjs.default, cjs)
  t.is(esm.default, cjs)
})

test('errors are Errors, with a name, a stack and enumerable fields', (t) => {
  const error = thrownBy(() => openSync(zt10({ w: square10({ shape: [5] }) })))
  t.true(error instanceof Error)
  t.is(error?.name, 'ZTensorError')
  t.is(error?.code, 'ZT_BAD_SHAPE')
  t.is(error?.tensor, 'w')
  t.regex(error?.stack ?? '', /open\/file\.test\.mjs/)
  t.regex(inspect(error), /ZT_BAD_SHAPE/)
})

test('errors of the promise have the stack of the caller', async (t) => {
  const error = await open(zt10({ w: square10({ shape: [5] }) })).catch((e) => e)
  t.is(error.code, 'ZT_BAD_SHAPE')
  t.true(error.stack.includes(error.message))
})

test('lists a hundred thousand tensors', (t) => {
  const count = 100_000
  const entries = Array.from(
    { length: count },
    (_, i) => `"t${i}":{"dtype":"U8","shape":[1],"data_offsets":[${i},${i + 1}]}`,
  )
  const header = Buffer.from(`{${entries.join(',')}}`)
  const size = Buffer.alloc(8)
  size.writeBigUInt64LE(BigInt(header.length))
  const data = Buffer.from(Array.from({ length: count }, (_, i) => i & 255))
  const file = openSync(scratchFile(Buffer.concat([size, header, data]), 'many.safetensors'))
  t.is(file.size, count)
  let i = 0
  for (const [name, tensor] of file) {
    if (name !== `t${i}` || tensor.dtype !== 'uint8' || tensor.shape[0] !== 1) t.fail(`tensor ${i} is ${name}`)
    i++
  }
  t.is(i, count)
  for (const at of [0, 1, 4095, 4096, 65_535, 99_999]) t.is(file.tensor(`t${at}`).data[0], at & 255)
  t.is(thrownBy(() => file.tensor('t100000'))?.code, 'ZT_NOT_FOUND')
  file.close()
})
