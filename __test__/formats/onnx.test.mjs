// ONNX models of the onnx package (fixtures/onnx-files.py), and external data files.
import { spawnSync } from 'node:child_process'
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync as openFile,
  readFileSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { compare, convert, open, openSync, verify } from 'ztensor'
import { isMapped } from '../helpers/data-placement.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { differences, expectedOf, UNTYPED } from '../helpers/onnx-files.mjs'
import {
  attribute,
  bytes,
  external,
  f32s,
  graph,
  int,
  model,
  node,
  one,
  TYPES,
  tensor,
  varint,
} from '../helpers/onnx-writer.mjs'
import { readings } from '../helpers/readings.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const path = (name) => fixturePath(`onnx/${name}`)
const expected = expectedOf(fixturePath('onnx'))
const root = fileURLToPath(new URL('../..', import.meta.url))

for (const name of expected.keys()) {
  test(`${name}: every value equals that of the onnx package`, async (t) => {
    for (const opened of [openSync(path(name)), await open(path(name))]) {
      t.is(opened.format, 'onnx')
      t.deepEqual(await differences(opened, expected.get(name)), [])
      t.true((await opened.verify()).ok)
      opened.close()
    }
  })

  test(`${name}: all ways of reading agree`, async (t) => {
    const file = await open(path(name))
    const { wrong } = await readings(file)
    t.deepEqual(wrong, [])
    file.close()
  })
}

test('types: lists tensors in file order, and names those without a dtype', async (t) => {
  for (const name of ['types-raw.onnx', 'types-typed.onnx']) {
    const file = await open(readFileSync(path(name)))
    const listed = expected.get(name)
    t.deepEqual([...file.keys()], [...listed.map((one) => one.name), 'texts'])
    const untyped = listed.filter(({ dtype }) => UNTYPED.has(dtype)).map((one) => one.name)
    t.deepEqual(
      file.warnings.map(({ code, tensor }) => [code, tensor]),
      [...untyped, 'texts'].map((one) => ['ZT_WARN_UNKNOWN_TYPE', one]),
    )
    t.is(file.tensor('int4').attributes.data_type, 'INT4')
    t.is(file.tensor('texts').attributes.data_type, 'STRING')
    file.close()
  }
})

test('typed lists: uses fixed numbers in place, decodes varints', (t) => {
  const file = openSync(path('types-typed.onnx'))
  const encodingOf = (name) => file.tensor(name).components.get('data').encoding
  for (const name of ['float', 'double', 'complex64', 'complex128']) t.is(encodingOf(name), 'raw', name)
  for (const name of ['int8', 'float16', 'int64', 'uint32', 'bool']) {
    t.is(encodingOf(name), 'protobuf', name)
    t.is(file.tensor(name).copyReason, 'encoded')
  }
  file.close()
})

test('aliases bytes that happen to be aligned', (t) => {
  const file = openSync(path('types-raw.onnx'))
  const tensors = [...file.values()].filter((one) => one.dtype !== undefined && one.size > 0)
  for (const one of tensors) t.is(one.mapped, one.copyReason === undefined, one.name)
  t.true(file.tensor('uint8').mapped)
  t.is(file.tensor('float').components.get('data').encoding, 'raw')
  file.close()
})

test('a graph: names constants, attributes, subgraphs, functions, training graphs', async (t) => {
  const file = await open(path('graph.onnx'))
  t.deepEqual(
    [...file.keys()],
    [
      'c',
      'one',
      'seven',
      'ones',
      'sevens',
      'text',
      // The onnx package sorts the attributes of a node.
      'choose.else_branch.deep.body.inner',
      'choose.then_branch.then',
      'filled.value',
      'w',
      'sparse',
      'flat',
      'training_info.0.algorithm.trained',
      'com.example.Twice.function',
    ],
  )
  t.deepEqual([...file.tensor('sevens').data], [7n, -7n, 2n ** 40n])
  t.deepEqual([...file.tensor('sparse').coo().toDense()], [0, 1, 0, 2, 0, 3])
  t.deepEqual([...(await file.tensor('sparse').loadCoo()).toDense()], [0, 1, 0, 2, 0, 3])
  t.is(file.tensor('flat').layout, 'onnx.sparse/1')
  t.deepEqual([...file.tensor('flat').components.get('indices').data], [1n, 3n, 5n])
  t.deepEqual(
    file.warnings.map(({ code, tensor }) => [code, tensor]),
    [
      ['ZT_WARN_UNKNOWN_TYPE', 'text'],
      ['ZT_WARN_UNKNOWN_LAYOUT', 'flat'],
    ],
  )
  file.close()
})

