// convert(): every vector into every format, part by part; unsupported tensors; leftovers.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import test from 'ava'
import { convert, create, openSync, saveFile } from 'ztensor'
import { planJob } from 'ztensor/jobs'
import { source as compiled } from '../../scripts/source.mjs'
import { sameBytes } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { fixturePath, vectors } from '../helpers/vectors.mjs'

const { FORMATS } = await compiled('lib/values/format-table.ts')

const TARGETS = [
  { version: '0.1' },
  { version: '1.0' },
  { version: '1.2', digest: 'sha256', compression: { level: 3, minSavings: 0 } },
  { format: 'safetensors' },
  { format: 'btf' },
]
const bytesOf = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)
const targetName = (options) => options.format ?? options.version

/** Index arrays in the one type that every target has. */
const widened = (role, data) =>
  ['indices', 'indptr', 'coords'].includes(role) && !(data instanceof BigUint64Array)
    ? BigUint64Array.from(data, BigInt)
    : data

/** All properties of a tensor except its name: metadata, and the decoded bytes of each component. */
function content(tensor) {
  const parts = [...tensor.components].map(([role, { data }]) => [role, bytesOf(widened(role, data)).toString('hex')])
  return { layout: tensor.layout, shape: tensor.shape, parts: Object.fromEntries(parts) }
}

for (const { name, path, bytes } of vectors) {
  for (const options of TARGETS) {
    test(`${name} into ${targetName(options)}: supported tensors are equal, from a path and from memory`, async (t) => {
      const fromPath = scratchPath('target')
      const fromMemory = scratchPath('target')
      const source = openSync(path)
      const how = { ...options, copyMetadata: false, copyAttributes: false, skip: true }
      let result
      try {
        result = await convert(path, fromPath, how)
      } catch (error) {
        t.regex(error.message, /^no tensor is left: /)
        t.is(error.cause.length, source.size)
        source.close()
        t.false(existsSync(fromPath))
        return
      }
      t.deepEqual(await convert(bytes, fromMemory, how), result)
      sameBytes(t, readFileSync(fromMemory), readFileSync(fromPath))
      const target = openSync(fromPath, { verify: true })
      const left = new Set(result.skipped.map(({ tensor }) => tensor))
      const remaining = [...source.values()].filter((tensor) => !left.has(tensor.name))
      t.is(target.size, remaining.length)
      t.is(result.tensors, remaining.length)
      for (const [at, tensor] of remaining.entries()) {
        const copy = target.tensor(options.format === 'btf' ? String(at) : tensor.name)
        t.deepEqual(content(copy), content(tensor), tensor.name)
        // 1.2 has a dtype for each component and none for a composite with an unknown layout.
        if (['dense', 'sparse_csr', 'sparse_coo'].includes(tensor.layout)) t.is(copy.dtype, tensor.dtype, tensor.name)
      }
      source.close()
      target.close()
    })
  }
}

