// `node bench/web-convert.mjs [MILLIONS]`: how fast @ztensor/web quantizes a model to q4_k_m in this process, and how much memory it takes
// beyond the model. Needs `npm run build` and `npm run build:web`.
import { convert, init } from '../packages/web/convert-node.js'
import { open } from '../packages/web/node.js'

const millions = Number(process.argv[2] ?? 100)
const [rows, columns] = [2048, 2048]
const layers = Math.max(1, Math.round((millions * 1e6) / (rows * columns)))

/** A model in safetensors, whose tensors have the same data: only one of them takes memory. */
function model() {
  const data = new Float32Array(rows * columns)
  let seed = 1
  for (let at = 0; at < data.length; at++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    data[at] = (seed / 2 ** 32 - 0.5) * 0.1
  }
  const bytes = new Uint8Array(data.buffer)
  const names = Array.from({ length: layers }, (_, layer) => `blk.${layer}.ffn_up.weight`)
  const entries = names.map((name, at) => [
    name,
    { dtype: 'F32', shape: [rows, columns], data_offsets: [at * bytes.length, (at + 1) * bytes.length] },
  ])
  const text = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)))
  const head = new Uint8Array(8 + text.length)
  new DataView(head.buffer).setBigUint64(0, BigInt(text.length), true)
  head.set(text, 8)
  return {
    byteLength: head.length + names.length * bytes.length,
    read(offset, length) {
      const piece = new Uint8Array(length)
      for (let at = 0; at < length; ) {
        const place = offset + at
        const from = place < head.length ? head.subarray(place) : bytes.subarray((place - head.length) % bytes.length)
        const part = from.subarray(0, length - at)
        piece.set(part, at)
        at += part.length
      }
      return piece
    },
  }
}

await init()
const file = await open(model())
const before = process.memoryUsage.rss()
let [written, most] = [0, 0]
const target = new WritableStream({
  write(bytes) {
    written += bytes.byteLength
    most = Math.max(most, process.memoryUsage.rss())
  },
})
const metadata = { 'general.architecture': 'llama' }
const [began, cpu] = [performance.now(), process.cpuUsage()]
await convert(file, target, { format: 'gguf', metadata, quantize: 'q4_k_m' })
const seconds = (performance.now() - began) / 1000
const { user, system } = process.cpuUsage(cpu)
const weights = layers * rows * columns
const mib = (bytes) => `${Math.round(bytes / 2 ** 20)} MiB`
const rate = (time) => (weights / 1e6 / time).toFixed(1)
const byCpu = rate((user + system) / 1e6)
console.log(
  `q4_k_m: ${rate(seconds)} million weights/s, ${byCpu} by CPU time (${layers} tensors, ${mib(written)} written)`,
)
console.log(
  `memory: ${mib(most - before)} beyond the ${mib(before)} before; the largest tensor has ${mib(rows * columns * 4)}`,
)
file.close()
