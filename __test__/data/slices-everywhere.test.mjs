// A slice equals indexing the whole tensor: for every kind of storage, by every call that takes a slice. Bounds, steps and single
// indices are random; a step may be longer than its range. The same applies to elements taken by a random list of
// indices.
import { readdirSync } from 'node:fs'
import { basename } from 'node:path'
import test from 'ava'
import fc from 'fast-check'
import { open } from 'ztensor'
import { deflated, hdf5Chunks } from '../corpus/hdf5-chunks.mjs'
import { npy, zip } from '../corpus/numpy.mjs'
import { archive, dict, pickle, text, tensor as torchTensor } from '../corpus/pytorch.mjs'
import { frame, seekable } from '../corpus/zstd.mjs'
import { zt01, zt10 } from '../corpus/zt.mjs'
import { lone } from '../corpus/zt2.mjs'
import { littleEndian, sameBytes } from '../helpers/bytes.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { json } from '../helpers/command.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'
import { serveFiles } from '../remote/web.mjs'

const product = (shape) => shape.reduce((total, size) => total * size, 1)

/** The indices of a dimension that an entry of a slice names. */
function indicesOf(entry, size) {
  const from = (bound, otherwise) => (bound == null ? otherwise : bound < 0 ? bound + size : bound)
  if (entry?.length === 1) return [from(entry[0])]
  const [start, stop, step] = [from(entry?.[0], 0), from(entry?.[1], size), entry?.[2] ?? 1]
  const indices = []
  for (let index = start; index < stop; index += step) indices.push(index)
  return indices
}

/** Shape and bytes of a slice, element by element. Elements of less than a byte are counted in halves. */
function sliced(whole, shape, entries, bits) {
  const dims = shape.map((size, dim) => indicesOf(entries[dim] ?? null, size))
  let flat = [0]
  dims.forEach((indices, dim) => {
    flat = flat.flatMap((base) => indices.map((index) => base * shape[dim] + index))
  })
  const width = bits / 8
  const bytes = Buffer.alloc(flat.length * width)
  flat.forEach((at, nth) => {
    whole.copy(bytes, nth * width, at * width, (at + 1) * width)
  })
  return { bytes, flat, shape: dims.map((indices) => indices.length).filter((_, dim) => entries[dim]?.length !== 1) }
}

const entryOf = (size) =>
  fc.oneof(
    fc.constant(null),
    ...(size > 0 ? [fc.integer({ min: -size, max: size - 1 }).map((index) => [index])] : []),
    fc
      .tuple(
        fc.nat(size),
        fc.nat(size),
        fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: size + 3 })),
      )
      .map(([a, b, step]) => [Math.min(a, b), Math.max(a, b), step]),
    fc.tuple(fc.nat(size), fc.integer({ min: 1, max: size + 3 })).map(([start, step]) => [start, null, step]),
    fc.nat(size).map((stop) => [null, stop]),
  )

/** Missing entries select all of the remaining dimensions. */
const entriesOf = (shape) =>
  fc
    .tuple(fc.nat(shape.length), fc.tuple(...shape.map(entryOf)))
    .map(([count, entries]) => entries.slice(0, Math.max(count, shape.length - 1)))

/** Compares a slice by every call with the same one of the whole. */
async function agrees(t, tensor, whole, entries, what) {
  const { dtype, shape } = tensor
  const bits = (whole.byteLength * 8) / product(shape) || 8
  const expected = sliced(littleEndian(whole), shape, entries, bits)
  const where = `${what}: ${tensor.name} ${dtype} [${shape}] ${JSON.stringify(entries)}`
  const same = (view, call) => sameBytes(t, littleEndian(view), littleEndian(expected.bytes), `${call} of ${where}`)
  const isLocal = tensor.copyReason !== 'remote'
  if (isLocal) {
    const part = tensor.slice(entries)
    same(part.data, 'slice')
    t.deepEqual([...part.shape], expected.shape, where)
  }
  same(await tensor.load({ slice: entries }), 'load({ slice })')
  same(
    await tensor.load({ slice: entries, into: new whole.constructor(expected.bytes.length / whole.BYTES_PER_ELEMENT) }),
    'into',
  )
  if (/^(float(8|16|32|64)|bfloat|u?int(8|16|32)$)/.test(dtype)) {
    const floats = await tensor.load({ as: 'float32' })
    const wanted = Float32Array.from(expected.flat, (at) => floats[at])
    sameBytes(t, await tensor.load({ slice: entries, as: 'float32' }), wanted, `as float32 of ${where}`)
    const into = await tensor.load({ slice: entries, as: 'float32', into: new Float32Array(wanted.length) })
    sameBytes(t, into, wanted, `as float32, into, of ${where}`)
    if (isLocal) sameBytes(t, tensor.slice(entries).toFloat32(), wanted, `toFloat32 of ${where}`)
  }
  // A single element is a slice, too.
  if (isLocal && product(shape) > 0 && shape.length > 0 && whole.length === product(shape)) {
    const index = shape.map((size, dim) => indicesOf(entries[dim] ?? null, size)[0] ?? 0)
    const value = tensor.at(...index)
    const at = index.reduce((flat, i, dim) => flat * shape[dim] + i, 0)
    if (/^(float(32|64)|u?int\d+)$/.test(dtype)) t.is(value, whole[at], `at(${index}) of ${where}`)
  }
}

