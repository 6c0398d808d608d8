// Memory that one thread moves to another before it ends: it keeps its contents, and is not allocated again. Runs in any runtime,
// and prints a line of JSON: the number of cases, the cases that the runtime rejected, and the failures.
import { Buffer } from 'node:buffer'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import v8 from 'node:v8'
import vm from 'node:vm'
import { isMainThread, MessageChannel, parentPort, receiveMessageOnPort, Worker, workerData } from 'node:worker_threads'
import { create, openSync } from '../../dist/index.mjs'

const LARGE = 2 ** 18
const SMALL = 2 ** 10
const ONES = new Uint8Array(new Float32Array(LARGE).fill(1).buffer)

/** A buffer over memory of the package, whose elements are ones. */
const sources = {
  load: async (file) => (await file.tensor('w').load()).buffer,
  'load of little': async (file) => (await file.tensor('s').load()).buffer,
  'file.load': async (file) => (await file.load({ names: ['w'] })).get('w').data.buffer,
  'load as float32': async (file) => (await file.tensor('h').load({ as: 'float32' })).buffer,
  loadCsr: async (file) => (await file.tensor('m').loadCsr()).values.buffer,
  data: async (file) => file.tensor('w').data.buffer,
  'decoded data': async (file) => file.tensor('z').data.buffer,
  'data of a component': async (file) => file.tensor('w').components.get('data').data.buffer,
  'bytes of attributes': async (file) => file.metadata.ones.buffer,
  slice: async (file) => file.tensor('w').slice([[1024, LARGE - 1024]]).data.buffer,
}
/** Those of a thousand elements. */
const LITTLE = new Set(['load of little', 'bytes of attributes'])
/** Returns another buffer with the memory, and the transfer list. */
const ways = {
  transfer: (buffer) => buffer.transfer(),
  transferToFixedLength: (buffer) => buffer.transferToFixedLength(),
  'transfer, longer': (buffer) => buffer.transfer(buffer.byteLength + 4096),
  'transfer, twice': (buffer) => buffer.transfer().transfer(),
  structuredClone: (buffer) => structuredClone(buffer, { transfer: [buffer] }),
  post: (buffer) => buffer,
}
const ends = {
  'ends normally': () => {},
  'process.exit': () => process.exit(),
  terminate: () => setInterval(() => {}, 1000),
  /** After the collector has taken the original. */
  collected: async () => {
    await collect()
  },
}

