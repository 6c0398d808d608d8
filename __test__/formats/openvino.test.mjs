// Models of OpenVINO (fixtures/openvino-files.py), in every way: an .xml, and its data in the .bin file.
import { copyFileSync, mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, open, openSync } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { thrownBy } from '../helpers/errors.mjs'
import { differences, expectedIn } from '../helpers/expected-files.mjs'
import { constant, model } from '../helpers/openvino-writer.mjs'
import { readings } from '../helpers/readings.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const folder = fixturePath('openvino')
const expected = expectedIn(folder)
const at = (name) => join(folder, name)
const opened = (t, path, options) => {
  const file = openSync(path, options)
  t.teardown(() => file.close())
  return file
}
/** A new folder with some of the models. */
function copied(...names) {
  const own = scratchPath('models')
  mkdirSync(own)
  for (const name of names)
    for (const ending of ['xml', 'bin']) copyFileSync(at(`${name}.${ending}`), join(own, `${name}.${ending}`))
  return own
}
const codes = (file) => file.warnings.map(({ code }) => code)

for (const [name, tensors] of Object.entries(expected)) {
  test(`${name}: reads every constant that OpenVINO reads`, async (t) => {
    for (const file of [openSync(at(`${name}.xml`)), await open(at(`${name}.xml`))]) {
      t.is(file.format, 'openvino')
      t.is(file.version, name === 'ten' ? '10' : '11')
      t.deepEqual(differences(file, tensors), [])
      t.deepEqual((await readings(file)).wrong, [])
      t.true((await file.verify()).ok)
      file.close()
    }
  })

  test(`${name}: constants are equal after a conversion`, async (t) => {
    const out = scratchPath('out.zt')
    const result = await convert(at(`${name}.xml`), out, { version: '2', skip: true })
    const written = opened(t, out)
    const held = [...written.keys()]
    t.deepEqual(differences(written, Object.fromEntries(held.map((one) => [one, tensors[one]]))), [])
    t.is(held.length, Object.values(tensors).filter(({ dtype }) => dtype !== null).length)
    t.is(result.skipped.length, Object.keys(tensors).length - held.length)
  })
}

test('aligned constants alias the data file', (t) => {
  const file = opened(t, at('network.xml'))
  t.is(file.tensor('quantized').mapped, process.env.ZTENSOR_NO_EXTERNAL !== '1')
})

test('a type without a dtype becomes an attribute', (t) => {
  t.deepEqual({ ...opened(t, at('types.xml')).tensor('nf4').attributes }, { element_type: 'nf4' })
})

test('properties of a model become attributes', (t) => {
  const { metadata: attributes } = opened(t, at('network.xml'))
  t.is(attributes.name, 'größe')
  t.deepEqual(structuredClone(attributes.rt_info.nncf), { weight_compression: { mode: 'int8_sym', ratio: '1.0' } })
  t.regex(attributes.rt_info['OpenVINO Runtime'], /^2026\.4/)
  t.deepEqual(structuredClone(attributes.inputs), [{ name: 'x', type: 'f32', shape: [null, 8] }])
  t.deepEqual(
    attributes.outputs.map(({ type, shape }) => [type, [...shape]]),
    [
      ['f32', [null, 3]],
      ['string', [2]],
    ],
  )
  const { inputs, outputs } = opened(t, at('none.xml')).metadata
  t.deepEqual(structuredClone(inputs), [
    { name: 'x', type: 'f32', shape: [1, null, '2..5'] },
    { name: 'any', type: 'f32' },
  ])
  t.deepEqual(
    outputs.map((one) => 'shape' in one),
    [true, false],
  )
  const { meta_data: old } = opened(t, at('ten.xml')).metadata
  t.deepEqual(structuredClone(old), { MO_version: '2021.4', cli_parameters: { data_type: 'FP16' } })
})

test('reads duplicate keys, and elements with both text and children', (t) => {
  const more = [
    '<rt_info><a value="1"/><a value="2"/><b value="3"><c value="4"/></b><info name="a" value="5"/></rt_info>',
    '<rt_info/>',
  ]
  const { metadata: attributes } = opened(t, model([], { more }))
  t.deepEqual(structuredClone(attributes.rt_info), { a: '1', b: { c: '4' } })
})

test('a folder opens as its model, and data alone names the model', async (t) => {
  const own = copied('network')
  t.deepEqual(differences(opened(t, own), expected.network), [])
  for (const other of ['pom.xml', 'readme.md']) writeFileSync(join(own, other), '<project/>')
  t.deepEqual(differences(opened(t, own), expected.network), [])
  for (const options of [undefined, { format: 'openvino' }]) {
    const error = thrownBy(() => openSync(join(own, 'network.bin'), options))
    t.is(error.code, 'ZT_BAD_MAGIC')
    t.regex(error.message, /data of OpenVINO.* open its index "network\.xml" in the same folder/)
  }
  const several = thrownBy(() => openSync(copied('network', 'bodies')))
  t.is(several.code, 'ZT_IO')
  t.regex(several.message, /2 tensor files.*"bodies\.xml", "network\.xml"/)
})

