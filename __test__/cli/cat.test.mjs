// `ztensor cat`: values as text and as JSON, summaries, slices, sparse entries, components of unknown layouts.
import test from 'ava'
import { openSync } from 'ztensor'
import { btf, coo, INT8 } from '../corpus/btf.mjs'
import { f32s, u64s, zt12 } from '../corpus/zt.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { fixture, json, run, safetensors, write } from '../helpers/command.mjs'

const range = (length) => Float32Array.from({ length }, (_, i) => i)
const nan = Number.NaN

const path = write(
  'values.safetensors',
  safetensors({
    f32: ['F32', [2, 3], Float32Array.of(0.1, -2, 1 / 3, 1e-7, nan, Number.NEGATIVE_INFINITY)],
    f64: ['F64', [3], Float64Array.of(0.1, Math.PI, 31415926535.9)],
    f16: ['F16', [4], Uint16Array.of(0x3c00, 0xc000, 0x2e66, 0x7c00)],
    bf16: ['BF16', [3], Uint16Array.of(0x3f80, 0x4049, 0x8000)],
    f8: ['F8_E4M3', [3], Uint8Array.of(0x38, 0x7e, 0x7f)],
    i64: ['I64', [2], BigInt64Array.of(-1n, 2n ** 53n)],
    u64: ['U64', [1], BigUint64Array.of(2n ** 64n - 1n)],
    i8: ['I8', [3], Int8Array.of(-128, 0, 127)],
    bool: ['BOOL', [2], Uint8Array.of(1, 0)],
    c64: ['C64', [2], Float32Array.of(1.5, -2, 0, nan)],
    scalar: ['F32', [], Float32Array.of(42)],
    empty: ['F32', [0, 3]],
    cube: ['F32', [2, 2, 2], range(8)],
    row: ['F32', [40], range(40)],
    long: ['F32', [2000], range(2000)],
    matrix: ['F32', [100, 50], range(5000)],
    tall: ['F32', [1000, 2], range(2000)],
  }),
)

/** The lines below the header. */
async function printed(t, ...args) {
  const { code, stdout, stderr } = await run(['cat', path, ...args])
  t.is(stderr, '')
  t.is(code, 0)
  return stdout.slice(stdout.indexOf('\n') + 1)
}

test('cat names the tensor, its dtype, shape, layout and size above the values', async (t) => {
  const { stdout } = await run(['cat', path, 'cube'])
  t.is(stdout.split('\n')[0], 'cube  float32  [2, 2, 2]  dense  32 B')
})

for (const [name, text] of [
  ['f32', '[[       0.1,         -2, 0.33333334],\n [      1e-7,        NaN,  -Infinity]]\n'],
  ['f64', '[          0.1,     3.1415927, 3.1415927e+10]\n'],
  ['f16', '[       1,       -2, 0.099976, Infinity]\n'],
  ['bf16', '[     1, 3.1406,     -0]\n'],
  ['f8', '[  1, 448, NaN]\n'],
  ['i64', '[              -1, 9007199254740992]\n'],
  ['u64', '[18446744073709551615]\n'],
  ['i8', '[-128,    0,  127]\n'],
  ['bool', '[ true, false]\n'],
  ['c64', '[1.5-2j, 0+NaNj]\n'],
  ['scalar', '42\n'],
  ['empty', '[]\n'],
  ['cube', '[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]\n'],
]) {
  test(`cat prints ${name}`, async (t) => {
    t.is(await printed(t, name), text)
  })
}

for (const [name, data] of [
  [
    'f32',
    [
      [Math.fround(0.1), -2, Math.fround(1 / 3)],
      [Math.fround(1e-7), 'NaN', '-Infinity'],
    ],
  ],
  ['f64', [0.1, Math.PI, 31415926535.9]],
  ['f16', [1, -2, 0.0999755859375, 'Infinity']],
  ['bf16', [1, 3.140625, -0]],
  ['f8', [1, 448, 'NaN']],
  ['i64', [-1, '9007199254740992']],
  ['u64', ['18446744073709551615']],
  ['i8', [-128, 0, 127]],
  ['bool', [true, false]],
  [
    'c64',
    [
      [1.5, -2],
      [0, 'NaN'],
    ],
  ],
  ['scalar', 42],
  ['empty', []],
  [
    'cube',
    [
      [
        [0, 1],
        [2, 3],
      ],
      [
        [4, 5],
        [6, 7],
      ],
    ],
  ],
  ['long', Array.from(range(2000))],
]) {
  test(`cat --json of ${name}`, async (t) => {
    const document = await json(t, ['cat', path, name])
    t.is(document.name, name)
    t.is(document.layout, 'dense')
    t.deepEqual(document.data, data)
  })
}

