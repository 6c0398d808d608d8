// The rows of files that are elsewhere: a server of this machine, which takes its share of the cores, sends them.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { open } from 'ztensor'
import { warm } from './inputs.mjs'
import { measure } from './timing.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const EXAMPLE = ['--quiet', '--profile', 'limits', '-p', 'ztensor-remote', '--example']
const PIECE = 8 * 2 ** 20
const AT_ONCE = 16

/** The bytes of a range, as a Node user asks for them. */
async function range(url, start, end) {
  const response = await fetch(url, { headers: { range: `bytes=${start}-${end - 1}` } })
  if (response.status !== 206) throw new Error(`the server answered ${response.status}`)
  return new Uint8Array(await response.arrayBuffer())
}

/** The tensors of a safetensors file, and where its data begins: two requests. */
async function header(url) {
  const first = await range(url, 0, 8)
  const length = Number(new DataView(first.buffer).getBigUint64(0, true))
  const tensors = JSON.parse(new TextDecoder().decode(await range(url, 8, 8 + length)))
  delete tensors.__metadata__
  return { tensors, data: 8 + length }
}

async function listByHand(url) {
  return Object.keys((await header(url)).tensors).length
}

/** Every tensor in memory of its own, by 16 fetches of 8 MiB at once. */
async function loadByHand(url) {
  const { tensors, data } = await header(url)
  const jobs = []
  for (const {
    data_offsets: [begin, end],
  } of Object.values(tensors)) {
    // biome-ignore format: one line
    const room = new Uint8Array(end - begin)
    for (let at = begin; at < end; at += PIECE) jobs.push({ room, begin, at, end: Math.min(end, at + PIECE) })
  }
  const work = async () => {
    for (let job = jobs.pop(); job !== undefined; job = jobs.pop())
      job.room.set(await range(url, data + job.at, data + job.end), job.at - job.begin)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return Object.keys(tensors).length
}

async function list(url) {
  const file = await open(url)
  let seen = 0
  for (const tensor of file.values()) seen += Math.sign(tensor.name.length + tensor.shape.length)
  file.close()
  return seen
}

async function load(url) {
  const file = await open(url)
  const loaded = await file.load()
  file.close()
  return loaded.size
}

async function rows(url) {
  const file = await open(url)
  const largest = [...file.values()].reduce((a, b) => (b.byteLength > a.byteLength ? b : a))
  const { byteLength } = await largest.load({ slice: [[0, 128]] })
  file.close()
  return byteLength
}

/** All rows, one after the other as they are measured; none where there is no Rust to build the server with. */
export async function* remote({ inputs, rounds, quick }) {
  try {
    execFileSync('cargo', ['build', ...EXAMPLE, 'serve'], { cwd: root, stdio: 'ignore' })
  } catch {
    return
  }
  const { path } = inputs.large()
  warm(path)
  const server = spawn('cargo', ['run', ...EXAMPLE, 'serve', '--', path], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [url] = await once(createInterface(server.stdout), 'line')
  const state = 'from a server of this machine, by HTTP, the file in its page cache'
  const turns = Math.min(rounds, 5)
  try {
    const opening = await measure(turns, { ours: () => list(url), hand: () => listByHand(url) })
    yield {
      work: '2.47 GB over HTTP: open and list',
      state,
      ours: opening.ours,
      peers: { 'two fetches': opening.hand },
      reach: 'as fast as two fetches',
      target: opening.hand,
    }
    const some = await measure(turns, { ours: () => rows(url) })
    yield { work: 'the same: open, and 128 rows of the largest tensor', state, ours: some.ours, peers: {} }
    const delay = monitorEventLoopDelay({ resolution: 1 })
    const delays = []
    const ours = async () => {
      delay.reset()
      delay.enable()
      const count = await load(url)
      delay.disable()
      delays.push(delay.percentile(99) / 1e6)
      return count
    }
    const loading = await measure(quick ? 2 : 3, { ours, hand: () => loadByHand(url) })
    yield {
      work: 'the same: load() all',
      state,
      ours: loading.ours,
      peers: { '16 fetches at once': loading.hand },
      reach: '3 × as fast as 16 fetches',
      target: loading.hand / 3,
    }
    const worst = Math.max(...delays)
    yield {
      work: '… the 99th percentile of the event loop’s delay meanwhile, ms',
      state,
      ours: worst,
      peers: {},
      reach: '10 ms',
      target: 10,
    }
  } finally {
    server.stdin.end()
  }
}