test('a graph: lists attributes of the model', (t) => {
  const file = openSync(path('graph.onnx'))
  t.is(file.version, '14')
  t.deepEqual(structuredClone(file.metadata), {
    ir_version: 14,
    model_version: 5,
    producer_name: 'a maker',
    producer_version: '1.2',
    domain: 'com.example',
    doc_string: 'a model',
    opset_import: { 'ai.onnx': 21, 'com.example': 3 },
    metadata_props: { author: 'someone', größe: '3' },
    graph: {
      name: 'a graph',
      doc_string: 'what it does',
      input: [{ name: 'x', type: 'tensor(float32)', shape: ['batch', 3, null] }],
      output: [{ name: 'y', type: 'sequence(tensor(int64))' }],
    },
  })
  file.close()
})

test('attributes: types of all kinds, strings that are not UTF-8, duplicate keys', (t) => {
  const type = (...fields) => bytes(2, fields)
  const ofTensor = bytes(1, [int(1, 1)])
  const input = (name, ...fields) => bytes(11, [bytes(1, name), type(...fields)])
  const deep = (depth) => (depth === 0 ? ofTensor : bytes(4, [bytes(1, [deep(depth - 1)])]))
  const more = [
    bytes(2, Buffer.from([0xff])),
    ...['1', '2'].map((value) => bytes(14, [bytes(1, 'key'), bytes(2, value)])),
    bytes(8, [bytes(1, 'ai.onnx'), int(2, 3)]),
  ]
  const inputs = [
    input('map', bytes(5, [int(1, TYPES.string), bytes(2, [ofTensor])])),
    input('optional', bytes(9, [bytes(1, [bytes(4, [bytes(1, [ofTensor])])])])),
    input('sparse', bytes(8, [int(1, TYPES.int4), bytes(2, [bytes(1, [int(1, 2)]), bytes(1, [])])])),
    input('opaque', bytes(7, [])),
    input('scalar', bytes(1, [int(1, 77), bytes(2, [])])),
    input('deep', deep(20)),
    bytes(11, [bytes(1, 'nothing')]),
  ]
  const file = openSync(model(graph({ more: inputs }), { more }))
  const { metadata: attributes } = file
  t.deepEqual(attributes.producer_name, Uint8Array.of(0xff))
  t.deepEqual({ ...attributes.metadata_props }, { key: '2' })
  t.deepEqual({ ...attributes.opset_import }, { 'ai.onnx': 17 })
  t.deepEqual(
    attributes.graph.input.map((one) => [one.name, one.type, one.shape]),
    [
      ['map', 'map(string,tensor(float32))', undefined],
      ['optional', 'optional(sequence(tensor(float32)))', undefined],
      ['sparse', 'sparse_tensor(int4)', [2, null]],
      ['opaque', 'opaque', undefined],
      ['scalar', 'tensor(77)', []],
      ['deep', `${'sequence('.repeat(9)}…${')'.repeat(9)}`, undefined],
      ['nothing', '', undefined],
    ],
  )
  file.close()
})

test('omits attributes beyond the limit, with a warning', (t) => {
  const more = Array.from({ length: 50 }, (_, at) => bytes(14, [bytes(1, `${at}`), bytes(2, '')]))
  const file = openSync(model({}, { more }), { maxAttributeValues: 40 })
  t.is(Object.keys(file.metadata.metadata_props).length, 20)
  t.deepEqual(
    file.warnings.map(({ code }) => code),
    ['ZT_WARN_SKIPPED'],
  )
  file.close()
})

