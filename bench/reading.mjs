// The rows of reading. A row: the work, how the file came into the page cache, what we and others take in ms, the
// machine's bound with its name, and what is to be reached.
import { execFileSync } from 'node:child_process'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openSync } from 'ztensor'
import * as byHand from './by-hand.mjs'
import { warm } from './inputs.mjs'
import { machineLimits, named, parsed } from './limits.mjs'
import * as ours from './ours.mjs'
import { byPeer } from './peers.mjs'
import { measure, median } from './timing.mjs'

const WARM = 'warm, written in 8 MiB pieces'
const child = fileURLToPath(new URL('resident.mjs', import.meta.url))

/** What `node bench/resident.mjs …` prints. */
const resident = (...options) => Number(execFileSync(process.execPath, [child, ...options], { encoding: 'utf8' }))

/** Times by peers: those that cannot do it are left out. */
function peers(work, path, rounds, names, options) {
  const times = names.map((name) => [name, byPeer(name, work, path, rounds, options)])
  return Object.fromEntries(times.filter(([, ms]) => ms !== undefined))
}

const ms = (bytes, rate) => (rate === undefined ? undefined : (bytes / rate) * 1e3)

/** All rows, one after the other as they are measured. */
export async function* reading({ inputs, limits, rounds, quick }) {
  // Measured just before what they bound.
  const limitsOf = (name, { path } = inputs.large()) => (quick ? {} : machineLimits(path, inputs.sample().path, name))
  yield* listing({ inputs, rounds, quick })
  yield* opening({ inputs, rounds })
  yield* growing({ inputs, rounds, quick })
  yield* aliasing({ inputs, limitsOf, rounds })
  yield* loading({ inputs, limits, limitsOf, rounds })
  yield* describing({ inputs, limits, rounds })
  yield* checking({ inputs, limits, rounds })
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
  const { 'by hand': hand, ...listed } = await measure(3 * rounds, {
    'by hand': () => byHand.list(many.path),
    ...Object.fromEntries(contenders),
  })
  const bare = quick ? [] : parsed(all.map(([, , path]) => path))
  for (const [at, [format, names, path]] of all.entries()) {
    const isFirst = at === 0
    const before = format === 'zTensor 2' ? listed['zTensor 1.2'] : Number.POSITIVE_INFINITY
    yield {
      work: isFirst ? '100,000 tensors, safetensors: open, name, dtype and shape of each' : `the same, ${format}`,
      state: WARM,
      ours: listed[format],
      peers: { [isFirst ? 'by hand' : 'by hand, safetensors']: hand, ...peers('list', path, rounds, names) },
      limit: bare[at],
      limitIs: 'the index alone, without JavaScript',
      reach: format === 'zTensor 2' ? '4.5 × by hand, no slower than 1.2' : '4.5 × by hand',
      target: Math.min(hand / 4.5, before),
    }
  }
}

async function* growing({ inputs, rounds, quick }) {
  const counts = [1e3, 1e4, 1e5, 1e6]
  for (const count of counts) warm(inputs.many(count).path)
  const grown = await measure(
    rounds,
    Object.fromEntries(counts.map((count) => [count, listings(inputs, count, quick)])),
  )
  // Nobody would list so many by hand, but V8 has the same work with their objects.
  const byHands = await measure(
    Math.min(rounds, 3),
    Object.fromEntries(counts.map((count) => [count, listings(inputs, count, quick, byHand.list)])),
  )
  const each = (times) => counts.map((count) => (times[count] / (quick ? count / 20 : Math.max(count, 1e5))) * 1e6)
  const growth = (times) => Math.max(...times) / Math.min(...times)
  const paths = counts.map((count) => inputs.many(count).path)
  const native = (times) => (times.length > 0 ? growth(times.map((ms, at) => ms / counts[at])) : undefined)
  const [bare, table] = quick ? [] : [native(parsed(paths)), native(named(paths))]
  const perTensor = each(grown)
  const without = bare === undefined ? '' : ` (${bare.toFixed(1)} without JavaScript)`
  yield {
    work: '… of 1e3, 1e4, 1e5, 1e6 tensors, ns a tensor: the most by the least',
    note: `${perTensor.map((ns) => ns.toFixed(0)).join(', ')}${without}`,
    state: WARM,
    ours: growth(perTensor),
    peers: { 'by hand': growth(each(byHands)) },
    limit: table,
    limitIs: 'a native table of the names alone',
    reach: '1.7×',
    target: 1.7,
  }
}