/** A dimension, and a list of indices of it; undefined for a scalar. */
const takeOf = (shape) => {
  const dims = shape.flatMap((size, dim) => (size > 0 ? [dim] : []))
  if (dims.length === 0) return fc.constant(undefined)
  return fc.constantFrom(...dims).chain((axis) =>
    fc.record({
      axis: fc.constantFrom(axis, axis - shape.length),
      indices: fc.array(fc.integer({ min: -shape[axis], max: shape[axis] - 1 }), { maxLength: 8 }),
    }),
  )
}

/** The positions of the elements that `take` returns, in order. */
function taken(shape, { axis, indices }) {
  const dim = axis < 0 ? axis + shape.length : axis
  const [outer, inner] = [product(shape.slice(0, dim)), product(shape.slice(dim + 1))]
  const all = []
  for (let plane = 0; plane < outer; plane++)
    for (const index of indices)
      for (let at = 0; at < inner; at++)
        all.push((plane * shape[dim] + (index < 0 ? index + shape[dim] : index)) * inner + at)
  return all
}

/** Compares elements that were taken by their indices with the same ones of the whole. */
async function takesAgree(t, tensor, whole, floats, wanted, what) {
  if (wanted === undefined) return
  const { axis, indices } = wanted
  const flat = taken(tensor.shape, wanted)
  const where = `take ${JSON.stringify(wanted)} of ${what}: ${tensor.name} [${tensor.shape}]`
  const width = whole && whole.byteLength / (product(tensor.shape) || 1)
  if (whole !== undefined && !/^float[46]/.test(tensor.dtype)) {
    const bytes = Buffer.concat(flat.map((at) => littleEndian(whole).subarray(at * width, (at + 1) * width)))
    sameBytes(t, littleEndian(await tensor.take(indices, { axis })), littleEndian(bytes), where)
    const into = new whole.constructor(bytes.length / whole.BYTES_PER_ELEMENT)
    sameBytes(
      t,
      littleEndian(await tensor.take(Int32Array.from(indices), { axis, into })),
      littleEndian(bytes),
      `${where}, into`,
    )
  }
  if (floats !== undefined) {
    const expected = Float32Array.from(flat, (at) => floats[at])
    sameBytes(t, await tensor.take(indices, { axis, as: 'float32' }), expected, `${where}, as float32`)
  }
}

async function property(t, source, what, { numRuns = 40, elements, options } = {}) {
  const file = await open(source, options)
  const dense = [...file.values()].filter(
    ({ layout, dtype, size }) => layout === 'dense' && dtype !== undefined && size <= 4096,
  )
  let tried = 0
  for (const tensor of dense) {
    const whole = await tensor.load().catch(() => undefined)
    // A tensor without readable values has no slices, and packed elements have slices only at byte boundaries.
    if (whole === undefined || whole.byteLength < product(tensor.shape)) continue
    if (elements) sameBytes(t, littleEndian(whole), littleEndian(elements), what)
    await fc.assert(
      fc.asyncProperty(entriesOf(tensor.shape), async (entries) => agrees(t, tensor, whole, entries, what)),
      { numRuns: scaled(numRuns), seed: 33 },
    )
    const floats = await tensor.load({ as: 'float32' }).catch(() => undefined)
    await fc.assert(
      fc.asyncProperty(takeOf(tensor.shape), async (wanted) => takesAgree(t, tensor, whole, floats, wanted, what)),
      { numRuns: scaled(numRuns), seed: 34 },
    )
    tried += 1
  }
  file.close()
  return tried
}

