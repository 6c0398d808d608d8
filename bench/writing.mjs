// The rows of writing, in the form of those of reading. The time ends when the data is synced to disk. The Python packages do
// not sync: they are timed without and with an fsync after them.
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  fsyncSync,
  openSync as openFile,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { fileURLToPath } from 'node:url'
import { convert, create } from 'ztensor'
import { warm } from './inputs.mjs'
import { warmCache } from './machine.mjs'
import { peak } from './memory.mjs'
import * as ours from './ours.mjs'
import { byPeer } from './peers.mjs'
import { measure, median } from './timing.mjs'

const WARM = 'warm source, target synced to disk'
const manifest = fileURLToPath(new URL('../Cargo.toml', import.meta.url))

/** Yields each row when it is measured. */
export async function* writing({ inputs, rounds: most, quick }) {
  const rounds = quick ? 1 : Math.min(most, 5)
  const target = inputs.path('written.zt')
  try {
    yield* converting({ inputs, rounds, target })
    yield* others({ inputs, rounds, target })
    yield* adding({ rounds, target, quick })
    yield* compressing({ inputs, rounds, target, quick })
    yield* keeping({ inputs, target })
    yield* sorting({ inputs, target })
    yield* faulting({ inputs, rounds, target })
  } finally {
    rmSync(target, { force: true })
  }
}

/** A copy of a file, on the disk. */
function copy(from, to) {
  execFileSync('cp', [from, to])
  execFileSync('sync', [to])
}

async function* converting({ inputs, rounds, target }) {
  const large = inputs.large()
  warm(large.path)
  const {
    ours: mine,
    copied,
    share,
  } = await measure(
    rounds,
    {
      ours: () => convert(large.path, target).then(() => undefined),
      copied: () => copy(large.path, target),
    },
    { before: () => clear(target, large), warm: false },
  )
  const work = '2.47 GB of bfloat16 from safetensors to zTensor 1.0 with crc32c'
  const goal = { reach: '1.1 × cp + sync', target: 1.1 * copied, share: share((of) => 1.1 * of('copied')) }
  yield { work, state: WARM, ours: mine, peers: { 'cp + sync': copied }, ...goal }
  for (const [work, input] of [
    ['51,200 tensors of 10 KB, same conversion', inputs.small()],
    ['100,000 tensors of 64 bytes, same conversion', inputs.many()],
  ]) {
    warm(input.path)
    const { ours: mine } = await measure(
      rounds,
      { ours: () => convert(input.path, target).then(() => undefined) },
      { before: () => clear(target, input) },
    )
    yield { work, state: WARM, ours: mine, peers: {} }
  }
}

/** Frees disk and memory for a file, and brings its source into the page cache. */
function clear(target, source) {
  rmSync(target, { force: true })
  warmCache(target, source.bytes)
  warm(source.path)
}

/** Conversions, compared with Python's and with a copy of the output. */
async function* others({ inputs, rounds, target }) {
  const [large, weights] = [inputs.large(), inputs.weights()]
  const wide = await inputs.converted(weights, 'weights-float32.safetensors', { cast: { bfloat16: 'float32' } })
  for (const [work, source, options, peer] of [
    ['2.47 GB from safetensors to canonical zTensor 2', large, { version: '2' }, 'ztensor 2.1.2'],
    ['2.47 GB from zTensor 1.0 to safetensors', await inputs.crc32c(), { format: 'safetensors' }],
    ['1.07 GB of float32, cast to bfloat16', wide, { cast: { float32: 'bfloat16' } }],
  ]) {
    warm(source.path)
    const run = () => convert(source.path, target, { ...options, overwrite: true }).then(() => undefined)
    const made = `${target}.copy`
    await run()
    renameSync(target, made)
    try {
      warm(made)
      const { ours: mine, copied: limit } = await measure(
        rounds,
        { ours: run, copied: () => copy(made, target) },
        { before: () => clear(target, source), warm: false },
      )
      const by = (how) => peer && byPeer(peer, how, source.path, rounds, [target])
      const [left, synced] = [by('convert'), by('convert_synced')]
      const peers = synced === undefined ? {} : { [peer]: left, [`${peer} + fsync`]: synced }
      const goal = synced === undefined ? {} : { reach: '3 × the peer with fsync', target: synced / 3 }
      yield { work, state: WARM, ours: mine, peers, limit, limitIs: 'cp + sync of the output', ...goal }
    } finally {
      rmSync(made, { force: true })
    }
  }
}

