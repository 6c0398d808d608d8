// A .keras that was edited and zipped again: zip tools deflate, and write structures that Keras does not.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import test from 'ava'
import { convert, open, openSync } from 'ztensor'
import { descriptor, zip, zip64 } from '../corpus/numpy.mjs'
import { crc32 } from '../corpus/pytorch.mjs'
import { sameBytes } from '../helpers/bytes.mjs'
import { keras, last, members } from '../helpers/keras-archives.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const bytesOf = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)
const fixture = (name) => readFileSync(join(fixturePath('hdf5'), name))
const WEIGHTS = fixture('model.weights.h5')
const described = ({ data }) => ({ described: descriptor(crc32(data), deflateRawSync(data).length, data.length) })

const VARIANTS = {
  'all deflated': keras(WEIGHTS, { deflate: true }),
  'all stored': keras(WEIGHTS),
  'the weights alone deflated': zip(last(members(WEIGHTS), () => ({ deflate: true }))),
  'the weights first': zip(members(WEIGHTS, { deflate: true }).reverse()),
  'another member first': zip([{ name: 'assets/', data: Buffer.alloc(0) }, ...members(WEIGHTS, { deflate: true })]),
  'a data descriptor': zip(last(members(WEIGHTS, { deflate: true }), described)),
  'a data descriptor without a signature': zip(
    last(members(WEIGHTS, { deflate: true }), ({ data }) => ({
      described: descriptor(crc32(data), deflateRawSync(data).length, data.length, { signature: false }),
    })),
  ),
  'zip64 sizes': zip(
    last(members(WEIGHTS, { deflate: true }), ({ data }) => ({
      storedSize: 0xffff_ffff,
      size: 0xffff_ffff,
      extra: zip64(data.length, deflateRawSync(data).length),
    })),
  ),
  'a comment': zip(members(WEIGHTS, { deflate: true }), { comment: Buffer.from('edited') }),
}

for (const [how, archive] of Object.entries(VARIANTS)) {
  test(`too strict: a .keras zipped again, ${how}`, async (t) => {
    const expected = openSync(WEIGHTS)
    t.teardown(() => expected.close())
    const path = scratchFile(archive, 'model.keras')
    for (const file of [
      openSync(path),
      await open(path),
      openSync(new Uint8Array(archive)),
      await open(new Uint8Array(archive)),
    ]) {
      t.is(file.format, 'keras')
      t.deepEqual([...file.keys()], [...expected.keys()])
      t.is(file.metadata['metadata.json'], '{"keras_version":"3.8.0"}')
      for (const tensor of file.values()) {
        const other = expected.tensor(tensor.name)
        t.deepEqual(
          [tensor.dtype, tensor.shape, { ...tensor.attributes }],
          [other.dtype, other.shape, { ...other.attributes }],
        )
        sameBytes(t, bytesOf(await tensor.load()), bytesOf(await other.load()), tensor.name)
        sameBytes(t, bytesOf(tensor.data), bytesOf(other.data), tensor.name)
        const [rows = 0] = tensor.shape
        if (rows > 1)
          sameBytes(t, bytesOf(tensor.slice([[1, 2]]).data), bytesOf(other.slice([[1, 2]]).data), tensor.name)
      }
      const { ok, failures } = await file.verify()
      t.deepEqual([ok, failures], [true, []])
      file.close()
    }
  })
}

test('too strict: a .keras with chunks, strings and every type, zipped again', async (t) => {
  for (const name of [
    'storage-latest.h5',
    'storage-earliest.h5',
    'filters.h5',
    'fill.h5',
    'dtypes.h5',
    'attributes.h5',
    'groups-latest.h5',
    'user-block.h5',
  ]) {
    const expected = openSync(fixture(name))
    const file = await open(scratchFile(keras(fixture(name), { deflate: true }), 'model.keras'))
    t.deepEqual([...file.keys()], [...expected.keys()], name)
    for (const tensor of file.values()) {
      const other = expected.tensor(tensor.name)
      const refused = expected.warnings.some(({ code, tensor: of }) => /UNKNOWN/.test(code) && of === tensor.name)
      if (refused) continue
      sameBytes(t, bytesOf(await tensor.load()), bytesOf(await other.load()), `${name}: ${tensor.name}`)
    }
    file.close()
    expected.close()
  }
})

