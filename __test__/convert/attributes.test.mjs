// Tensors are converted even if the target cannot store attributes. What is left out is listed.
import test from 'ava'
import { convert, create, open } from 'ztensor'
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
  const writer = await create(path, { version: '1.2', attributes: ATTRIBUTES })
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
    ['a', 'tensor "a": safetensors has no attributes of a tensor'],
    [undefined, 'safetensors cannot store 2 attributes of the file: "bytes", "odd"'],
  ])
  const file = await open(path)
  t.teardown(() => file.close())
  t.deepEqual(
    { ...file.attributes },
    { text: 'as it is', number: '1.5', large: String(2n ** 60n), list: '[1,"a",null,{"deep":[true]}]' },
  )
  t.deepEqual(file.get('a').data, Float32Array.of(1, 2))
})

test('npz stores none', async (t) => {
  const result = await convert(await source(), scratchPath('to.npz'))
  t.is(result.tensors, 2)
  t.is(result.skipped.length, 2)
  t.regex(result.skipped[1].message, /cannot store 6 attributes of the file: "text", "number"/)
})

test('strictAttributes refuses, and attributes: false writes none', async (t) => {
  const from = await source()
  const refused = await rejectionOf(() => convert(from, scratchPath('to.safetensors'), { strictAttributes: true }))
  t.is(refused.code, 'ZT_INVALID_ARG')
  t.regex(refused.message, /has no attributes of a tensor/)
  const path = scratchPath('to.zt')
  const result = await convert(from, path, { version: '1.2', attributes: false, strictAttributes: true })
  t.deepEqual(result.skipped, [])
  const file = await open(path)
  t.teardown(() => file.close())
  t.deepEqual({ ...file.attributes }, {})
  t.deepEqual({ ...file.get('a').attributes }, {})
})

test('HDF5 with attributes, and a hub safetensors', async (t) => {
  const hdf5 = await convert(fixturePath('hdf5/small.h5'), scratchPath('to.safetensors'), { skip: true })
  t.true(hdf5.tensors > 0)
  const hub = scratchPath('hub.safetensors')
  const writer = await create(hub, { attributes: { format: 'pt' } })
  await writer.add('w', Float32Array.of(1))
  await writer.finish()
  const npz = await convert(hub, scratchPath('to.npz'))
  t.deepEqual(messages(npz), [[undefined, 'NumPy npz cannot store 1 attribute of the file: "format"']])
})

test('the command says it last, and the options do the same', async (t) => {
  const from = await source()
  const left = await run(['convert', from, scratchPath('to.safetensors')])
  t.is(left.code, 0, left.stderr)
  t.regex(left.stdout.trimEnd().split('\n').at(-1), /^left out: safetensors cannot store 2 attributes of the file/)
  t.is((await run(['convert', from, scratchPath('to.npz'), '--strict-attributes'])).code, 2)
  const none = await run(['convert', from, scratchPath('none.npz'), '--no-attributes'])
  t.is(none.code, 0)
  t.notRegex(none.stdout, /left out/)
})