test('cat --json names the slice', async (t) => {
  const { dtype, shape, slice, data } = await json(t, ['cat', path, 'cube', '--slice', '1,:,0'])
  t.deepEqual(
    { dtype, shape, slice, data },
    {
      dtype: 'float32',
      shape: [2, 2, 2],
      slice: [[1], [0, 2], [0]],
      data: [4, 6],
    },
  )
})

for (const [name, text] of [
  ['long', '[   0,    1,    2, …, 1997, 1998, 1999]\n'],
  [
    'matrix',
    `[[   0,    1,    2, …,   47,   48,   49],
 [  50,   51,   52, …,   97,   98,   99],
 [ 100,  101,  102, …,  147,  148,  149],
 …,
 [4850, 4851, 4852, …, 4897, 4898, 4899],
 [4900, 4901, 4902, …, 4947, 4948, 4949],
 [4950, 4951, 4952, …, 4997, 4998, 4999]]\n`,
  ],
  [
    'tall',
    `[[   0,    1],
 [   2,    3],
 [   4,    5],
 …,
 [1994, 1995],
 [1996, 1997],
 [1998, 1999]]\n`,
  ],
]) {
  test(`cat omits the middle of ${name}`, async (t) => t.is(await printed(t, name), text))
}

test('cat wraps rows that are wider than the terminal', async (t) => {
  const rows = (await printed(t, 'row')).trimEnd().split('\n')
  t.true(rows.length > 1)
  for (const row of rows) t.true(row.length <= 80)
  t.deepEqual(JSON.parse(rows.join('')), Array.from(range(40)))
})

test('cat --all omits nothing', async (t) => {
  const values = await printed(t, 'matrix', '--all')
  t.false(values.includes('…'))
  t.deepEqual(JSON.parse(values).flat(), Array.from(range(5000)))
})

test('cat --all and --json print more than is held in memory', async (t) => {
  const extents = [3, 400_001]
  const large = write('large.safetensors', safetensors({ w: ['U8', extents, new Uint8Array(3 * 400_001).fill(7)] }))
  const refused = await run(['cat', large, 'w', '--json'])
  t.is(refused.code, 2)
  t.is(refused.stdout, '')
  t.regex(refused.stderr, /^ztensor: --json would print 1,200,003 values \(ZT_INVALID_ARG\)\n {2}.*--slice.*--all/)

  const { data } = await json(t, ['cat', large, 'w', '--all'])
  t.deepEqual(
    data.map((row) => row.length),
    [400_001, 400_001, 400_001],
  )
  const { stdout } = await run(['cat', large, 'w', '--all'])
  const rows = JSON.parse(stdout.slice(stdout.indexOf('\n')))
  t.is(rows.flat().length, 1_200_003)
  t.true(rows.flat().every((value) => value === 7))
})

test('cat summarizes a tensor with many dimensions', async (t) => {
  const shape = Array(10).fill(4)
  const deep = write('deep.safetensors', safetensors({ w: ['U8', shape] }))
  const { code, stdout } = await run(['cat', deep, 'w'])
  t.is(code, 0)
  t.true(stdout.includes('…'))
  t.true(stdout.match(/\b0\b/g).length <= 4200)
})

// On [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
for (const [slice, data] of [
  [
    '0',
    [
      [0, 1],
      [2, 3],
    ],
  ],
  [
    '-1',
    [
      [4, 5],
      [6, 7],
    ],
  ],
  ['-1,-1,-1', 7],
  [
    ':,1',
    [
      [2, 3],
      [6, 7],
    ],
  ],
  [
    '...,1',
    [
      [1, 3],
      [5, 7],
    ],
  ],
  [
    '0,...',
    [
      [0, 1],
      [2, 3],
    ],
  ],
  ['1:,:1,0:2', [[[4, 5]]]],
  [
    '0:99',
    [
      [
        [0, 1],
        [2, 3],
      ],
      [
        [4, 5],
        [6, 7],
      ],
    ],
  ],
  [' 0 : 1 , : , 1 ', [[1, 3]]],
  ['::2,::2', [[[0, 1]]]],
  ['1,::1,1::2', [[5], [7]]],
  ['-1:,-1:,-1:', [[[7]]]],
  ['0,0,::9007199254740991', [0]],
  ['2:', []],
  ['1:0', []],
  ['0,1:1', []],
]) {
  test(`cat --slice "${slice}"`, async (t) => {
    t.deepEqual((await json(t, ['cat', path, 'cube', '--slice', slice])).data, data)
  })
}

