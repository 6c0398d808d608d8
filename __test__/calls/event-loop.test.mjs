// Async calls on large inputs never block the event loop for long. The measure is the bytes of all arrays that native calls get in one turn
// of the event loop. A clock would depend on the machine.

import { readFileSync } from 'node:fs'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import test from 'ava'
import { append, compare, convert, create, diff, loadFile, open, saveFile, verify } from 'ztensor'
import { binding } from '../helpers/binding.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const MIB = 2 ** 20
/** The maximum of one turn: copies of two pieces of 32 MiB, 3 ms each. */
const MAX = 64 * MIB
/** The bytes that one call copies of a source in memory. */
const STAGED = 16 * MIB

let [inTurn, longest] = [0, 0]

/** Counts the bytes of the arrays that a native function gets. */
function counted(holder, name) {
  const { value, writable, configurable } = Object.getOwnPropertyDescriptor(holder, name)
  if (typeof value !== 'function' || name === 'constructor' || !(writable || configurable)) return 0
  holder[name] = function (...args) {
    // Of a source in memory, each call copies only the next piece.
    for (const one of args.flat())
      if (ArrayBuffer.isView(one)) inTurn += one.buffer === bytes?.buffer ? STAGED : one.byteLength
    longest = Math.max(longest, inTurn)
    return value.apply(this, args)
  }
  return 1
}

/** The longest turn of `work`, in bytes. */
async function turnOf(work) {
  ;[inTurn, longest] = [0, 0]
  let ended = false
  const reset = () => {
    inTurn = 0
    if (!ended) setImmediate(reset)
  }
  setImmediate(reset)
  await work()
  ended = true
  return longest
}

/** More than one turn may process, in elements of four bytes. */
const LENGTH = 24 * MIB
const floats = new Float32Array(LENGTH).map((_, at) => at % 1021)
const [ROWS, WIDTH] = [1024, LENGTH / 1024]
const shape = [ROWS, WIDTH]
const path = scratchPath('large.safetensors')
const zt = scratchPath('large.zt')
let bytes

test.before(async (t) => {
  let found = 0
  for (const name of Object.keys(binding)) {
    const { prototype } = binding[name]
    if (prototype !== undefined && /^[A-Z]/.test(name))
      for (const method of Object.getOwnPropertyNames(prototype)) {
        const { value } = Object.getOwnPropertyDescriptor(prototype, method)
        if (typeof value === 'function') found += counted(prototype, method)
      }
    else found += counted(binding, name)
  }
  t.true(found > 80, String(found))
  await saveFile(path, { a: { data: floats, shape }, b: Int32Array.from({ length: MIB }, (_, at) => at) })
  await convert(path, zt, { version: '1.2', digest: 'crc32c', compression: { level: 1 } })
  bytes = readFileSync(path)
})

test.serial('the counter sees work on this thread', async (t) => {
  const { toFloat32 } = await import('ztensor')
  const halves = new Uint16Array(LENGTH)
  t.true((await turnOf(async () => toFloat32(halves, 'bfloat16'))) >= LENGTH * 2)
})

const withFile = (source, work) => async () => {
  const file = await open(source())
  try {
    await work(file)
  } finally {
    file.close()
  }
}
const writing = (work) => async () => {
  const writer = await create(scratchPath('written.zt'), { version: '1.2' })
  await work(writer)
  await writer.finish()
}
const sources = { 'a file': () => path, 'a compressed file': () => zt, memory: () => bytes }
const CALLS = {}
for (const [what, source] of Object.entries(sources)) {
  Object.assign(CALLS, {
    [`open of ${what}`]: withFile(source, () => {}),
    [`tensor.load of ${what}`]: withFile(source, (file) => file.tensor('a').load()),
    [`tensor.load into an array, of ${what}`]: withFile(source, (file) => file.tensor('a').load({ into: new Float32Array(LENGTH) })),
    [`tensor.load to be moved, of ${what}`]: withFile(source, (file) => file.tensor('a').load({ transferable: true })),
    [`tensor.take of ${what}`]: withFile(source, (file) => file.tensor('a').take(Array.from({ length: 900 }, (_, at) => at))),
    [`file.load of ${what}`]: withFile(source, (file) => file.load()),
    [`file.load as float32 of ${what}`]: withFile(source, (file) => file.load({ as: 'float32' })),
    [`file.verify of ${what}`]: withFile(source, (file) => file.verify()),
    [`tensor.stats of ${what}`]: withFile(source, (file) => file.tensor('a').stats({ bins: 8 })),
    [`compare of ${what}`]: withFile(source, (file) => compare(file.tensor('a'), file.tensor('a'))),
    [`a stream of ${what}`]: withFile(source, (file) =>
      pipeline(file.tensor('a').createReadStream(), new Writable({ write: (_chunk, _encoding, done) => done() })),
    ),
    [`convert of ${what}`]: () => convert(source(), scratchPath('converted.zt'), { cast: { float32: 'bfloat16' } }),
    [`verify of ${what}`]: () => verify(source()),
    [`diff of ${what}`]: () => diff(source(), source()),
    [`loadFile of ${what}`]: () => loadFile(source()),
  })
} // biome-ignore format: one call a line
Object.assign(CALLS, {
  '4000 small loads at once': withFile(sources['a file'], (file) =>
    Promise.all(Array.from({ length: 4000 }, () => file.tensor('a').load({ slice: [[7], [0, 16384]] }))),
  ),
  saveFile: () => saveFile(scratchPath('saved.safetensors'), { a: { data: floats, shape } }),
  'saveFile, rounding': () => saveFile(scratchPath('saved.safetensors'), { a: { dtype: 'bfloat16', data: floats } }),
  'writer.add': writing((writer) => writer.add('a', floats, { shape })),
  'writer.add, rounding': writing((writer) => writer.add('a', { dtype: 'float16', data: floats })),
  'writer.addObject': writing((writer) =>
    writer.addObject('a', { layout: 'x.y/1', shape: [1], components: { a: { dtype: 'bfloat16', data: floats } } }),
  ),
  append: async () => {
    const to = scratchPath('appended.zt')
    await convert(zt, to)
    const editor = await append(to)
    await editor.add('more', floats)
    await editor.finish()
  },
})

for (const [what, call] of Object.entries(CALLS))
  test.serial(`${what} yields to the event loop`, async (t) => {
    const most = await turnOf(call)
    t.true(most <= MAX, `${(most / MIB).toFixed(1)} MiB in one turn`)
  })
