// tensor.load() and file.load(): owned bytes, into a given array, several concurrently, with progress and an abort.
import test from 'ava'
import { open, openSync, ZTensorError } from 'ztensor'
import { frame } from '../corpus/zstd.mjs'
import { f32s, SQUARE, sparse10, square10, zt10 } from '../corpus/zt.mjs'
import { fingerprint } from '../helpers/bytes.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { vector } from '../helpers/vectors.mjs'

const PAIR = zt10({
  a: square10(),
  b: square10({}, { bytes: frame(f32s(5, 6, 7, 8)), encoding: 'zstd' }),
  c: { dtype: 'int8', shape: [2], format: 'dense', components: { data: { bytes: Buffer.from([9, 10]) } } },
})

test('loaded bytes are exclusive to the caller, and outlive close()', async (t) => {
  const file = openSync(scratchFile(PAIR))
  const [first, second] = await Promise.all([file.tensor('a').load(), file.tensor('a').load()])
  t.not(first.buffer, second.buffer)
  first.fill(-1)
  t.deepEqual([...second], [1, 2, 3, 4])
  t.deepEqual([...file.tensor('a').data], [1, 2, 3, 4])
  file.close()
  t.deepEqual([...first], [-1, -1, -1, -1])
  t.deepEqual([...second], [1, 2, 3, 4])
})

test('load() also copies from memory', async (t) => {
  const source = new Uint8Array(PAIR)
  const file = openSync(source)
  const loaded = await file.tensor('a').load()
  t.not(loaded.buffer, source.buffer)
  t.deepEqual([...loaded], [1, 2, 3, 4])
  file.close()
})

test('into: fills the given array and resolves with it', async (t) => {
  const file = openSync(scratchFile(PAIR))
  for (const [name, values] of [
    ['a', [1, 2, 3, 4]],
    ['b', [5, 6, 7, 8]],
  ]) {
    const buffer = new Float32Array(8).fill(-1)
    const into = buffer.subarray(2, 6)
    t.is(await file.tensor(name).load({ into }), into)
    t.deepEqual([...buffer], [-1, -1, ...values, -1, -1])
  }
  const floats = new Float32Array(2)
  t.is(await file.tensor('c').load({ as: 'float32', into: floats }), floats)
  t.deepEqual([...floats], [9, 10])
  const row = new Float32Array(2)
  t.is(await file.tensor('a').load({ slice: [[1, 2], null], into: row }), row)
  t.deepEqual([...row], [3, 4])
  file.close()
})

test('into: rejects an array of another size or type, and leaves it unchanged', async (t) => {
  const file = openSync(scratchFile(PAIR))
  const short = new Float32Array(3).fill(-1)
  for (const into of [short, new Float32Array(5), new Float64Array(4), new ArrayBuffer(16), [0, 0, 0, 0], 'x', null]) {
    isArgumentError(t, await rejectionOf(() => file.tensor('a').load({ into })), 'into')
  }
  t.deepEqual([...short], [-1, -1, -1])
  file.close()
})

/** Two tensors of 128 KiB: more than a load reads in the calling thread. */
const LARGE = (() => {
  const bytes = Buffer.alloc(2 ** 17)
  const large = (dtype, size) => ({ dtype, shape: [size], format: 'dense', components: { data: { bytes } } })
  return zt10({ a: large('float32', 2 ** 15), c: large('int8', 2 ** 17) })
})()

