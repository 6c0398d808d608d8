// ONNX models (onnx.proto), which are protobuf messages.
import {
  attribute,
  bytes,
  double,
  external,
  f32s,
  float,
  graph,
  int,
  model,
  node,
  one,
  packed,
  TYPES,
  tensor,
  varint,
} from '../helpers/onnx-writer.mjs'
import { littleEndian } from '../helpers/bytes.mjs'

const RAW = f32s(1, 2)
const W = { raw: RAW }
const refused = (name, bytes, code, more = {}) => ({ name, bytes, code, options: { format: 'onnx' }, ...more })
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['w'], data: { w: [1, 2] }, ...more })
const typed = (name, of, values) => opens(`typed: ${name}`, one(of), { data: { w: values } })
const UNTYPED = [{ code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'w' }]
const untyped = (name, of, value) => ({
  name: `no dtype: ${name}`,
  bytes: one(of),
  names: ['w'],
  warnings: UNTYPED,
  uses: [
    { call: 'component', tensor: 'w', role: 'data', value },
    { call: 'loadComponent', tensor: 'w', role: 'data', value },
    { call: 'data', tensor: 'w', code: 'ZT_BAD_DTYPE' },
    { call: 'load', tensor: 'w', code: 'ZT_BAD_DTYPE' },
  ],
})
const lists = (name, of, code, value) => ({
  name: `list: ${name}`,
  bytes: one(of),
  names: ['w'],
  uses: [
    { call: 'load', tensor: 'w', code, value, error: { tensor: 'w' } },
    { call: 'data', tensor: 'w', code, error: { tensor: 'w' } },
    ...(code === undefined ? [] : [{ call: 'verify', code }]),
  ],
})
const nested = (depth) =>
  depth === 0
    ? graph({ tensors: [tensor(W)] })
    : graph({ nodes: [node({ name: 'n', attributes: [attribute('g', bytes(6, nested(depth - 1)))] })] })
const constant = (...fields) => ({ nodes: [node({ type: 'Constant', outputs: ['w'], attributes: [attribute(...fields)] })] })
const sparse = (values, indices, dims) => [bytes(1, tensor(values)), bytes(2, tensor(indices)), ...dims.map((dim) => int(3, dim))]
const int64s = (...values) => littleEndian(BigInt64Array.from(values, BigInt))
const COORDS = { name: 'i', type: TYPES.int64, dims: [2, 2], raw: int64s(0, 1, 1, 0) }
const SPARSE = [bytes(15, sparse(W, COORDS, [2, 3]))]
const dense = (name, of, value) => ({
  name: `sparse: ${name}`,
  bytes: model(of),
  names: ['w'],
  uses: [
    { call: 'toDense', tensor: 'w', as: 'coo', value },
    { call: 'component', tensor: 'w', role: 'values', value: [1, 2] },
  ],
})
const badSparse = (name, of) => ({
  name: `sparse: ${name}`,
  bytes: model({ sparse: [of] }),
  names: ['w'],
  uses: [
    { call: 'loadCoo', tensor: 'w', code: 'ZT_BAD_SPARSE', error: { tensor: 'w' } },
    { call: 'verify', code: 'ZT_BAD_SPARSE' },
  ],
})
const byParts = (name, of) => ({
  name: `sparse: ${name}`,
  bytes: model({ sparse: [of] }),
  names: ['w'],
  warnings: [{ code: 'ZT_WARN_UNKNOWN_LAYOUT', tensor: 'w' }],
  uses: [
    { call: 'component', tensor: 'w', role: 'values', value: [1, 2] },
    { call: 'coo', tensor: 'w', code: 'ZT_BAD_LAYOUT' },
  ],
})
const LONG = 'n'.repeat(3000)
/** The expected result for a file with a damaged tensor `lost` and an intact `w`. */
const spared = (code, lost, w = 'w') => ({
  names: [w],
  data: { [w]: [1, 2] },
  warnings: [{ code: 'ZT_WARN_DAMAGED', tensor: lost }],
  uses: [
    { call: 'load', tensor: w, value: [1, 2] },
    { call: 'verify', code, error: { tensor: lost } },
    { call: 'openVerify', code },
  ],
})

