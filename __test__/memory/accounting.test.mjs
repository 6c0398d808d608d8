// The external memory that is reported to V8: at most the mapped bytes, independent of the claims of files, and never so much that
// V8 collects the heap for each file. In separate processes: V8 aborts on invalid reports.
import { spawnSync } from 'node:child_process'
import { ftruncateSync, openSync as openFile, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { dense, file } from '../corpus/zt2.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const MIB = 2 ** 20
const GIB = 2 ** 30

/** Runs a module with `openSync`, and returns its output. */
function child(t, source) {
  const program = `
    import { constants, PerformanceObserver } from 'node:perf_hooks'
    import { openSync } from 'ztensor'
    ${source}`
  const { NODE_OPTIONS: _, ...env } = process.env
  const flags = ['--expose-gc', '--input-type=module', '-e', program]
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, flags, { cwd: root, env, encoding: 'utf8' })
  t.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' })
  return JSON.parse(stdout)
}

/** The path of a sparse safetensors file with uint8 tensors of these lengths, or undefined if the file system does not support them. */
function sparse(lengths) {
  let end = 0
  const entries = Object.entries(lengths).map(([name, length]) => {
    end += length
    return [name, { dtype: 'U8', shape: [length], data_offsets: [end - length, end] }]
  })
  const text = Buffer.from(JSON.stringify(Object.fromEntries(entries)))
  const header = Buffer.concat([text, Buffer.alloc(-text.length & 7, ' ')])
  const size = Buffer.alloc(8)
  size.writeBigUInt64LE(BigInt(header.length))
  const path = scratchPath('sparse.safetensors')
  writeFileSync(path, Buffer.concat([size, header]))
  try {
    ftruncateSync(openFile(path, 'r+'), 8 + header.length + end)
    return path
  } catch (error) {
    if (['EFBIG', 'EINVAL', 'ENOMEM', 'ENOSPC'].includes(error.code)) return undefined
    throw error
  }
}

/** A zTensor 2 root with one tensor, whose table claims `count` shards of 2^53 - 1 bytes. */
function rootWithShards(shards) {
  const own = Buffer.from([1, 2, 3, 4, 5, 6, 7, 8])
  const claimed = (at) => [
    `s${at}`,
    { size: Number.MAX_SAFE_INTEGER, digest: `sha256:${String(at).padStart(64, '0')}` },
  ]
  const objects = { own: dense('u8', [8], 4096, 8) }
  const table = Object.fromEntries(Array.from({ length: shards }, (_, at) => claimed(at)))
  return scratchFile(file({ blobs: { 4096: own }, manifest: { objects, shards: table } }), 'root.zt')
}

test('a shard table that claims 2^60 bytes, and several that claim as much together', (t) => {
  const path = rootWithShards(200)
  t.true(readFileSync(path).length < 32_768)
  const several = [100, 120, 127, 127, 127, 127, 127, 127, 127, 127].map(rootWithShards)
  const values = child(
    t,
    `
    const files = ${JSON.stringify([path, ...several])}.map((path) => openSync(path, { shards: 'none' }))
    const values = files.map((file) => file.tensor('own').data.join())
    for (const file of files) file.close()
    console.log(JSON.stringify(values))`,
  )
  t.deepEqual(new Set(values), new Set(['1,2,3,4,5,6,7,8']))
})

test('sparse files of 2^60 bytes and more in total', (t) => {
  const small = sparse({ a: 1000 })
  const large = [2 ** 52, 2 ** 43, 2 ** 40].map((length) => sparse({ [`w${length}`]: length })).find((path) => path)
  if (large === undefined) return t.pass('no file system with files of a tebibyte')
  const lengths = child(
    t,
    `
    const [small, large] = ${JSON.stringify([small, large])}
    // Each list contains the large file; the small one is aliased, and as much of the large one as possible.
    const lengths = []
    for (let i = 0; i < 20; i++) {
      const file = openSync([small, large])
      lengths.push(file.tensor('a').data.length)
      const [name] = [...file.keys()].slice(-1)
      lengths.push(file.tensor(name).slice([[0, 2 ** 30]]).data.length)
      lengths.push(file.tensor(name).slice([[2 ** 30, 2 ** 31]]).data.length)
      if (i % 2) file.close()
    }
    console.log(JSON.stringify(lengths.slice(0, 3)))`,
  )
  t.deepEqual(lengths, [1000, GIB, GIB])
})

/** The major collections in \`cycles\` of opening a file, reading its data and closing it, next to 4 million objects. */
const collections = (t, path, cycles, look) =>
  child(
    t,
    `
    const objects = Array.from({ length: 4e6 }, (_, i) => ({ i }))
    globalThis.gc()
    let majors = 0
    const count = (list) => { for (const { detail } of list.getEntries()) if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) majors += 1 }
    const turn = () => new Promise((resolve) => setTimeout(resolve, 20))
    await turn()
    const observer = new PerformanceObserver(count)
    observer.observe({ entryTypes: ['gc'] })
    for (let i = 0; i < ${cycles}; i++) {
      const file = openSync(${JSON.stringify(path)})
      ${look}
      file.close()
    }
    await turn()
    console.log(JSON.stringify({ majors, objects: objects.length }))`,
  ).majors

const mapped = canMap(1) ? test : test.skip

mapped(
  'a hundred cycles of open, alias and close of a file of 2 GiB cause at most three collections of the heap',
  (t) => {
    const path = sparse({ a: 1000, w: 2 * GIB })
    t.true(collections(t, path, 100, "file.tensor('a').data") <= 3)
  },
)

mapped('opening a checkpoint of many tensors repeatedly causes at most one collection of the heap', (t) => {
  const lengths = Object.fromEntries(Array.from({ length: 120 }, (_, at) => [`t${at}`, 17 * MIB]))
  const path = sparse(lengths)
  const look = 'for (const tensor of file.values()) tensor.data'
  const once = collections(t, path, 1, look)
  const often = collections(t, path, 12, look)
  t.log(`${once} in the first cycle, ${often} in twelve`)
  // The credit at most doubles, from 32 MiB on.
  t.true(once <= 7, `${once}`)
  // V8 starts one or two itself in either case. If the credit did not last, there would be some in every cycle.
  t.true(often <= once + 2, `${once}, then ${often}`)
})
