// `node bench/search.mjs [ROWS WIDTH]`: exact search in a table by `nearest` on all cores, and by the loop in one thread (docs/guide/search.md),
// in each dtype. `taskset -c 0 node bench/search.mjs` compares them on one core.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, openSync } from 'ztensor'

const [rows = 200_000, width = 384] = process.argv.slice(2).map(Number)
const BLOCK = 4096
const ROUNDS = 7
const K = 10

/** Adds the best rows of a block of float32 to `top`. */
function search(block, count, query, first, top) {
  for (let row = 0; row < count; row++) {
    const at = row * width
    let [a, b, c, d] = [0, 0, 0, 0]
    for (let column = 0; column < width; column += 4) {
      a += block[at + column] * query[column]
      b += block[at + column + 1] * query[column + 1]
      c += block[at + column + 2] * query[column + 2]
      d += block[at + column + 3] * query[column + 3]
    }
    const score = a + b + c + d
    if (top.length === K && score <= top[K - 1].score) continue
    top.push({ row: first + row, score })
    top.sort((one, other) => other.score - one.score)
    top.length = Math.min(K, top.length)
  }
  return top
}

async function byBlocks(table, query) {
  const block = new Float32Array(BLOCK * width)
  let top = []
  for (let from = 0; from < rows; from += BLOCK) {
    const count = Math.min(BLOCK, rows - from)
    const into = block.subarray(0, count * width)
    await table.load({ as: 'float32', slice: [[from, from + count]], into })
    top = search(into, count, query, from, top)
  }
  return top
}

const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)]

async function timed(work) {
  const times = []
  let found
  for (let round = 0; round < ROUNDS; round++) {
    const begun = performance.now()
    found = await work()
    times.push(performance.now() - begun)
  }
  return { ms: median(times), found }
}

if (width % 4 !== 0 || !(rows >= K)) throw new Error(`WIDTH is a multiple of 4, and ROWS at least ${K}`)
const folder = mkdtempSync(join(tmpdir(), 'ztensor-search-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
let state = 1
const data = Float32Array.from({ length: rows * width }, () => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0
  return state / 2 ** 31 - 1
})
const shape = [rows, width]
const writer = await create(join(folder, 'table.zt'), { version: '1.2' })
for (const dtype of ['float32', 'float16', 'bfloat16']) await writer.add(dtype, { dtype, shape, data })
await writer.add('int8', { dtype: 'int8', shape, data: Int8Array.from(data, (value) => Math.round(value * 127)) })
await writer.finish()

const wanted = Math.floor(rows / 2)
const query = data.slice(wanted * width, (wanted + 1) * width)
const file = openSync(join(folder, 'table.zt'))
const { ms: inMemory } = await timed(() => search(data, rows, query, 0, []))
console.log(`${rows} rows of ${width}: a loop over an array in memory takes ${inMemory.toFixed(0)} ms`)
console.log('           nearest   by blocks, × nearest')
for (const [name, table] of file) {
  const loop = await timed(() => byBlocks(table, query))
  const native = await timed(() => table.nearest(query, { k: K }))
  const [rows, expected] = [native, loop].map(({ found }) => found.map(({ row }) => row))
  if (rows[0] !== wanted || String(rows) !== String(expected)) throw new Error(`${name}: ${rows}, not ${expected}`)
  const times = [native, loop].map(({ ms }) => ms.toFixed(1).padStart(6)).join(' ms     ')
  console.log(`${name.padEnd(9)} ${times} ms, ${(loop.ms / native.ms).toFixed(1)} ×`)
}
file.close()
