// The rows of remote files. Servers on this machine send them, and use the same cores. Peers of npm are those
// that `npm install --no-save --prefix build/bench @huggingface/hub @aws-sdk/client-s3` installed.
import { basename, dirname } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { open } from 'ztensor'
import { warm } from './inputs.mjs'
import { byPeer } from './peers.mjs'
import { byAwsSdk, byFetch, listByHand, listByHub, loadByHand } from './remote-peers.mjs'
import { byExample, storeServer, webServer } from './remote-servers.mjs'
import { measure, median } from './timing.mjs'

const HUB = '@huggingface/hub'
const SDK = 'AWS SDK, 16 concurrent GetObject'
const NATIVE = 'object_store, in Rust'

/** The median of object_store's own times; undefined without Rust and in a quick run: it takes minutes to compile. */
function byObjectStore(url, { rounds, quick }, env) {
  if (quick) return undefined
  const times = Array.from({ length: rounds }, () => byExample('by_object_store', [url], env)?.ms)
  return times.includes(undefined) ? undefined : median(times)
}

/** The available contenders. */
const those = (all) => Object.fromEntries(Object.entries(all).filter(([, one]) => one !== undefined))

async function list(url) {
  const file = await open(url)
  let seen = 0
  for (const tensor of file.values()) seen += Math.sign(tensor.name.length + tensor.shape.length)
  file.close()
  return seen
}

async function load(url, remote) {
  const file = await open(url, { remote })
  const loaded = await file.load()
  file.close()
  return loaded.size
}

async function rows(url) {
  const file = await open(url)
  const largest = [...file.values()].reduce((a, b) => (b.byteLength > a.byteLength ? b : a))
  const { byteLength } = await largest.load({ slice: [[5000, 5128]] })
  file.close()
  return byteLength
}

/** Runs the work, and adds the 99th percentile of the event loop's delay meanwhile, in ms, to a list. */
const delayed = (work, delays) => async () => {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const result = await work()
  delay.disable()
  delays.push(delay.percentile(99) / 1e6)
  return result
}

/** Opening: its time, and the requests of each contender. */
async function* opening({ server, url, path, rounds, state }) {
  const work = those({
    ours: () => list(url),
    'two fetches': () => listByHand(byFetch(url)),
    [HUB]: server.asked && (await listByHub(server.origin, basename(path))),
  })
  const { ours, ...peers } = await measure(rounds, work)
  yield {
    work: '2.47 GB over HTTP: open and list',
    state,
    ours,
    peers,
    reach: 'as fast as two fetches',
    target: peers['two fetches'],
  }
  if (server.asked === undefined) return
  const counts = {}
  for (const [name, run] of Object.entries(work)) {
    server.asked()
    await run()
    counts[name] = server.asked().length
  }
  const { ours: count, ...others } = counts
  yield { work: '… number of requests', state, ours: count, peers: others, reach: '2 requests', target: 2 }
}

/** Some rows of a large tensor: the time, the requests that are not of the opening, and the bytes. */
async function* some({ server, url, rounds, state }) {
  const { ours } = await measure(rounds, { ours: () => rows(url) })
  yield { work: 'a tensor of 1.07 GB over HTTP: open, and 128 of its rows', state, ours, peers: {} }
  if (server.asked === undefined) return
  await list(url)
  const opened = server.asked
  opened()
  await list(url)
  const before = opened().length
  const bytes = await rows(url)
  const requests = opened().slice(before)
  const sent = requests.reduce((sum, one) => sum + one.bytes, 0)
  yield {
    work: '… number of requests for these rows',
    state,
    ours: requests.length,
    peers: {},
    reach: '1 request',
    target: 1,
  }
  yield {
    work: '… bytes received / bytes of these rows',
    state,
    ours: sent / bytes,
    peers: {},
    reach: '1.1 ×',
    target: 1.1,
  }
}

/** Loads all of it, and measures the delay of the event loop meanwhile. */
async function* loading({ url, rounds, state, quick }) {
  const delays = { ours: [], hand: [] }
  const { ours, hand } = await measure(rounds, {
    ours: delayed(() => load(url), delays.ours),
    hand: delayed(() => loadByHand(byFetch(url)), delays.hand),
  })
  const native = byObjectStore(url, { rounds, quick })
  const work = '2.47 GB over HTTP: load() all'
  const fetches = '16 concurrent fetches'
  yield { work, state, ours, peers: { [fetches]: hand }, reach: `3 × as fast as ${fetches}`, target: hand / 3 }
  if (native !== undefined) {
    const reach = '0.95 × as fast as object_store'
    yield {
      work: '… compared with native code',
      state,
      ours,
      peers: { [NATIVE]: native },
      reach,
      target: native / 0.95,
    }
  }
  yield {
    work: '… 99th percentile of the event loop delay, ms',
    state,
    ours: Math.max(...delays.ours),
    peers: { [fetches]: Math.max(...delays.hand) },
    reach: '10 ms',
    target: 10,
  }
}

async function* fromStore({ path, rounds, quick }) {
  const server = await storeServer(path)
  if (server === undefined) return
  const { endpoint, keys } = server
  const state = 'versitygw on this machine over S3, object in the page cache'
  try {
    const url = 's3://models/model.safetensors'
    const sdk = await byAwsSdk(endpoint, keys, 'models', 'model.safetensors')
    const { ours, [SDK]: theirs } = await measure(
      rounds,
      those({
        ours: () => load(url, { store: { endpoint, allowHttp: true, ...keys } }),
        [SDK]: sdk && (() => loadByHand(sdk)),
      }),
    )
    const env = {
      AWS_ENDPOINT: endpoint,
      AWS_ACCESS_KEY_ID: keys.accessKeyId,
      AWS_SECRET_ACCESS_KEY: keys.secretAccessKey,
      AWS_REGION: keys.region,
    }
    const native = byObjectStore(url, { rounds, quick }, env)
    const python = (peer) =>
      byPeer(peer, 'load', 'model.safetensors', rounds, [endpoint, keys.accessKeyId, keys.secretAccessKey])
    const peers = those({
      'obstore 0.12': python('obstore 0.12'),
      'boto3 1.44': python('boto3 1.44'),
      [NATIVE]: native,
    })
    const work = '2.47 GB over S3: load() all'
    if (theirs !== undefined) {
      const reach = '2 × as fast as the AWS SDK'
      yield { work, state, ours, peers: { [SDK]: theirs }, reach, target: theirs / 2 }
    }
    yield { work: theirs === undefined ? work : '… compared with Python and native code', state, ours, peers }
  } finally {
    await server.stop()
  }
}

/** Yields each row when it is measured. HTTP needs nginx or Rust for a server, S3 needs versitygw. */
export async function* remote({ inputs, rounds: most, quick }) {
  const [{ path }, { path: tall }] = [inputs.large(), inputs.tall()]
  for (const file of [path, tall]) warm(file)
  const server = await webServer(dirname(path), path)
  const rounds = Math.min(most, 5)
  if (server !== undefined) {
    const state = `from ${server.what} on this machine, by HTTP, the file in its page cache`
    const url = `${server.origin}/${basename(path)}`
    const given = { server, url, path, state, quick }
    try {
      yield* opening({ ...given, rounds })
      if (server.asked !== undefined) yield* some({ ...given, url: `${server.origin}/${basename(tall)}`, rounds })
      yield* loading({ ...given, rounds: quick ? 2 : 3 })
    } finally {
      await server.stop()
    }
  }
  yield* fromStore({ path, rounds: quick ? 2 : 3, quick })
}