/** A model in a new folder, whose tensors are `entries` of external data by name. */
function modelWith(entries, { dims = [2], type } = {}) {
  const folder = scratchPath('model')
  mkdirSync(join(folder, 'sub'), { recursive: true })
  writeFileSync(join(folder, 'w.bin'), f32s(1, 2, 3, 10, 11))
  writeFileSync(join(folder, 'sub/w.bin'), f32s(4, 5))
  writeFileSync(join(dirname(folder), 'outside.bin'), f32s(6, 6))
  const tensors = Object.entries(entries).map(([name, of]) => tensor({ name, dims, type, more: external(of) }))
  writeFileSync(join(folder, 'model.onnx'), model({ tensors }))
  return join(folder, 'model.onnx')
}

test('external data: reads aliases, offsets, subfolders, the rest of a file', async (t) => {
  const at = modelWith({
    a: { location: 'w.bin' },
    b: { location: './w.bin', offset: '12' },
    c: { location: 'sub/w.bin', length: 8, checksum: 'is not looked at' },
    d: { location: './w.bin', offset: '0012', length: '8' },
  })
  const file = await open(at)
  t.deepEqual(file.warnings, [])
  t.deepEqual([...file.tensor('a').data], [1, 2])
  t.deepEqual([...file.tensor('b').data], [10, 11])
  t.deepEqual([...(await file.tensor('c').load())], [4, 5])
  t.deepEqual([...file.tensor('d').data], [10, 11])
  for (const one of file.values()) isMapped(t, one, 4, one.name)
  t.true((await file.verify()).ok)
  const { wrong } = await readings(file)
  t.deepEqual(wrong, [])
  file.close()
  const whole = await open(modelWith({ texts: { location: 'w.bin', offset: 8 } }, { type: TYPES.string }))
  t.deepEqual([...whole.tensor('texts').components.get('data').data], [...f32s(3, 10, 11)])
  whole.close()
})

test('external data: rejects only the data of a missing file or one outside of the folder', async (t) => {
  const paths = [
    'no.bin',
    '../outside.bin',
    'sub/../../outside.bin',
    '/etc/hostname',
    'out.bin',
    'up/outside.bin',
    '*/_ORT_MEM_ADDR_/*',
    '',
  ]
  const named = Object.fromEntries(paths.map((location, at) => [`t${at}`, { location }]))
  const at = modelWith({ ...named, twice: { location: 'no.bin', offset: 1e9 }, good: { location: 'w.bin' } })
  symlinkSync('../outside.bin', join(dirname(at), 'out.bin'))
  symlinkSync('..', join(dirname(at), 'up'))
  const file = await open(at)
  t.is(file.warnings.length, paths.length)
  paths.forEach((location, nth) => {
    const { code, message } = file.warnings[nth]
    t.is(code, 'ZT_WARN_INCOMPLETE_SET')
    t.true(message.includes(JSON.stringify(location)), message)
  })
  t.deepEqual([...file.tensor('good').data], [1, 2])
  for (const name of [...Object.keys(named), 'twice']) {
    t.deepEqual([...file.tensor(name).shape], [2])
    t.is(file.tensor(name).dtype, 'float32')
    const error = await rejectionOf(() => file.tensor(name).load())
    t.true(['ZT_IO', 'ZT_OUT_OF_BOUNDS'].includes(error?.code), `${name}: ${error}`)
    t.is(thrownBy(() => file.tensor(name).data)?.code, error.code)
  }
  t.is((await rejectionOf(() => file.tensor('t1').load())).code, 'ZT_OUT_OF_BOUNDS')
  t.is((await rejectionOf(() => file.tensor('t4').load())).code, 'ZT_OUT_OF_BOUNDS')
  t.is((await rejectionOf(() => file.verify()))?.code, 'ZT_IO')
  file.close()
})

