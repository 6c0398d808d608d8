// append() and compact() of version 2: another generation after the old one (§2.5), of which no byte changes.
import { readFileSync, statSync } from 'node:fs'
import test from 'ava'
import { append, compact, create, open, openSync } from 'ztensor'
import { float16 } from '../corpus/cbor.mjs'
import { file as container, deterministic, part, digestOf as xxh3Of } from '../corpus/zt2.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { edited, MODES, propertiesAt, valuesAt } from '../helpers/editing.mjs'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import {
  DTYPES,
  digestOf,
  noise,
  oneCell,
  sample,
  scratchFolder,
  streamed,
  twoRows,
  written,
} from '../helpers/sample-files.mjs'
import { scratchFile } from '../helpers/scratch.mjs'

const PAGE = 4096
const dtypes = Object.keys(DTYPES).filter((dtype) => !dtype.startsWith('float6'))
const names = (path) => propertiesAt(path).tensors.map(({ name }) => name)
const FORMS = {
  canonical: { options: {}, alignment: 65536 },
  'at 4096': { options: { canonical: false, alignment: PAGE, digest: 'sha256' }, alignment: PAGE },
  compressed: { options: { canonical: false, compression: { minSavings: 0 } }, alignment: 65536 },
}

async function two(options, path) {
  const add = async (writer) => {
    await writer.add('first', Float32Array.of(1, 2, 3), { attributes: { axis: 1, note: 'x' } })
    await writer.add('second', new Uint8Array(10_000).fill(7))
    await writer.add('third', noise(1000, 1))
  }
  return written({ version: '2', metadata: { license: 'MIT', made: [1, 2] }, ...options }, add, path)
}

async function opened(path, look) {
  const file = await open(path)
  const found = await look(file)
  file.close()
  return found
}

/** Every key of a tensor added here. */
async function addAll(editor) {
  await editor.add('dense', noise(300_000, 2))
  await editor.addCsr('csr', twoRows(5, 2))
  await editor.addCoo('coo', oneCell(7))
  const components = { a: { data: noise(3, 1) } }
  await editor.addObject('object', { layout: 'pie.mine/1', shape: [2], dtype: 'uint8', components })
  await streamed(editor.stream('stream', { dtype: 'uint8', shape: [200_000] }), [noise(200_000, 3)])
  await editor.add('none', new Int8Array(0))
  await editor.add('noted', Int16Array.of(1), { attributes: { b: 1, a: 'b' } })
}

