// Damaged files that both h5py and this package read: the values must be equal, and this package lists or reports everything
// that h5py lists.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { openSync } from 'ztensor'

const program = fileURLToPath(new URL('hdf5_peer.py', import.meta.url))
const FILES = [
  'small.h5',
  'small-latest.h5',
  'fill.h5',
  'fill-latest.h5',
  'groups.h5',
  'attributes-latest.h5',
  'storage-earliest.h5',
  'storage-latest.h5',
  'filters-latest.h5',
  'small-addresses.h5',
]
/** The number of damaged places in each file, and the ways of damage. */
const POSITIONS = 60
/** Milliseconds after which h5py, which limits its own processor time, is killed because it waits. The file counts as rejected. */
const TIMEOUT = 120_000
const WAYS = [
  (bytes, at) => bytes.writeUInt8(bytes[at] ^ 1, at),
  (bytes, at) => bytes.writeUInt8(bytes[at] ^ 0x80, at),
  (bytes, at) => bytes.writeUInt8(0, at),
  (bytes, at) => bytes.writeUInt8(bytes[at] ^ 0xff, at),
]

/** The same random numbers in each run. */
function* numbers(seed) {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    // The low bits repeat soon.
    yield state >>> 8
  }
}

/** Yields copies of a file with one byte changed, mostly in its index and not in long runs of data. */
function* damaged(bytes, positions) {
  const next = numbers(bytes.length)
  for (let nth = 0; nth < positions; nth += 1) {
    const at = next.next().value % bytes.length
    const way = next.next().value % WAYS.length
    const copy = Buffer.from(bytes)
    WAYS[way](copy, at)
    if (!copy.equals(bytes)) yield { what: `byte ${at}, way ${way}`, copy }
  }
  for (let nth = 1; nth <= positions / 10; nth += 1)
    yield { what: `${bytes.length - nth * 7} bytes`, copy: bytes.subarray(0, bytes.length - nth * 7) }
}

/** A process of h5py that reads one path after the other. A new process replaces one that crashed. */
function peer(python) {
  let child
  let lines
  const start = () => {
    child = spawn(python, [program], { stdio: ['pipe', 'pipe', 'ignore'] })
    child.stdin.on('error', () => {})
    lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  }
  return {
    async read(path) {
      if (child === undefined) start()
      child.stdin.write(`${path}\n`)
      const asked = child
      const timer = setTimeout(() => asked.kill('SIGKILL'), TIMEOUT)
      const { value, done } = await lines.next()
      clearTimeout(timer)
      if (!done) return JSON.parse(value)
      child = undefined
      return null
    },
    end: () => child?.stdin.end(),
  }
}

const hashOf = ({ buffer, byteOffset, byteLength }) =>
  createHash('sha256')
    .update(Buffer.from(buffer, byteOffset, byteLength))
    .digest('hex')

/** The differences in one file: none if h5py or this package rejects it. */
async function compare(path, theirs) {
  let file
  try {
    file = openSync(path)
  } catch {
    return { wrong: [], both: 0 }
  }
  try {
    const { ok } = await file.verify()
    const isQuiet = ok && file.warnings.every(({ code }) => !/DAMAGED|TRUNCATED|SKIPPED/.test(code))
    const unknown = new Set(
      file.warnings.filter(({ code }) => code === 'ZT_WARN_UNKNOWN_ENCODING').map(({ tensor }) => tensor),
    )
    const wrong = []
    let both = 0
    for (const [name, read] of Object.entries(theirs)) {
      if (!file.has(name)) {
        if (isQuiet && read !== null) wrong.push(`${name} is not listed, and nothing reports it`)
        continue
      }
      if (read === null) continue
      const tensor = file.tensor(name)
      if (tensor.dtype === undefined || unknown.has(name)) continue
      let data
      try {
        data = await tensor.load()
      } catch {
        if (ok) wrong.push(`${name} is rejected, and verify() is ok`)
        continue
      }
      both += 1
      if (JSON.stringify(read[0]) !== JSON.stringify(tensor.shape)) wrong.push(`${name} has another shape`)
      else if (read[1] !== hashOf(data)) wrong.push(`${name} has other values`)
    }
    return { wrong, both }
  } finally {
    file.close()
  }
}

/** Returns [{ what, error }] for every file. The error is undefined if everything that both read is equal. */
export async function compareMutations(python, fixtures, build, positions = POSITIONS) {
  const folder = join(build, 'hdf5-mutations')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const h5py = peer(python)
  const results = []
  for (const name of FILES) {
    const bytes = readFileSync(join(fixtures, 'hdf5', name))
    const path = join(folder, name)
    const wrong = []
    let compared = 0
    for (const { what, copy } of damaged(bytes, positions)) {
      writeFileSync(path, copy)
      const theirs = await h5py.read(path)
      if (theirs === null) continue
      const found = await compare(path, theirs)
      compared += found.both
      wrong.push(...found.wrong.map((one) => `${what}: ${one}`))
    }
    if (compared === 0) wrong.push('no tensor was read by both')
    results.push({
      what: `${name}, damaged`,
      compared,
      error: wrong.length > 0 ? new Error(wrong.join('; ')) : undefined,
    })
  }
  h5py.end()
  return results
}