test('external data: reads a path that goes up and stays in the folder, and a length of 0', async (t) => {
  const at = modelWith({
    up: { location: 'sub/../w.bin' },
    down: { location: './sub/../sub/w.bin' },
    zero: { location: 'w.bin', offset: 0, length: 0 },
    end: { location: 'sub/../w.bin', offset: 0, length: '0' },
  })
  const file = await open(at)
  t.deepEqual(file.warnings, [])
  for (const [name, value] of Object.entries({ up: [1, 2], down: [4, 5], zero: [1, 2], end: [1, 2] })) {
    t.deepEqual([...file.tensor(name).data], value, name)
    t.deepEqual([...(await file.tensor(name).load())], value, name)
  }
  t.true((await file.verify()).ok)
  file.close()
})

test('external data: follows links that stay in the folder', (t) => {
  const at = modelWith({ a: { location: 'link.bin' } })
  symlinkSync('sub/w.bin', join(dirname(at), 'link.bin'))
  const file = openSync(at)
  t.deepEqual([...file.tensor('a').data], [4, 5])
  file.close()
})

test('external data: rejects that of a model in memory', (t) => {
  const file = openSync(one({ more: external({ location: 'w.bin' }) }))
  t.is(file.warnings[0].code, 'ZT_WARN_INCOMPLETE_SET')
  t.is(thrownBy(() => file.tensor('w').data)?.code, 'ZT_IO')
  file.close()
})

const BEYOND = {
  'beyond the end': { location: 'w.bin', offset: 20 },
  'that is cut off': { location: 'w.bin', offset: 13 },
  'far beyond the end': { location: 'w.bin', offset: 2 ** 52 },
  'longer than the file': { location: 'sub/w.bin', offset: 4, length: 8 },
}
for (const [name, entry] of Object.entries(BEYOND)) {
  test(`external data ${name}: warns, and reads the existing data`, async (t) => {
    const file = openSync(modelWith({ a: entry }))
    t.like(file.warnings, [{ code: 'ZT_WARN_TRUNCATED', tensor: 'a' }])
    t.is((await rejectionOf(() => file.tensor('a').load()))?.code, 'ZT_TRUNCATED')
    t.false((await file.verify()).ok)
    file.close()
  })
}

test('tensors with the same range are tied, overlapping ones cause a warning', (t) => {
  const tied = openSync(modelWith({ a: { location: 'w.bin' }, b: { location: 'w.bin' } }))
  t.deepEqual(tied.warnings, [])
  tied.close()
  const overlapping = openSync(modelWith({ a: { location: 'w.bin' }, b: { location: 'w.bin', offset: 4 } }))
  t.deepEqual(
    overlapping.warnings.map(({ code }) => code),
    ['ZT_WARN_OVERLAP'],
  )
  overlapping.close()
})

test('opens the folder of a model as the model', async (t) => {
  const file = await open(dirname(modelWith({ a: { location: 'w.bin' } })))
  t.deepEqual([...file.tensor('a').data], [1, 2])
  file.close()
})

/** A model in one file whose tensors have gaps as data: its bytes exist and take no disk space. */
function gaps(at, tensors, length) {
  const heads = tensors.map((name) => {
    const own = tensor({ name, dims: [length], type: TYPES.uint8 })
    const raw = Buffer.concat([...own, varint(9 * 8 + 2), varint(length)])
    return Buffer.concat([varint(5 * 8 + 2), varint(raw.length + length), raw])
  })
  const graphLength = heads.reduce((sum, head) => sum + head.length + length, 0)
  const file = openFile(at, 'w')
  let end = writeSync(file, Buffer.concat([int(1, 8), varint(7 * 8 + 2), varint(graphLength)]))
  for (const head of heads) end += writeSync(file, head, 0, head.length, end) + length
  writeSync(file, bytes(8, [int(2, 17)]), 0, undefined, end)
  closeSync(file)
}

