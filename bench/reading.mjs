// The rows of reading. A row: the work, how the file came into the page cache, our time and those of others in ms, the
// machine's limit with its name, and the goal.
import { execFileSync } from 'node:child_process'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import * as zlib from 'node:zlib'
import { openSync } from 'ztensor'
import { isInstalled } from '../scripts/command.mjs'
import * as byHand from './by-hand.mjs'
import { warm } from './inputs.mjs'
import { machineLimits, named, parsed } from './limits.mjs'
import * as ours from './ours.mjs'
import { byPeer } from './peers.mjs'
import { measure, median } from './timing.mjs'

const WARM = 'warm, written in 8 MiB pieces'
/** The default of `frameSize`. */
const FRAME = 2 ** 20
const child = fileURLToPath(new URL('resident.mjs', import.meta.url))

/** The output of `node bench/resident.mjs …`. */
const resident = (...options) => Number(execFileSync(process.execPath, [child, ...options], { encoding: 'utf8' }))

/** Times by peer, without those that cannot do it. */
function peers(work, path, rounds, names, options) {
  const times = names.map((name) => [name, byPeer(name, work, path, rounds, options)])
  return Object.fromEntries(times.filter(([, ms]) => ms !== undefined))
}

/**
 * A row with the machine's limit in the same rounds. Its goal, if it has one, is a `part` of that speed, or `times` as much time.
 */
async function bounded({ part, times, ...row }, rounds, work, external) {
  const { ours: took, limit, share } = await measure(rounds, { ours: work }, { external })
  const goal = (of) => (part === undefined ? times * of('limit') : of('limit') / part)
  const aimed = limit !== undefined && (part ?? times) !== undefined
  const aim = aimed && { target: goal(() => limit), share: share(goal) }
  return { peers: {}, reach: `${part ?? times} × the limit`, ...row, ours: took, limit, ...aim }
}

/** Yields each row when it is measured. */
export async function* reading({ inputs, rounds, quick }) {
  const native = !quick && isInstalled('cargo')
  // The machine's time for the bytes of an input, measured each time.
  const limitOf = (name, { path, bytes }) =>
    native ? { limit: () => (bytes / machineLimits(path, inputs.sample().path, name)[name]) * 1e3 } : {}
  yield* listing({ inputs, rounds, quick })
  yield* opening({ inputs, rounds })
  yield* growing({ inputs, rounds, quick })
  yield* aliasing({ inputs, limitOf, rounds })
  yield* loading({ inputs, limitOf, rounds })
  yield* taking({ inputs, limitOf, rounds })
  yield* compressedRows({ inputs, rounds })
  yield* describing({ inputs, limitOf, rounds })
  yield* checking({ inputs, limitOf, rounds })
  yield* cold({ inputs, rounds: quick ? 1 : 3 })
}

/** Versions of zTensor, the package of Python that reads them, and how they are written. */
const VERSIONS = [
  ['zTensor 1.0', [], { version: '1.0' }],
  ['zTensor 1.2', ['ztensor 1.2.3'], { version: '1.2' }],
  ['zTensor 2', ['ztensor 2.1.2'], { version: '2', canonical: false, alignment: 4096 }],
]

async function* listing({ inputs, rounds, quick }) {
  const many = inputs.many()
  const all = [['safetensors', ['safetensors 0.8'], many.path]]
  for (const [version, names, options] of VERSIONS) {
    const { path } = await inputs.converted(many, `many-${options.version}.zt`, options)
    all.push([version, names, path])
  }
  for (const [, , path] of all) warm(path)
  const contenders = all.map(([format, , path]) => [format, () => ours.list(path)])
  const {
    'hand-written': hand,
    share,
    ...listed
  } = await measure(3 * rounds, {
    'hand-written': () => byHand.list(many.path),
    ...Object.fromEntries(contenders),
  })
  const bare = quick ? [] : parsed(all.map(([, , path]) => path))
  for (const [at, [format, names, path]] of all.entries()) {
    const isFirst = at === 0
    const goal = (of) => Math.min(of('hand-written') / 4.5, format === 'zTensor 2' ? of('zTensor 1.2') : Infinity)
    yield {
      work: isFirst ? '100,000 tensors, safetensors: open, name, dtype and shape of each' : `the same, ${format}`,
      state: WARM,
      ours: listed[format],
      peers: { [isFirst ? 'hand-written' : 'hand-written, safetensors']: hand, ...peers('list', path, rounds, names) },
      limit: bare[at],
      limitIs: 'index only, native',
      reach: format === 'zTensor 2' ? '4.5 × hand-written, and not slower than 1.2' : '4.5 × hand-written',
      target: goal((name) => (name === 'hand-written' ? hand : listed[name])),
      share: share(goal, format),
    }
  }
}