test('into: a load of large cached data waits a turn of the event loop, in which anything may happen', async (t) => {
  const file = openSync(scratchFile(LARGE))
  let turns = 0
  let counting = setImmediate(function count() {
    turns += 1
    counting = setImmediate(count)
  })
  const into = new Float32Array(2 ** 15)
  for (let load = 0; load < 50; load++) await file.tensor('a').load({ into })
  t.true(turns >= 49, `${turns} turns, one load after the other`)
  turns = 0
  await Promise.all(Array.from({ length: 50 }, () => file.tensor('a').load({ into: new Float32Array(2 ** 15) })))
  clearImmediate(counting)
  t.true(turns >= 49, `${turns} turns, all loads at once`)
  into.fill(-1)
  const stop = new AbortController()
  const given = file.tensor('a').load({ into, signal: stop.signal })
  stop.abort('enough')
  t.is(await rejectionOf(() => given), 'enough')
  const moved = new Float32Array(2 ** 15)
  const lost = file.tensor('a').load({ into: moved })
  structuredClone(moved.buffer, { transfer: [moved.buffer] })
  t.is((await rejectionOf(() => lost)).code, 'ZT_CLOSED')
  const late = file.tensor('c').load({ as: 'float32', into: new Float32Array(2 ** 17) })
  const closed = file.tensor('a').load({ into })
  file.close()
  for (const load of [late, closed]) t.is((await rejectionOf(() => load)).code, 'ZT_CLOSED')
  t.true(into.every((value) => value === -1))
})

test('into: a load of small data can be aborted, and fails if the array moves or the file closes', async (t) => {
  const file = openSync(scratchFile(PAIR))
  const stop = new AbortController()
  const given = file.tensor('a').load({ into: new Float32Array(4), signal: stop.signal })
  stop.abort('enough')
  t.is(await rejectionOf(() => given), 'enough')
  const moved = new Float32Array(4)
  const lost = file.tensor('a').load({ into: moved })
  structuredClone(moved.buffer, { transfer: [moved.buffer] })
  t.is((await rejectionOf(() => lost)).code, 'ZT_CLOSED')
  const late = file.tensor('c').load({ as: 'float32', into: new Float32Array(2) })
  const closed = file.tensor('a').load({ into: new Float32Array(4) })
  file.close()
  for (const load of [late, closed]) t.is((await rejectionOf(() => load)).code, 'ZT_CLOSED')
})

test('into: a load without elements can be aborted', async (t) => {
  const none = { dtype: 'float32', shape: [0], format: 'dense', components: { data: { bytes: Buffer.alloc(0) } } }
  const file = openSync(scratchFile(zt10({ none })))
  const into = new Float32Array(0)
  t.is(await file.tensor('none').load({ into }), into)
  const stop = new AbortController()
  const given = file.tensor('none').load({ into, signal: stop.signal })
  stop.abort('enough')
  t.is(await rejectionOf(() => given), 'enough')
  const closed = file.tensor('none').load({ into })
  file.close()
  t.is((await rejectionOf(() => closed)).code, 'ZT_CLOSED')
})

test.serial('into: does not use a clock that a test has replaced', async (t) => {
  const file = openSync(scratchFile(PAIR))
  const own = globalThis.setImmediate
  globalThis.setImmediate = () => t.fail('the fake clock was asked')
  try {
    const into = new Float32Array(4)
    await file.tensor('a').load({ into })
    t.deepEqual([...into], [1, 2, 3, 4])
  } finally {
    globalThis.setImmediate = own
  }
  file.close()
})

test('rejects invalid options', async (t) => {
  const file = openSync(PAIR)
  for (const options of [7, 'float32', null])
    isArgumentError(t, await rejectionOf(() => file.tensor('a').load(options)), 'options')
  isArgumentError(t, await rejectionOf(() => file.tensor('a').load({ signal: {} })), 'signal')
  file.close()
})

test('file.load() returns every tensor, in order', async (t) => {
  const file = openSync(scratchFile(PAIR))
  const loaded = await file.load()
  t.true(loaded instanceof Map)
  t.deepEqual([...loaded.keys()], ['a', 'b', 'c'])
  t.deepEqual(
    [...loaded.values()].map(({ data }) => [...data]),
    [
      [1, 2, 3, 4],
      [5, 6, 7, 8],
      [9, 10],
    ],
  )
  file.close()
  t.deepEqual([...loaded.get('a').data], [1, 2, 3, 4])
})

