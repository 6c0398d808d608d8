// Claims of files allocate no memory: every file of the tables of malformed files, and some that claim more, in one process that
// grows by at most 64 MiB in total.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import test from 'ava'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Source of a module with `read(bytes, options)`, which opens and reads everything, and `cases`; `grownMiB` is in MiB. */
function child(t, source) {
  const program = `
    import { setImmediate as nextTurn } from 'node:timers/promises'
    import { openSync, ZTensorError } from 'ztensor'
    let tried = 0
    /** Returns the codes of the rejections. */
    async function read(bytes, options = {}) {
      const met = []
      const attempt = async (run) => {
        try {
          return await run()
        } catch (error) {
          if (!(error instanceof ZTensorError) || error.code === 'ZT_INTERNAL') throw error
          met.push(error.code)
        }
      }
      const file = await attempt(() => openSync(bytes, options))
      for (const tensor of file?.values() ?? []) {
        if (tensor.layout === 'dense') await attempt(() => tensor.data)
        if (tensor.layout === 'sparse_csr') await attempt(() => tensor.csr().toDense({ maxBytes: 1 << 20 }))
        if (tensor.layout === 'sparse_coo') await attempt(() => tensor.coo().toDense({ maxBytes: 1 << 20 }))
        for (const component of tensor.components.values()) {
          await attempt(() => component.data)
          await attempt(() => component.load())
        }
      }
      for (const { code } of (await attempt(() => file?.verify()))?.failures ?? []) met.push(code)
      file?.close()
      // Measures the memory of one file, not garbage that waits for finalizers, which need a turn.
      tried += 1
      if (tried % 8 === 0) {
        globalThis.gc()
        await nextTurn()
      }
      return met
    }
    ${source}`
  const { NODE_OPTIONS: _, ...env } = process.env
  const flags = ['--expose-gc', '--input-type=module', '-e', program]
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, flags, { cwd: root, env, encoding: 'utf8' })
  t.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' })
  return JSON.parse(stdout)
}

test('the tables of malformed files take at most 64 MiB in total', (t) => {
  const { grownMiB, files, refused } = child(
    t,
    `
    const { bytesOf, tables } = await import('./__test__/corpus/tables.mjs')
    const all = [...(await tables()).values()].flat().map((one) => ({ options: one.options, bytes: bytesOf(one) }))
    for (const { bytes } of all.slice(0, 50)) await read(bytes)
    const before = process.resourceUsage().maxRSS
    let refused = 0
    for (const { bytes, options } of all) if ((await read(bytes, options)).length > 0) refused += 1
    const largest = Math.max(...all.map(({ bytes }) => bytes.length))
    console.log(JSON.stringify({ grownMiB: (process.resourceUsage().maxRSS - before - largest / 1024) / 1024, files: all.length, refused }))`,
  )
  t.log(`${files} files, ${refused} refused, ${grownMiB.toFixed(1)} MiB more`)
  t.true(files > 1000 && refused > 800)
  t.true(grownMiB <= 64, `${grownMiB} MiB`)
})

test('does not allocate a gigabyte that a small file unpacks to, or claims', (t) => {
  const { grownMiB, met } = child(
    t,
    `
    import { bomb, frame } from './__test__/corpus/zstd.mjs'
    import { f32s, zt10, zt12, u64s } from './__test__/corpus/zt.mjs'
    const GIB = 2 ** 30
    const packed = (bytes) => ({ bytes, encoding: 'zstd' })
    const dense = (shape, data) => zt10({ w: { dtype: 'uint8', shape, format: 'dense', components: { data } } })
    const own = (data) => zt10({ w: { dtype: 'uint8', shape: [1], format: 'own', components: { data } } })
    const csr = (indptr) => zt10({ w: { dtype: 'float32', shape: [2, 3], format: 'sparse_csr', components: {
      values: { bytes: f32s(1, 2) }, indices: { bytes: u64s(0, 1) }, indptr } } })
    const coo = (coords) => zt10({ w: { dtype: 'float32', shape: [2, 3], format: 'sparse_coo', components: { values: { bytes: f32s(1, 2) }, coords } } })
    const files = {
      'more than the shape': [dense([4096], packed(bomb(GIB)))],
      'more than the shape, as declared': [dense([4096], packed(bomb(GIB, 0, { declared: GIB })))],
      'of a custom layout, beyond the limit': [own(packed(bomb(GIB))), { maxDecodedBytes: 1 << 20 }],
      'of a custom layout, declares more than permitted': [own(packed(frame(f32s(1), { declared: GIB }))), { maxDecodedBytes: 1 << 20 }],
      'a shape of four without data': [dense([4 * GIB], packed(frame(f32s(1))))],
      'a shape of four, and a frame that declares four': [dense([4 * GIB], packed(frame(f32s(1), { declared: 4 * GIB })))],
      'a shape beyond the limit': [dense([2 ** 50], packed(frame(f32s(1))))],
      'row ends': [csr(packed(bomb(GIB)))],
      'coordinates': [coo(packed(bomb(GIB)))],
      'coordinates that say so': [coo(packed(bomb(GIB, 0, { declared: GIB })))],
    }
    await read(dense([16], packed(frame(f32s(1, 2, 3, 4)))))
    const before = process.resourceUsage().maxRSS
    const met = {}
    for (const [name, [bytes, options]] of Object.entries(files)) met[name] = [...new Set(await read(bytes, options))].sort().join()
    console.log(JSON.stringify({ grownMiB: (process.resourceUsage().maxRSS - before) / 1024, met }))`,
  )
  t.log(`${grownMiB.toFixed(1)} MiB more`)
  const limited = new Set([
    'of a custom layout, beyond the limit',
    'of a custom layout, declares more than permitted',
    'a shape beyond the limit',
    'a shape of four, and a frame that declares four', // one segment, whose window is the claimed size
  ])
  for (const [name, codes] of Object.entries(met)) {
    t.regex(codes, limited.has(name) ? /^ZT_LIMIT$/ : /^ZT_DECODE(,ZT_LIMIT)?$/, name)
  }
  t.true(grownMiB <= 64, `${grownMiB} MiB`)
})
