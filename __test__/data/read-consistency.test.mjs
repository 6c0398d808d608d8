// All ways of reading a file agree: for every layout, and with components in addition to those of the layout.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import test from 'ava'
import fc from 'fast-check'
import { append, compact, convert, openSync } from 'ztensor'
import { frame } from '../corpus/zstd.mjs'
import { u64s, zt10, zt12 } from '../corpus/zt.mjs'
import { lone } from '../corpus/zt2.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { propertiesAt } from '../helpers/editing.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { convertToEveryFormat, readFromEverySource } from '../helpers/read-and-convert.mjs'
import { readings } from '../helpers/readings.mjs'
import { digestOf, noise } from '../helpers/sample-files.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const PROGRAM = new URL('../helpers/read-and-convert.mjs', import.meta.url)

/** dtype -> its name in 1.2, and bytes of an element. */
const DTYPES = {
  float32: ['f32', 4],
  float64: ['f64', 8],
  float16: ['f16', 2],
  bfloat16: ['bf16', 2],
  int64: ['i64', 8],
  uint32: ['u32', 4],
  int16: ['i16', 2],
  uint8: ['u8', 1],
  bool: ['bool', 1],
}
const product = (shape) => shape.reduce((total, size) => total * size, 1)

const bytesOf = (dtype, count, seed) => {
  const bytes = Buffer.from(noise(count * DTYPES[dtype][1], seed))
  return dtype === 'bool' ? bytes.map((byte) => byte & 1) : bytes
}

/** How a component is stored: `[encoding, digest, bytes off the alignment, whether 1.2 states its length]`. */
const storage = fc.record({
  zstd: fc.boolean(),
  digest: fc.constantFrom(undefined, 'crc32c', 'sha256'),
  lead: fc.constantFrom(0, 0, 0, 1, 4),
  sized: fc.boolean(),
})

/** A component for the builders: its stored bytes, and its fields in the index. */
function stored(version, dtype, bytes, { zstd, digest, lead, sized }) {
  const blob = zstd ? frame(bytes, sized ? { declared: bytes.length } : {}) : bytes
  return {
    bytes: blob,
    lead,
    ...(version === '1.2' ? { dtype: DTYPES[dtype]?.[0] ?? 'u64' } : {}),
    ...(zstd ? { encoding: 'zstd' } : {}),
    ...(zstd && sized && version === '1.2' ? { uncompressed_length: bytes.length } : {}),
    ...(digest ? { digest: digestOf(digest, blob) } : {}),
  }
}

const dtypes = fc.constantFrom(...Object.keys(DTYPES))
const shapes = fc.oneof(
  fc.array(fc.nat(6), { maxLength: 3 }),
  fc.constantFrom([], [0], [16], [300], [2, 0, 3], [0, 2 ** 40], [5, 70]),
)

/** The arrays of each layout, as `[role, dtype, bytes]`. */
const LAYOUTS = {
  dense: (dtype, shape, seed) => [['data', dtype, bytesOf(dtype, product(shape), seed)]],
  sparse_csr: (dtype, _, seed) => [
    ['values', dtype, bytesOf(dtype, 3, seed)],
    ['indices', undefined, u64s(0, 4, 2)],
    ['indptr', undefined, u64s(0, 2, 3)],
  ],
  sparse_coo: (dtype, _, seed) => [
    ['values', dtype, bytesOf(dtype, 2, seed)],
    ['coords', undefined, u64s(1, 0, 2, 1)],
  ],
  'x.blocks': (dtype, _, seed) => [
    ['blocks', dtype, bytesOf(dtype, 7, seed)],
    ['scales', 'float32', bytesOf('float32', 2, seed + 1)],
  ],
}
const SHAPES = { sparse_csr: [2, 5], sparse_coo: [3, 2] }

/** An additional component, and its position among those of the layout. */
const other = fc.record({
  dtype: dtypes,
  count: fc.constantFrom(0, 1, 5, 16, 300),
  at: fc.nat(3),
  storage,
})

const tensor = fc.record({
  layout: fc.constantFrom('dense', 'dense', 'dense', ...Object.keys(LAYOUTS)),
  dtype: dtypes,
  shape: shapes,
  own: fc.array(storage, { minLength: 3, maxLength: 3 }),
  others: fc.array(other, { maxLength: 3 }),
  seed: fc.nat(1000),
})
const anyFile = fc.record({
  version: fc.constantFrom('1.0', '1.2'),
  tensors: fc.array(tensor, { minLength: 1, maxLength: 4 }),
})