async function* growing({ inputs, rounds, quick }) {
  const counts = [1e3, 1e4, 1e5, 1e6]
  for (const count of counts) warm(inputs.many(count).path)
  const times = await measure(
    rounds,
    Object.fromEntries(counts.map((count) => [count, listings(inputs, count, quick)])),
  )
  // No program lists that many by hand, but V8 does the same work for their objects.
  const byHands = await measure(
    Math.min(rounds, 3),
    Object.fromEntries(counts.map((count) => [count, listings(inputs, count, quick, byHand.list)])),
  )
  const each = (times) => counts.map((count) => (times[count] / (quick ? count / 20 : Math.max(count, 1e5))) * 1e6)
  const growth = (times) => Math.max(...times) / Math.min(...times)
  const paths = counts.map((count) => inputs.many(count).path)
  const native = (times) => (times.length > 0 ? growth(times.map((ms, at) => ms / counts[at])) : undefined)
  const [bare, table] = quick ? [] : [native(parsed(paths)), native(named(paths))]
  const perTensor = each(times)
  const without = bare === undefined ? '' : ` (${bare.toFixed(1)} without JavaScript)`
  yield {
    work: '… ns per tensor for 1e3, 1e4, 1e5, 1e6 tensors, maximum / minimum',
    note: `${perTensor.map((ns) => ns.toFixed(0)).join(', ')}${without}`,
    state: WARM,
    ours: growth(perTensor),
    peers: { 'hand-written': growth(each(byHands)) },
    limit: table,
    limitIs: 'a native hash table of the names',
    reach: '1.7×',
    target: 1.7,
  }
}

async function* opening({ inputs, rounds }) {
  const large = inputs.large()
  warm(large.path)
  const opened = await measure(rounds * 3, {
    ours: () => ours.justOpen(large.path),
    'hand-written': () => byHand.justOpen(large.path),
  })
  yield {
    work: '2.47 GB, 146 tensors: open',
    state: WARM,
    ours: opened.ours,
    peers: { 'hand-written': opened['hand-written'], ...peers('list', large.path, rounds, ['safetensors 0.8']) },
    reach: '0.15 ms',
    target: 0.15,
  }
  const idle = resident()
  const open = resident(large.path)
  yield {
    work: '… resident memory of open(), MB',
    state: 'a fresh process',
    ours: Math.max(0, open - idle) / 1e6,
    peers: {},
    reach: '15 MB',
    target: 15,
  }
}

/** Lists files of `count` tensors repeatedly, for 100,000 tensors in total. */
function listings(inputs, count, quick, list = ours.list) {
  const { path } = inputs.many(count)
  const times = quick ? 1 : Math.max(1, 1e5 / count)
  return () => {
    for (let time = 0; time < times; time++) list(path, { maxIndexBytes: 2 ** 30 })
  }
}