for (const [slice, message] of [
  ['2', /index 2 is out of bounds for dimension 0 of 2/],
  ['0,-3', /index -3 is out of bounds for dimension 1 of 2/],
  ['::0', /the step must be 1 or more/],
  ['::-1', /the step must be 1 or more/],
  ['::x', /expected an integer/],
  ['0:1:1:1', /invalid slice "0:1:1:1"/],
  ['0,0,0,0', /has 4 dimensions, but the tensor has 3/],
  ['a:b', /expected an integer/],
  ['one', /invalid slice "one"/],
  ['0,', /invalid slice ""/],
  ['...,...', /invalid slice "\.\.\."/],
]) {
  test(`cat rejects --slice "${slice}"`, async (t) => {
    const { code, stdout, stderr } = await run(['cat', path, 'cube', '--slice', slice])
    t.is(code, 2)
    t.is(stdout, '')
    t.regex(stderr, message)
    t.regex(stderr.split('\n')[0], /^ztensor: --slice.* \(ZT_INVALID_ARG\)$/)
  })
}

test('cat --slice prints the slice in the header', async (t) => {
  const { stdout } = await run(['cat', path, 'matrix', '--slice', '99,:3'])
  t.is(stdout, 'matrix  float32  [100, 50]  dense  19.5 KiB  slice [99, 0:3]\n[4950, 4951, 4952]\n')
  const stepped = await run(['cat', path, 'matrix', '--slice', '-5::2,-1'])
  t.is(stepped.stdout, 'matrix  float32  [100, 50]  dense  19.5 KiB  slice [95:100:2, 49]\n[4799, 4899, 4999]\n')
})

/** Calls `look(tensor, cat)` for each tensor of some fixtures: with its entry of `ls` and the arguments that print it. */
async function eachTensor(t, names, look) {
  const all = names.map(async (name) => {
    const tensors = await json(t, ['ls', fixture(name)])
    await Promise.all(tensors.map((tensor) => look(tensor, ['cat', fixture(name), tensor.name])))
  })
  await Promise.all(all)
}

test('cat prints every tensor of every format', async (t) => {
  await eachTensor(t, ['zt12h-logical.zt', 'zt01h-big-endian.zt', 'st-new-dtypes.safetensors'], async (tensor, cat) => {
    const { code, stdout, stderr } = await run([...cat, '--all'])
    t.is(stderr, '', cat.join(' '))
    t.is(code, 0)
    const count = tensor.shape.reduce((product, extent) => product * extent, 1)
    const values = stdout.slice(stdout.indexOf('\n') + 1)
    t.is(values.match(/[^[\]\s,]+/g)?.length ?? 0, count, cat.join(' '))
  })
})

test('cat slices a compressed tensor', async (t) => {
  const file = fixture('zt12-zstd.zt')
  const { data } = await json(t, ['cat', file, 'z_int64'])
  const sliced = await json(t, ['cat', file, 'z_int64', '--slice', '5:30,-3:'])
  t.deepEqual(
    sliced.data,
    data.slice(5, 30).map((row) => row.slice(-3)),
  )
  // 37 × 29 elements are not shown in full: the corners come from four slices.
  const { stdout } = await run(['cat', file, 'z_int64'])
  const corners = JSON.parse(stdout.slice(stdout.indexOf('\n')).replaceAll('…', '"…"'))
  const ends = (list, middle) => [...list.slice(0, 3), middle, ...list.slice(-3)]
  const exact = (value) => (value === '…' ? value : Number(value))
  t.deepEqual(
    corners.map((row) => (row === '…' ? row : row.map(exact))),
    ends(
      data.map((row) => ends(row.map(Number), '…')),
      '…',
    ),
  )
})

test('cat prints every second element of any tensor', async (t) => {
  const names = ['zt12h-logical.zt', 'zt12-zstd.zt', 'zt01h-big-endian.zt', 'st-new-dtypes.safetensors']
  await eachTensor(t, names, async ({ shape, dtype, layout }, cat) => {
    // Six-bit elements cannot be sliced.
    if (layout !== 'dense' || shape.length === 0 || shape.includes(0) || dtype.startsWith('float6')) return
    const slice = async (...slice) => (await json(t, [...cat, ...slice, '--all'])).data
    // With one dimension the elements, with more the last of each innermost row too.
    const last = (value, rank) => (rank === 1 ? value.at(-1) : value.map((one) => last(one, rank - 1)))
    const column = shape.length > 1
    const [data, stepped] = await Promise.all([slice(), slice('--slice', column ? '1::2,...,-1' : '1::2')])
    const odd = data.filter((_, at) => at % 2 === 1)
    t.deepEqual(stepped, column ? odd.map((row) => last(row, shape.length - 1)) : odd, cat.join(' '))
  })
})