test('rejects data without a model as not an OpenVINO model', (t) => {
  const own = copied('network')
  writeFileSync(join(own, 'network.xml'), '<project/>')
  t.notRegex(thrownBy(() => openSync(join(own, 'network.bin'))).message, /OpenVINO and/)
  rmSync(join(own, 'network.xml'))
  t.notRegex(thrownBy(() => openSync(join(own, 'network.bin'))).message, /OpenVINO and/)
  // A checkpoint of PyTorch in its folder opens as one, next to any other files.
  copyFileSync(fixturePath('pytorch/alone.pt'), join(own, 'pytorch_model.bin'))
  rmSync(join(own, 'network.bin'))
  writeFileSync(join(own, 'pom.xml'), '<project/>')
  t.is(opened(t, own).format, 'pytorch')
  copyFileSync(at('network.xml'), join(own, 'pytorch_model.xml'))
  t.is(opened(t, own, { format: 'pytorch' }).format, 'pytorch')
})

test('rejects data whose file is missing, and reads the model', async (t) => {
  const own = copied('network')
  rmSync(join(own, 'network.bin'))
  const file = opened(t, join(own, 'network.xml'))
  t.deepEqual([...file.keys()], Object.keys(expected.network))
  t.is(codes(file).filter((code) => code === 'ZT_WARN_INCOMPLETE_SET').length, 1)
  await t.throwsAsync(file.tensor('weights').load(), { code: 'ZT_IO' })
  await t.throwsAsync(file.verify(), { code: 'ZT_IO' })
  const found = opened(t, join(own, 'network.xml'), {
    shards: (name) => (name === 'network.bin' ? at('network.bin') : undefined),
  })
  t.deepEqual(differences(found, expected.network), [])
})

test('reports a truncated data file when the model is opened, and reads the rest', async (t) => {
  const own = copied('network')
  truncateSync(join(own, 'network.bin'), 200)
  const file = opened(t, join(own, 'network.xml'))
  const truncated = file.warnings.filter(({ code }) => code === 'ZT_WARN_TRUNCATED')
  // Elements of less than a byte cannot be read partly.
  for (const name of Object.keys(expected.network).filter((name) => !file.has(name)))
    t.true(
      truncated.some(({ message }) => message.startsWith(`${name}: `)),
      name,
    )
  t.true(truncated.length > 1 && truncated.every(({ message }) => /extend past its 200/.test(message)))
  const { ok, failures } = await file.verify()
  t.deepEqual(
    [ok, failures.map(({ code, tensor }) => [code, tensor])],
    [false, truncated.map(({ tensor }) => ['ZT_TRUNCATED', tensor])],
  )
  for (const { tensor } of truncated.filter(({ tensor }) => tensor !== undefined))
    await t.throwsAsync(() => file.tensor(tensor).load(), { code: 'ZT_TRUNCATED' })
})

test('does not open data that is linked to another folder', async (t) => {
  const own = copied('network')
  rmSync(join(own, 'network.bin'))
  symlinkSync(at('network.bin'), join(own, 'network.bin'))
  const file = opened(t, join(own, 'network.xml'))
  t.true(codes(file).includes('ZT_WARN_INCOMPLETE_SET'))
  await t.throwsAsync(file.tensor('weights').load(), { code: 'ZT_OUT_OF_BOUNDS' })
})

test('a model in memory has no data without the option shards', async (t) => {
  const bytes = readFileSync(at('network.xml'))
  const file = opened(t, bytes)
  t.deepEqual([...file.keys()], Object.keys(expected.network))
  await t.throwsAsync(file.tensor('weights').load(), { code: 'ZT_IO', message: /open the index by its path/ })
})

test('models in a list have separate data', (t) => {
  const own = copied('half', 'bodies')
  const file = opened(t, [join(own, 'half.xml'), join(own, 'bodies.xml')])
  t.deepEqual(differences(file, { ...expected.half, ...expected.bodies }), [])
})

test('other XML keeps its format', (t) => {
  for (const text of [
    '<net version="1.20" junctionCornerDetail="5"></net>',
    '<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>',
  ]) {
    const path = scratchPath('file.xml')
    writeFileSync(path, text)
    t.is(thrownBy(() => openSync(path)).code, 'ZT_BAD_MAGIC', text)
  }
})

test('opens and reads very many constants over the same bytes', async (t) => {
  const own = scratchPath('many')
  mkdirSync(own)
  const layers = Array.from({ length: 20_000 }, (_, index) => constant({ name: `w${index}` }))
  writeFileSync(join(own, 'many.xml'), model(layers))
  writeFileSync(join(own, 'many.bin'), littleEndian(Float32Array.of(1, 2)))
  const file = await open(own)
  t.teardown(() => file.close())
  t.is(file.size, layers.length)
  t.deepEqual([...file.tensor('w19999').data], [1, 2])
})
