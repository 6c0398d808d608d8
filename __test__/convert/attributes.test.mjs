// Tensors are converted even if the target cannot store attributes. Omitted attributes are listed.
import test from 'ava'
import { convert, create, open } from 'ztensor'
import { planJob, runTask } from 'ztensor/jobs'
import { pairs } from '../corpus/cbor.mjs'
import { square12, zt12 } from '../corpus/zt.mjs'
import { run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const ATTRIBUTES = {
  text: 'as it is',
  number: 1.5,
  large: 2n ** 60n,
  list: [1, 'a', null, { deep: [true] }],
  bytes: Uint8Array.of(1, 2),
  odd: Number.NaN,
}

async function source() {
  const path = scratchPath('from.zt')
  const writer = await create(path, { version: '1.2', metadata: ATTRIBUTES })
  await writer.add('a', Float32Array.of(1, 2), { attributes: { unit: 'm' } })
  await writer.add('b', Float32Array.of(3))
  await writer.finish()
  return path
}

const messages = ({ skipped }) => skipped.map(({ tensor, message }) => [tensor, message])

test('safetensors stores text, and other plain values as JSON', async (t) => {
  const path = scratchPath('to.safetensors')
  const result = await convert(await source(), path)
  t.is(result.tensors, 2)
  t.deepEqual(messages(result), [
    ['a', 'attributes of tensor "a" are left out: safetensors has no attributes of a tensor'],
    [undefined, 'safetensors cannot store 2 values of the metadata: "bytes", "odd"'],
  ])
  const file = await open(path)
  t.teardown(() => file.close())
  t.deepEqual(
    { ...file.metadata },
    { text: 'as it is', number: '1.5', large: String(2n ** 60n), list: '[1,"a",null,{"deep":[true]}]' },
  )
  t.deepEqual(file.get('a').data, Float32Array.of(1, 2))
})

test('npz stores no attributes', async (t) => {
  const result = await convert(await source(), scratchPath('to.npz'))
  t.is(result.tensors, 2)
  t.is(result.skipped.length, 2)
  t.regex(result.skipped[1].message, /cannot store 6 values of the metadata: "text", "number"/)
})

test('strictMetadata rejects, and copyMetadata: false and copyAttributes: false write none', async (t) => {
  const from = await source()
  const refused = await rejectionOf(() => convert(from, scratchPath('to.safetensors'), { strictMetadata: true }))
  t.is(refused.code, 'ZT_INVALID_ARG')
  t.regex(refused.message, /has no attributes of a tensor/)
  const path = scratchPath('to.zt')
  const result = await convert(from, path, {
    version: '1.2',
    copyMetadata: false,
    copyAttributes: false,
    strictMetadata: true,
  })
  t.deepEqual(result.skipped, [])
  const file = await open(path)
  t.teardown(() => file.close())
  t.deepEqual({ ...file.metadata }, {})
  t.deepEqual({ ...file.get('a').attributes }, {})
})

test('converts HDF5 with attributes, and a safetensors of the hub', async (t) => {
  const hdf5 = await convert(fixturePath('hdf5/small.h5'), scratchPath('to.safetensors'), { skip: true })
  t.true(hdf5.tensors > 0)
  const hub = scratchPath('hub.safetensors')
  const writer = await create(hub, { metadata: { format: 'pt' } })
  await writer.add('w', Float32Array.of(1))
  await writer.finish()
  const npz = await convert(hub, scratchPath('to.npz'))
  t.deepEqual(messages(npz), [[undefined, 'NumPy npz cannot store 1 value of the metadata: "format"']])
})

test('the message about omitted attributes does not read like a lost tensor', async (t) => {
  const path = scratchPath('several.zt')
  const writer = await create(path, { version: '1.2' })
  for (const name of ['a', 'b "b"']) await writer.add(name, Float32Array.of(1), { attributes: { unit: 'm' } })
  await writer.add('bad', { dtype: 'complex128', shape: [1], data: Float64Array.of(1, 2) })
  await writer.finish()
  const target = scratchPath('to.safetensors')
  const { stdout, code, stderr } = await run(['convert', path, target, '--skip'])
  t.not(code, 2, stderr)
  t.regex(stdout, /^attributes of 2 tensors are left out: safetensors has no attributes of a tensor \(first: "a"\)$/m)
  t.regex(stdout, /^left out: tensor "bad": safetensors cannot hold complex128$/m)
  const result = await convert(path, scratchPath('again.safetensors'), { skip: ['bad'] })
  t.true(messages(result).some(([, message]) => message.startsWith('attributes of tensor "b \\"b\\"" are left out: ')))
})

test('the command prints omitted attributes last, and its options work', async (t) => {
  const from = await source()
  const left = await run(['convert', from, scratchPath('to.safetensors')])
  t.is(left.code, 0, left.stderr)
  t.regex(left.stdout.trimEnd().split('\n').at(-1), /^left out: safetensors cannot store 2 values of the metadata/)
  t.is((await run(['convert', from, scratchPath('to.npz'), '--strict-metadata'])).code, 2)
  const none = await run(['convert', from, scratchPath('none.npz'), '--no-copy-metadata', '--no-copy-attributes'])
  t.is(none.code, 0)
  t.notRegex(none.stdout, /left out/)
})

test('with strictMetadata, skip omits rejected tensors, and counts only tensors', async (t) => {
  const from = scratchPath('from.zt')
  const writer = await create(from, { version: '1.2', metadata: { number: 1 } })
  await writer.add('good', Float32Array.of(1))
  await writer.add('bad', { dtype: 'complex128', shape: [1], data: Float64Array.of(1, 2) })
  await writer.finish()
  const path = scratchPath('to.safetensors')
  const result = await convert(from, path, { strictMetadata: true, skip: true })
  t.deepEqual([result.tensors, result.skippedTensors, result.skipped.length], [1, 1, 2])
  const file = await open(path)
  t.deepEqual({ ...file.metadata }, {})
  file.close()
  const job = await planJob('convert', from, scratchPath('job.safetensors'), { strictMetadata: true, skip: true })
  t.deepEqual(
    job.warnings.map(({ message }) => /cannot hold complex128|metadata/.exec(message)?.[0]),
    ['cannot hold complex128', 'metadata'],
  )
})

test('a job lists the attributes that its tasks omit', async (t) => {
  const job = await planJob('convert', await source(), scratchPath('job.safetensors'))
  const texts = job.warnings.map(({ message }) => message)
  t.true(
    texts.some((text) =>
      /^attributes of tensor "a" are left out: safetensors has no attributes of a tensor$/.test(text),
    ),
    texts.join(),
  )
  t.true(
    texts.some((text) => /cannot store 2 values of the metadata: "bytes", "odd"/.test(text)),
    texts.join(),
  )
  for (const task of job.tasks) t.deepEqual((await runTask(task)).skipped, [])
})

test('omits an attribute with a list as its key, and names it', async (t) => {
  const attributes = pairs([
    [[1, 2], 'odd'],
    ['good', 'text'],
  ])
  const bytes = zt12({ w: square12() }, { root: { attributes } })
  const path = scratchPath('to.safetensors')
  const result = await convert(bytes, path)
  t.deepEqual([result.tensors, result.skippedTensors], [1, 0])
  t.regex(result.skipped[0].message, /safetensors cannot store 1 value of the metadata: "1,2"/)
  const file = await open(path)
  t.deepEqual({ ...file.metadata }, { good: 'text' })
  file.close()
  const two = await convert(bytes, scratchPath('to.zt'), { version: '2' })
  t.regex(two.skipped[0].message, /zTensor 2 cannot store 1 value of the metadata: "1,2"/)
})