async function* adding({ rounds, target, quick }) {
  for (const [work, count, bytes, times] of [
    ['51,200 tensors of 10 KB, create and add', 51_200, 10_240, 2],
    ['100,000 tensors of 64 bytes, create and add', 100_000, 64, 4],
  ]) {
    const tensors = quick ? count / 20 : count
    const array = new Float32Array(bytes / 4).fill(1.5)
    const names = Array.from({ length: tensors }, (_, at) => `layer.${at}.weight`)
    const add = async () => {
      const writer = await create(target, { version: '1.2', overwrite: true })
      for (const name of names) await writer.add(name, array)
      await writer.finish()
    }
    const { ours: mine } = await measure(rounds, { ours: add })
    const by = (how) => byPeer('ztensor 1.2.3', how, target, rounds, [String(tensors), String(bytes)])
    const [left, synced] = [by('write'), by('write_synced')]
    const peers = synced === undefined ? {} : { 'ztensor 1.2.3': left, 'ztensor 1.2.3 + fsync': synced }
    const goal = synced === undefined ? {} : { reach: `${times} × faster than with fsync`, target: synced / times }
    yield { work, state: WARM, ours: mine, peers, ...goal }
  }
}

async function* compressing({ inputs, rounds, target, quick }) {
  const weights = inputs.weights()
  warm(weights.path)
  const options = { overwrite: true, compression: { level: 3 } }
  const compress = () => convert(weights.path, target, options).then(() => undefined)
  await compress()
  const before = () => clear(target, weights)
  // The time of the disk alone for the same bytes.
  const bytes = readFileSync(target)
  const put = () => {
    const fd = openFile(target, 'w')
    writeFileSync(fd, bytes)
    fsyncSync(fd)
    closeSync(fd)
  }
  const { ours: mine, put: disk } = await measure(rounds, { ours: compress, put }, { before, warm: false })
  // A loop over libzstd: it must be compiled, so a quick run leaves it out.
  const single = quick ? undefined : byLibrary(rounds, before, weights.path, target)
  const inMemory = quick ? undefined : byLibrary(rounds, before, weights.path)
  const cores = (await import('node:os')).availableParallelism()
  const goal =
    single === undefined ? {} : { reach: `0.9 × ${cores} cores of the one with fsync`, target: single / (0.9 * cores) }
  const limit = { limit: disk, limitIs: 'write + fsync of the output' }
  const peers =
    single === undefined ? {} : { 'libzstd, 1 thread, fsync': single, 'libzstd, 1 thread, in memory': inMemory }
  // Up to level 4 the package lets zstd look back 512 KiB; the library alone looks back 2 MiB at level 3.
  yield { work: '512 MiB of weights to zTensor 1.0, zstd level 3', state: WARM, ours: mine, peers, ...limit, ...goal }
}

/** The median of `rounds` runs, in ms; undefined without a compiler. */
function byLibrary(rounds, before, ...paths) {
  const build = [
    'run',
    '--release',
    '--quiet',
    '--manifest-path',
    manifest,
    '-p',
    'ztensor-core',
    '--example',
    'libzstd',
  ]
  const times = []
  for (let round = 0; round <= rounds; round++) {
    before()
    try {
      times.push(Number(execFileSync('cargo', [...build, '--', ...paths], { encoding: 'utf8' })))
    } catch {
      return undefined
    }
  }
  return median(times.slice(1))
}

function* keeping({ inputs, target }) {
  const packed = { digest: 'crc32c', compression: { level: 3 } }
  for (const [work, options] of [
    ['2.47 GB', {}],
    ['2.47 GB, compressed', packed],
    ['2.47 GB, cast to float32', { cast: { bfloat16: 'float32' } }],
  ]) {
    const bytes = peak('ours', 'write', inputs.large().path, target, JSON.stringify(options))
    const row = { work: `${work}: peak memory above idle, MiB`, state: WARM, ours: bytes / 2 ** 20, peers: {} }
    yield { ...row, reach: '256 MiB', target: 256 }
  }
}

/** Sparse tensors into zTensor 2: rows to sort, cells to compare. */
async function* sorting({ inputs, target }) {
  for (const [work, { path }] of [
    ['192 MB of CSR, half of its rows unsorted, to zTensor 2', await inputs.rows()],
    ['341 MB of unsorted COO, to zTensor 2', await inputs.cells()],
  ]) {
    const bytes = peak('ours', 'write', path, target, '{"version":"2"}')
    const row = { work: `${work}: peak memory above idle, MiB`, state: WARM, ours: bytes / 2 ** 20, peers: {} }
    yield { ...row, reach: '256 MiB', target: 256 }
  }
}

/** How a file was written decides how fast it is mapped: the same bytes, by the converter and in 8 KiB pieces. */
async function* faulting({ inputs, rounds, target }) {
  const source = inputs.weights().path
  await convert(source, target, { overwrite: true })
  const pieces = `${target}.pieces`
  try {
    const [from, to] = [openFile(target), openFile(pieces, 'w')]
    const piece = Buffer.alloc(8192)
    for (let count = readSync(from, piece); count > 0; count = readSync(from, piece)) writeSync(to, piece, 0, count)
    closeSync(from)
    closeSync(to)
    const touched = await measure(rounds, { ours: () => ours.touch(target), pieces: () => ours.touch(pieces) })
    const state = 'warm, just written'
    const work = '512 MiB: open, map and touch each page of a converted file'
    yield { work, state, ours: touched.ours, peers: { 'written in 8 KiB pieces': touched.pieces } }
  } finally {
    rmSync(pieces, { force: true })
  }
}