async function* opening({ inputs, rounds }) {
  const large = inputs.large()
  warm(large.path)
  const opened = await measure(rounds * 3, {
    ours: () => ours.justOpen(large.path),
    'by hand': () => byHand.justOpen(large.path),
  })
  yield {
    work: '2.47 GB, 146 tensors: open',
    state: WARM,
    ours: opened.ours,
    peers: { 'by hand': opened['by hand'], ...peers('list', large.path, rounds, ['safetensors 0.8']) },
    reach: '0.15 ms',
    target: 0.15,
  }
  const idle = resident()
  const open = resident(large.path)
  yield {
    work: '… resident memory that opening it takes, MB',
    state: 'a fresh process',
    ours: Math.max(0, open - idle) / 1e6,
    peers: {},
    reach: '15 MB',
    target: 15,
  }
}

/** Lists files of so many tensors, as often as makes 100,000. */
function listings(inputs, count, quick, list = ours.list) {
  const { path } = inputs.many(count)
  const times = quick ? 1 : Math.max(1, 1e5 / count)
  return () => {
    for (let time = 0; time < times; time++) list(path, { maxIndexBytes: 2 ** 30 })
  }
}

async function* aliasing({ inputs, limitsOf, rounds }) {
  const byPython = inputs.smallByPython()
  for (const [input, work, names, reach, times] of [
    [inputs.large(), '2.47 GB: open, alias all, touch each page', ['safetensors 0.8'], '1.2 × the limit', undefined],
    [inputs.small(), '51,200 tensors of 10 KB: the same', ['safetensors 0.8'], '4 × by hand', 4],
    [byPython, '… as Python wrote them, in pieces of 10 KB', ['safetensors 0.8'], '4 × by hand', 4],
    [inputs.many(), '100,000 tensors of 64 B: the same', ['safetensors 0.8'], '', Infinity],
  ].filter(([input]) => input !== undefined)) {
    warm(input.path, input === byPython ? 10_240 : undefined)
    const large = times === undefined
    const bound = limitsOf('touch', input).touch
    const touched = await measure(large ? Math.min(rounds, 5) : rounds, {
      ours: () => ours.touch(input.path),
      'by hand': () => byHand.touch(input.path),
    })
    const others = peers('touch', input.path, rounds, names)
    if (large) {
      const two = await inputs.converted(input, 'large-2.zt', { version: '2', canonical: false, alignment: 4096 })
      warm(two.path)
      Object.assign(others, peers('touch', two.path, Math.min(rounds, 3), ['ztensor 2.1.2']))
    }
    const limit = ms(input.bytes, bound)
    yield {
      work,
      state: WARM,
      ours: touched.ours,
      peers: { 'by hand': touched['by hand'], ...others },
      limit,
      limitIs: 'a native loop over such a map',
      reach,
      target: large ? limit && 1.2 * limit : Number.isFinite(times) ? touched['by hand'] / times : undefined,
    }
  }
  const large = inputs.large()
  const file = openSync(large.path)
  const largest = file.tensor('model.embed_tokens.weight').byteLength
  file.close()
  // V8 begins one for each ArrayBuffer beyond 64 MiB.
  const alone = await collections(rounds, () => ours.touchPages(new Uint16Array(largest / 2)))
  const beside = await collections(rounds, () => ours.touch(large.path))
  for (const [work, what, reach] of [
    ['2.47 GB: major collections in alias all and touch each page', 'count', 'none but that'],
    ['… the ms of all collections meanwhile', 'pause'],
  ]) {
    yield {
      work,
      state: WARM,
      ours: beside[what],
      peers: {},
      limit: alone[what],
      limitIs: 'the same loop over one ArrayBuffer as long as the largest tensor, without us',
      reach,
      target: reach && alone[what],
    }
  }
  const { ours: took } = await measure(rounds, { ours: () => ours.sliceColumns(large.path) })
  const numpy = peers('slice', large.path, rounds, ['ztensor 2.1.2'])
  yield {
    work: 'the left half of each row of the largest tensor, packed',
    state: WARM,
    ours: took,
    peers: renamed(numpy, 'numpy ascontiguousarray'),
    reach: 'numpy',
    target: Object.values(numpy)[0],
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
    // V8 tells of a collection in a turn after it.
    await nextTurn()
    await nextTurn()
    observer.disconnect()
    counts.push(seen.filter(({ detail }) => detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR).length)
    pauses.push(seen.reduce((sum, { duration }) => sum + duration, 0))
  }
  return { count: median(counts), pause: median(pauses) }
}

const renamed = (times, name) => Object.fromEntries(Object.values(times).map((time) => [name, time]))