async function collect() {
  if (typeof globalThis.Bun !== 'undefined') globalThis.Bun.gc(true)
  else {
    v8.setFlagsFromString('--expose-gc')
    const gc = vm.runInNewContext('gc')
    for (let i = 0; i < 3; i++) {
      gc()
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }
}

/** The code of a worker: posts the memory, or the reason of a rejection, and ends. */
async function work({ path, source, way, end, port, channel }) {
  const file = openSync(path)
  // Memory that is not moved is freed.
  const arrays = [file.tensor('w').data, await file.tensor('w').load()]
  let moved
  try {
    moved = ways[way](await sources[source](file))
    if (channel !== undefined) {
      await broadcast(channel, moved)
      return arrays
    }
    ;(port ?? parentPort).postMessage(moved, [moved])
  } catch (error) {
    if (error.code === 'ZT_INTERNAL') throw error
    ;(port ?? parentPort).postMessage(String(error))
  }
  moved = undefined
  await ends[end]()
  return arrays
}

/** Posts memory to a channel, which copies it, and waits until it was received. */
async function broadcast(name, message) {
  const channel = new BroadcastChannel(name)
  channel.postMessage(message)
  await new Promise((resolve) => parentPort.once('message', resolve))
  channel.close()
}

const isOne = (array, length = array.length) => {
  for (let at = 0; at < length; at++) if (array[at] !== 1) return false
  return true
}

/** Allocates the free memory: loads of all sizes, and ranges of addresses. */
async function disturb(path) {
  const taken = []
  for (let round = 0; round < 2; round++) {
    const file = openSync(path)
    file.tensor('w').data.fill(3)
    const loads = [...file.keys()].map(async (name) => {
      const tensor = file.tensor(name)
      return name === 'm' ? (await tensor.loadCsr()).values : tensor.load({ as: 'float32' })
    })
    for (const array of [...(await Promise.all(loads)), await file.tensor('w').load()]) taken.push(array.fill(9))
    file.close()
  }
  return taken
}

/** What is wrong with memory that was moved here; undefined if nothing. */
async function judge(path, moved, little) {
  const array = new Float32Array(moved)
  const length = Math.min(array.length, little ? SMALL : LARGE - 2048)
  if (array.length < length) return `it has ${array.length} elements`
  // Native code reads first: AddressSanitizer does not see reads by JavaScript.
  const bytes = new Uint8Array(moved, 0, length * 4)
  if (Buffer.compare(bytes, ONES.subarray(0, bytes.length)) !== 0) return 'its contents changed'
  const taken = await disturb(path)
  if (!isOne(array, length)) return 'other code writes into it'
  array.fill(5)
  if (!taken.every((other) => other.every((value) => value === 9))) return 'it is memory of other code'
  const file = openSync(path)
  const whole = isOne(file.tensor('w').data) && isOne(await file.tensor('w').load())
  file.close()
  return whole ? undefined : 'a load is wrong'
}

/** A worker that moves memory to this thread, and has ended. */
async function fromWorker(job) {
  const worker = new Worker(new URL(import.meta.url), { workerData: job })
  const exited = once(worker, 'exit')
  const failed = once(worker, 'error').then(([error]) => Promise.reject(error))
  const [message] = await Promise.race([once(worker, 'message'), failed])
  failed.catch(() => {})
  if (job.end === 'terminate') await worker.terminate()
  else await exited
  return message
}

/** The same through a separate port, which is read only after the worker has ended. */
async function throughPort(job) {
  const { port1, port2 } = new MessageChannel()
  const worker = new Worker(new URL(import.meta.url), { workerData: { ...job, port: port2 }, transferList: [port2] })
  await once(worker, 'exit')
  const received = receiveMessageOnPort(port1)
  port1.close()
  return received?.message ?? 'nothing came'
}

/** The same through a channel, which leaves the worker's own buffer unchanged. */
async function throughChannel(job) {
  const name = 'moved'
  const channel = new BroadcastChannel(name)
  const received = new Promise((resolve) => {
    channel.onmessage = ({ data }) => resolve(data)
  })
  const worker = new Worker(new URL(import.meta.url), { workerData: { ...job, channel: name } })
  const [exited, refused] = [once(worker, 'exit'), once(worker, 'message').then(([message]) => message)]
  const failed = once(worker, 'error').then(([error]) => Promise.reject(error))
  const message = await Promise.race([received, refused, failed])
  refused.catch(() => {})
  failed.catch(() => {})
  worker.postMessage('received')
  await exited
  channel.close()
  return message
}

async function main() {
  const folder = mkdtempSync(join(tmpdir(), 'ztensor-moved-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'moved.zt')
  const compressed = join(folder, 'compressed.zt')
  const pathOf = (source) => (source === 'decoded data' ? compressed : path)
  const ones = new Uint8Array(new Float32Array(SMALL).fill(1).buffer)
  const writer = await create(path, { version: '1.0', metadata: { ones } })
  await writer.add('w', new Float32Array(LARGE).fill(1))
  await writer.add('s', new Float32Array(SMALL).fill(1))
  await writer.add('h', { dtype: 'float16', shape: [LARGE], data: new Uint16Array(LARGE).fill(0x3c00) })
  const indptr = BigUint64Array.of(0n, BigInt(LARGE))
  const indices = BigUint64Array.from({ length: LARGE }, (_, at) => BigInt(at))
  await writer.addCsr('m', { shape: [1, LARGE], values: new Float32Array(LARGE).fill(1), indices, indptr })
  await writer.finish()
  const second = await create(compressed, { version: '1.0', compression: {} })
  await second.add('w', new Float32Array(LARGE).fill(1))
  await second.add('z', new Float32Array(LARGE).fill(1))
  await second.finish()

  const faults = []
  const refused = new Set()
  let cases = 0
  const attempt = async (name, way, source, run) => {
    const moved = await run()
    if (typeof moved === 'string') refused.add(`${way}: ${moved}`)
    else {
      cases += 1
      const fault = await judge(path, moved, LITTLE.has(source))
      if (fault !== undefined) faults.push(`${name}: ${fault}`)
    }
  }
  for (const source of Object.keys(sources)) {
    const some = source === 'load' || source === 'data' ? Object.keys(ends) : ['ends normally']
    for (const end of some) {
      const job = { path: pathOf(source), source, way: 'transfer', end }
      await attempt(`${source}, ${end}`, 'transfer', source, () => fromWorker(job))
    }
  }
  for (const way of Object.keys(ways).slice(1)) {
    for (const source of ['load', 'data']) {
      const job = { path, source, way, end: 'ends normally' }
      await attempt(`${source}, ${way}`, way, source, () => fromWorker(job))
    }
  }
  for (const source of ['load', 'data']) {
    const job = { path, source, way: 'transfer', end: 'ends normally' }
    await attempt(`${source}, through a port`, 'transfer', source, () => throughPort(job))
  }
  for (const source of ['load', 'data']) {
    for (const way of ['transfer', 'post']) {
      const job = { path, source, way, end: 'ends normally' }
      await attempt(`${source}, ${way}, through a channel`, way, source, () => throughChannel(job))
    }
  }
  // Within one thread, the moved buffer keeps the memory after the original and the file are gone.
  for (const source of Object.keys(sources)) {
    await attempt(`${source}, in one thread`, 'transfer', source, async () => {
      const file = openSync(pathOf(source))
      try {
        return ways.transfer(await sources[source](file))
      } catch (error) {
        return String(error)
      } finally {
        file.close()
        await collect()
      }
    })
  }
  console.log(JSON.stringify({ cases, refused: [...refused], faults }))
}

if (isMainThread) await main()
else await work(workerData)