async function* aliasing({ inputs, limitOf, rounds }) {
  const byPython = inputs.smallByPython()
  for (const [input, work, names, reach, times] of [
    [inputs.large(), '2.47 GB: open, alias all, touch each page', ['safetensors 0.8'], '1.2 × the limit', undefined],
    [inputs.small(), '51,200 tensors of 10 KB: alias all and touch', ['safetensors 0.8'], '4 × hand-written', 4],
    [byPython, '… written by Python in pieces of 10 KB', ['safetensors 0.8'], '4 × hand-written', 4],
    [inputs.many(), '100,000 tensors of 64 B: alias all and touch', ['safetensors 0.8'], '', Infinity],
  ].filter(([input]) => input !== undefined)) {
    warm(input.path, input === byPython ? 10_240 : undefined)
    const large = times === undefined
    const { share, ...touched } = await measure(
      large ? Math.min(rounds, 5) : rounds,
      { ours: () => ours.touch(input.path), 'hand-written': () => byHand.touch(input.path) },
      { external: limitOf('touch', input) },
    )
    const goal = (of) => (large ? 1.2 * of('limit') : of('hand-written') / times)
    const aimed = large ? touched.limit !== undefined : Number.isFinite(times)
    const others = peers('touch', input.path, rounds, names)
    if (large) {
      const two = await inputs.converted(input, 'large-2.zt', { version: '2', canonical: false, alignment: 4096 })
      warm(two.path)
      Object.assign(others, peers('touch', two.path, Math.min(rounds, 3), ['ztensor 2.1.2']))
    }
    yield {
      work,
      state: WARM,
      ours: touched.ours,
      peers: { 'hand-written': touched['hand-written'], ...others },
      limit: touched.limit,
      limitIs: 'a native loop over the mapping',
      reach,
      ...(aimed && { target: goal((name) => touched[name]), share: share(goal) }),
    }
  }
  const large = inputs.large()
  const file = openSync(large.path)
  const largest = file.tensor('model.embed_tokens.weight').byteLength
  file.close()
  // V8 begins one for each ArrayBuffer beyond 64 MiB.
  const alone = await collections(rounds, () => ours.touchPages(new Uint16Array(largest / 2)))
  const aliased = await collections(rounds, () => ours.touch(large.path))
  for (const [work, what, reach] of [
    ['2.47 GB: major garbage collections in alias all and touch each page', 'count', 'no others'],
    ['… total pause of all collections, ms', 'pause'],
  ]) {
    yield {
      work,
      state: WARM,
      ours: aliased[what],
      peers: {},
      limit: alone[what],
      limitIs: 'the same loop over one ArrayBuffer of the size of the largest tensor',
      reach,
      target: reach && alone[what],
    }
  }
  const sliced = await measure(
    rounds,
    { ours: () => ours.sliceColumns(large.path) },
    { external: peerOf('numpy ascontiguousarray', rounds, 'ztensor 2.1.2', 'slice', large.path) },
  )
  const { 'numpy ascontiguousarray': numpy } = sliced
  yield {
    work: 'slice of the left half of all rows of the largest tensor, packed',
    state: WARM,
    ours: sliced.ours,
    peers: numpy === undefined ? {} : { 'numpy ascontiguousarray': numpy },
    reach: 'numpy',
    ...(numpy !== undefined && { target: numpy, share: sliced.share((of) => of('numpy ascontiguousarray')) }),
  }
}

/** How many major collections V8 runs during a piece of work, and the ms for which collections of any kind stop it: medians. */
async function collections(rounds, work) {
  const [counts, pauses] = [[], []]
  for (let round = 0; round < rounds; round++) {
    globalThis.gc()
    await nextTurn()
    const seen = []
    const observer = new PerformanceObserver((list) => seen.push(...list.getEntries()))
    observer.observe({ entryTypes: ['gc'] })
    await work()
    // V8 reports a collection in a later turn.
    await nextTurn()
    await nextTurn()
    observer.disconnect()
    counts.push(seen.filter(({ detail }) => detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR).length)
    pauses.push(seen.reduce((sum, { duration }) => sum + duration, 0))
  }
  return { count: median(counts), pause: median(pauses) }
}

/** A peer that reports its own time, if it is installed. */
function peerOf(name, rounds, ...peer) {
  return byPeer(...peer, 1) === undefined ? {} : { [name]: () => byPeer(...peer, rounds) }
}

async function* loading({ inputs, limitOf, rounds }) {
  const large = inputs.large()
  warm(large.path)
  for (const [work, run, name, limitIs] of [
    [
      '2.47 GB: load({ into }) of each tensor into one array',
      ours.loadInto,
      'refill',
      'native read into allocated memory, all cores',
    ],
    ['… with as: "float32"', ours.widenInto, 'widen', 'native read and shift into allocated memory, all cores'],
  ]) {
    const row = { work, state: WARM, limitIs, part: 0.9 }
    yield bounded(row, Math.min(rounds, 5), () => run(large.path), limitOf(name, large))
  }
  const many = inputs.many()
  const each = await measure(rounds, {
    ours: () => ours.load(many.path),
    'hand-written': () => byHand.load(many.path),
  })
  yield {
    work: '100,000 tensors of 64 B: load() all',
    state: WARM,
    ours: each.ours,
    peers: { 'hand-written': each['hand-written'] },
    reach: 'hand-written',
    target: each['hand-written'],
    share: each.share((of) => of('hand-written')),
  }
  const weights = inputs.weights()
  warm(weights.path)
  const moved = { ...weights, bytes: 2048 * 2048 * 2 * 4 }
  yield bounded(
    {
      work: 'bfloat16 to float32, 4M elements: load({ as: "float32" })',
      state: WARM,
      limitIs: 'memcpy of as many bytes',
      times: 1.25,
    },
    rounds,
    () => ours.widen(weights.path),
    limitOf('memcpy', moved),
  )
}

