// PyTorch's checkpoints (torch.serialization, torch._utils) and the pickles in them (pickletools, protocols 0 to 5).
import { npy, zip } from './numpy.mjs'
import {
  archive,
  build,
  bytes,
  call,
  cat,
  dict,
  FALSE,
  float,
  global,
  int,
  le,
  legacy,
  list,
  MAGIC,
  NONE,
  ordered,
  pickle,
  storage,
  tensor,
  text,
  TRUE,
  tuple,
} from './pytorch.mjs'
import { f32s, SQUARE } from './zt.mjs'

const VALUES = [1, 2, 3, 4]
const W = tensor('0', [2, 2], [2, 1])
const saved = (main, records = { 'data/0': SQUARE }, more = {}) => archive(main, records, more)
const holding = (...parts) => saved(pickle(dict([text('w'), W], ...parts)))
const opens = (name, file, more = {}) => ({ name, bytes: file, names: ['w'], data: { w: VALUES }, ...more })
const refused = (name, file, code, error) => ({ name, bytes: file, code, error })
const bad = (name, main, code = 'ZT_BAD_INDEX') => refused(`pickle: ${name}`, saved(main), code, { rule: true })
const torch = (name, main, code, error = { rule: true, tensor: 'w' }) =>
  refused(`torch: ${name}`, saved(pickle(dict([text('w'), main]))), code, error)
const SKIPPED = { code: 'ZT_WARN_SKIPPED' }
/** An array of NumPy. */
const array = (type, data, shape, { order = '<', fortran = FALSE } = {}) =>
  build(
    call('numpy.core.multiarray', '_reconstruct', global('numpy', 'ndarray'), tuple(int(0)), bytes(Buffer.from('b'))),
    tuple(
      int(1),
      tuple(...shape.map(int)),
      build(call('numpy', 'dtype', text(type), FALSE, TRUE), tuple(int(3), text(order), NONE, NONE, NONE, int(-1), int(-1), int(0))),
      fortran,
      bytes(data),
    ),
  )
const rebuilt = (...args) => call('torch._utils', '_rebuild_tensor_v2', ...args)
const BYTES = Buffer.from([1, 2, 3, 4, 5, 6, 7, 8])
const LONG = 'k'.repeat(700)
/** A tensor over a storage of bytes, with a dtype that has no storage class. */
const untyped = (name, count, module = 'torch') =>
  call(
    'torch._utils',
    '_rebuild_tensor_v3',
    storage('1', { type: 'UntypedStorage', module: 'torch.storage', numel: BYTES.length }),
    int(0),
    tuple(int(count)),
    tuple(int(1)),
    FALSE,
    ordered(),
    global(module, name),
  )
/** Bytes in the notation of protocols without bytes. */
const latin1 = (value) => call('_codecs', 'encode', text(value), text('latin1'))
const NESTED = 5000
/** A list that contains another one twice, which contains another one twice, and so on. */
const doubled = (levels, inner) => {
  const parts = ['](', inner, 'eq\x00']
  for (let level = 1; level < levels; level++) {
    const before = `h${String.fromCharCode(level - 1)}`
    parts.push(`0](${before}${before}eq${String.fromCharCode(level)}`)
  }
  return cat(...parts)
}