async function* loading({ inputs, limits, limitsOf, rounds }) {
  const large = inputs.large()
  warm(large.path)
  for (const [work, run, bytes, name, limitIs] of [
    [
      '2.47 GB: load({ into }) of each tensor, one array for all',
      ours.loadInto,
      large.bytes,
      'refill',
      'reads into memory that is there, on all cores',
    ],
    [
      '… with as: "float32"',
      ours.widenInto,
      large.bytes,
      'widen',
      'reads and shifts into memory that is there, on all cores',
    ],
  ]) {
    const bound = ms(bytes, limitsOf(name)[name])
    const { ours: took } = await measure(Math.min(rounds, 5), { ours: () => run(large.path) })
    yield {
      work,
      state: WARM,
      ours: took,
      peers: {},
      limit: bound,
      limitIs,
      reach: '0.9 × the limit',
      target: bound && bound / 0.9,
    }
  }
  const many = inputs.many()
  const each = await measure(rounds, {
    ours: () => ours.load(many.path),
    'by hand': () => byHand.load(many.path),
  })
  yield {
    work: '100,000 tensors of 64 B: load() all',
    state: WARM,
    ours: each.ours,
    peers: { 'by hand': each['by hand'] },
    reach: 'by hand',
    target: each['by hand'],
  }
  const weights = inputs.weights()
  warm(weights.path)
  const bytes = 2048 * 2048 * 2
  const { ours: wide } = await measure(rounds * 3, { ours: () => ours.widen(weights.path) })
  const copied = ms(bytes * 4, limits.memcpy)
  yield {
    work: 'bfloat16 to float32, 4M elements: load({ as: "float32" }), reading included',
    state: WARM,
    ours: wide,
    peers: {},
    limit: copied,
    limitIs: 'memcpy of the bytes moved',
    reach: '1.25 × the limit',
    target: copied && 1.25 * copied,
  }
}

async function* describing({ inputs, limits, rounds }) {
  const large = inputs.large()
  warm(large.path)
  const file = openSync(large.path)
  const { byteLength } = file.tensor('model.embed_tokens.weight')
  file.close()
  for (const [what, options] of [
    ['statistics', {}],
    ['the same with a histogram of 64 bins', { bins: 64 }],
  ]) {
    const { ours: took } = await measure(rounds, { ours: () => ours.stats(large.path, options) })
    yield {
      work: `${(byteLength / 1e9).toFixed(2)} GB of bfloat16, one tensor: ${what}`,
      state: WARM,
      ours: took,
      peers: {},
      limit: ms(byteLength, limits.reread),
      limitIs: 'reads into each core’s cache',
      reach: '',
    }
  }
}

async function* checking({ inputs, limits, rounds }) {
  const weights = inputs.weights()
  for (const [name, options, limit, of, share] of [
    ['crc32c', { version: '1.0', digest: 'crc32c' }, limits.crc32c, inputs.large(), 20e9 / (limits.crc32c ?? Infinity)],
    ['sha256', { version: '1.0', digest: 'sha256' }, limits.sha256, weights, 0.9],
    ['xxh3', { version: '2', canonical: false }, limits.xxh3, weights, undefined],
  ]) {
    const input = await inputs.converted(of, `${of === weights ? 'weights' : 'large'}-${name}.zt`, options)
    warm(input.path)
    const { ours: took } = await measure(Math.min(rounds, 5), { ours: () => ours.verify(input.path) })
    yield {
      work: `verify ${name}, ${(of.bytes / 1e9).toFixed(2)} GB`,
      state: WARM,
      ours: took,
      peers: name === 'xxh3' ? peers('verify', input.path, 3, ['ztensor 2.1.2']) : {},
      limit: ms(of.bytes, limit),
      limitIs: `${name} of memory on all cores`,
      reach: name === 'crc32c' ? '20 GB/s' : share === undefined ? '' : `${share} × the limit`,
      target: name === 'crc32c' ? ms(of.bytes, 20e9) : share && limit && ms(of.bytes, share * limit),
    }
  }
  for (const [what, input] of [
    ['64 tensors', await inputs.converted(weights, 'weights-zstd.zt', { version: '1.0', compression: { level: 3 } })],
    ['one tensor in frames (zTensor 2)', await inputs.seekable()],
  ]) {
    warm(input.path)
    const { ours: took } = await measure(Math.min(rounds, 5), { ours: () => ours.load(input.path) })
    const limit = ms(weights.bytes, limits.zstd)
    yield {
      work: `zstd, ${what} of ${(weights.bytes / 1e6).toFixed(0)} MB in all: load(), digests checked`,
      state: WARM,
      ours: took,
      peers: {},
      limit,
      limitIs: 'libzstd on all cores',
      reach: '0.95 × the limit',
      target: limit && limit / 0.95,
    }
  }
}

/** Drops a file from the page cache, as far as the system allows. */
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
  const { ours: took, 'ours, direct': direct, ...others } = times
  const limit = Math.min(...Object.values(others))
  yield {
    work: '2.47 GB: load() all',
    state: 'cold: dropped from the page cache before each',
    ours: took,
    peers: others,
    limit,
    limitIs: 'the faster dd',
    reach: '0.95 × the device',
    target: limit / 0.95,
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
  }
}