/** Random rows of a table, new ones each time. */
async function* taking({ inputs, limitOf, rounds }) {
  const tall = inputs.tall()
  warm(tall.path)
  const file = openSync(tall.path)
  const table = file.tensor('embedding.weight')
  const [rows, width] = table.shape
  const { data } = table
  const COUNT = 1000
  const random = () => Array.from({ length: COUNT }, () => Math.floor(Math.random() * rows))
  const { limit } = limitOf('rows', { ...tall, bytes: COUNT * width * 2 })
  const took = await measure(
    3 * rounds,
    {
      ours: async () => void (await table.take(random())),
      'hand-written': () => {
        const output = new Uint16Array(COUNT * width)
        for (const [at, row] of random().entries())
          output.set(data.subarray(row * width, (row + 1) * width), at * width)
      },
      'load({ slice }) of each': async () => {
        for (const row of random()) await table.load({ slice: [[row]] })
      },
    },
    limit === undefined ? {} : { external: { limit } },
  )
  file.close()
  const { 'load({ slice }) of each': each } = took
  yield {
    work: '1.07 GB table: take() of 1,000 random rows of 4 KiB',
    state: WARM,
    ours: took.ours,
    peers: { 'hand-written': took['hand-written'], 'load({ slice }) of each': each },
    limit: took.limit,
    limitIs: 'native memcpy from a mapping, 1 thread',
    reach: '2 × the limit',
    ...(took.limit === undefined ? {} : { target: 2 * took.limit, share: took.share((of) => 2 * of('limit')) }),
  }
  yield {
    work: '… load({ slice }) of one row in the page cache',
    state: WARM,
    ours: each / COUNT,
    peers: {},
    reach: '5 µs',
    target: 0.005,
  }
}

/** Single rows of one compressed tensor: each costs its frame. */
async function* compressedRows({ inputs, rounds }) {
  const input = await inputs.seekable('2')
  warm(input.path)
  const file = openSync(input.path)
  const table = file.tensor('w')
  const [rows] = table.shape
  const COUNT = 100
  const random = () => Array.from({ length: COUNT }, () => Math.floor(Math.random() * rows))
  // One frame of as many bytes as one of the file decodes to.
  const frame = new Uint8Array(table.data.buffer, 0, FRAME)
  const packed = zlib.zstdCompressSync?.(frame)
  const took = await measure(rounds, {
    ours: async () => {
      for (const row of random()) await table.load({ slice: [[row]] })
    },
    slice: () => {
      for (const row of random()) table.slice([[row]])
    },
    'in order': async () => {
      const first = Math.floor(Math.random() * (rows - COUNT))
      for (let row = first; row < first + COUNT; row++) await table.load({ slice: [[row]] })
    },
    'slice() in order': () => {
      const first = Math.floor(Math.random() * (rows - COUNT))
      for (let row = first; row < first + COUNT; row++) table.slice([[row]])
    },
    ...(packed && {
      zlib: () => {
        for (let at = 0; at < COUNT; at++) zlib.zstdDecompressSync(packed)
      },
    }),
  })
  file.close()
  yield {
    work: 'one row of a compressed tensor (zTensor 2): load({ slice })',
    state: WARM,
    ours: took.ours / COUNT,
    peers: {
      'slice()': took.slice / COUNT,
      ...(packed && { 'zstd of node:zlib, a frame in memory': took.zlib / COUNT }),
    },
    reach: '0.5 ms',
    target: 0.5,
  }
  yield {
    work: `the same, one of ${COUNT} rows in order, which share frames`,
    state: WARM,
    ours: took['in order'] / COUNT,
    peers: { 'slice()': took['slice() in order'] / COUNT },
    reach: '0.5 ms',
    target: 0.5,
  }
}

