// Damages vectors byte by byte and length by length, in a separate process: `node --expose-gc mutations.mjs HOW FILE…` prints the
// result. HOW is `each` (every byte with one flip, and every length; of long runs of zeros, which are padding, the ends and
// every 512th), `all` (every byte with three flips, and every length) or the most bytes and lengths of a file, spread over all of it.
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { openSync, ZTensorError } from 'ztensor'
import { readings } from './readings.mjs'
import { scratchPath } from './scratch.mjs'

const FLIPS = [0x01, 0x80, 0xff]
const [how, ...paths] = process.argv.slice(2)
const totals = { tried: 0, refused: 0, accepted: 0, strangers: [], wrong: [], slowest: 0 }

const same = (a, b) => Buffer.compare(a, b) === 0
const bytesOf = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)

const overDecoded = (file, { digest }) => file.version === '2' || digest.startsWith('crc32:')

/**
 * The ranges of the file that a digest covers, each with its decoded data if the digest covers that (zTensor 2, zip archives): a frame may
 * encode the same data in other bytes.
 */
function digested(file) {
  const parts = [...file.values()].flatMap((tensor) => [...tensor.components.values()])
  return parts
    .filter((part) => /^(crc32c?|sha256|xxh3)\b/i.test(part.digest ?? '') && part.offset !== undefined)
    .map((part) => ({
      start: part.offset,
      end: part.offset + part.storedLength,
      holds: overDecoded(file, part) && part.encoding !== 'raw' ? Buffer.from(bytesOf(part.data)) : undefined,
    }))
}

/** One in so many accepted files is read in every way, which takes a hundred times as long. */
const EVERY = how === 'all' ? 16 : 64

/** The files to read in every way, after the cost of reading is measured. */
const sampled = []

/** The source for damaged bytes: the bytes, or a file beside its sibling files if they contain the data of an index. */
function opening(path) {
  // A part of a set is opened alone.
  const options = { verify: true, ...(path.endsWith('.gguf') ? { shards: 'none' } : {}) }
  if (!/\.(index|xml)$/.test(path)) return { source: (bytes) => bytes, isWhole: true, options }
  const folder = scratchPath('folder')
  cpSync(dirname(path), folder, { recursive: true })
  const index = join(folder, basename(path))
  const source = (bytes) => {
    writeFileSync(index, bytes)
    return index
  }
  return { source, isWhole: false, options }
}

/** Reads everything. Returns what is wrong with an accepted file; `covered` is the range of a digest over the byte. */
function read(file, bytes, covered) {
  if (covered !== undefined && covered.holds === undefined) return 'a digest covers the byte, and nothing was noticed'
  for (const tensor of file.values()) {
    JSON.stringify(tensor)
    for (const part of tensor.components.values()) {
      const { data } = part
      if (covered !== undefined && covered.start === part.offset && !same(bytesOf(data), covered.holds))
        return `${tensor.name} ${part.role}: a digest covers the data, and nothing was noticed`
      if (
        bytes === undefined ||
        part.encoding !== 'raw' ||
        part.offset === undefined ||
        ['byte-order', 'reordered'].includes(part.copyReason)
      )
        continue
      if (
        part.storedLength === data.byteLength &&
        !same(bytesOf(data), bytes.subarray(part.offset, part.offset + data.byteLength))
      )
        return `${tensor.name} ${part.role}: differs from the bytes in the file`
    }
  }
  return undefined
}

async function attempt({ source, isWhole, options }, bytes, what, covered, again) {
  totals.tried += 1
  // Measures the memory of one file, not garbage that waits for the collector and for finalizers, which need a turn.
  // A full collection costs more than the attempt, and most of this is young.
  if (totals.tried % 4 === 0) {
    globalThis.gc({ type: totals.tried % 64 === 0 ? 'major' : 'minor' })
    await nextTurn()
  }
  const before = process.cpuUsage()
  let file
  const measure = () => {
    const { user, system } = process.cpuUsage(before)
    totals.slowest = Math.max(totals.slowest, (user + system) / 1000)
  }
  try {
    file = openSync(source(bytes), options)
    const wrong = read(file, isWhole ? bytes : undefined, covered)
    measure()
    if (wrong === undefined && totals.accepted % EVERY === 0)
      sampled.push({ what, options, again: () => source(again()) })
    if (wrong === undefined) totals.accepted += 1
    else totals.wrong.push(`${what}: ${wrong}`)
  } catch (error) {
    measure()
    if (error instanceof ZTensorError && error.code !== 'ZT_INTERNAL') totals.refused += 1
    else totals.strangers.push(`${what}: ${error.stack}`)
  }
  file?.close()
}

/** The bytes of a file to flip, and the lengths to truncate it to. */
function* positions(bytes) {
  if (Number(how) > 0) {
    const step = Math.max(1, bytes.length / Number(how))
    for (let at = 0; at < bytes.length; at += step) yield Math.floor(at)
    return
  }
  const EDGE = 64
  // Among the nonzero bytes: the last one up to here, and the next one.
  let last = -1
  let next = -1
  for (let at = 0; at < bytes.length; at += 1) {
    if (bytes[at] !== 0) last = at
    while (next < bytes.length && (next < at || bytes[next] === 0)) next += 1
    if (how === 'all' || at - last <= EDGE || next - at <= EDGE || at % 512 === 0) yield at
  }
}

const files = paths.map((path) => ({ path, bytes: readFileSync(path), way: opening(path) }))
// Caches that the first round fills are not a leak in the second.
for (const { bytes, way } of files) openSync(way.source(bytes), way.options).close()
const before = process.resourceUsage().maxRSS
for (const { path, bytes, way } of files) {
  const whole = openSync(bytes, { ...way.options, verify: false })
  const ranges = way.isWhole ? digested(whole) : []
  whole.close()
  for (const at of positions(bytes)) {
    const covered = ranges.find(({ start, end }) => start <= at && at < end)
    for (const flip of how === 'all' ? FLIPS : [FLIPS[at % 3]]) {
      const damage = () => {
        const damaged = Buffer.from(bytes)
        damaged[at] ^= flip
        return damaged
      }
      await attempt(way, damage(), `${path}: byte ${at} ^ ${flip}`, covered, damage)
    }
  }
  for (const length of positions(bytes)) {
    const prefix = () => bytes.subarray(0, length)
    await attempt(way, prefix(), `${path}: ${length} bytes`, undefined, prefix)
  }
}
const largest = Math.max(...files.map(({ bytes }) => bytes.length))
const grownKiB = process.resourceUsage().maxRSS - before
for (const { what, options, again } of sampled) {
  const file = openSync(again(), options)
  const { wrong } = await readings(file, { cheap: true })
  if (wrong.length > 0) totals.wrong.push(`${what}: ${wrong[0]}`)
  file.close()
}
console.log(JSON.stringify({ ...totals, grownKiB, largest }))