export const cases = [
  opens('valid: raw data', one(W)),
  opens('valid: fields in another order', Buffer.concat([bytes(8, [int(2, 17)]), bytes(7, graph({ tensors: [[...tensor(W)].reverse()] })), int(1, 8)])),
  opens('valid: dims packed', one({ ...W, dims: [], more: [packed(1, [2, 1])] })),
  opens('valid: the graph in two pieces', Buffer.concat([model({ tensors: [tensor(W)] }), bytes(7, [])])),
  opens('valid: unknown fields, in the model and below', Buffer.concat([model([...graph({ tensors: [tensor({ ...W, more: [int(99, 1), bytes(98, 'x')] })] }), double(77, 1), float(78, 1)]), bytes(1000, 'later')]), { options: { format: 'onnx' } }),
  opens('valid: a field of another wire type is none', one({ ...W, more: [int(9, 7), bytes(2, 'x'), float(8, 1)] })),
  opens('valid: raw data twice, of which the last counts', one({ ...W, raw: f32s(7, 7), more: [bytes(9, RAW)] })),
  opens('valid: an empty value has no bytes', one({ dims: [0, 3] }), { data: { w: [] } }),
  opens('valid: no name', model({ tensors: [tensor({ ...W, name: '' }), tensor({ ...W, name: null })] }), {
    names: ['initializer.0', 'initializer.1'],
    data: { 'initializer.0': [1, 2], 'initializer.1': [1, 2] },
  }),
  opens('valid: names that stand twice', model({ tensors: [tensor(W), tensor(W), tensor({ ...W, name: 'w~2' }), tensor(W)] }), {
    names: ['w', 'w~2', 'w~2~2', 'w~3'],
    warnings: [
      { code: 'ZT_WARN_RENAMED', tensor: 'w~2' },
      { code: 'ZT_WARN_RENAMED', tensor: 'w~2~2' },
      { code: 'ZT_WARN_RENAMED', tensor: 'w~3' },
    ],
  }),
  opens('valid: neither type nor data', model({ tensors: [[bytes(8, 'x')], tensor(W)] }), { warnings: [{ code: 'ZT_WARN_SKIPPED' }] }),

  typed('float_data, one by one', { more: [float(4, 1), float(4, 2)] }, [1, 2]),
  typed('float_data, packed and one by one, others between', { more: [bytes(4, f32s(1)), bytes(12, 'a text'), float(4, 2)] }, [1, 2]),
  typed('float_data, packed in two', { more: [bytes(4, f32s(1)), bytes(4, f32s(2))] }, [1, 2]),
  typed('double_data, one by one', { type: TYPES.double, more: [double(10, 1), double(10, 2)] }, [1, 2]),
  typed('int32_data of int8', { type: TYPES.int8, more: [packed(5, [-1, 127])] }, [-1, 127]),
  typed('int32_data of int8, one by one', { type: TYPES.int8, more: [int(5, -1), int(5, 127)] }, [-1, 127]),
  typed('int32_data of float16', { type: TYPES.float16, more: [packed(5, [0xffff, 0])] }, [0xffff, 0]),
  typed('int64_data', { type: TYPES.int64, more: [packed(7, [-1, 2 ** 40])] }, [-1, 2 ** 40]),
  typed('uint64_data of uint32', { type: TYPES.uint32, more: [packed(11, [0xffffffff, 1])] }, [0xffffffff, 1]),
  typed('an empty list', { dims: [0], type: TYPES.int64, more: [packed(7, [])] }, []),
  typed('raw data before a list', { raw: RAW, more: [bytes(4, f32s(3, 4))] }, [1, 2]),
  typed('a list before raw data of no bytes', { raw: '', more: [bytes(4, f32s(3, 4))] }, [3, 4]),

  untyped('int4', { type: TYPES.int4, dims: [3], raw: Buffer.from([0x21, 3]) }, [0x21, 3]),
  untyped('int4, as a list', { type: TYPES.int4, dims: [3], more: [packed(5, [0x21, 3])] }, [0x21, 3]),
  untyped('texts', { type: TYPES.string, more: [bytes(6, 'ab'), bytes(6, '')] }, [0x32, 2, 97, 98, 0x32, 0]),
  untyped('a type of later', { type: 99, raw: 'xyz' }, [120, 121, 122]),
  untyped('a type of later, as a list', { type: 99, more: [packed(5, [1, 2])] }, [0x2a, 2, 1, 2]),
  {
    name: 'a segment of a tensor',
    bytes: one({ ...W, more: [bytes(3, [int(1, 0), int(2, 1)])] }),
    names: ['w'],
    warnings: [{ code: 'ZT_WARN_UNKNOWN_ENCODING', tensor: 'w' }],
    uses: [
      { call: 'load', tensor: 'w', code: 'ZT_UNSUPPORTED_ENCODING' },
      { call: 'data', tensor: 'w', code: 'ZT_UNSUPPORTED_ENCODING' },
    ],
  },

  lists('as many bytes as numbers, and fewer numbers', { type: TYPES.int64, more: [bytes(7, [varint(300)])] }, 'ZT_DECODE'),
  lists('a number that does not end', { type: TYPES.int64, more: [bytes(7, Buffer.from([1, 0x80]))] }, 'ZT_DECODE'),
  lists('a number of more than 64 bits', { dims: [1], type: TYPES.int64, more: [bytes(7, Buffer.alloc(10, 0xff))] }, 'ZT_DECODE'),
  lists('more numbers than the shape has', { dims: [2], type: TYPES.int64, more: [bytes(7, [1, 2, 3].map(varint))] }, 'ZT_DECODE'),

  opens('constant: a float', model(constant('value_float', float(2, 1.5))), { data: { w: [1.5] } }),
  opens('constant: an integer', model(constant('value_int', int(3, -7))), { data: { w: [-7] } }),
  opens('constant: floats', model(constant('value_floats', float(7, 1), float(7, 2)))),
  opens('constant: floats, packed', model(constant('value_floats', bytes(7, RAW)))),
  opens('constant: integers', model(constant('value_ints', int(8, 1), int(8, 2)))),
  opens('constant: integers, packed', model(constant('value_ints', packed(8, [1, 300, -1]), int(8, 5))), { data: { w: [1, 300, -1, 5] } }),
  opens('constant: no integers', model(constant('value_ints', packed(8, []))), { data: { w: [] } }),
  opens('constant: a tensor', model(constant('value', bytes(5, tensor({ ...W, name: 'other' }))))),
  opens('constant: a tensor, its attribute before all else', model({ nodes: [[bytes(5, [bytes(5, tensor(W)), bytes(1, 'value')]), bytes(4, 'Constant'), bytes(2, 'w')]] })),
  opens('constant: of the domain ai.onnx', model({ nodes: [node({ type: 'Constant', domain: 'ai.onnx', outputs: ['w'], attributes: [attribute('value', bytes(5, tensor(W)))] })] })),
  opens('constant: a text', model(constant('value_string', bytes(4, 'ab'))), { data: {}, warnings: UNTYPED, uses: [{ call: 'component', tensor: 'w', role: 'data', value: [0x22, 2, 97, 98] }] }),
  opens('constant of another domain: its tensors are attributes', model({ nodes: [node({ type: 'Constant', name: 'n', domain: 'x', outputs: ['w'], attributes: [attribute('value', bytes(5, tensor(W))), attribute('value_float', float(2, 1))] })] }), {
    names: ['n.value'],
    data: { 'n.value': [1, 2] },
  }),
  opens('attributes: lists, and nodes without a name', model({ nodes: [node({ outputs: ['', 'o'], attributes: [attribute('t', bytes(10, tensor(W)), bytes(10, tensor(W)))] }), node({ outputs: ['o'], attributes: [attribute('t', bytes(5, tensor(W)))] })] }), {
    names: ['Op.t.0', 'Op.t.1', 'o.t'],
    data: { 'Op.t.0': [1, 2], 'Op.t.1': [1, 2], 'o.t': [1, 2] },
  }),
  opens('subgraphs: as deep as they may be', model(nested(32)), { names: [`${'n.g.'.repeat(32)}w`], data: {} }),
  opens('subgraphs: a list of them', model({ nodes: [node({ name: 'n', attributes: [attribute('g', bytes(11, nested(0)), bytes(11, nested(0)))] })] }), {
    names: ['n.g.0.w', 'n.g.1.w'],
    data: { 'n.g.1.w': [1, 2] },
  }),

  dense('coordinates', SPARSE, [0, 1, 0, 2, 0, 0]),
  dense('coordinates of one dimension', [bytes(15, sparse(W, { ...COORDS, dims: [2], raw: int64s(0, 2) }, [3]))], [1, 0, 2]),
  dense('coordinates of one dimension, as a column', [bytes(15, sparse(W, { ...COORDS, dims: [2, 1], raw: int64s(0, 2) }, [3]))], [1, 0, 2]),
  dense('coordinates in a list', [bytes(15, sparse(W, { ...COORDS, raw: undefined, more: [packed(7, [0, 1, 1, 0])] }, [2, 3]))], [0, 1, 0, 2, 0, 0]),
  badSparse('a coordinate beyond the shape', sparse(W, { ...COORDS, raw: int64s(0, 3, 1, 0) }, [2, 3])),
  badSparse('a negative coordinate', sparse(W, { ...COORDS, raw: int64s(0, -1, 1, 0) }, [2, 3])),
  byParts('positions in the flat tensor', sparse(W, { ...COORDS, dims: [2], raw: int64s(1, 3) }, [2, 3])),
  byParts('indices that are no integers', sparse(W, { name: 'i', dims: [2, 2], raw: f32s(0, 1, 1, 0) }, [2, 3])),
  byParts('coordinates of another rank', sparse(W, COORDS, [2, 3, 4])),
  refused('sparse: another number of coordinates', model({ sparse: [sparse(W, { ...COORDS, dims: [3, 2], raw: int64s(0, 1, 1, 0, 1, 1) }, [2, 3])] }), 'ZT_BAD_SPARSE', { error: { tensor: 'w' } }),
  refused('sparse: a shape beyond 64 bits', model({ sparse: [sparse(W, COORDS, [2 ** 40, 2 ** 40])] }), 'ZT_BAD_SHAPE'),
  refused('sparse: values that lack bytes', model({ sparse: [sparse({ dims: [2] }, COORDS, [2, 3])] }), 'ZT_BAD_SHAPE', { error: { tensor: 'w' } }),

  // Detected by its bytes
  { name: 'no model: too few bytes', bytes: Buffer.from([8, 1]), code: 'ZT_TRUNCATED' },
  { name: 'no model: a version and no graph', bytes: Buffer.concat([int(1, 8), bytes(2, 'some producer')]), code: 'ZT_BAD_MAGIC' },
  opens('detected: a graph and no version', bytes(7, graph({ tensors: [tensor(W)] }))),
  opens('detected: a graph of a node and no version', bytes(7, graph(constant('value', bytes(5, tensor({ ...W, name: '' })))))),
  opens('detected: no version, operators and a producer', Buffer.concat([bytes(2, 'nobody'), bytes(7, graph({ tensors: [tensor(W)] })), bytes(8, [int(2, 17)])])),
  opens('detected: a field of a later version first', Buffer.concat([bytes(1000, 'later'), one(W)])),
  opens('detected: a number of a later version first, no version', Buffer.concat([int(77, 1), bytes(7, graph({ tensors: [tensor(W)] }))])),
  opens('detected: a field of a later version behind', Buffer.concat([one(W), bytes(99, 'x')])),
  opens('detected: a group first', Buffer.concat([Buffer.from([0x9b, 0x06, 0x08, 1, 0x9c, 0x06]), one(W)])),
  opens('detected: groups in a group, and one in the tensor', Buffer.concat([Buffer.from([0x0b, 0x13, 0x1a, 1, 65, 0x14, 0x0c]), one({ ...W, more: [Buffer.from([0x9b, 0x06, 0x9c, 0x06])] })])),
  ...Object.entries({
    'no version, and no more than a name in the graph': bytes(7, [bytes(2, 'x')]),
    'no version, and a graph of something else': bytes(7, [bytes(5, [int(2, 1000), bytes(9, 'x')])]),
    'no version, and a node without an operator': bytes(7, [bytes(1, [bytes(1, 'x')])]),
    'no version, and a node that is a text': bytes(7, [bytes(1, 'a text of no use')]),
    'no version, and a tensor of no type': bytes(7, [bytes(5, [bytes(8, 'x')])]),
    'no version, and an empty graph': bytes(7, []),
    'a field of a later version, and a graph of something else': Buffer.concat([int(1, 8), bytes(99, 'x'), bytes(7, [bytes(2, 'x')])]),
    'a group alone': Buffer.from([0x0b, 0x08, 1, 0x0c, 0x0b, 0x0c]),
    'a group that does not end': Buffer.concat([Buffer.from([0x0b]), one(W)]),
    'fields of a model of other wire types': Buffer.concat([int(2, 1), bytes(7, graph({ tensors: [tensor(W)] }))]),
  }).map(([name, bytes]) => ({ name: `no model: ${name}`, bytes, code: ['ZT_BAD_MAGIC', 'ZT_TRUNCATED'] })),
  { name: 'no model: a version that does not exist', bytes: model({ tensors: [tensor(W)] }, { version: 1000 }), code: 'ZT_BAD_MAGIC' },
  { name: 'no model: a graph of something else', bytes: model([int(1, 5), bytes(2, 'x')]), code: 'ZT_BAD_MAGIC' },
  { name: 'a model that is cut off', bytes: one(W).subarray(0, -20), code: 'ZT_TRUNCATED' },
  refused('asked for: nothing of a model', Buffer.concat([bytes(99, 'some other message')]), 'ZT_BAD_MAGIC'),
  refused('format given: a text', Buffer.from('no message but a text, and not even a short t'), ['ZT_BAD_INDEX', 'ZT_TRUNCATED']),

  // Protocol Buffers: encoding
  refused('a number that does not end', Buffer.concat([one(W), Buffer.from([0x08, 0x80])]), 'ZT_TRUNCATED', { error: { rule: true, offset: true } }),
  refused('a number of more than 64 bits', Buffer.concat([Buffer.from([0x08]), Buffer.alloc(11, 0xff), one(W)]), 'ZT_BAD_INDEX', { error: { rule: true, offset: true } }),
  refused('a field without a number', Buffer.concat([Buffer.from([0x02, 0x00]), one(W)]), 'ZT_BAD_INDEX', { error: { rule: true } }),
  refused('a group that ends as another', Buffer.concat([Buffer.from([0x0b, 0x14]), one(W)]), 'ZT_BAD_INDEX', { error: { rule: true } }),
  refused('the end of no group', Buffer.concat([Buffer.from([0x0c]), one(W)]), 'ZT_BAD_INDEX', { error: { rule: true } }),
  refused('groups too deep', Buffer.concat([Buffer.alloc(1000, 0x0b), one(W)]), 'ZT_LIMIT'),
  ...Object.entries({
    'a negative dimension': [{ ...W, dims: [-1] }, 'ZT_BAD_SHAPE'],
    'too few bytes': [{ ...W, dims: [3] }, 'ZT_BAD_SHAPE'],
    'a name that is not UTF-8': [{ ...W, name: Buffer.from([0xff]) }, 'ZT_BAD_INDEX'],
    'raw data that goes beyond it': [{ more: [bytes(9, RAW, 1000)] }, 'ZT_BAD_INDEX'],
  }).map(([name, [of, code]]) => ({
    name: `damaged: ${name}, next to another tensor`,
    bytes: model({ tensors: [tensor({ name: 'x', ...of }), tensor(W)] }),
    ...spared(code, Buffer.isBuffer(of.name) ? 'initializer.0' : 'x'),
  })),
  ...Object.entries({
    'packed floats that are no whole number': ['value_floats', bytes(7, Buffer.alloc(5)), 'ZT_BAD_INDEX'],
    'packed numbers that do not end': ['value_ints', bytes(8, Buffer.from([1, 0x80])), 'ZT_BAD_INDEX'],
  }).map(([name, [attributeName, field, code]]) => ({
    name: `damaged: a constant of ${name}, next to another tensor`,
    bytes: model({ tensors: [tensor(W)], nodes: [node({ type: 'Constant', outputs: ['x'], attributes: [attribute(attributeName, field)] })] }),
    ...spared(code, 'x'),
  })),
  {
    name: 'damaged: tensors without a name keep their numbers',
    bytes: model({ tensors: [tensor({ name: null, dims: [-1] }), tensor({ ...W, name: null })] }),
    ...spared('ZT_BAD_SHAPE', 'initializer.0', 'initializer.1'),
  },
  {
    name: 'damaged: a sparse tensor, next to another tensor',
    bytes: model({ tensors: [tensor(W)], sparse: [sparse({ ...W, name: 'x' }, COORDS, [-2, 3])] }),
    ...spared('ZT_BAD_SHAPE', 'x'),
  },
  {
    name: 'damaged: a tensor of a subgraph, next to another tensor',
    bytes: model({ tensors: [tensor(W)], nodes: [node({ name: 'n', attributes: [attribute('g', bytes(6, graph({ tensors: [tensor({ name: 'x', dims: [-1] })] })))] })] }),
    ...spared('ZT_BAD_SHAPE', 'n.g.x'),
  },
  refused('an invalid wire type', Buffer.concat([Buffer.from([0x0f]), one(W)]), 'ZT_BAD_INDEX'),
  refused('a length beyond the file', Buffer.concat([int(1, 8), bytes(7, [bytes(5, tensor(W))], 2n ** 63n)]), 'ZT_TRUNCATED'),
  refused('a length of 64 bits', Buffer.concat([int(1, 8), bytes(7, [bytes(5, tensor(W))], 2n ** 64n - 1n)]), 'ZT_TRUNCATED'),
  refused('a tensor that goes beyond its graph', model([bytes(5, tensor(W), 1000)]), 'ZT_BAD_INDEX', { error: { rule: true, offset: true } }),
  refused('raw data that goes beyond its tensor', model({ tensors: [[...tensor(), bytes(9, RAW, 1000)]] }), 'ZT_BAD_INDEX'),
  refused('packed dims that do not end', one({ ...W, dims: [], more: [bytes(1, Buffer.from([0x80]))] }), ['ZT_BAD_INDEX', 'ZT_TRUNCATED']),
  refused('a name that is not UTF-8', one({ ...W, name: Buffer.from([0xff]) }), 'ZT_BAD_INDEX'),
  refused('a name of 1 MB', one({ ...W, name: 'x'.repeat(1 << 20) }), 'ZT_LIMIT'),
  refused('subgraphs too deep', model(nested(33)), 'ZT_LIMIT'),
  refused('subgraphs deeper than any stack', () => model(bomb(20_000)), 'ZT_LIMIT'),
  refused('a long path of subgraphs', model({ nodes: [node({ name: LONG, attributes: [attribute(LONG, bytes(6, nested(0)))] })] }), 'ZT_LIMIT'),
  refused('more to look at than is allowed', model({ tensors: Array(100).fill(tensor(W)) }), 'ZT_LIMIT', { options: { format: 'onnx', maxIndexBytes: 1000 } }),

  // TensorProto
  refused('a negative dimension', one({ ...W, dims: [-1] }), 'ZT_BAD_SHAPE', { error: { tensor: 'w' } }),
  refused('a huge dimension', one({ ...W, dims: [2 ** 60] }), 'ZT_LIMIT'),
  refused('a shape beyond 64 bits', one({ ...W, dims: [2 ** 40, 2 ** 40] }), 'ZT_LIMIT', { error: { tensor: 'w' } }),
  refused('too many dimensions', one({ ...W, dims: Array(65).fill(1) }), 'ZT_LIMIT'),
  refused('too few bytes', one({ raw: RAW.subarray(1) }), 'ZT_BAD_SHAPE', { error: { tensor: 'w', rule: true, offset: true } }),
  refused('too many bytes', one({ raw: f32s(1, 2, 3) }), 'ZT_BAD_SHAPE', { error: { tensor: 'w' } }),
  refused('too few bytes of four bits', one({ type: TYPES.int4, dims: [3], raw: Buffer.from([1]) }), 'ZT_BAD_SHAPE'),
  refused('no data', one(), 'ZT_BAD_SHAPE', { error: { tensor: 'w', rule: true } }),
  refused('the list of another type', one({ more: [packed(5, [1, 2])] }), 'ZT_BAD_SHAPE'),
  refused('too few numbers', one({ more: [float(4, 1)] }), 'ZT_BAD_SHAPE', { error: { tensor: 'w', offset: true } }),
  refused('more numbers than there are bytes', one({ dims: [1000], type: TYPES.int64, more: [packed(7, [1, 2])] }), 'ZT_BAD_SHAPE'),
  refused('fewer numbers than bytes can be', one({ dims: [1], type: TYPES.int64, more: [bytes(7, Buffer.alloc(11, 1))] }), 'ZT_BAD_SHAPE'),
  refused('packed floats that are no whole number', one({ more: [bytes(4, Buffer.alloc(7))] }), 'ZT_BAD_INDEX'),
  refused('texts that are not as many', one({ type: TYPES.string, more: [bytes(6, 'a')] }), 'ZT_BAD_SHAPE'),
  refused('external data without a location', one({ more: external({ offset: 0 }) }), 'ZT_BAD_INDEX', { error: { tensor: 'w', rule: true } }),
  ...['-1', '+1', ' 1', '1 ', '0x10', '1e3', '', '18446744073709551616', '١'].map((offset) =>
    refused(`external data at ${JSON.stringify(offset)}`, one({ more: external({ location: 'x', offset }) }), 'ZT_BAD_INDEX'),
  ),
  refused('external data that ends beyond 2^53', one({ more: external({ location: 'x', offset: '18446744073709551615' }) }), 'ZT_LIMIT'),
  refused('external data of another length', one({ more: external({ location: 'x', length: 7 }) }), 'ZT_BAD_SHAPE', { error: { tensor: 'w' } }),
]

/** Subgraphs so deep that each would take a frame of the stack. */
function bomb(depth) {
  const heads = []
  let length = 0
  // From the innermost outward: the bytes before it depend on its length.
  for (let at = 0; at < depth; at++)
    for (const number of [6, 5, 1]) {
      const head = Buffer.concat([varint(number * 8 + 2), varint(length)])
      heads.push(head)
      length += head.length
    }
  return [Buffer.concat(heads.reverse())]
}