/** The bytes of a file of these tensors, named `<prefix>0`, `<prefix>1` and so on. */
function build({ version, tensors }, prefix = 't') {
  const entries = tensors.map(({ layout, dtype, shape, own, others, seed }, at) => {
    const parts = LAYOUTS[layout](dtype, shape, seed).map(([role, type, bytes], nth) => {
      return [role, stored(version, type, bytes, own[nth])]
    })
    for (const [nth, one] of others.entries()) {
      const bytes = bytesOf(one.dtype, one.count, seed + 7 * nth + 3)
      // Some have the name of a component of another layout.
      const role = layout === 'dense' && nth === 0 ? 'values' : `other.${nth}`
      parts.splice(Math.min(one.at, parts.length), 0, [role, stored(version, one.dtype, bytes, one.storage)])
    }
    const fields = { shape: SHAPES[layout] ?? shape, format: layout, components: Object.fromEntries(parts) }
    return [`${prefix}${at}`, version === '1.0' ? { dtype, ...fields } : fields]
  })
  return (version === '1.0' ? zt10 : zt12)(Object.fromEntries(entries))
}

const plain = { zstd: false, digest: undefined, lead: 0, sized: false }
const extra = { dtype: 'float32', count: 16, storage: plain }
const of = (more) => ({
  layout: 'dense',
  dtype: 'float32',
  shape: [16],
  own: [plain, plain, plain],
  others: [],
  seed: 1,
  ...more,
})
/** Files that were once read wrongly, and corner cases of the property below. */
const NAMED = {
  'a component after the data': [of({ others: [{ ...extra, at: 1 }] })],
  'a component before the data': [of({ others: [{ ...extra, at: 0 }] })],
  'no elements, and a component': [of({ shape: [0], others: [{ ...extra, at: 1 }] })],
  'no elements, with a digest': [of({ shape: [0], own: [{ ...plain, digest: 'crc32c' }] })],
  'a scalar and a component': [of({ shape: [], others: [{ ...extra, at: 1 }] })],
  'compressed data and a raw component': [
    of({
      own: [{ ...plain, zstd: true }],
      others: [
        { ...extra, at: 0 },
        { ...extra, at: 2 },
      ],
    }),
  ],
  'raw data and a compressed component': [
    of({ others: [{ ...extra, at: 0, storage: { ...plain, zstd: true, digest: 'crc32c' } }] }),
  ],
  'additional components with every layout': Object.keys(LAYOUTS).map((layout) =>
    of({
      layout,
      others: [
        { ...extra, at: 0 },
        { ...extra, at: 2, count: 300 },
      ],
    }),
  ),
}

for (const [name, tensors] of Object.entries(NAMED)) {
  for (const version of ['1.0', '1.2']) {
    test(`${version}: ${name}`, async (t) => {
      const path = scratchFile(build({ version, tensors }), 'named.zt')
      const { wrong, facts } = await readFromEverySource(path)
      t.deepEqual(wrong, [])
      t.is(facts.length, tensors.length)
      t.deepEqual(await convertToEveryFormat(path), [])
    })
  }
}

test('additional components, in any number and position: all ways of reading agree', async (t) => {
  await fc.assert(
    fc.asyncProperty(anyFile, async (file) => {
      const path = scratchFile(build(file), 'any.zt')
      const { wrong } = await readFromEverySource(path)
      t.deepEqual(wrong, [])
    }),
    { numRuns: scaled(60) },
  )
  t.pass()
})

test('every target stores all supported tensors of any file, and lists the others', async (t) => {
  await fc.assert(
    fc.asyncProperty(anyFile, async (file) => {
      t.deepEqual(await convertToEveryFormat(scratchFile(build(file), 'any.zt')), [])
    }),
    { numRuns: scaled(15) },
  )
  t.pass()
})

test('several files open as one', async (t) => {
  await fc.assert(
    fc.asyncProperty(anyFile, anyFile, async (a, b) => {
      const paths = [scratchFile(build(a, 'a'), 'a.zt'), scratchFile(build(b, 'b'), 'b.zt')]
      const file = openSync(paths)
      t.deepEqual((await readings(file)).wrong, [])
      file.close()
    }),
    { numRuns: scaled(20) },
  )
  t.pass()
})