for (const [form, { options, alignment }] of Object.entries(FORMS)) {
  for (const { mode, inPlace } of MODES) {
    const label = `${form}, ${mode}`

    test(`${label}: adds in every way after the existing tensors`, async (t) => {
      const path = await two(options)
      const before = propertiesAt(path)
      const old = readFileSync(path)
      await edited(path, addAll, { inPlace })
      // The old file is the beginning of the new one, its footer too.
      t.true(readFileSync(path).subarray(0, old.length).equals(old))
      const after = propertiesAt(path)
      const original = after.tensors.filter(({ name }) => ['first', 'second', 'third'].includes(name))
      t.deepEqual(original, before.tensors)
      t.deepEqual({ ...after, tensors: 0, warnings: 0 }, { ...before, tensors: 0, warnings: 0 })
      // By length, then by bytes.
      const sorted = ['coo', 'csr', 'none', 'dense', 'first', 'noted', 'third', 'object', 'second', 'stream']
      t.deepEqual(names(path), sorted)
      t.is(valuesAt(path, 'dense').compare(noise(300_000, 2)), 0)
      t.is(valuesAt(path, 'stream').compare(noise(200_000, 3)), 0)
      await opened(path, async (file) => {
        t.deepEqual([...file.tensor('csr').csr().values], [5, 2])
        t.deepEqual([...file.tensor('coo').coo().coords], [2n])
        t.deepEqual({ ...file.tensor('noted').attributes }, { b: 1, a: 'b' })
        for (const tensor of file.values())
          for (const { offset } of tensor.components.values()) t.is(offset % alignment, 0)
        const result = await file.verify()
        t.true(result.ok)
        t.is(result.undigested, 0)
      })
    })

    test(`${label}: renames, removes and sets attributes, twice in a row`, async (t) => {
      const path = await two(options)
      const before = new Map(propertiesAt(path).tensors.map((tensor) => [tensor.name, tensor]))
      const edit = async (editor) => {
        t.is((await rejectionOf(() => editor.rename('nobody', 'x')))?.code, 'ZT_NOT_FOUND')
        t.is((await rejectionOf(() => editor.rename('first', 'second')))?.code, 'ZT_BAD_INDEX')
        // The two swap names.
        await editor.rename('first', 'aside')
        await editor.rename('second', 'first')
        await editor.rename('aside', 'second')
        await editor.remove('third')
        await editor.setMetadata({ license: 'Apache-2.0', a: { z: 1, b: [0.5, null] }, made: undefined })
        await editor.setTensorAttributes('second', { axis: undefined, alpha: true })
        await editor.setTensorAttributes('first', { k: 1n })
      }
      await edited(path, edit, { inPlace })
      const after = propertiesAt(path)
      t.deepEqual(
        after.tensors.map(({ name }) => name),
        ['first', 'second'],
      )
      t.deepEqual(after.tensors[0].components, before.get('second').components)
      t.deepEqual(after.tensors[1].components, before.get('first').components)
      t.deepEqual(Object.entries(after.attributes), [
        ['a', after.attributes.a],
        ['license', 'Apache-2.0'],
      ])
      t.deepEqual({ ...after.tensors[1].attributes }, { note: 'x', alpha: true })
      const clear = async (editor) => {
        await editor.add('third', Int8Array.of(3))
        await editor.setMetadata({ a: undefined, license: undefined })
        await editor.setTensorAttributes('second', { note: undefined, alpha: undefined })
      }
      await edited(path, clear, { inPlace })
      const cleared = propertiesAt(path)
      t.deepEqual(Object.keys(cleared.attributes), [])
      t.deepEqual(
        cleared.tensors.map(({ name, attributes }) => [name, Object.keys(attributes)]),
        [
          ['first', ['k']],
          ['third', []],
          ['second', []],
        ],
      )
      await edited(path, async (editor) => {
        for (const name of ['first', 'second', 'third']) await editor.remove(name)
      })
      t.deepEqual(names(path), [])
    })

    test(`${label}: adds every dtype`, async (t) => {
      const path = await two(options)
      const given = dtypes.map((dtype, i) => ({ dtype, shape: [4, 2], data: sample(dtype, [4, 2], i) }))
      await edited(
        path,
        async (editor) => {
          for (const tensor of given) await editor.add(tensor.dtype, tensor)
        },
        { inPlace },
      )
      for (const { dtype, data } of given) t.is(valuesAt(path, dtype).compare(littleEndian(data)), 0, dtype)
    })

    test(`${label}: uses the requested digests, compression and alignment`, async (t) => {
      const path = await two(options)
      const zeros = new Uint8Array(100_000)
      await edited(path, (editor) => editor.add('plain', zeros), { inPlace })
      await edited(path, (editor) => editor.add('hashed', zeros), { inPlace, digest: 'sha256', alignment: 2 ** 17 })
      const packed = { inPlace, digest: 'sha256', compression: { frameSize: PAGE } }
      await edited(path, (editor) => editor.add('packed', zeros), packed)
      await edited(path, (editor) => editor.add('bare', zeros), { inPlace, digest: false })
      const of = Object.fromEntries(propertiesAt(path).tensors.map((tensor) => [tensor.name, tensor.components[0]]))
      t.is(of.plain.digest, xxh3Of(Buffer.from(zeros)))
      t.is(of.hashed.digest, digestOf('sha256', zeros))
      // Over the content, not over the stored bytes.
      t.is(of.packed.digest, digestOf('sha256', zeros))
      t.is(of.bare.digest, undefined)
      t.deepEqual([of.plain.encoding, of.packed.encoding], ['raw', 'zt.zstd-seekable/1'])
      await opened(path, async (file) => {
        t.is(file.tensor('hashed').components.get('data').offset % 2 ** 17, 0)
        t.true((await file.verify()).ok)
      })
      t.true(valuesAt(path, 'packed').equals(Buffer.from(zeros)))
      for (const [wrong, argument] of [
        [{ digest: 'crc32c' }, 'digest'],
        [{ alignment: 64 }, 'alignment'],
      ]) {
        isArgumentError(t, await rejectionOf(() => append(path, { inPlace, ...wrong })), argument)
      }
    })

    test(`${label}: compact() leaves no garbage, and keeps all content`, async (t) => {
      const path = await two(options)
      await edited(path, (editor) => editor.add('kept', noise(100_000, 5)), { inPlace })
      await edited(path, (editor) => editor.add('a gone one', noise(200_000, 6)), { inPlace })
      await edited(path, (editor) => editor.remove('a gone one'), { inPlace })
      const [before, { size }] = [propertiesAt(path), statSync(path)]
      const { byteLength, reclaimed } = await compact(path)
      t.is(byteLength, statSync(path).size)
      t.is(reclaimed, size - byteLength)
      t.true(reclaimed > 200_000)
      t.deepEqual(propertiesAt(path), before)
      t.true((await opened(path, (file) => file.verify())).ok)
      t.is((await compact(path)).reclaimed, 0)
    })
  }
}

