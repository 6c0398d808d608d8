// Unexpected arguments for every function. Each must be an error that names the argument, another error of ours, or the
// caller's error if the argument throws it; never an error of native code.
import { inspect } from 'node:util'
import { Component, openSync, Plan, Tensor, TensorFile, ZTensorError } from 'ztensor'
import { rejectionOf } from './errors.mjs'

/** The error that an argument throws. */
const OWN = new Error('the caller’s own')
const throwing = () => {
  throw OWN
}
const everyTrap = Object.fromEntries(
  Reflect.ownKeys(Reflect)
    .filter((trap) => typeof trap === 'string')
    .map((trap) => [trap, throwing]),
)
const detached = () => {
  const array = new Float32Array(4)
  structuredClone(array.buffer, { transfer: [array.buffer] })
  return array
}
const shrunk = () => {
  const buffer = new ArrayBuffer(64, { maxByteLength: 128 })
  const array = new Float32Array(buffer, 0, 16)
  buffer.resize?.(8)
  return array
}

/** Created for each call. */
const VALUES = {
  null: () => null,
  true: () => true,
  'not a number': () => Number.NaN,
  negative: () => -1,
  'negative zero': () => -0,
  'a fraction': () => 0.5,
  infinite: () => Number.POSITIVE_INFINITY,
  '2^53': () => 2 ** 53,
  '2^53 - 1': () => 2 ** 53 - 1,
  '2^32': () => 2 ** 32,
  'a bigint': () => 1n,
  'a huge bigint': () => 2n ** 200n,
  'an empty text': () => '',
  'a text with a null byte': () => 'a\0b',
  'half a surrogate pair': () => '\ud800',
  'a long text': () => 'x'.repeat(2 ** 20),
  'a text of a number': () => '1',
  'a symbol': () => Symbol('s'),
  'a function': () => () => {},
  'a throwing function': () => throwing,
  'an object': () => ({}),
  'an object without prototype': () => Object.create(null),
  'an empty array': () => [],
  'an array of nonsense': () => [Number.NaN, -1, {}, null, undefined, 'x'],
  'an array of nonsense pairs': () => [
    [-1, 2],
    [0, Number.NaN],
  ],
  'a long array': () => Array(100_000).fill(1),
  'a sparse array': () => Array(5),
  'an array-like': () => ({ length: 2 ** 40 }),
  'a date': () => new Date(Number.NaN),
  'a map': () => new Map([[1, 2]]),
  'a circle': () => {
    const circle = {}
    circle.circle = circle
    return circle
  },
  'a depth': () => {
    let deep = {}
    for (let i = 0; i < 100_000; i++) deep = { deep }
    return deep
  },
  'a promise': () => Promise.resolve(1),
  'throwing getters': () =>
    Object.defineProperties(
      {},
      Object.fromEntries(KEYS.map((key) => [key, { get: throwing, enumerable: true, configurable: true }])),
    ),
  'a throwing iterable': () => ({ [Symbol.iterator]: throwing }),
  'an endless thing that converts to itself': () => ({
    [Symbol.toPrimitive]() {
      return this
    },
  }),
  'a throwing proxy': () => new Proxy({}, everyTrap),
  'a throwing proxy of an array': () => new Proxy([1], everyTrap),
  'a proxy of an array': () => new Proxy(new Float32Array(4), {}),
  'a revoked proxy': () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  },
  'a detached array': detached,
  'a detached buffer': () => detached().buffer,
  'an array of a buffer that shrank': shrunk,
  'a buffer that can grow': () => new ArrayBuffer(8, { maxByteLength: 64 }),
  'a shared buffer': () => new SharedArrayBuffer(64),
  'a shared array': () => new Float32Array(new SharedArrayBuffer(64)),
  'an array of another type': () => new BigInt64Array(4),
  'a data view': () => new DataView(new ArrayBuffer(16)),
  'an aborted controller': () => new AbortController(),
  'a class': () => class {},
}
/** Values for arguments that expect one of our objects. */
export const FORGED = Object.fromEntries(
  [TensorFile, Tensor, Component, Plan].flatMap((Class) => [
    [`made from the prototype of ${Class.name}`, () => Object.create(Class.prototype)],
    [`the class ${Class.name}`, () => Class],
    [`a proxy of ${Class.name}`, () => new Proxy(Object.create(Class.prototype), {})],
  ]),
)
/** Options of all functions. */
export const KEYS =
  'format verify maxIndexBytes maxDecodedBytes maxRank maxAttributeValues onMappingLost onProgress signal names concurrency as slice shard into dtype dim rank worldSize version digest compression level attributes alignment overwrite canonical data shape values indices indptr coords layout components filter rename length maxBytes'.split(
    ' ',
  )

/** Why an outcome is wrong; undefined if it is an error that a caller can handle. */
function fault(error, names) {
  if (error === undefined || error === OWN) return undefined
  // The runtime's error about the caller's proxy or function.
  if (error instanceof TypeError && /revoked|not a typed array|Class constructor/.test(error.message)) return undefined
  if (error instanceof ZTensorError) return error.code === 'ZT_INTERNAL' ? 'a defect' : undefined
  if (!(error instanceof TypeError || error instanceof RangeError)) return 'neither ours nor an error of arguments'
  if (error.code !== 'ZT_INVALID_ARG') return 'without our code'
  return names.some((name) => new RegExp(`\\b${name}`).test(error.message)) ? undefined : 'names no argument'
}

/** Tries each call with every value: [function and argument, the names that errors may use, the call, 'path' if strings are paths]. */
export function tryHostile(test, calls, values = VALUES) {
  for (const [what, names, call, texts] of calls) {
    test(what, async (t) => {
      const faults = []
      for (const [kind, make] of Object.entries(values)) {
        const value = make()
        if (texts === 'path' && typeof value === 'string' && value !== '' && !value.includes('\0')) continue
        const error = await rejectionOf(async () => {
          const result = await call(value)
          await (result?.abort?.() ?? result?.close?.())
        })
        const wrong = fault(error, names)
        if (wrong !== undefined) faults.push(`${kind}: ${wrong}: ${inspect(error).slice(0, 300)}`)
      }
      t.deepEqual(faults, [])
    })
  }
}

/** Calls with the file at `path`, which is open until they end. */
export const opened = (path) => (call) => async (value) => {
  const file = openSync(path)
  try {
    return await call(file, value)
  } finally {
    file.close()
  }
}
