// Damages vectors byte by byte and length by length, in a process of its own: `node --expose-gc mutations.mjs MOST FILE…` prints what came of
// at most MOST flips and MOST lengths of each file, spread over all of it; without a bound (`all`) every byte and every length.
import { readFileSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { openSync, ZTensorError } from 'ztensor'

const FLIPS = [0x01, 0x80, 0xff]
const [most, ...paths] = process.argv.slice(2)
const told = { tried: 0, refused: 0, accepted: 0, strangers: [], wrong: [], slowest: 0 }

const same = (a, b) => Buffer.compare(a, b) === 0
const bytesOf = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)

/**
 * The ranges of the file that a digest covers, each with the data that it holds where the digest is of what was decoded (zTensor 2):
 * a frame may say the same in other bytes.
 */
function digested(file) {
  const parts = [...file.values()].flatMap((tensor) => [...tensor.components.values()])
  return parts
    .filter((part) => /^(crc32c|sha256|xxh3)\b/i.test(part.digest ?? '') && part.offset !== undefined)
    .map((part) => ({
      start: part.offset,
      end: part.offset + part.storedLength,
      holds: file.version === '2' && part.encoding !== 'raw' ? Buffer.from(bytesOf(part.data)) : undefined,
    }))
}

/** Reads everything. Gives an error, or what is wrong with what was accepted; `covered` is the range of a digest over the byte. */
function read(bytes, covered) {
  const file = openSync(bytes, { verify: true })
  if (covered !== undefined && covered.holds === undefined) return 'a digest covers the byte, and nothing was noticed'
  for (const tensor of file.values()) {
    JSON.stringify(tensor)
    for (const part of tensor.components.values()) {
      const { data } = part
      if (covered?.start === part.offset && !same(bytesOf(data), covered.holds))
        return `${tensor.name} ${part.role}: a digest covers the data, and nothing was noticed`
      if (part.encoding !== 'raw' || part.offset === undefined || ['byte-order', 'reordered'].includes(part.copyReason))
        continue
      if (
        part.storedLength === data.byteLength &&
        !same(bytesOf(data), bytes.subarray(part.offset, part.offset + data.byteLength))
      )
        return `${tensor.name} ${part.role}: not what stands in the file`
    }
  }
  file.close()
  return undefined
}

async function attempt(bytes, what, covered) {
  told.tried += 1
  // What is looked at is what one file takes, not what the collector and the finalizers, which need a turn, have not come to.
  // A full collection costs more than the attempt, and most of this is young.
  if (told.tried % 4 === 0) {
    globalThis.gc({ type: told.tried % 64 === 0 ? 'major' : 'minor' })
    await nextTurn()
  }
  const before = process.cpuUsage()
  try {
    const wrong = read(bytes, covered)
    if (wrong === undefined) told.accepted += 1
    else told.wrong.push(`${what}: ${wrong}`)
  } catch (error) {
    if (error instanceof ZTensorError && error.code !== 'ZT_INTERNAL') told.refused += 1
    else told.strangers.push(`${what}: ${error.stack}`)
  }
  const { user, system } = process.cpuUsage(before)
  told.slowest = Math.max(told.slowest, (user + system) / 1000)
}

/** At most `most` of the numbers below `count`, spread over all of them. */
function* spread(count) {
  const step = most === 'all' ? 1 : Math.max(1, count / Number(most))
  for (let at = 0; at < count; at += step) yield Math.floor(at)
}

const files = paths.map((path) => ({ path, bytes: readFileSync(path) }))
// The caches of a first round are no leak of the second.
for (const { bytes } of files) openSync(bytes, { verify: true }).close()
const before = process.resourceUsage().maxRSS
for (const { path, bytes } of files) {
  const whole = openSync(bytes)
  const ranges = digested(whole)
  whole.close()
  for (const at of spread(bytes.length)) {
    const covered = ranges.find(({ start, end }) => start <= at && at < end)
    for (const flip of most === 'all' ? FLIPS : [FLIPS[at % 3]]) {
      const damaged = Buffer.from(bytes)
      damaged[at] ^= flip
      await attempt(damaged, `${path}: byte ${at} ^ ${flip}`, covered)
    }
  }
  for (const length of spread(bytes.length))
    await attempt(bytes.subarray(0, length), `${path}: ${length} bytes`, undefined)
}
const largest = Math.max(...files.map(({ bytes }) => bytes.length))
console.log(JSON.stringify({ ...told, grownKiB: process.resourceUsage().maxRSS - before, largest }))