test('cat prints the ends of a large slice with steps', async (t) => {
  const text = `[[   0,    1,    2, …,   47,   48,   49],
 [ 100,  101,  102, …,  147,  148,  149],
 [ 200,  201,  202, …,  247,  248,  249],
 …,
 [4700, 4701, 4702, …, 4747, 4748, 4749],
 [4800, 4801, 4802, …, 4847, 4848, 4849],
 [4900, 4901, 4902, …, 4947, 4948, 4949]]\n`
  t.is(await printed(t, 'matrix', '--slice', '::2'), text)
})

test('cat slices packed 4-bit elements where a slice starts inside a byte', async (t) => {
  // 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, two codes a byte.
  const codes = Uint8Array.of(0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe)
  const even = write('f4-even.safetensors', safetensors({ w: ['F4', [4, 4], codes] }))
  t.deepEqual((await json(t, ['cat', even, 'w', '--slice', '1:3,1:2'])).data, [[3], [-0.5]])
  const odd = write('f4-odd.safetensors', safetensors({ w: ['F4', [2, 3], codes.subarray(0, 3)] }))
  t.deepEqual((await json(t, ['cat', odd, 'w', '--slice', '1,1:'])).data, [2, 3])
  t.deepEqual((await json(t, ['cat', odd, 'w', '--slice', ':,::2'])).data, [
    [0, 1],
    [1.5, 3],
  ])
  t.deepEqual((await json(t, ['cat', odd, 'w'])).data, [
    [0, 0.5, 1],
    [1.5, 2, 3],
  ])
})

// Sparse tensors: [[10, 0, 20], [0, 0, 30]]

const typed = (dtype, bytes) => ({ dtype, bytes })
const sparse = write(
  'sparse.zt',
  zt12({
    csr: {
      shape: [2, 3],
      format: 'sparse_csr',
      components: {
        values: typed('f32', f32s(10, 20, 30)),
        indices: typed('u64', u64s(0, 2, 2)),
        indptr: typed('u64', u64s(0, 2, 3)),
      },
    },
    coo: {
      shape: [2, 3],
      format: 'sparse_coo',
      components: { values: typed('f32', f32s(10, 20, 30)), coords: typed('u64', u64s(0, 0, 1, 0, 2, 2)) },
    },
    half: {
      shape: [4, 3],
      format: 'sparse_csr',
      components: {
        values: typed('f16', littleEndian(Uint16Array.of(0x3c00, 0xc000))),
        indices: typed('u64', u64s(1, 2)),
        indptr: typed('u64', u64s(0, 0, 1, 1, 2)),
      },
    },
    diagonal: {
      shape: [100, 100],
      format: 'sparse_coo',
      components: {
        values: typed('f32', f32s(...range(100))),
        coords: typed('u64', u64s(...range(100), ...range(100))),
      },
    },
  }),
)

for (const name of ['csr', 'coo']) {
  test(`cat prints the entries of a ${name} tensor`, async (t) => {
    const { stdout } = await run(['cat', sparse, name])
    const [head, ...entries] = stdout.trimEnd().split('\n')
    t.regex(head, new RegExp(`^${name} {2}float32 {2}\\[2, 3\\] {2}sparse_${name}`))
    t.deepEqual(entries, ['3 stored:', '(0, 0)  10', '(0, 2)  20', '(1, 2)  30'])
  })

  test(`cat --json of a ${name} tensor`, async (t) => {
    const document = await json(t, ['cat', sparse, name])
    t.like(document, { name, dtype: 'float32', shape: [2, 3], layout: `sparse_${name}`, nnz: 3 })
    t.deepEqual(document.data, [
      [[0, 0], 10],
      [[0, 2], 20],
      [[1, 2], 30],
    ])
  })
}

test('cat widens the values of a sparse tensor, and skips empty rows', async (t) => {
  t.deepEqual((await json(t, ['cat', sparse, 'half'])).data, [
    [[1, 1], 1],
    [[3, 2], -2],
  ])
})