test('lists unsupported tensors before it writes anything', async (t) => {
  const target = scratchPath('target.safetensors')
  const error = await rejectionOf(() => convert(fixturePath('zt101-sparse.zt'), target))
  t.is(error?.code, 'ZT_BAD_LAYOUT')
  t.true(Array.isArray(error.cause))
  t.is(error.cause.length, 17)
  t.true(['coo_1d', 'csr_uint8'].every((name) => error.cause.some(({ tensor }) => tensor === name)))
  t.regex(error.message, /\d+ tensors: safetensors cannot hold the layout "sparse_coo" \(first: "/)
  t.false(existsSync(target))
})

test('copies attributes that the target supports, and rejects others on request', async (t) => {
  const source = fixturePath('zt10h-attributes.zt')
  const target = scratchPath('target.zt')
  await convert(source, target)
  const [from, to] = [openSync(source), openSync(target)]
  t.deepEqual({ ...to.metadata }, { ...from.metadata })
  t.is(to.generator, from.generator)
  from.close()
  to.close()
  const error = await rejectionOf(() => convert(source, scratchPath('target.btf'), { strictMetadata: true }))
  t.is(error?.code, 'ZT_INVALID_ARG')
  t.true(error.message.includes('metadata'))
  const own = scratchPath('own.zt')
  await convert(source, own, { copyMetadata: false, metadata: { a: 1 }, generator: 'me' })
  const file = openSync(own)
  t.deepEqual({ ...file.metadata }, { a: 1 })
  t.is(file.generator, 'me')
  file.close()
})

test('filter and rename select the tensors and their names', async (t) => {
  const target = scratchPath('target.zt')
  const filter = ({ dtype }) => dtype === 'float32' || dtype === 'int8'
  const { tensors } = await convert(fixturePath('zt12-dtypes.zt'), target, { filter, rename: (name) => `x.${name}` })
  const file = openSync(target)
  t.is(tensors, 2)
  t.deepEqual([...file.keys()].sort(), ['x.t_float32', 'x.t_int8'])
  file.close()
  const same = await rejectionOf(() =>
    convert(fixturePath('zt12-dtypes.zt'), scratchPath('t.zt'), { rename: () => 'a' }),
  )
  t.is(same?.code, 'ZT_BAD_INDEX')
})

test('rejects a damaged source, and leaves no file', async (t) => {
  const bytes = readFileSync(fixturePath('zt12-crc32c.zt'))
  bytes[70] ^= 1
  const { path, names } = scratchFolder()
  const target = path('target.zt')
  for (const source of [bytes, scratchFile(bytes, 'damaged.zt')]) {
    const error = await rejectionOf(() => convert(source, target))
    t.is(error?.code, 'ZT_DIGEST_MISMATCH')
  }
  t.deepEqual(names(), [])
})

test('an abort leaves the old target unchanged', async (t) => {
  const source = scratchPath('large.zt')
  const writer = await create(source)
  for (let at = 0; at < 8; at++) await writer.add(`t${at}`, new Float64Array(1 << 20).fill(at))
  await writer.finish()
  const target = scratchFile(Buffer.from('old'), 'target.zt')
  const stop = new AbortController()
  const onProgress = () => stop.abort(new Error('enough'))
  const bytes = readFileSync(source)
  const error = await rejectionOf(() => convert(bytes, target, { overwrite: true, signal: stop.signal, onProgress }))
  t.is(error?.message, 'enough')
  t.is(readFileSync(target, 'utf8'), 'old')
  const refused = await rejectionOf(() => convert(source, target))
  t.is(refused?.code, 'ZT_EXISTS')
  let last
  await convert(source, target, { overwrite: true, onProgress: (progress) => (last = progress) })
  t.like(last, { bytes: 8 << 23, totalBytes: 8 << 23, tensors: 8, totalTensors: 8 })
  const file = openSync(target, { verify: true })
  t.is(file.tensor('t7').data[5], 7)
  file.close()
})

test('converts a file onto itself', async (t) => {
  const path = scratchFile(readFileSync(fixturePath('zt100-dtypes.zt')), 'self.zt')
  await convert(path, path, { version: '1.2', overwrite: true })
  const file = openSync(path, { verify: true })
  t.is(file.version, '1.2.0')
  t.is(file.size, 13)
  file.close()
})

test('rejects a new file with an unknown extension, and lists the known ones', async (t) => {
  const source = fixturePath('zt12-dtypes.zt')
  const endings = FORMATS.flatMap(({ endings, writes }) => (writes.length > 0 ? endings : [])).map((one) => `.${one}`)
  const known = `use ${endings.slice(0, -1).join(', ')} or ${endings.at(-1)}, or set the option format`
  for (const name of ['x.safetensor', 'x.csv', 'x.zt.part', 'x']) {
    const target = join(dirname(scratchPath()), name)
    for (const call of [
      () => convert(source, target),
      ...(name === 'x' ? [] : [() => create(target), () => saveFile(target, { a: Float32Array.of(1) })]),
      () => planJob('convert', source, target),
    ]) {
      const error = await rejectionOf(call)
      t.is(error?.code, 'ZT_INVALID_ARG', `${name} ${call}`)
      t.true(error.message.includes(known), error.message)
    }
    t.false(existsSync(target))
  }
  // A version is one of zTensor.
  for (const options of [{ format: 'zt' }, { version: '2' }]) {
    const target = join(dirname(scratchPath()), `named-${options.version}.data`)
    await convert(source, target, options)
    const file = openSync(target)
    t.is(file.format, 'zt')
    file.close()
  }
})

test('the extension of the target selects its format', async (t) => {
  for (const [ending, format] of [
    ['safetensors', 'safetensors'],
    ['btf', 'btf'],
    ['zt', 'zt'],
  ]) {
    const target = join(dirname(scratchPath()), `ending-${ending}.${ending}`)
    const filter = ({ dtype }) => dtype === 'float32'
    await convert(fixturePath('zt12-dtypes.zt'), target, { filter })
    const file = openSync(target)
    t.is(file.format, format)
    file.close()
  }
})
