// Concurrent loads of the same compressed data decode it once, and each caller has memory of its own.
import { createRequire } from 'node:module'
import test from 'ava'
import { openSync, toFloat32 } from 'ztensor'
import { frame } from './corpus/zstd.mjs'
import { f32s, square10, zt10 } from './corpus/zt.mjs'
import { rejectionOf } from './raised.mjs'
import { scratchFile } from './scratch.mjs'

const BYTES = zt10({
  a: square10(),
  z: square10({}, { bytes: frame(f32s(5, 6, 7, 8)), encoding: 'zstd' }),
})
const { binding } = createRequire(import.meta.url)('../dist/lib/native.js')

/** How often the native side is asked to load, while `run` runs. */
async function nativeLoads(run) {
  const { prototype } = binding.NativeFile
  const original = prototype.load
  let calls = 0
  prototype.load = function (...args) {
    calls += 1
    return original.apply(this, args)
  }
  try {
    await run()
  } finally {
    prototype.load = original
  }
  return calls
}

for (const [kind, source] of Object.entries({ 'a path': scratchFile(BYTES), memory: BYTES })) {
  test.serial(`loads at the same time of a compressed tensor of ${kind} decode once`, async (t) => {
    const file = openSync(source)
    const z = file.tensor('z')
    const arrays = []
    const into = new Float32Array(4)
    const calls = await nativeLoads(async () => {
      arrays.push(...(await Promise.all([z.load(), z.load(), z.load({ into }), file.tensor('z').load()])))
    })
    t.is(calls, 1)
    t.is(arrays[2], into)
    for (const array of arrays) t.deepEqual([...array], [5, 6, 7, 8])
    t.is(new Set(arrays.map(({ buffer }) => buffer)).size, 4)
    arrays[0][0] = 9
    t.is(arrays[1][0], 5)
    t.is(await nativeLoads(() => z.load()), 1)
    t.is(await nativeLoads(() => Promise.all([z.load(), z.load({ slice: [[0, 1]] })])), 2)
    t.is(await nativeLoads(() => Promise.all([z.components.get('data').load(), z.components.get('data').load()])), 1)
    t.deepEqual([...toFloat32(await z.load(), 'float32')], [5, 6, 7, 8])
    file.close()
  })
}

test.serial('one that gives up leaves the others alone; with the last one the work ends', async (t) => {
  const file = openSync(scratchFile(BYTES))
  const z = file.tensor('z')
  const [first, second] = [new AbortController(), new AbortController()]
  const loads = [z.load({ signal: first.signal }), z.load(), z.load({ signal: second.signal })]
  first.abort(new Error('enough'))
  const [one, two, three] = await Promise.allSettled(loads)
  t.is(one.reason?.message, 'enough')
  t.deepEqual([...two.value], [5, 6, 7, 8])
  t.deepEqual([...three.value], [5, 6, 7, 8])
  const both = [z.load({ signal: second.signal }), z.load({ signal: second.signal })]
  second.abort(new Error('both'))
  for (const { reason } of await Promise.allSettled(both)) t.is(reason?.message, 'both')
  t.deepEqual([...(await z.load())], [5, 6, 7, 8])
  const late = [z.load(), z.load()]
  file.close()
  for (const load of late) t.is((await rejectionOf(() => load))?.code, 'ZT_CLOSED')
})