async function* describing({ inputs, limitOf, rounds }) {
  const large = inputs.large()
  warm(large.path)
  const file = openSync(large.path)
  const { byteLength } = file.tensor('model.embed_tokens.weight')
  file.close()
  for (const [what, options] of [
    ['statistics', {}],
    ['statistics with a histogram of 64 bins', { bins: 64 }],
  ]) {
    const work = `${(byteLength / 1e9).toFixed(2)} GB of bfloat16, one tensor: ${what}`
    const row = { work, state: WARM, limitIs: 'native read into the cores’ caches', reach: '' }
    const limit = limitOf('reread', { path: large.path, bytes: byteLength })
    yield bounded(row, rounds, () => ours.stats(large.path, options), limit)
  }
}

async function* checking({ inputs, limitOf, rounds }) {
  const weights = inputs.weights()
  for (const [name, options, of, goal] of [
    ['crc32c', { version: '1.0', digest: 'crc32c' }, inputs.large(), { reach: '20 GB/s' }],
    ['sha256', { version: '1.0', digest: 'sha256' }, weights, { part: 0.9 }],
    ['xxh3', { version: '2', canonical: false }, weights, { reach: '' }],
  ]) {
    const input = await inputs.converted(of, `${of === weights ? 'weights' : 'large'}-${name}.zt`, options)
    warm(input.path)
    const row = {
      work: `verify ${name}, ${(of.bytes / 1e9).toFixed(2)} GB`,
      state: WARM,
      limitIs: `${name} in memory, all cores`,
      ...(name === 'crc32c' && { target: of.bytes / 20e6 }),
      ...(name === 'xxh3' && { peers: peers('verify', input.path, 3, ['ztensor 2.1.2']) }),
    }
    yield bounded({ ...row, ...goal }, Math.min(rounds, 5), () => ours.verify(input.path), limitOf(name, of))
  }
  for (const [what, input] of [
    ['64 tensors', await inputs.converted(weights, 'weights-zstd.zt', { version: '1.0', compression: { level: 3 } })],
    ['one tensor (zTensor 2)', await inputs.seekable('2')],
    ['one tensor (zTensor 1.2)', await inputs.seekable('1.2')],
  ]) {
    warm(input.path)
    const row = {
      work: `zstd, ${what} of ${(weights.bytes / 1e6).toFixed(0)} MB in total: load() with digests`,
      state: WARM,
      limitIs: 'libzstd, all cores',
      part: 0.95,
    }
    yield bounded(row, Math.min(rounds, 5), () => ours.load(input.path), limitOf('zstd', weights))
  }
}

/** Drops a file from the page cache, if the system supports it. */
async function* cold({ inputs, rounds }) {
  const large = inputs.cold()
  const before = () => byPeer('ztensor 2.1.2', 'forget', large.path, 0)
  if (process.platform !== 'linux' || byPeer('ztensor 2.1.2', 'list', inputs.many().path, 1) === undefined) return
  const dd = (...options) => {
    execFileSync('dd', [`if=${large.path}`, 'of=/dev/null', 'bs=16M', ...options], { stdio: 'ignore' })
  }
  const times = await measure(
    rounds,
    {
      ours: () => ours.load(large.path),
      'ours, direct': () => ours.load(large.path, { io: 'direct' }),
      'dd, direct': () => dd('iflag=direct'),
      dd: () => dd(),
    },
    { before, warm: false },
  )
  const { ours: took, 'ours, direct': direct, share, ...others } = times
  const limit = Math.min(...Object.values(others))
  const goal = (of) => Math.min(of('dd'), of('dd, direct')) / 0.95
  yield {
    work: '2.47 GB: load() all',
    state: 'cold: dropped from the page cache before each run',
    ours: took,
    peers: others,
    limit,
    limitIs: 'the faster dd',
    reach: '0.95 × the device',
    target: limit / 0.95,
    share: share(goal),
  }
  yield {
    work: '… with io: "direct"',
    state: 'cold',
    ours: direct,
    peers: others,
    limit,
    limitIs: 'the faster dd',
    reach: '0.95 × the device',
    target: limit / 0.95,
    share: share(goal, 'ours, direct'),
  }
}
