// `node bench/web.mjs`: how fast @ztensor/web reads in chromium, beside a loader by hand and the addon. Needs `npm run build`,
// `npm run build:web` and a chromium.
import { createReadStream, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { convert, create, openSync, saveFile } from 'ztensor'
import { writeMany } from '../__test__/browser/models.mjs'
import { startChromium } from '../__test__/runners/chromium.mjs'
import { root } from '../scripts/command.mjs'

const TYPES = { js: 'text/javascript', wasm: 'application/wasm' }
const ROUNDS = 7
const MANY = 100_000
const SIZE = 64 * 2 ** 20
const LARGE = 2 ** 30

const folder = mkdtempSync(join(tmpdir(), 'ztensor-web-bench-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
const path = (name) => join(folder, name)

/** Numbers that compress to some 4/5, like weights. */
function weights(count) {
  let state = 1
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state / 2 ** 32 - 0.5) * 0.1
  })
}

await writeMany(path('many.safetensors'), MANY)
const writer = await create(path('zstd.zt'), { version: '1.2', compression: true })
await writer.add('w', { dtype: 'float32', shape: [4096, SIZE / 4 / 4096], data: weights(SIZE / 4) })
await writer.finish()
await saveFile(path('f32.safetensors'), {
  'blk.0.ffn_up.weight': { dtype: 'float32', shape: [4096, SIZE / 4 / 4096], data: weights(SIZE / 4) },
})
await convert(path('f32.safetensors'), path('q4_k.gguf'), { checkpoint: false, quantize: 'q4_k' })
const head = Buffer.from(JSON.stringify({ w: { dtype: 'F32', shape: [LARGE / 4], data_offsets: [0, LARGE] } }))
const length = Buffer.alloc(8)
length.writeBigUInt64LE(BigInt(head.length))
writeFileSync(path('large.safetensors'), Buffer.concat([length, head]))
truncateSync(path('large.safetensors'), 8 + head.length + LARGE)

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url, 'http://localhost')
  if (pathname === '/')
    return response.writeHead(200, { 'content-type': 'text/html' }).end('<input type=file multiple>')
  const file = join(root, pathname)
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404).end()
  return createReadStream(file).pipe(response.writeHead(200, { 'content-type': TYPES[file.split('.').at(-1)] }))
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))

const browser = await startChromium()
const page = await browser.newPage()
await page.goto(`http://127.0.0.1:${server.address().port}/`)
const names = ['many.safetensors', 'f32.safetensors', 'zstd.zt', 'q4_k.gguf', 'large.safetensors']
await page.locator('input').setInputFiles(names.map(path))

const found = await page.evaluate(
  async ({ ROUNDS, LARGE }) => {
    const { open } = await import('/packages/web/index.js')
    const files = Object.fromEntries([...document.querySelector('input').files].map((file) => [file.name, file]))
    const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)]
    async function timed(work) {
      const times = []
      for (let round = 0; round < ROUNDS; round++) {
        const begun = performance.now()
        await work()
        times.push(performance.now() - begun)
      }
      return median(times)
    }
    const list = async () => {
      const file = await open(files['many.safetensors'])
      let elements = 0
      for (const tensor of file.values()) elements += tensor.size
      file.close()
      return elements
    }
    const byHand = async () => {
      const file = files['many.safetensors']
      const length = Number(new DataView(await file.slice(0, 8).arrayBuffer()).getBigUint64(0, true))
      const index = JSON.parse(await file.slice(8, 8 + length).text())
      let elements = 0
      for (const [name, { shape }] of Object.entries(index))
        if (name !== '__metadata__') elements += shape.reduce((one, other) => one * other, 1)
      return elements
    }
    if ((await list()) !== (await byHand())) throw new Error('the loaders differ')
    const opening = { ours: await timed(list), byHand: await timed(byHand) }
    const raw = await open(files['f32.safetensors'])
    const [stored] = raw.values()
    const slice = () => files['f32.safetensors'].slice(-stored.byteLength).arrayBuffer()
    const plain = { ours: await timed(() => stored.load()), byHand: await timed(slice) }
    raw.close()
    const loading = {}
    for (const name of ['zstd.zt', 'q4_k.gguf']) {
      const file = await open(files[name])
      const [tensor] = file.values()
      const into = new Float32Array(tensor.size)
      loading[name] = await timed(() => tensor.load({ as: 'float32', into }))
      file.close()
    }
    const { convert, init } = await import('/packages/web/convert.js')
    await init()
    const quantizing = {}
    for (const worker of [false, true]) {
      let [last, longest] = [performance.now(), 0]
      const watch = setInterval(() => {
        const now = performance.now()
        longest = Math.max(longest, now - last)
        last = now
      }, 1)
      const begun = performance.now()
      await convert(files['f32.safetensors'], undefined, {
        format: 'gguf',
        checkpoint: false,
        quantize: 'q4_k',
        worker,
      })
      quantizing[worker ? 'in a worker' : 'in the page'] = { time: performance.now() - begun, longest }
      clearInterval(watch)
    }
    const file = await open(files['large.safetensors'])
    let [bytes, heap] = [0, 0]
    const before = performance.memory.usedJSHeapSize
    await file.tensor('w').loadTo((piece) => {
      bytes += piece.byteLength
      heap = Math.max(heap, performance.memory.usedJSHeapSize - before)
    })
    if (bytes !== LARGE) throw new Error(`${bytes} bytes`)
    return { opening, plain, loading, quantizing, heap }
  },
  { ROUNDS, LARGE },
)
await browser.close()
server.close()

const native = {}
for (const name of ['zstd.zt', 'q4_k.gguf']) {
  const file = openSync(path(name))
  const [tensor] = file.values()
  const into = new Float32Array(tensor.size)
  const times = []
  for (let round = 0; round < ROUNDS; round++) {
    const begun = performance.now()
    await tensor.load({ as: 'float32', into })
    times.push(performance.now() - begun)
  }
  native[name] = times.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)]
  file.close()
}

const { ours, byHand } = found.opening
console.log(`open and list ${MANY} tensors: ${ours.toFixed(0)} ms, ${(ours / byHand).toFixed(1)} × a loader by hand`)
const plain = SIZE / 2 ** 20 / (found.plain.ours / 1000)
console.log(
  `raw float32: ${plain.toFixed(0)} MiB/s, ${(found.plain.ours / found.plain.byHand).toFixed(1)} × the time of a slice by hand`,
)
for (const [name, what] of [
  ['zstd.zt', 'zstd to float32'],
  ['q4_k.gguf', 'q4_k to float32'],
]) {
  const rate = SIZE / 2 ** 20 / (found.loading[name] / 1000)
  const ratio = native[name] / found.loading[name]
  console.log(`${what}: ${rate.toFixed(0)} MiB/s, ${ratio.toFixed(2)} × the addon on all cores`)
}
for (const [where, { time, longest }] of Object.entries(found.quantizing)) {
  const rate = (SIZE / 4 / 1e3 / time).toFixed(1)
  console.log(`float32 to q4_k ${where}: ${rate} M weights/s, the page waits ${longest.toFixed(0)} ms at most`)
}
console.log(`1 GiB by loadTo: ${(found.heap / 2 ** 20).toFixed(1)} MiB of JavaScript's heap beyond the start`)
