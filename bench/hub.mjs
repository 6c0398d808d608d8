// `node bench/hub.mjs`: downloads a model from a hub on this machine to an empty cache, by this package and by `snapshotDownload` of
// @huggingface/hub. Each runs in its own process. Prints medians of the rate, and the worst peak of memory beyond the start.
//   --size MIB   the size of the large file (default: 1024)
//   --rate MIB   what the server sends on one connection in a second, as storage of the hub does (default: as much as it can)
//   --rounds N   (default: 5)
//   --disk PATH  where the cache goes (default: the temporary folder)
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const argv = process.argv.slice(2)
const option = (name, value) => (argv.includes(name) ? argv[argv.indexOf(name) + 1] : value)
const self = fileURLToPath(import.meta.url)
const MIB = 2 ** 20

const CLIENTS = {
  'ztensor download()': async () => (await import('ztensor/hub')).download('hf://o/r'),
  '@huggingface/hub snapshotDownload()': async (url, cacheDir) => {
    const { npmPeer } = await import('./peers.mjs')
    const { snapshotDownload } = await npmPeer('@huggingface/hub')
    console.debug = () => {}
    await snapshotDownload({ repo: 'o/r', hubUrl: url, cacheDir })
  },
}

/** The peak memory of this process in bytes. */
const peak = () => 1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1])

/** Sends the range that a request asks for, `rate` bytes a second. */
function paced(request, response, bytes, rate) {
  const [, first = '0', last = ''] = /(\d+)-(\d*)/.exec(request.headers.range ?? '') ?? []
  const [start, end] = [Number(first), last === '' ? bytes.length : Number(last) + 1]
  const range =
    request.headers.range === undefined ? {} : { 'content-range': `bytes ${start}-${end - 1}/${bytes.length}` }
  response.writeHead(request.headers.range === undefined ? 200 : 206, {
    'content-length': end - start,
    etag: '"1"',
    ...range,
  })
  const began = performance.now()
  let at = start
  const more = () => {
    const due = Math.min(end, start + Math.ceil(((performance.now() - began + 10) / 1e3) * rate))
    if (due > at) response.write(bytes.subarray(at, due))
    at = due
    if (at === end) response.end()
    else setTimeout(more, 10)
  }
  more()
}

/** Serves a model until standard input ends. */
async function serve() {
  const { startHub } = await import('../__test__/remote/hub.mjs')
  const small = Array.from({ length: 20 }, (_, at) => [`small-${at}.json`, randomBytes(2000)])
  const files = { 'model.safetensors': randomBytes(Number(option('--size', 1024)) * MIB), ...Object.fromEntries(small) }
  const rate = Number(option('--rate', 0)) * MIB
  const onRequest = (request, response, path) => {
    if (rate === 0 || !path.startsWith('/storage/')) return false
    paced(request, response, files['model.safetensors'], rate)
    return true
  }
  const hub = await startHub({ 'o/r': { main: files } }, { onRequest })
  console.log(hub.url)
  process.stdin.resume()
  await once(process.stdin, 'end')
  await hub.close()
}

/** One download in this process. Prints its seconds and bytes of memory. */
async function measure(name, url, cache) {
  await import(name.startsWith('ztensor') ? 'ztensor/hub' : './peers.mjs')
  const idle = process.memoryUsage.rss()
  const began = performance.now()
  await CLIENTS[name](url, cache)
  console.log(JSON.stringify({ seconds: (performance.now() - began) / 1e3, memory: peak() - idle }))
}

async function main() {
  const [size, rounds] = [Number(option('--size', 1024)), Number(option('--rounds', 5))]
  const given = ['--size', String(size), '--rate', option('--rate', '0')]
  const server = spawn(process.execPath, [self, 'serve', ...given], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [url] = await once(createInterface(server.stdout), 'line')
  const results = Object.fromEntries(Object.keys(CLIENTS).map((name) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    for (const name of Object.keys(CLIENTS)) {
      const home = mkdtempSync(join(option('--disk', tmpdir()), 'ztensor-bench-'))
      const cache = join(home, 'hub')
      const env = { ...process.env, HF_HOME: home, HF_ENDPOINT: url }
      const { stdout, stderr, status } = spawnSync(process.execPath, [self, 'measure', name, url, cache], { env })
      rmSync(home, { recursive: true, force: true })
      if (status !== 0) throw new Error(`${name}: ${stderr}`)
      results[name].push(JSON.parse(stdout))
    }
  }
  server.stdin.end()
  for (const [name, all] of Object.entries(results)) {
    const seconds = all.map((one) => one.seconds).sort((a, b) => a - b)[all.length >> 1]
    const memory = Math.max(...all.map((one) => one.memory))
    console.log(`${name.padEnd(36)} ${Math.round(size / seconds)} MiB/s, ${Math.round(memory / MIB)} MiB of memory`)
  }
}

const [command, ...args] = argv
if (command === 'serve') await serve()
else if (command === 'measure') await measure(...args)
else await main()