/** The same for decoded data: quantized tensors, and elements of less than a byte, whose slices begin and end at byte boundaries. */
async function decodedProperty(t, source, what) {
  const file = await open(source)
  let tried = 0
  for (const tensor of file.values()) {
    if (tensor.size > 65536 || /^sparse/.test(tensor.layout)) continue
    const floats = await tensor.load({ as: 'float32' }).catch(() => undefined)
    if (floats === undefined || floats.length === 0) continue
    await fc.assert(
      fc.asyncProperty(entriesOf(tensor.shape), async (entries) => {
        const { flat } = sliced(littleEndian(floats), tensor.shape, entries, 32)
        const where = `${what}: ${tensor.name} ${tensor.layout} [${tensor.shape}] ${JSON.stringify(entries)}`
        for (const into of [undefined, new Float32Array(flat.length)]) {
          const found = await tensor.load({ slice: entries, as: 'float32', into }).catch((error) => error)
          if (found instanceof Error) t.regex(found.message, /starts or ends a run inside a byte|packed/, where)
          else sameBytes(t, littleEndian(found), littleEndian(Float32Array.from(flat, (at) => floats[at])), where)
        }
      }),
      { numRuns: scaled(12), seed: 33 },
    )
    await fc.assert(
      fc.asyncProperty(takeOf(tensor.shape), (wanted) => takesAgree(t, tensor, undefined, floats, wanted, what)),
      { numRuns: scaled(12), seed: 34 },
    )
    tried += 1
  }
  file.close()
  return tried
}

const SHAPE = [7, 5, 6]
const ELEMENTS = Int32Array.from({ length: product(SHAPE) }, (_, at) => at * 257 - 9000)
const RAW = Buffer.from(littleEndian(ELEMENTS))
const swapped = Buffer.from(RAW).swap32()
/** The elements in storage order for ascending strides, or with gaps between them. */
const inStorageOrder = (strides, length) => {
  const bytes = Buffer.alloc(length * 4, 0xee)
  ELEMENTS.forEach((value, at) => {
    const index = [Math.floor(at / 30), Math.floor(at / 6) % 5, at % 6]
    bytes.writeInt32LE(value, index.reduce((sum, i, dim) => sum + i * strides[dim], 0) * 4)
  })
  return bytes
}

/** Frames of 100 bytes, so that some elements span two of them. */
const framed = () => {
  const frames = Array.from({ length: Math.ceil(RAW.length / 100) }, (_, at) => RAW.subarray(at * 100, at * 100 + 100))
  const part = { dtype: 'i32', bytes: seekable(frames), encoding: 'zt.zstd-seekable/1', decoded_length: RAW.length }
  return lone(SHAPE, 'dense', { data: part })
}

const torch = (strides, length) =>
  archive(pickle(dict([text('w'), torchTensor('0', SHAPE, strides, { type: 'IntStorage', numel: length })])), {
    'data/0': inStorageOrder(strides, length),
  })

const STORAGES = {
  mapped: [
    'w.zt',
    () => zt10({ w: { dtype: 'int32', shape: SHAPE, format: 'dense', components: { data: { bytes: RAW } } } }),
  ],
  misaligned: ['w.npy', () => npy("'<i4'", '(7, 5, 6)', RAW)],
  zstd: [
    'w.zt',
    () =>
      zt10({
        w: {
          dtype: 'int32',
          shape: SHAPE,
          format: 'dense',
          components: { data: { bytes: frame(RAW), encoding: 'zstd' } },
        },
      }),
  ],
  'zstd frames': ['w.zt', framed],
  deflate: ['w.npz', () => zip([{ name: 'w.npy', data: npy("'<i4'", '(7, 5, 6)', RAW), deflate: true }])],
  'big-endian': ['w.npy', () => npy("'>i4'", '(7, 5, 6)', swapped)],
  'big-endian, 0.1': [
    'w.zt',
    () => zt01([{ name: 'w', dtype: 'int32', shape: SHAPE, data_endianness: 'big', bytes: swapped }]),
  ],
  'Fortran order': ['w.npy', () => npy("'<i4'", '(7, 5, 6)', inStorageOrder([1, 7, 35], 210), { fortran: 'True' })],
  strided: ['w.pt', () => torch([64, 12, 2], 448)],
  chunks: ['w.h5', () => hdf5Chunks(SHAPE, [3, 2, 4], RAW)],
  'chunks of one row': ['w.h5', () => hdf5Chunks(SHAPE, [1, 5, 6], RAW)],
  'deflated chunks': ['w.h5', () => hdf5Chunks(SHAPE, [4, 5, 1], RAW, deflated)],
  'chunks wider than the array': ['w.h5', () => hdf5Chunks(SHAPE, [9, 9, 9], RAW)],
}