test('a canonical file that was edited and compacted equals one created directly', async (t) => {
  const add = async (writer) => {
    await writer.add('second', new Uint8Array(10_000).fill(7))
    await writer.add('a', Float32Array.of(1, 2, 3), { attributes: { axis: 1, note: 'x' } })
    await writer.add('twin', new Uint8Array(10_000).fill(7))
  }
  const fresh = readFileSync(await written({ version: '2', metadata: { license: 'MIT', made: [1, 2] } }, add))
  for (const { inPlace } of MODES) {
    const path = await two({})
    const edit = async (editor) => {
      await editor.rename('first', 'a')
      await editor.remove('third')
      await editor.add('twin', new Uint8Array(10_000).fill(7))
    }
    await edited(path, edit, { inPlace })
    t.false(readFileSync(path).equals(fresh))
    await compact(path)
    t.true(readFileSync(path).equals(fresh))
  }
})

test('keeps shards unchanged, and adds to the root', async (t) => {
  const { path, names: files } = scratchFolder()
  const add = async (writer) => {
    for (let i = 0; i < 4; i++) await writer.add(`t${i}`, noise(50_000, i))
  }
  await written({ version: '2', maxShardBytes: 140_000 }, add, path('m.zt'))
  const there = files()
  t.true(there.length > 2)
  const shards = there.filter((name) => name !== 'm.zt').map((name) => readFileSync(path(name)))
  for (const { inPlace } of MODES) {
    await edited(path('m.zt'), (editor) => editor.add(`new ${inPlace}`, noise(70_000, 9)), { inPlace })
  }
  await edited(path('m.zt'), async (editor) => {
    await editor.rename('t0', 'renamed')
    await editor.remove('t1')
    await editor.remove('new true')
  })
  const check = () =>
    opened(path('m.zt'), async (file) => {
      t.deepEqual([...file.keys()], ['t2', 't3', 'renamed', 'new false'])
      t.is(Buffer.compare(littleEndian(file.tensor('renamed').data), noise(50_000, 0)), 0)
      t.is(Buffer.compare(littleEndian(file.tensor('new false').data), noise(70_000, 9)), 0)
      t.true((await file.verify()).ok)
    })
  await check()
  t.true((await compact(path('m.zt'))).reclaimed > 70_000)
  await check()
  t.deepEqual(files(), there)
  there
    .filter((name) => name !== 'm.zt')
    .forEach((name, i) => {
      t.true(readFileSync(path(name)).equals(shards[i]))
    })
  // A shard that is only data has no index to edit.
  for (const call of [append, compact]) {
    isArgumentError(t, await rejectionOf(() => call(path(there.find((name) => name !== 'm.zt')))), 'root')
  }
})

test('rejects names and attributes that version 2 does not support, when the call runs', async (t) => {
  const path = await two({})
  const bytes = readFileSync(path)
  const editor = await append(path)
  for (const name of ['', 'a\0b', 'x'.repeat(1025)]) {
    t.is((await rejectionOf(() => editor.rename('first', name)))?.code, 'ZT_BAD_INDEX', name)
    t.is((await rejectionOf(() => editor.add(name, Int8Array.of(1))))?.code, 'ZT_BAD_INDEX', name)
  }
  for (const wrong of [new Map([[7, 1]]), { '': 1 }, { a: 2n ** 70n }]) {
    isArgumentOrIndex(t, await rejectionOf(() => editor.setMetadata(wrong)))
    isArgumentOrIndex(t, await rejectionOf(() => editor.setTensorAttributes('first', wrong)))
  }
  const other = openSync(path)
  isArgumentError(t, await rejectionOf(() => editor.link('l', { file: other, tensor: 'first' })), 'new root')
  other.close()
  await editor.abort()
  t.true(readFileSync(path).equals(bytes))
})