test('file.load() keeps the requested order of batched and single tensors', async (t) => {
  const file = openSync(scratchFile(zt10({ a: square10(), ...sparse10(), b: square10(), z: square10() })))
  for (const names of [[...file.keys()], ['z', 'k', 'a', 'm', 'b'], ['m', 'a']]) {
    const loaded = await file.load({ names })
    t.deepEqual([...loaded.keys()], names)
    for (const [name, { data }] of loaded) t.is(data instanceof Float32Array, name !== 'm' && name !== 'k', name)
  }
  file.close()
})

test('file.load({ names }) returns these, from any iterable, each once', async (t) => {
  const file = openSync(scratchFile(PAIR))
  for (const names of [['c', 'a'], new Set(['c', 'a']), ['c', 'a', 'c'].values()]) {
    const loaded = await file.load({ names })
    t.deepEqual([...loaded.keys()].sort(), ['a', 'c'])
    t.deepEqual([...loaded.get('c').data], [9, 10])
  }
  t.is((await file.load({ names: [] })).size, 0)
  const error = await rejectionOf(() => file.load({ names: ['a', 'd'] }))
  t.is(error?.code, 'ZT_NOT_FOUND')
  t.true(error?.message.includes('d'))
  for (const names of ['abc', 7, null]) isArgumentError(t, await rejectionOf(() => file.load({ names })), 'names')
  isArgumentError(t, await rejectionOf(() => file.load({ names: [7] })), 'name')
  file.close()
})

test('file.load({ concurrency }) returns the same at any concurrency', async (t) => {
  const { path, meaning } = vector('zt12-zstd.zt')
  const file = openSync(path)
  for (const concurrency of [1, 2, 1000]) {
    const loaded = await file.load({ concurrency })
    for (const { name, components } of meaning.tensors)
      t.is(fingerprint(loaded.get(name).data).sha256, components.data.sha256)
  }
  for (const concurrency of [0, -1, 1.5, Number.NaN, '2', null])
    isArgumentError(t, await rejectionOf(() => file.load({ concurrency })), 'concurrency')
  file.close()
})

test('loading many tensors emits no warning about listeners', async (t) => {
  const file = openSync(zt10(Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`t${i}`, square10()]))))
  const warnings = []
  const listen = (warning) => warnings.push(warning.message)
  process.on('warning', listen)
  const { signal } = new AbortController()
  await file.load({ concurrency: 30 })
  await file.load({ concurrency: 30, signal })
  await Promise.all(Array.from({ length: 30 }, (_, i) => file.tensor(`t${i}`).load()))
  // warnings are emitted in a later turn
  await new Promise(setImmediate)
  process.off('warning', listen)
  t.deepEqual(warnings, [])
  file.close()
})

test('file.load({ onProgress }) counts up to the total', async (t) => {
  const file = openSync(scratchFile(PAIR))
  const events = []
  await file.load({ onProgress: (progress) => events.push(progress) })
  t.true(events.length > 0)
  for (let i = 1; i < events.length; i++) {
    t.true(events[i].bytes >= events[i - 1].bytes)
    t.true(events[i].tensors >= events[i - 1].tensors)
    t.is(events[i].totalBytes, events[0].totalBytes)
    t.is(events[i].totalTensors, 3)
  }
  const last = events.at(-1)
  t.is(last.bytes, last.totalBytes)
  t.is(last.tensors, 3)
  t.true(last.totalBytes > 0)
  isArgumentError(t, await rejectionOf(() => file.load({ onProgress: 7 })), 'onProgress')
  file.close()
})

test('one bad tensor rejects file.load(), and the error names it', async (t) => {
  const file = openSync(zt10({ a: square10(), bad: square10({}, { encoding: 'zstd' }), c: square10() }))
  const error = await rejectionOf(() => file.load())
  t.true(error instanceof ZTensorError)
  t.is(error?.code, 'ZT_DECODE')
  t.is(error?.tensor, 'bad')
  t.deepEqual([...(await file.load({ names: ['a', 'c'] })).keys()], ['a', 'c'])
  file.close()
})

