// Opens and reads damaged files with @ztensor/web: a byte is changed, or the end is missing. Prints what became of them. The process is
// ended from outside if it hangs.
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { open } from '../../packages/web/node.js'
import { MUTATED } from '../helpers/mutated-files.mjs'

const BYTES = 24
const LENGTHS = 8

/** Damaged copies of a file: positions are spread over all of it, and more over its ends, where indexes are. */
function* damaged(bytes) {
  const { length } = bytes
  const spread = (count) => Array.from({ length: count }, (_, at) => Math.floor(((at + 0.5) * length) / count))
  const ends = (count) => spread(count).map((at) => Math.floor(at ** 2 / length))
  const positions = [...spread(BYTES), ...ends(BYTES), ...ends(BYTES).map((at) => length - 1 - at)]
  for (const [at, position] of positions.entries()) {
    const copy = bytes.slice()
    copy[position] ^= [0x01, 0x80, 0xff][at % 3]
    yield { what: `byte ${position}`, copy }
  }
  for (const end of spread(LENGTHS)) yield { what: `${end} bytes`, copy: bytes.slice(0, end) }
}

const counts = { files: 0, tried: 0, refused: 0, opened: 0, loads: 0, failedLoads: 0 }
const strangers = []

/** Counts an error with a code of the package. Others, and bugs, are strangers. */
function known(error, where) {
  if (!String(error?.code).startsWith('ZT_') || error.code === 'ZT_INTERNAL')
    strangers.push(`${where}: ${error?.stack}`)
}

for (const path of new Set(Object.values(MUTATED).flatMap((kinds) => Object.values(kinds).flat()))) {
  counts.files += 1
  for (const { what, copy } of damaged(new Uint8Array(readFileSync(path)))) {
    const where = `${basename(path)}, ${what}`
    counts.tried += 1
    let file
    try {
      file = await open(copy)
    } catch (error) {
      known(error, where)
      counts.refused += 1
      continue
    }
    counts.opened += 1
    await file.verify().catch((error) => known(error, where))
    for (const tensor of [...file.values()].slice(0, 4)) {
      counts.loads += 1
      await tensor.load().catch((error) => {
        known(error, where)
        counts.failedLoads += 1
      })
    }
    file.close()
  }
}
console.log(JSON.stringify({ ...counts, strangers }))