for (const [target, options] of [
  ['0.1', { version: '0.1' }],
  ['2', { version: '2' }],
  ['safetensors', { format: 'safetensors' }],
  ['btf', { format: 'btf' }],
]) {
  test(`${target} cannot store additional components: rejects before it writes anything`, async (t) => {
    // Only the frame states the length of the second one.
    const others = [extra, { ...extra, storage: { ...plain, zstd: true } }].map((one) => ({ ...one, at: 1 }))
    const layouts = target === '0.1' || target === '2' ? ['dense', 'sparse_csr', 'sparse_coo'] : ['dense']
    const source = scratchFile(
      build({ version: '1.0', tensors: layouts.map((layout) => of({ layout, others })) }),
      'a.zt',
    )
    const output = scratchPath('refused')
    const error = await rejectionOf(() => convert(source, output, options))
    t.is(error.code, 'ZT_BAD_LAYOUT')
    t.deepEqual(
      error.cause.map(({ tensor }) => tensor),
      layouts.map((_, at) => `t${at}`),
    )
    for (const { message } of error.cause)
      t.regex(
        message,
        /other than those of the layout "[a-z_]+": "(values|other\.0)", "other\.1"$|"other\.1", "(values|other\.0)"$/,
      )
    t.false(existsSync(output))
  })
}

for (const version of ['1.0', '1.2']) {
  test(`${version}: edits preserve additional components`, async (t) => {
    const layouts = Object.keys(LAYOUTS)
    const others = [
      { ...extra, at: 0 },
      { ...extra, at: 2, storage: { ...plain, zstd: true, digest: 'sha256' } },
    ]
    const path = scratchFile(build({ version, tensors: layouts.map((layout) => of({ layout, others })) }), 'edited.zt')
    const before = propertiesAt(path).tensors
    const editor = await append(path)
    editor.rename('t0', 'renamed')
    editor.remove('t1')
    await editor.add('more', Float32Array.of(1, 2))
    await editor.finish()
    const expected = before.map((one) => ({ ...one, name: one.name === 't0' ? 'renamed' : one.name })).filter(({ name }) => name !== 't1') // biome-ignore format: one line
    const original = () => propertiesAt(path).tensors.filter(({ name }) => name !== 'more')
    const byName = (a, b) => (a.name < b.name ? -1 : 1)
    t.deepEqual(original().sort(byName), expected.sort(byName))
    await compact(path)
    t.deepEqual(original().sort(byName), expected)
    t.deepEqual((await readFromEverySource(path)).wrong, [])
  })
}

test('an odd number of 4-bit elements: the padding is not an element', async (t) => {
  const u32s = (...numbers) => littleEndian(Uint32Array.from(numbers))
  const values = { dtype: 'u8', type: 'f4_e2m1', bytes: Buffer.of(0x21, 0x03) }
  const indices = { dtype: 'u32', bytes: u32s(1, 5, 7) }
  const files = {
    dense: lone([3], 'dense', { data: values }),
    csr: lone([1, 9], 'zt.sparse_csr/1', { values, indices, indptr: { dtype: 'u32', bytes: u32s(0, 3) } }),
    coo: lone([9], 'zt.sparse_coo/1', { values, coords: indices }),
  }
  for (const [kind, bytes] of Object.entries(files)) {
    const path = scratchFile(bytes, 'odd.zt')
    t.deepEqual((await readFromEverySource(path)).wrong, [], kind)
    const file = openSync(path)
    const tensor = file.tensor('t')
    t.is((await tensor.stats()).count, 3, kind)
    const elements = kind === 'dense' ? tensor : tensor[kind]()
    const floats = elements.toFloat32()
    t.deepEqual([...(kind === 'dense' ? floats : floats.values)], [0.5, 1, 1.5], kind)
    t.is(elements.nnz ?? elements.size, 3, kind)
    file.close()
  }
})

const sample = () => fc.sample(anyFile, { numRuns: 20, seed: 14 }).map((file) => scratchFile(build(file), 'sample.zt'))

test('reads the same without external buffers', async (t) => {
  const paths = sample()
  const env = { ...process.env, ZTENSOR_NO_EXTERNAL: '1' }
  const { stdout } = await promisify(execFile)(process.execPath, [fileURLToPath(PROGRAM), ...paths], { env })
  await agree(t, paths, JSON.parse(stdout))
})

test('reads the same in another thread, over one mapping', async (t) => {
  const paths = sample()
  const files = paths.map((path) => openSync(path))
  const worker = new Worker(PROGRAM, { workerData: { sources: files.map((file) => file.share()) } })
  const results = await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
  await worker.terminate()
  for (const file of files) file.close()
  await agree(t, paths, results)
})

/** Asserts that another process or thread read the files without a problem, and the same as this one. */
async function agree(t, paths, results) {
  t.deepEqual(
    results.flatMap(({ wrong }) => wrong),
    [],
  )
  for (const [at, path] of paths.entries()) {
    const file = openSync(path)
    t.deepEqual(results[at].facts, (await readings(file)).facts)
    file.close()
  }
}