test('opens a model of 2 GiB in one file with a few MiB of memory', (t) => {
  const at = scratchPath('large.onnx')
  const names = Array.from({ length: 256 }, (_, nth) => `layer.${nth}.weight`)
  gaps(at, names, 2 ** 23)
  const program = `
    import { openSync } from 'ztensor'
    openSync(process.argv[1] + '.small').close()
    const before = process.resourceUsage().maxRSS
    const file = openSync(process.argv[1])
    const shapes = [...file.values()].map(({ shape }) => shape[0])
    const last = file.tensor('layer.255.weight').slice([[2 ** 23 - 2, 2 ** 23]]).data
    console.log(JSON.stringify({ grownKiB: process.resourceUsage().maxRSS - before, shapes, last: [...last], length: file.byteLength }))`
  gaps(`${at}.small`, ['a'], 10)
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', program, at], { cwd: root })
  t.is(child.status, 0, `${child.stderr}`)
  const { grownKiB, shapes, last, length } = JSON.parse(child.stdout)
  t.true(length > 2 ** 31)
  t.deepEqual(shapes, Array(256).fill(2 ** 23))
  t.deepEqual(last, [0, 0])
  t.true(grownKiB < 32 * 1024, `${grownKiB} KiB`)
})

test('reads external data of more than 4 GiB', async (t) => {
  const at = modelWith({ far: { location: 'far.bin', offset: 5 * 2 ** 30 } })
  const far = openFile(join(dirname(at), 'far.bin'), 'w')
  ftruncateSync(far, 5 * 2 ** 30)
  writeSync(far, f32s(8, 9), 0, 8, 5 * 2 ** 30)
  closeSync(far)
  const file = await open(at)
  t.deepEqual([...(await file.tensor('far').load())], [8, 9])
  t.deepEqual([...file.tensor('far').data], [8, 9])
  file.close()
})

test('detects a model by its fields, and no other file', (t) => {
  const others = {
    'a saved model of TensorFlow': Buffer.concat([int(1, 1), bytes(2, Buffer.alloc(100))]),
    'a model of Core ML': Buffer.concat([int(1, 4), bytes(2, 'description'), bytes(500, Buffer.alloc(100))]),
    'a program of Paddle': bytes(1, Buffer.alloc(100)),
    'a TensorProto': Buffer.concat(tensor({ raw: f32s(1, 2) })),
    zeros: Buffer.alloc(100),
  }
  for (const [name, file] of Object.entries(others))
    t.is(thrownBy(() => openSync(file).close())?.code, 'ZT_BAD_MAGIC', name)
  for (const name of ['types-raw', 'graph', 'external']) {
    const file = openSync(path(`${name}.onnx`))
    t.is(file.format, 'onnx')
    file.close()
  }
})

test('the same weights are equal in lists and in raw bytes', async (t) => {
  const raw = openSync(one({ type: TYPES.int8, raw: Buffer.from([1, 255]) }))
  const typed = openSync(one({ type: TYPES.int8, more: [int(5, 1), int(5, -1)] }))
  t.true((await compare(raw.tensor('w'), typed.tensor('w'))).equal)
  raw.close()
  typed.close()
})

test('converting to zTensor 2 and safetensors keeps values', async (t) => {
  for (const [name, ending, version] of [
    ['types-raw.onnx', 'zt', '2'],
    ['types-typed.onnx', 'zt', '2'],
    ['external.onnx', 'safetensors'],
  ]) {
    const out = scratchPath(`out.${ending}`)
    const { skipped } = await convert(path(name), out, { version, skip: true, copyMetadata: false })
    // zTensor 2 has no 6-bit types either.
    const held = expected.get(name).filter(({ dtype }) => !UNTYPED.has(dtype) && !dtype.startsWith('float6'))
    const file = openSync(out)
    t.deepEqual(await differences(file, held), [])
    const convertible = new Set(held.map((one) => one.name))
    t.deepEqual(
      skipped.map(({ tensor }) => tensor).filter((one) => convertible.has(one)),
      [],
    )
    file.close()
    t.true((await verify(out)).ok)
  }
})

test('a node between tensors costs only its bytes', (t) => {
  const nodes = Array.from({ length: 20_000 }, (_, at) =>
    node({ name: `n${at}`, outputs: [`o${at}`], attributes: [attribute('axis', int(3, at), int(20, 2))] }),
  )
  const file = openSync(model({ nodes, tensors: [tensor({ raw: f32s(1, 2) })] }))
  t.deepEqual([...file.keys()], ['w'])
  file.close()
})