test('too strict: a .keras zipped again reports that its data is copied, and why', (t) => {
  const file = openSync(scratchFile(VARIANTS['all deflated'], 'model.keras'))
  t.teardown(() => file.close())
  const tensor = file.tensor('layers/dense/vars/0')
  t.is(tensor.copyReason, 'encoded')
  t.is(tensor.components.get('data').encoding, 'deflate')
})

test('too strict: converts a .keras zipped again', async (t) => {
  const target = scratchPath('out.zt')
  await convert(scratchFile(VARIANTS['all deflated'], 'model.keras'), target)
  const [from, to] = [openSync(WEIGHTS), openSync(target)]
  for (const tensor of from.values())
    sameBytes(t, bytesOf(await to.tensor(tensor.name).load()), bytesOf(await tensor.load()))
  from.close()
  to.close()
})

for (const [how, end] of Object.entries({
  'the directory is larger': { size: 1 << 20 },
  'the directory is smaller': { size: 100 },
})) {
  for (const deflate of [false, true]) {
    test(`damage: a .keras, ${deflate ? 'deflated' : 'stored'}, whose end states that ${how}`, async (t) => {
      const file = openSync(scratchFile(zip(members(WEIGHTS, { deflate }), end), 'model.keras'))
      t.teardown(() => file.close())
      t.deepEqual(
        file.warnings.map(({ code }) => code),
        ['ZT_WARN_DAMAGED'],
      )
      const { ok, failures } = await file.verify()
      t.deepEqual([ok, failures.map(({ code }) => code)], [false, ['ZT_BAD_INDEX']])
      t.true((await file.tensor('layers/dense/vars/0').load()).length > 0)
    })
  }
}

const LOST_TEXTS = {
  'a CRC-32 that is wrong': [{ crc: 1 }, 'ZT_DIGEST_MISMATCH'],
  'another method': [{ method: 12 }, 'ZT_UNSUPPORTED_ENCODING'],
  'bytes that are not text': [{ data: Buffer.from([0xff, 0xfe]) }, 'ZT_BAD_INDEX'],
  'more than 64 MiB': [{ data: Buffer.alloc((64 << 20) + 1, 32), deflate: true }, 'ZT_LIMIT'],
}
for (const [how, [change, wanted]] of Object.entries(LOST_TEXTS)) {
  test(`damage: a string of a .keras with ${how} hides nothing else`, async (t) => {
    const changed = members(WEIGHTS).map((one) => (one.name === 'config.json' ? { ...one, ...change } : one))
    const file = openSync(scratchFile(zip(changed), 'model.keras'))
    t.teardown(() => file.close())
    t.deepEqual(
      [file.metadata['config.json'], file.metadata['metadata.json']],
      [undefined, '{"keras_version":"3.8.0"}'],
    )
    const [{ code, message }, ...others] = file.warnings
    t.deepEqual([code, others], ['ZT_WARN_DAMAGED', []])
    t.regex(message, /^config\.json: /)
    const { failures } = await file.verify()
    t.deepEqual(
      failures.map(({ code }) => code),
      [wanted],
    )
    t.true((await file.tensor('layers/dense/vars/0').load()).length > 0)
  })
}

test('too strict, and still limited: weights of zeros larger than maxDecodedBytes', (t) => {
  const archive = keras(Buffer.concat([WEIGHTS, Buffer.alloc(8 << 20)]), { deflate: true })
  t.throws(() => openSync(new Uint8Array(archive), { maxDecodedBytes: 1 << 20 }), {
    code: 'ZT_LIMIT',
    message: /maxDecodedBytes/,
  })
  openSync(new Uint8Array(archive)).close()
})
