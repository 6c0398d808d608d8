// A process that shares a file's memory and prints its observations as JSON; with `lost` it truncates the file meanwhile. Needs --expose-gc.
import { readFileSync, truncateSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { openSync } from 'ztensor'

const [path, lost] = process.argv.slice(2)

/** The number of mappings of the file in the process, and their resident bytes. */
function held() {
  if (process.platform !== 'linux') return { maps: 1, resident: 0 }
  const maps = readFileSync('/proc/self/smaps', 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m)
  const own = maps.filter((map) => map.split('\n')[0].endsWith(path))
  return {
    maps: own.length,
    resident: own.reduce((sum, map) => sum + 1024 * Number(/^Rss:\s+(\d+)/m.exec(map)[1]), 0),
  }
}

/** A thread without the package: it sums a byte of each page of the memory that it is sent, then writes into it. */
const PLAIN = `
  require('node:worker_threads').parentPort.on('message', ({ bytes, at }) => {
    let sum = 0
    for (let i = 0; i < bytes.length; i += 4096) sum += bytes[i]
    bytes[at] = at
    require('node:worker_threads').parentPort.postMessage(sum)
  })`

const ask = (worker, message) =>
  new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.postMessage(message)
  })

async function withMemory(shared, file) {
  const inShared = openSync(shared)
  let { data } = inShared.tensor('a')
  const { mapped, copyReason } = inShared.tensor('a')
  const seen = {
    lengths: shared.memory.map((memory) => memory.byteLength),
    isShared: data.buffer instanceof SharedArrayBuffer,
    mapped,
    copyReason: copyReason ?? null,
    other: [...inShared.tensor('b').data],
  }
  const workers = Array.from({ length: 3 }, () => new Worker(PLAIN, { eval: true, execArgv: [] }))
  seen.sums = await Promise.all(workers.map((worker, at) => ask(worker, { bytes: data, at: at + 1 })))
  seen.written = [...data.subarray(0, 4)]
  seen.ofTheFile = [...file.tensor('a').data.subarray(0, 4)]
  seen.onDisk = readFileSync(path).includes(Buffer.from([7, 1, 2, 3]))
  seen.reading = held()
  inShared.close()
  file.close()
  seen.closed = [...data.subarray(0, 4)]
  seen.afterClose = held().maps
  await Promise.all(workers.map((worker) => worker.terminate()))
  data = undefined
  shared = undefined
  return seen
}

/** Another thread reads zeros, since it cannot be notified; this one is notified. */
async function withLoss() {
  const heard = []
  const first = openSync(path)
  const shared = first.share({ memory: true })
  const file = openSync(shared, { onMappingLost: ({ code }) => heard.push(code) })
  first.close()
  const { data } = file.tensor('a')
  truncateSync(path, data.byteOffset + 10 * 4096)
  const worker = new Worker(PLAIN, { eval: true, execArgv: [] })
  const sum = await ask(worker, { bytes: data, at: 1 })
  for (let round = 0; round < 500 && heard.length === 0; round++) await wait(10)
  await worker.terminate()
  let after
  try {
    file.tensor('b')
  } catch ({ code }) {
    after = code
  }
  file.close()
  return { heard, after, isCut: sum > 0 && sum < data.length / 4096 }
}

async function run() {
  if (lost !== undefined) return withLoss()
  const file = openSync(path)
  const shared = file.share({ memory: true })
  if (shared.memory === undefined) {
    const again = openSync(shared)
    const seen = { without: again.tensor('a').data.buffer instanceof ArrayBuffer, sum: again.tensor('a').data[0] }
    again.close()
    file.close()
    return seen
  }
  return withMemory(shared, file)
}

const seen = await run()
// The runtime collects garbage later.
for (let round = 0; round < 100 && held().maps > 0; round++) {
  globalThis.gc?.()
  globalThis.Bun?.gc(true)
  await wait(10)
}
seen.left = held().maps
console.log(JSON.stringify(seen))