for (const [kind, [name, make]] of Object.entries(STORAGES)) {
  test(`a slice with steps and single indices, ${kind}: equals indexing the whole`, async (t) => {
    const bytes = await make()
    const path = scratchFile(bytes, name)
    t.is(await property(t, path, kind, { elements: ELEMENTS, numRuns: 80 }), 1)
    t.is(await property(t, path, `${kind}, read`, { elements: ELEMENTS, options: { io: 'read' } }), 1)
    t.is(await property(t, bytes, `${kind}, in memory`, { elements: ELEMENTS }), 1)
    const read = async (offset, length) => bytes.subarray(offset, offset + length)
    const source = { byteLength: bytes.length, name: basename(path), read }
    t.is(await property(t, source, `${kind}, ByteSource`, { elements: ELEMENTS, numRuns: 25 }), 1)
    const { url } = await serveFiles(t, { [name]: bytes })
    t.is(await property(t, url(`/${name}`), `${kind}, remote`, { elements: ELEMENTS, numRuns: 12 }), 1)
  })

  test(`a slice with steps and single indices, ${kind}: the command prints the elements of indexing the whole`, async (t) => {
    const path = scratchFile(await make(), name)
    const file = await open(path)
    const [tensor] = file.values()
    for (const [spelled, entries] of [
      [
        '0:1:9,0::3,5:6:4',
        [
          [0, 1, 9],
          [0, null, 3],
          [5, 6, 4],
        ],
      ],
      ['-1,::5,1::5', [[-1], [null, null, 5], [1, null, 5]]],
      ['::7,2,::2', [[null, null, 7], [2], [null, null, 2]]],
      ['5::3', [[5, null, 3]]],
    ]) {
      const { data } = await json(t, ['cat', path, tensor.name, '--json', '--slice', spelled])
      const { flat } = sliced(
        RAW,
        SHAPE,
        entries.map((entry) => entry.map((bound) => bound ?? undefined)),
        32,
      )
      t.deepEqual(
        data.flat(9),
        flat.map((at) => ELEMENTS[at]),
        spelled,
      )
    }
    file.close()
  })
}

const FOLDERS = [
  'hdf5',
  'keras',
  'numpy',
  'pytorch',
  'onnx',
  'tensorflow',
  'tflite',
  'arrow',
  'flax',
  'paddle',
  'gguf',
  '.',
]
for (const folder of FOLDERS) {
  test(`a slice with steps and single indices, files of ${folder === '.' ? 'zTensor, safetensors and BTF' : folder}: equals indexing the whole`, async (t) => {
    const names = readdirSync(fixturePath(folder)).filter((name) => !/\.(json|py|md|cc|bin|xml|data|txt)$/.test(name))
    let tried = 0
    for (const name of names) {
      tried += await property(t, fixturePath(`${folder}/${name}`), `${folder}/${name}`, { numRuns: 4 }).catch(
        (error) => {
          if (error.code?.startsWith('ZT_') && error.code !== 'ZT_INTERNAL') return 0
          throw error
        },
      )
    }
    t.true(tried > 0)
  })
}

for (const [folder, pattern] of [
  ['gguf', /\.gguf$/],
  ['tflite', /\.tflite$/],
  ['onnx', /^types-raw/],
  ['.', /^zt2-|^st-new/],
]) {
  test(`a slice with steps and single indices, quantized and packed elements of ${folder === '.' ? 'zTensor 2 and safetensors' : folder}: equals indexing the whole`, async (t) => {
    let tried = 0
    for (const name of readdirSync(fixturePath(folder)).filter((name) => pattern.test(name) && !name.endsWith('.json')))
      tried += await decodedProperty(t, fixturePath(`${folder}/${name}`), name)
    t.true(tried > 0)
  })
}
