// A damaged file has the same result from every source: a path, memory, an ArrayBuffer, or a ByteSource of the caller.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { arrayBufferOf } from '../helpers/bytes.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const FORMATS = {
  numpy: /\.np[yz]$/,
  pytorch: /\.(pt|pth|ckpt|bin)$/,
  onnx: /\.onnx$/,
  paddle: /\.pd(params|opt|iparams)$/,
}
/** Mutations of a file, and bytes of the largest one: a test of the codes, not of every byte. */
const MUTATIONS = 24
const LARGEST = 16 * 1024

/** The same random numbers in each run. */
function numbers(seed) {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** A file with a flipped bit, a replaced byte, an additional byte, or without its end; half of them near the ends, where indexes are. */
function mutated(bytes, next) {
  const near = Math.min(bytes.length, 300)
  const at = [next(bytes.length), next(near), bytes.length - 1 - next(near)][next(3)]
  const changed = Buffer.from(bytes)
  switch (next(5)) {
    case 0:
      changed[at] ^= 1 << next(8)
      return changed
    case 1:
      changed[at] = 255
      return changed
    case 2:
      changed[at] = next(256)
      return changed
    case 3:
      return Buffer.concat([bytes.subarray(0, at), Buffer.from([next(256)]), bytes.subarray(at)])
    default:
      return bytes.subarray(0, at)
  }
}

/** The codes of opening, of each tensor and of verify. */
async function outcome(opening) {
  let file
  try {
    file = await opening()
  } catch (error) {
    return error.code
  }
  try {
    const loaded = {}
    for (const tensor of file.values()) {
      loaded[tensor.name] = await tensor.load().then(
        () => 'read',
        (error) => error.code,
      )
    }
    const verified = await file.verify().then(
      ({ failures }) => failures.map(({ code, tensor }) => [code, tensor]),
      (error) => error.code,
    )
    return { warnings: file.warnings.map(({ code, tensor }) => [code, tensor]), loaded, verified }
  } finally {
    file.close()
  }
}

for (const [format, ending] of Object.entries(FORMATS)) {
  test(`a fault has the same code from every source: ${format}`, async (t) => {
    const folder = fixturePath(format)
    const next = numbers(format.length)
    for (const name of readdirSync(folder).filter((name) => ending.test(name))) {
      const bytes = readFileSync(join(folder, name))
      if (bytes.length > LARGEST) continue
      for (let nth = 0; nth < MUTATIONS; nth += 1) {
        const damaged = mutated(bytes, next)
        const memory = new Uint8Array(damaged)
        const path = scratchFile(damaged)
        const source = {
          byteLength: memory.length,
          read: async (offset, length) => memory.subarray(offset, offset + length),
        }
        const expected = await outcome(() => open(path))
        const others = {
          openSync: () => openSync(path),
          memory: () => openSync(memory),
          ArrayBuffer: () => open(arrayBufferOf(damaged)),
          ByteSource: () => open(source),
        }
        for (const [way, opening] of Object.entries(others))
          t.deepEqual(await outcome(opening), expected, `${name}, mutation ${nth}, ${way}`)
      }
    }
  })
}