test('cat widens every float8 of a sparse tensor like that of a dense one', async (t) => {
  const codes = Buffer.from(Uint8Array.from({ length: 256 }, (_, code) => code))
  const data = { dtype: 'u8', type: 'f8_e5m2', bytes: codes }
  const file = write(
    'f8.zt',
    zt12({
      dense: { shape: [256], format: 'dense', components: { data } },
      sparse: {
        shape: [256],
        format: 'sparse_coo',
        components: { values: { ...data }, coords: typed('u64', u64s(...range(256))) },
      },
    }),
  )
  const dense = await json(t, ['cat', file, 'dense'])
  t.is(dense.dtype, 'float8_e5m2')
  t.is(dense.data[0x3c], 1)
  const { data: entries } = await json(t, ['cat', file, 'sparse'])
  t.deepEqual(
    entries.map(([, value]) => value),
    dense.data,
  )
})

test('cat omits the middle of many entries, except with --all', async (t) => {
  const { stdout } = await run(['cat', sparse, 'diagonal'])
  const entries = stdout.trimEnd().split('\n').slice(2)
  t.is(entries.length, 21)
  t.is(entries[9], '(9, 9)  9')
  t.is(entries[10], '…')
  t.is(entries[20], '(99, 99)  99')
  const all = await run(['cat', sparse, 'diagonal', '--all'])
  t.is(all.stdout.trimEnd().split('\n').length, 102)
})

test('cat prints a COO tensor of BTF, which stores indices per entry', async (t) => {
  const record = coo({
    dtype: INT8,
    dims: [4, 5, 6],
    indices: { dims: [2, 3], data: u64s(0, 1, 2, 3, 4, 5) },
    values: { dims: [2], data: Buffer.from([7, 9]) },
  })
  const file = write('coo.btf', btf([record]))
  const [{ name }] = await json(t, ['ls', file, '--format', 'btf'])
  const { data } = await json(t, ['cat', file, name, '--format', 'btf'])
  t.deepEqual(data, [
    [[0, 1, 2], 7],
    [[3, 4, 5], 9],
  ])
})

test('cat rejects --slice for a sparse tensor', async (t) => {
  const { code, stderr } = await run(['cat', sparse, 'csr', '--slice', '0'])
  t.is(code, 2)
  t.regex(
    stderr,
    /^ztensor: --slice needs a dense or quantized tensor, but this one is sparse_csr \(ZT_INVALID_ARG\)$/m,
  )
})

test('cat lists the components of an unknown layout', async (t) => {
  const file = fixture('zt10h-extension-format.zt')
  const { code, stdout } = await run(['cat', file, 'q'])
  t.is(code, 0)
  const [head, titles, ...rows] = stdout.trimEnd().split('\n')
  t.regex(head, /^q {2}\S+ {2}\[16, 8\] {2}quantized_4bit/)
  t.regex(titles, /^COMPONENT +DTYPE +SIZE +STORED +ENCODING +DIGEST$/)
  t.deepEqual(
    rows.map((row) => row.split(' ')[0]),
    ['data', 'scale', 'zero_point'],
  )
  const { components } = JSON.parse((await run(['cat', file, 'q', '--json'])).stdout)
  t.deepEqual(
    components.map(({ role, storedLength }) => [role, storedLength]),
    [
      ['data', 64],
      ['scale', 16],
      ['zero_point', 16],
    ],
  )
})

test('cat dequantizes, also in slices', async (t) => {
  const file = fixture('zt2-quantized.zt')
  const opened = openSync(file)
  const floats = [...opened.tensor('awq').toFloat32()]
  opened.close()
  const all = await json(t, ['cat', file, 'awq'])
  t.like(all, { storageType: 'zt.quant_group/1', as: 'float32', shape: [8, 64] })
  t.deepEqual(all.data.flat(), floats)
  const part = await json(t, ['cat', file, 'awq', '--slice', '1:8:3,-1'])
  t.deepEqual(
    part.data,
    [1, 4, 7].map((row) => floats[row * 64 + 63]),
  )
  const { stdout } = await run(['cat', file, 'q8_0', '--slice', '0,:2'])
  t.regex(stdout, /^q8_0 .* dequantized to float32 {2}slice \[0, 0:2\]\n\[/)
})

test('cat needs no name if the file has one tensor', async (t) => {
  const file = write('only.safetensors', safetensors({ one: ['I8', [2], Int8Array.of(1, 2)] }))
  t.deepEqual((await json(t, ['cat', file])).data, [1, 2])
  const none = await run(['cat', write('none.safetensors', safetensors({}))])
  t.regex(none.stderr, /^ztensor: the file has no tensors/)
  const several = await run(['cat', fixture('zt2-quantized.zt')])
  t.regex(several.stderr, /^ztensor: the file has 6 tensors: name one of them/)
})
