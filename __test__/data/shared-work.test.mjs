// Concurrent loads of the same compressed data decode it once, and each caller gets separate memory.
import test from 'ava'
import { openSync, toFloat32 } from 'ztensor'
import { frame } from '../corpus/zstd.mjs'
import { f32s, square10, zt10 } from '../corpus/zt.mjs'
import { binding } from '../helpers/binding.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchFile } from '../helpers/scratch.mjs'

/** More than the calling thread loads itself. */
const Z = Array.from({ length: 20_000 }, (_, at) => 5 + (at % 4))
const compressed = (bytes) => square10({ shape: [Z.length] }, { bytes, encoding: 'zstd' })
const BYTES = zt10({
  a: square10(),
  z: compressed(frame(f32s(...Z))),
})

const { prototype } = binding.NativeFile
/** The native loads during `run`: the ordinals, or an array for a call for several. */
async function nativeCalls(run) {
  const originals = ['load', 'loadBatch', 'loadSparse'].map((name) => [name, prototype[name]])
  const calls = []
  for (const [name, original] of originals) {
    prototype[name] = function (ordinals, ...args) {
      calls.push(typeof ordinals === 'number' ? ordinals : [...ordinals])
      return original.call(this, ordinals, ...args)
    }
  }
  try {
    await run()
  } finally {
    for (const [name, original] of originals) prototype[name] = original
  }
  return calls
}
const nativeLoads = async (run) => (await nativeCalls(run)).length

for (const [kind, source] of Object.entries({ 'a path': scratchFile(BYTES), memory: BYTES })) {
  test.serial(`concurrent loads of a compressed tensor of ${kind} decode it once`, async (t) => {
    const file = openSync(source)
    const z = file.tensor('z')
    const arrays = []
    const into = new Float32Array(Z.length)
    const calls = await nativeLoads(async () => {
      arrays.push(...(await Promise.all([z.load(), z.load(), z.load({ into }), file.tensor('z').load()])))
    })
    t.is(calls, 1)
    t.is(arrays[2], into)
    for (const array of arrays) t.deepEqual([...array], Z)
    t.is(new Set(arrays.map(({ buffer }) => buffer)).size, 4)
    arrays[0][0] = 9
    t.is(arrays[1][0], 5)
    t.is(await nativeLoads(() => z.load()), 1)
    t.is(await nativeLoads(() => Promise.all([z.load(), z.load({ slice: [[0, 1]] })])), 2)
    t.is(await nativeLoads(() => Promise.all([z.components.get('data').load(), z.components.get('data').load()])), 1)
    t.deepEqual([...toFloat32(await z.load(), 'float32')], Z)
    file.close()
  })
}

test.serial('an aborted load does not affect the others; after the last abort the work ends', async (t) => {
  const file = openSync(scratchFile(BYTES))
  const z = file.tensor('z')
  const [first, second] = [new AbortController(), new AbortController()]
  const loads = [z.load({ signal: first.signal }), z.load(), z.load({ signal: second.signal })]
  first.abort(new Error('enough'))
  const [one, two, three] = await Promise.allSettled(loads)
  t.is(one.reason?.message, 'enough')
  t.deepEqual([...two.value], Z)
  t.deepEqual([...three.value], Z)
  const both = [z.load({ signal: second.signal }), z.load({ signal: second.signal })]
  second.abort(new Error('both'))
  for (const { reason } of await Promise.allSettled(both)) t.is(reason?.message, 'both')
  t.deepEqual([...(await z.load())], Z)
  const late = [z.load(), z.load()]
  file.close()
  for (const load of late) t.is((await rejectionOf(() => load))?.code, 'ZT_CLOSED')
})

test.serial('concurrent loads of a tensor and of its file decode it once', async (t) => {
  const file = openSync(scratchFile(BYTES))
  const z = file.tensor('z')
  const [first, second] = [file, z].map((of) => () => of.load())
  /** Resolves after earlier calls have started, and before a turn of the event loop, in which they could end. */
  const later = async () => {
    for (let turn = 0; turn < 20; turn++) await null
    return file.load()
  }
  for (const [when, loads, expected] of [
    ['the file first', [first, second], [[0, 1]]],
    ['the tensor first', [second, later], [1, [0]]],
    ['both at once', [second, first], [[0, 1]]],
    ['the file twice', [first, first], [[0, 1], [0]]],
  ]) {
    let results
    t.deepEqual(
      await nativeCalls(async () => {
        results = await Promise.all(loads.map((load) => load()))
      }),
      expected,
      when,
    )
    const arrays = results.map((result) => (result instanceof Map ? result.get('z').data : result))
    for (const array of arrays) t.deepEqual([...array], Z, when)
    t.not(arrays[0].buffer, arrays[1].buffer, when)
    for (const result of results) if (result instanceof Map) t.deepEqual([...result.keys()], ['a', 'z'], when)
  }
  file.close()
})

test.serial('a load of the file that aborts or fails does not affect the loads that joined it', async (t) => {
  const bytes = zt10({
    bad: square10({}, { bytes: frame(f32s(5, 6)), encoding: 'zstd' }),
    z: compressed(frame(f32s(...Z))),
  })
  const file = openSync(scratchFile(bytes))
  const z = file.tensor('z')
  const stop = new AbortController()
  const given = [file.load({ signal: stop.signal, names: ['z'] }), z.load(), z.load({ signal: stop.signal })]
  stop.abort(new Error('enough'))
  const [whole, joined, both] = await Promise.allSettled(given)
  t.is(whole.reason?.message, 'enough')
  t.deepEqual([...joined.value], Z)
  t.is(both.reason?.message, 'enough')
  const [failed, loaded] = await Promise.allSettled([file.load(), z.load()])
  t.is(failed.reason?.code, 'ZT_DECODE')
  t.deepEqual([...loaded.value], Z)
  const late = [file.load({ names: ['z'] }), z.load()]
  file.close()
  for (const load of late) t.is((await rejectionOf(() => load))?.code, 'ZT_CLOSED')
})

test.serial('concurrent loads of a sparse tensor check its arrays once', async (t) => {
  const path = await written({ version: '2' }, (writer) =>
    writer.addCsr('m', {
      shape: [2, 3],
      values: Float32Array.of(1, 2),
      indices: Uint32Array.of(0, 2),
      indptr: Uint32Array.of(0, 1, 2),
    }),
  )
  const file = openSync(path)
  const m = file.tensor('m')
  let loaded
  const calls = await nativeCalls(async () => {
    loaded = await Promise.all([m.loadCsr(), file.load(), m.loadCsr()])
  })
  t.deepEqual(calls, [0])
  const all = [loaded[0], loaded[1].get('m'), loaded[2]]
  for (const matrix of all) t.deepEqual([...matrix.toDense()], [1, 0, 0, 0, 0, 2])
  t.is(new Set(all.map(({ values }) => values.buffer)).size, 3)
  file.close()
})