test('keeps unknown keys, types, encodings and digests, in deterministic order', async (t) => {
  const odd = { 'x-map': { b: 1, a: [float16(0x3e00), null] }, 'x-1': true }
  const objects = {
    w: {
      shape: [2],
      layout: 'dense',
      parts: { data: part('u8', 4096, 2, { ...odd, type: 'x.none/1', digest: 'blake9:ab' }) },
      attributes: { z: 1 },
      ...odd,
    },
    v: { shape: [], layout: 'x.y/3', parts: { a: part('f32', 8192, 3, { encoding: 'x.lz/1', decoded_length: 9 }) } },
  }
  const bytes = container({ blobs: { 4096: Buffer.of(1, 2), 8192: Buffer.of(1, 2, 3) }, manifest: { objects, ...odd } })
  for (const { mode, inPlace } of MODES) {
    const path = scratchFile(bytes)
    const edit = async (editor) => {
      await editor.rename('w', 'renamed')
      await editor.add('new', Uint8Array.of(5))
      await editor.setMetadata({ longer: 1, b: 2 })
      await editor.setTensorAttributes('renamed', { a: 2 })
    }
    await edited(path, edit, { inPlace })
    const after = readFileSync(path)
    t.true(after.subarray(0, bytes.length).equals(bytes), mode)
    const { w, v } = objects
    const [at] = [Math.ceil(bytes.length / 4096) * 4096]
    const added = { shape: [1], layout: 'dense', parts: { data: part('u8', at, 1, { digest: xxh3Of(Buffer.of(5)) }) } }
    const expected = deterministic({
      ...odd,
      attributes: { longer: 1, b: 2 },
      objects: { v, new: added, renamed: { ...w, attributes: { a: 2, z: 1 } } },
    })
    // The manifest has the deterministic encoding.
    t.true(after.subarray(at + 4096, -40).equals(expected), mode)
    const error = await rejectionOf(() => compact(path))
    t.is(error?.code, 'ZT_UNSUPPORTED_VERSION')
    t.true(error?.message.includes('x-1'))
    t.true(error?.message.includes('convert'))
  }
})

test('rejects writing bools other than 0 and 1 and a nonzero last half-byte', async (t) => {
  const wrong = [
    { dtype: 'bool', shape: [3], data: Uint8Array.of(0, 2, 1) },
    { dtype: 'float4_e2m1fn', shape: [3], data: Uint8Array.of(0x11, 0x21) },
  ]
  for (const tensor of wrong) {
    for (const options of [{}, { canonical: false, compression: { minSavings: 0 } }]) {
      const { path, names: files } = scratchFolder()
      const writer = await create(path('a.zt'), { version: '2', ...options })
      const error = await rejectionOf(() => writer.add('wrong', tensor))
      t.is(error?.code, 'ZT_BAD_DTYPE')
      t.is(error?.tensor, 'wrong')
      t.is(error?.rule, 'zTensor 2 Appendix A: Registered logical types')
      await writer.abort()
      t.deepEqual(files(), [])
    }
    const path = await two({})
    const bytes = readFileSync(path)
    const editor = await append(path, { inPlace: true })
    t.is((await rejectionOf(() => editor.add('wrong', tensor)))?.code, 'ZT_BAD_DTYPE')
    await editor.abort()
    t.true(readFileSync(path).equals(bytes))
  }
  const right = { dtype: 'float4_e2m1fn', shape: [3], data: Uint8Array.of(0x11, 0x01) }
  const path = await written({ version: '2' }, (writer) => writer.add('right', right))
  t.true((await opened(path, (file) => file.verify())).ok)
})

function isArgumentOrIndex(t, error) {
  t.true(['ZT_INVALID_ARG', 'ZT_BAD_INDEX'].includes(error?.code), error?.message)
}