export const cases = [
  opens('valid: an archive', holding()),
  opens('valid: in the root of the archive', saved(pickle(dict([text('w'), W])), undefined, { folder: '' })),
  opens('valid: a deflated pickle', saved(pickle(dict([text('w'), W])), undefined, { deflate: true })),
  opens('valid: a deflated storage', saved(pickle(dict([text('w'), W])), { 'data/0': { data: SQUARE, deflate: true } })),
  opens('valid: big-endian', saved(pickle(dict([text('w'), W])), { 'data/0': Buffer.from(SQUARE).swap32() }, { byteorder: 'big' })),
  opens('valid: little-endian', saved(pickle(dict([text('w'), W])), undefined, { byteorder: 'little' })),
  opens('valid: what follows the pickle is not read', saved(cat(pickle(dict([text('w'), W])), 'rest'))),
  opens('valid: legacy', legacy(pickle(dict([text('w'), W])), [['0', 4, SQUARE]])),
  opens('valid: legacy, a magic number of protocol 0', legacy(pickle(dict([text('w'), W])), [['0', 4, SQUARE]], { magic: cat('L119547037146038801333356L\n.') })),
  opens('valid: legacy, a storage that is a part of another', legacy(pickle(dict([text('w'), tensor('0', [2], [1], { view: tuple(text('v'), int(1), int(2)) })])), [['0', 4, SQUARE]]), { data: { w: [2, 3] } }),
  opens('valid: the elements of a view', saved(pickle(dict([text('w'), tensor('0', [2], [2], { offset: 1 })]))), { data: { w: [2, 4] } }),
  opens('valid: stride 0', saved(pickle(dict([text('w'), tensor('0', [2, 2], [0, 1], { offset: 2 })]))), { data: { w: [3, 4, 3, 4] } }),
  opens('valid: a scalar', saved(pickle(dict([text('w'), tensor('0', [], [], { offset: 3 })]))), { data: { w: [4] } }),
  opens('valid: empty, far beyond its storage', saved(pickle(dict([text('w'), tensor('0', [0, 3], [3, 1], { offset: 99 })]))), { data: { w: [] } }),
  opens('valid: _rebuild_tensor', saved(pickle(dict([text('w'), call('torch._utils', '_rebuild_tensor', storage('0'), int(0), tuple(int(4)), tuple(int(1)))])))),
  opens('valid: _rebuild_tensor_v3 of uint16', saved(pickle(dict([text('w'), call('torch._utils', '_rebuild_tensor_v3', storage('0', { type: 'UntypedStorage', module: 'torch.storage', numel: 4 }), int(0), tuple(int(2)), tuple(int(1)), FALSE, ordered(), global('torch', 'uint16'))])), { 'data/0': Buffer.from([1, 0, 2, 1]) }), { data: { w: [1, 258] } }),
  opens('valid: a parameter', saved(pickle(dict([text('w'), call('torch._utils', '_rebuild_parameter', W, TRUE, ordered())])))),
  opens('valid: a parameter with a state', saved(pickle(dict([text('w'), call('torch._utils', '_rebuild_parameter_with_state', W, TRUE, ordered(), dict([text('tag'), int(1)]))])))),
  opens('valid: a subclass', saved(pickle(dict([text('w'), call('torch._tensor', '_rebuild_from_type_v2', global('torch._utils', '_rebuild_tensor_v2'), global('my', 'Tensor'), tuple(storage('0'), int(0), tuple(int(4)), tuple(int(1)), FALSE, ordered()), dict([text('tag'), int(1)]))])))),
  opens('valid: a wrapper of tensors', saved(pickle(dict([text('w'), call('torch._tensor', '_rebuild_from_type_v2', global('torch._utils', '_rebuild_wrapper_subclass'), global('my', 'Tensor'), tuple(), dict([text('inner'), W]))]))), { names: ['w.inner'], data: { 'w.inner': VALUES } }),
  opens('valid: the device of another machine, by NumPy', saved(pickle(dict([text('w'), call('torch._utils', '_rebuild_device_tensor_from_cpu_tensor', W, global('torch', 'float32'), text('xla:0'), FALSE)])))),
  ...['_rebuild_device_tensor_from_numpy', '_rebuild_xla_tensor', '_rebuild_mlc_tensor'].flatMap((name) => [
    opens(`valid: a tensor of another device, by NumPy, of the same type: ${name}`, saved(pickle(dict([text('w'), call('torch._utils', name, array('f4', f32s(...VALUES), [2, 2]), global('torch', 'float32'), text('xla:0'), FALSE)])))),
    opens(`valid: bfloat16 of another device, which NumPy saved as float32: ${name}`, saved(pickle(dict([text('w'), call('torch._utils', name, array('f4', f32s(1, 2.5, -3, 1.00390625), [2, 2]), global('torch', 'bfloat16'), text('xla:0'), TRUE)]))), { data: { w: [0x3f80, 0x4020, 0xc040, 0x3f80] } }),
  ]),
  opens('valid: big-endian float64 in Fortran order of another device, as float16', saved(pickle(dict([text('w'), call('torch._utils', '_rebuild_device_tensor_from_numpy', array('f8', Buffer.from(Float64Array.of(1, 3, 2, 4).buffer).swap64(), [2, 2], { order: '>', fortran: TRUE }), global('torch', 'float16'), text('xla:0'), FALSE)]))), { data: { w: [0x3c00, 0x4000, 0x4200, 0x4400] } }),
  opens('valid: keys of every kind', saved(pickle(dict([int(-1), W], [TRUE, W], [NONE, W], [float(1e22), W], [tuple(int(1), text("it's")), W]))), {
    names: ['-1', 'True', 'None', '1e+22', `(1, "it's")`],
    data: {},
  }),
  opens('valid: names that two tensors would have', saved(pickle(dict([text('1'), W], [int(1), W], [text('a.b'), W], [text('a'), dict([text('b'), W])]))), {
    names: ['1', '1~2', 'a.b', 'a.b~2'],
    data: { '1~2': VALUES },
    warnings: [
      { code: 'ZT_WARN_RENAMED', tensor: '1~2' },
      { code: 'ZT_WARN_RENAMED', tensor: 'a.b~2' },
    ],
  }),
  opens('valid: a key that is set twice counts once', holding([text('w'), W])),
  opens('valid: more opcodes than attributes may have values', saved(pickle('N0'.repeat(2000), dict([text('w'), W]))), { options: { maxAttributeValues: 10 } }),
  opens('valid: a list in itself', holding([text('l'), cat(']q\x00h\x00a')])),
  opens('valid: a dict in itself, and a tensor', saved(pickle('}q\x00(', text('self'), 'h\x00', text('w'), W, 'u'))),
  opens('valid: lists nested deeper than any', holding([text('deep'), cat(']'.repeat(NESTED), 'a'.repeat(NESTED - 1))]), { warnings: [SKIPPED] }),
  opens('valid: tuples nested deeper than any', holding([text('deep'), cat('N', '\x85'.repeat(NESTED))]), { warnings: [SKIPPED] }),
  opens('valid: attributes that multiply', holding([text('bomb'), doubled(60, int(1))]), { warnings: [SKIPPED] }),
  { name: 'valid: tensors that multiply', bytes: () => saved(pickle(dict([text('w'), doubled(4, W)]))), names: Array.from({ length: 8 }, (_, at) => `w.${at >> 2}.${(at >> 1) & 1}.${at & 1}.0`) },
  opens('valid: tensors that multiply beyond all bounds', saved(pickle(dict([text('w'), W], [text('bomb'), doubled(3, W)], [text('x'), doubled(60, int(1))]))), { names: ['w', 'bomb.0.0.0', 'bomb.0.1.0', 'bomb.1.0.0', 'bomb.1.1.0'], warnings: [SKIPPED] }),
  opens('valid: a call of os.system', holding([text('x'), call('os', 'system', text('exit 1'))]), { warnings: [{ ...SKIPPED, message: 'x: os.system is unknown and was not called: only its parts are read' }] }),
  opens('valid: a call that is thrown away', saved(pickle(call('builtins', 'eval', text('1')), '0', dict([text('w'), W]))), { warnings: [{ ...SKIPPED, message: 'builtins.eval is unknown and was not called: only its parts are read' }] }),
  opens('valid: a class', holding([text('x'), cat(global('os', 'environ'))]), { warnings: [SKIPPED] }),
  opens('valid: an object of an unknown class, with a tensor', saved(pickle(dict([text('o'), build(cat(global('my', 'Thing'), ')\x81'), dict([text('w'), W]))]))), { names: ['o.w'], data: { 'o.w': VALUES }, warnings: [SKIPPED] }),
  opens('valid: an extension', holding([text('x'), cat('\x82\x05)R')]), { warnings: [SKIPPED] }),
  opens('valid: a missing buffer', holding([text('x'), cat('\x97')]), { warnings: [SKIPPED] }),
  opens('valid: a storage without a tensor', holding([text('x'), storage('0')]), { warnings: [SKIPPED] }),
  opens('valid: bytes and long integers', holding([text('x'), bytes(Buffer.from([1, 2]))], [text('y'), cat('\x8a\x0a', Buffer.alloc(10, 0x7f))])),
  opens('valid: protocol 0', saved(cat("(dp0\nVw\np1\n", W, 'sVi\nI5\nsVl\nL123456789012345678901234567890L\nsVf\nF0.5\nsVb\nI01\nsVs\nS\'a\\x41\'\ns.'))),
  opens('valid: a NumPy array of protocol 2', saved(pickle(dict([text('w'), build(call('numpy.core.multiarray', '_reconstruct', global('numpy', 'ndarray'), tuple(int(0)), text('b')), tuple(int(1), tuple(int(4)), build(call('numpy', 'dtype', text('u1'), FALSE, TRUE), tuple(int(3), text('|'), NONE, NONE, NONE, int(-1), int(-1), int(0))), FALSE, call('_codecs', 'encode', text('\x01\x02\x03\xff'), text('latin1'))))])), {}), { data: { w: [1, 2, 3, 255] } }),
  opens('valid: a NumPy array of objects', holding([text('o'), build(call('numpy.core.multiarray', '_reconstruct', global('numpy', 'ndarray'), tuple(int(0)), text('b')), tuple(int(1), tuple(int(1)), build(call('numpy', 'dtype', text('O8'), FALSE, TRUE), tuple(int(3), text('|'), NONE, NONE, NONE, int(-1), int(-1), int(63))), FALSE, list(int(1))))]), { warnings: [SKIPPED] }),

  bad('no STOP', cat('\x80\x02}'), 'ZT_TRUNCATED'),
  bad('empty', Buffer.alloc(0), 'ZT_TRUNCATED'),
  bad('an unknown opcode', cat('\x80\x02\xff.')),
  bad('protocol 6', cat('\x80\x06N.'), 'ZT_UNSUPPORTED_VERSION'),
  bad('an empty stack', cat('.')),
  bad('a value below a mark', cat('N(.')),
  bad('no mark', cat('Nt.')),
  bad('a memo without the value', cat('h\x00.')),
  bad('an invalid memo number', cat('gx\n.')),
  bad('an append to a number', cat('K\x01Na.')),
  bad('an append to a text', cat(text('a'), 'Na.')),
  bad('keys of a list', cat(']NNs.')),
  bad('a key without a value', cat('}(Nu.')),
  bad('an object without a class', cat('(o.')),
  bad('a text that goes beyond the end', cat('X\xff\xff\xff\x7fabc.'), 'ZT_TRUNCATED'),
  bad('bytes of 2^64 - 1', cat('\x8e', Buffer.alloc(8, 0xff), '.'), 'ZT_TRUNCATED'),
  bad('a frame that goes beyond the end', cat('\x80\x04\x95', le(8, 1000), 'N.'), 'ZT_TRUNCATED'),
  bad('a long integer that goes beyond the end', cat('\x8b\xff\xff\xff\x7f1.'), 'ZT_TRUNCATED'),
  bad('a string without quotes', cat('Sabc\n.')),
  bad('an escape that is cut off', cat('V\\u12\n.')),
  bad('no number', cat('Ione\n.')),
  bad('no float', cat('Fone\n.')),
  { name: 'pickle: more bytes than an option allows', bytes: holding(), options: { maxIndexBytes: 40 }, code: 'ZT_LIMIT' },

  torch('a missing storage', tensor('1', [2], [1]), 'ZT_BAD_INDEX'),
  torch('beyond the storage', tensor('0', [5], [1]), 'ZT_OUT_OF_BOUNDS'),
  torch('an offset beyond the storage', tensor('0', [2, 2], [2, 1], { offset: 1 }), 'ZT_OUT_OF_BOUNDS'),
  torch('strides beyond the storage', tensor('0', [2, 2], [3, 1]), 'ZT_OUT_OF_BOUNDS'),
  torch('an offset of 2^63 - 1', tensor('0', [1], [1], { offset: 2n ** 63n - 1n }), 'ZT_OUT_OF_BOUNDS'),
  torch('strides of 2^62', tensor('0', [2, 2], [2n ** 62n, 2n ** 62n]), 'ZT_OUT_OF_BOUNDS'),
  torch('a negative stride', tensor('0', [2], [-1]), 'ZT_BAD_SHAPE', { rule: true }),
  torch('a negative size', tensor('0', [-2], [1]), 'ZT_BAD_SHAPE', { rule: true }),
  torch('a negative offset', tensor('0', [2], [1], { offset: -1 }), 'ZT_BAD_SHAPE', { rule: true }),
  torch('more strides than dimensions', tensor('0', [2], [1, 1]), 'ZT_BAD_SHAPE', { rule: true }),
  torch('more elements than fit', tensor('0', [2n ** 40n, 2n ** 40n], [0, 0]), 'ZT_LIMIT'),
  torch('more dimensions than an option allows', tensor('0', Array(65).fill(1), Array(65).fill(1)), 'ZT_LIMIT', {}),
  torch('no arguments', rebuilt(), 'ZT_BAD_INDEX'),
  torch('arguments of other kinds', rebuilt(text('x'), int(0), tuple(), tuple(), FALSE, ordered()), 'ZT_BAD_INDEX'),
  torch('a shape of texts', rebuilt(storage('0'), int(0), tuple(text('a')), tuple(int(1)), FALSE, ordered()), 'ZT_BAD_INDEX'),
  torch('sparse indices of floats', call('torch._utils', '_rebuild_sparse_tensor', global('torch', 'sparse_coo'), tuple(tensor('0', [1, 4], [4, 1]), tensor('0', [4], [1]), tuple(int(4)))), 'ZT_BAD_DTYPE', { tensor: 'w' }),
  torch('a NumPy array with missing bytes', build(call('numpy.core.multiarray', '_reconstruct', global('numpy', 'ndarray'), tuple(int(0)), text('b')), tuple(int(1), tuple(int(4)), call('numpy', 'dtype', text('f4'), FALSE, TRUE), FALSE, bytes(f32s(1)))), 'ZT_BAD_SHAPE'),

  // One odd tensor does not affect the others
  ...Object.entries({
    'bcomplex32, in a storage of bytes': [untyped('bcomplex32', 2), BYTES],
    'a dtype of a later version, in a storage of bytes': [untyped('float5_e9m9', 4), BYTES],
    'a dtype of another module': [untyped('floatx', 4, 'torch.other'), BYTES],
    bits1x8: [untyped('bits1x8', 8), BYTES],
    bits2x4: [untyped('bits2x4', 8), BYTES],
    bits4x2: [untyped('bits4x2', 8), BYTES],
    uint4: [untyped('uint4', 8), BYTES],
    int3: [untyped('int3', 8), BYTES],
    'two elements in a byte': [tensor('1', [15], [1], { type: 'QUInt4x2Storage', numel: 8 }), BYTES],
    'four elements in a byte': [tensor('1', [32], [1], { type: 'QUInt2x4Storage', numel: 8 }), BYTES],
    'a storage of a later version': [tensor('1', [2, 2], [2, 1], { type: 'NewStorage', numel: 4 }), BYTES],
    'a storage of another module': [tensor('1', [4], [1], { type: 'Storage', module: 'os', numel: 4 }), BYTES],
  }).map(([name, [x, data]]) => ({
    name: `odd: ${name}`,
    bytes: saved(pickle(dict([text('x'), x], [text('w'), W])), { 'data/0': SQUARE, 'data/1': data }),
    names: ['x', 'w'],
    data: { w: VALUES },
    warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'x' }],
    uses: [
      { call: 'component', tensor: 'x', role: 'data', value: [...data] },
      { call: 'loadComponent', tensor: 'x', role: 'data', value: [...data] },
      { call: 'data', tensor: 'x', code: 'ZT_BAD_DTYPE' },
      { call: 'load', tensor: 'x', code: 'ZT_BAD_DTYPE' },
      { call: 'verify' },
    ],
  })),
  {
    name: 'odd: a dtype of a later version, of which nothing says how long it is',
    bytes: saved(pickle(dict([text('x'), untyped('float5_e9m9', 3)], [text('w'), W])), { 'data/0': SQUARE, 'data/1': BYTES }),
    names: ['x', 'w'],
    data: { w: VALUES },
    warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'x' }],
    uses: [{ call: 'component', tensor: 'x', role: 'storage', value: [...BYTES] }, { call: 'verify' }],
  },
  {
    name: 'odd: a sparse tensor of a layout of a later version is its parts',
    bytes: saved(pickle(dict([text('x'), call('torch._utils', '_rebuild_sparse_tensor', global('torch', 'sparse_new'), tuple(W, tuple(int(4))))], [text('w'), W]))),
    names: ['x.1.0', 'w'],
    data: { w: VALUES, 'x.1.0': VALUES },
    warnings: [SKIPPED],
  },
  {
    name: 'odd: a quantized tensor of a scheme of a later version is its parts',
    bytes: saved(pickle(dict([text('x'), call('torch._utils', '_rebuild_qtensor', storage('0'), int(0), tuple(int(4)), tuple(int(1)), tuple(global('torch', 'per_group_affine'), W), FALSE, ordered())], [text('w'), W]))),
    names: ['x.4.1', 'w'],
    data: { w: VALUES },
    warnings: [SKIPPED, SKIPPED, SKIPPED],
  },
  ...Object.entries({
    'a storage of a later version, before another': [4, []],
    'a storage of a later version, of bytes': [16, []],
  }).map(([name, [count]]) => ({
    name: `odd: legacy, ${name}`,
    bytes: legacy(pickle(dict([text('x'), tensor('a', [count], [1], { type: 'NewStorage', numel: count })], [text('w'), tensor('b', [2, 2], [2, 1])])), [['a', count, SQUARE], ['b', 4, SQUARE]]),
    names: ['x', 'w'],
    data: { w: VALUES },
    warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'x' }],
    uses: [{ call: 'component', tensor: 'x', role: 'data', value: [...SQUARE] }, { call: 'verify' }],
  })),
  ...Object.entries({
    'a missing storage': [tensor('1', [2], [1]), 'ZT_BAD_INDEX'],
    'beyond the storage': [tensor('0', [5], [1]), 'ZT_OUT_OF_BOUNDS'],
    'a negative stride': [tensor('0', [2], [-1]), 'ZT_BAD_SHAPE'],
    'more strides than dimensions': [tensor('0', [2], [1, 1]), 'ZT_BAD_SHAPE'],
    'more bytes than can be counted': [tensor('0', [2n ** 52n], [0]), 'ZT_LIMIT'],
    'no arguments': [rebuilt(), 'ZT_BAD_INDEX'],
    'sparse indices of floats': [call('torch._utils', '_rebuild_sparse_tensor', global('torch', 'sparse_coo'), tuple(tensor('0', [1, 4], [4, 1]), tensor('0', [4], [1]), tuple(int(4)))), 'ZT_BAD_DTYPE'],
  }).map(([name, [x, code]]) => ({
    name: `damaged: ${name} next to another tensor`,
    bytes: saved(pickle(dict([text('x'), x], [text('w'), W]))),
    names: ['w'],
    data: { w: VALUES },
    warnings: [{ code: 'ZT_WARN_DAMAGED', tensor: 'x' }],
    uses: [
      { call: 'load', tensor: 'w', value: VALUES },
      { call: 'verify', code, error: { tensor: 'x' } },
      { call: 'openVerify', code },
    ],
  })),
  {
    name: 'damaged: a storage with missing elements, a tensor in the others',
    bytes: saved(pickle(dict([text('w'), tensor('0', [2, 2], [2, 1], { numel: 5 })]))),
    names: ['w'],
    data: { w: VALUES },
    warnings: [{ code: 'ZT_WARN_DAMAGED', tensor: 'w' }],
    uses: [
      { call: 'load', tensor: 'w', value: VALUES },
      { call: 'verify', code: 'ZT_OUT_OF_BOUNDS' },
      { call: 'openVerify', code: 'ZT_OUT_OF_BOUNDS' },
    ],
  },

  // Names equal to their keys
  {
    name: 'keys: other values than text become their repr() in Python',
    bytes: saved(
      pickle(
        dict(
          ...[
            bytes(Buffer.from('conv.weight')),
            bytes(Buffer.from([0, 0x80, 0x27, 0xff])),
            latin1('conv.bias'),
            text(''),
            call('builtins', 'frozenset', list(int(1), text('a'))),
            call('builtins', 'frozenset', list()),
            call('my.module', 'Color', int(1)),
            call('my.module', 'Color', int(2)),
            call('builtins', 'complex', float(1), float(-2.5)),
            cat('\x8a\x09', Buffer.alloc(8), Buffer.from([1])),
            tuple(bytes(Buffer.from('a')), NONE, TRUE, float(0.5), int(-3)),
            tuple(),
            cat(global('torch', 'float32')),
            call('torch', 'Size', tuple(int(2), int(3))),
            tuple(text(LONG)),
            tuple(text(`${LONG}b`)),
          ].map((key) => [key, W]),
        ),
      ),
    ),
    names: [
      "b'conv.weight'",
      `b"\\x00\\x80'\\xff"`,
      "b'conv.bias'",
      '',
      "frozenset({1, 'a'})",
      'frozenset()',
      'my.module.Color(1)',
      'my.module.Color(2)',
      '(1-2.5j)',
      '18446744073709551616',
      "(b'a', None, True, 0.5, -3)",
      '()',
      'torch.float32',
      'torch.Size([2, 3])',
      `('${LONG}',)`,
      `('${LONG}b',)`,
    ],
    data: { '': VALUES },
    // The class of two keys.
    warnings: [SKIPPED],
  },
  {
    name: 'keys: empty ones stay empty',
    bytes: saved(pickle(dict([text(''), dict([text(''), W], [text('a'), W])], [text('b'), dict([text(''), W])]))),
    names: ['.', '.a', 'b.'],
  },
  { name: 'keys: a tensor alone has none', bytes: saved(pickle(W)), names: ['tensor'], data: { tensor: VALUES } },
  {
    name: 'keys: lone surrogates stay separate',
    bytes: saved(pickle(dict([cat('X', le(4, 4), Buffer.from([0x61, 0xed, 0xb2, 0x80])), W], [cat('X', le(4, 4), Buffer.from([0x61, 0xed, 0xb2, 0x81])), W]))),
    names: ['a\\udc80', 'a\\udc81'],
  },

  {
    name: 'stride 0: a load that makes far more than the file holds',
    bytes: saved(pickle(dict([text('w'), tensor('0', [1 << 20, 4], [0, 1])]))),
    names: ['w'],
    uses: [
      { call: 'load', tensor: 'w', code: 'ZT_LIMIT' },
      { call: 'data', tensor: 'w', code: 'ZT_LIMIT' },
    ],
  },
  {
    name: 'zip: a storage that does not match its CRC-32',
    bytes: saved(pickle(dict([text('w'), W])), { 'data/0': { data: SQUARE, crc: 1 } }),
    names: ['w'],
    data: { w: VALUES },
    uses: [
      { call: 'load', tensor: 'w', code: 'ZT_DIGEST_MISMATCH', error: { tensor: 'w' } },
      { call: 'verify', code: 'ZT_DIGEST_MISMATCH', error: { tensor: 'w' } },
      { call: 'openVerify', code: 'ZT_DIGEST_MISMATCH' },
    ],
  },
  ...Object.entries({ 'of a storage': [{ crc: 0 }, {}], 'of every record': [{ crc: 0 }, { crc: 0 }] }).map(([name, [ofStorage, ofPickle]]) => ({
    name: `zip: a CRC-32 that was never computed, ${name}`,
    bytes: saved(pickle(dict([text('w'), W])), { 'data/0': { data: SQUARE, ...ofStorage } }, ofPickle),
    names: ['w'],
    data: { w: VALUES },
    uses: [{ call: 'load', tensor: 'w', value: VALUES }, { call: 'verify', undigested: 1 }],
  })),
  {
    name: 'zip: a CRC-32 of 0 of a deflated storage',
    bytes: saved(pickle(dict([text('w'), W])), { 'data/0': { data: SQUARE, deflate: true, crc: 0 } }),
    names: ['w'],
    data: { w: VALUES },
    uses: [{ call: 'load', tensor: 'w', value: VALUES }, { call: 'verify', undigested: 1 }],
  },
  {
    name: 'zip: a CRC-32 of 0 that is that of no bytes',
    bytes: saved(pickle(dict([text('w'), tensor('0', [0], [1], { numel: 0 })])), { 'data/0': Buffer.alloc(0) }),
    names: ['w'],
    data: { w: [] },
  },
  refused('a name of two readings: records that differ in case', saved(pickle(dict([text('w'), W])), undefined, { more: [{ name: 'archive/DATA/0', data: SQUARE }] }), 'ZT_BAD_INDEX'),
  refused('a name of two readings: a NUL', saved(pickle(dict([text('w'), W])), undefined, { more: [{ name: 'archive/data/0\0', data: SQUARE }] }), 'ZT_BAD_INDEX'),
  opens('valid: a pickle in an outer folder, which PyTorch does not read', saved(pickle(dict([text('w'), W])), undefined, { folder: 'a/', more: [{ name: 'data.pkl', data: pickle(dict([text('v'), W])) }] })),
  refused('zip: a pickle that does not match its CRC-32', saved(pickle(dict([text('w'), W])), undefined, { crc: 1 }), 'ZT_DIGEST_MISMATCH'),
  refused('zip: two records of one name', saved(pickle(dict([text('w'), W])), undefined, { more: [{ name: 'archive/data/0', data: SQUARE }] }), 'ZT_BAD_INDEX'),
  refused('zip: an unknown byte order', saved(pickle(dict([text('w'), W])), undefined, { byteorder: 'middle' }), 'ZT_BAD_INDEX'),
  { name: 'zip: no pickle', bytes: zip([{ name: 'w.npy', data: npy("'<f4'", '(2, 2)', SQUARE) }]), options: { format: 'pytorch' }, code: 'ZT_BAD_MAGIC' },
  { name: 'no archive', bytes: Buffer.alloc(100, 1), options: { format: 'pytorch' }, code: ['ZT_BAD_MAGIC', 'ZT_TRUNCATED'] },

  refused('legacy: another protocol', legacy(pickle(dict([text('w'), W])), [['0', 4, SQUARE]], { protocol: pickle(int(1000)) }), 'ZT_UNSUPPORTED_VERSION'),
  refused('legacy: the magic number alone', MAGIC, 'ZT_TRUNCATED'),
  refused('legacy: a storage that goes beyond the end', legacy(pickle(dict([text('w'), W])), [['0', 5, SQUARE]]), 'ZT_TRUNCATED'),
  refused('legacy: a storage of 2^62 elements', legacy(pickle(dict([text('w'), W])), [['0', 2n ** 62n, SQUARE]]), 'ZT_TRUNCATED'),
  refused('legacy: a key that no tensor has', legacy(pickle(dict([text('w'), W])), [['1', 4, SQUARE]]), 'ZT_BAD_INDEX'),
  refused('legacy: a key that appears twice', legacy(pickle(dict([text('w'), W])), [['0', 4, SQUARE], ['0', 4, SQUARE]]), 'ZT_BAD_INDEX'),
  refused('legacy: a key that is not text', legacy(pickle(dict([text('w'), W])), [['0', 4, SQUARE]], { keys: pickle(list(int(0))) }), 'ZT_BAD_INDEX'),
  refused('legacy: no storages', legacy(pickle(dict([text('w'), W]))), 'ZT_BAD_INDEX'),
]