const REASONS = [new Error('enough'), 'a text', 7, { some: 'object' }]
const ABORTABLE = {
  'tensor.load': (file, signal) => file.tensor('a').load({ signal }),
  'tensor.load of zstd': (file, signal) => file.tensor('b').load({ signal }),
  'tensor.load of a slice': (file, signal) => file.tensor('a').load({ slice: [null, [0, 1]], signal }),
  'tensor.load as float32': (file, signal) => file.tensor('c').load({ as: 'float32', signal }),
  'component.load': (file, signal) => file.tensor('a').components.get('data').load({ signal }),
  loadCsr: (file, signal) => file.tensor('m').loadCsr({ signal }),
  loadCoo: (file, signal) => file.tensor('k').loadCoo({ signal }),
  'file.load': (file, signal) => file.load({ signal }),
  'file.verify': (file, signal) => file.verify({ signal }),
  'tensor.verify': (file, signal) => file.tensor('a').verify({ signal }),
  'file.prefetch': (file, signal) => file.prefetch(['a'], { signal }),
  open: async (file, signal) => (await open(file.path, { signal })).close(),
}
const MIXED = zt10({
  a: square10(),
  b: square10({}, { bytes: frame(SQUARE), encoding: 'zstd' }),
  c: { dtype: 'int8', shape: [2], format: 'dense', components: { data: { bytes: Buffer.from([9, 10]) } } },
  ...sparse10(),
})
for (const [what, run] of Object.entries(ABORTABLE)) {
  test(`${what}: an abort rejects with the signal's reason`, async (t) => {
    const file = openSync(scratchFile(MIXED))
    for (const reason of REASONS) {
      t.is(await rejectionOf(() => run(file, AbortSignal.abort(reason))), reason, 'aborted before')
      const controller = new AbortController()
      const started = run(file, controller.signal)
      controller.abort(reason)
      t.is(await rejectionOf(() => started), reason, 'aborted after')
    }
    t.is((await rejectionOf(() => run(file, AbortSignal.abort())))?.name, 'AbortError')
    // an abort leaves nothing, and a signal that never aborts has no effect
    await run(file, new AbortController().signal)
    file.close()
  })
}

test('prefetch and evict take names, and change no data', async (t) => {
  const file = openSync(scratchFile(PAIR))
  const { data } = file.tensor('a')
  t.is(await file.prefetch(), undefined)
  t.is(await file.prefetch(['a', 'b']), undefined)
  t.is(file.evict(['a']), undefined)
  t.is(file.evict(), undefined)
  t.deepEqual([...data], [1, 2, 3, 4])
  t.is((await rejectionOf(() => file.prefetch(['d'])))?.code, 'ZT_NOT_FOUND')
  t.is(thrownBy(() => file.evict(['d']))?.code, 'ZT_NOT_FOUND')
  isArgumentError(t, await rejectionOf(() => file.prefetch('abc')), 'names')
  isArgumentError(
    t,
    thrownBy(() => file.evict(7)),
    'names',
  )
  file.close()
})

test('evict keeps values written into data', (t) => {
  const file = openSync(scratchFile(PAIR))
  const { data } = file.tensor('a')
  data[1] = 42
  file.evict()
  t.deepEqual([...data], [1, 42, 3, 4])
  file.close()
})

test('many concurrent loads return the right values', async (t) => {
  const { path, meaning } = vector('zt10h-sha256.zt')
  const file = openSync(path)
  const jobs = Array.from({ length: 20 }, () => meaning.tensors).flat()
  const results = await Promise.all(jobs.map(({ name }) => file.tensor(name).load()))
  results.forEach((array, i) => {
    t.is(fingerprint(array).sha256, jobs[i].components.data.sha256)
  })
  file.close()
})
