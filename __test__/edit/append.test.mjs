// append(): tensors are added, renamed and removed, attributes changed; everything else in the file is unchanged.
import { lstatSync, readFileSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import test from 'ava'
import { append, compact, create, openSync, TensorEditor, TensorWriter, ZTensorError } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { edited, MODES, propertiesAt, valuesAt } from '../helpers/editing.mjs'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import {
  digestOf,
  noise,
  oneCell,
  sample,
  scratchFolder,
  streamed,
  twoRows,
  WRITE_FORMATS,
  written,
} from '../helpers/sample-files.mjs'

const EDITABLE = WRITE_FORMATS.filter(({ name }) => name === '1.0' || name === '1.2')

async function two(options, path) {
  const add = async (writer) => {
    await writer.add('first', Float32Array.of(1, 2, 3), { attributes: { axis: 1, note: 'x' } })
    await writer.add('second', noise(1000, 1))
  }
  return written({ metadata: { license: 'MIT', made: [1, 2] }, ...options }, add, path)
}
const names = (path) => propertiesAt(path).tensors.map(({ name }) => name)

for (const { name: version, options, dtypes } of EDITABLE) {
  for (const { mode, inPlace } of MODES) {
    const label = `${version}, ${mode}`

    test(`${label}: adds in every way after the existing tensors`, async (t) => {
      const path = await two(options)
      const before = propertiesAt(path)
      const old = readFileSync(path)
      const quantized = { layout: 'my_layout', shape: [2], dtype: 'uint8', components: { a: { data: noise(3, 1) } } }
      const add = async (editor) => {
        t.true(editor instanceof TensorEditor)
        t.true(editor instanceof TensorWriter)
        t.is(editor.path, path)
        await editor.add('dense', noise(300_000, 2))
        await editor.addCsr('csr', twoRows(5, 2))
        await editor.addCoo('coo', oneCell(7))
        await editor.addObject('object', quantized)
        await streamed(editor.stream('stream', { dtype: 'uint8', shape: [200_000] }), [noise(200_000, 3)])
        await editor.add('none', new Int8Array(0))
        await editor.add('noted', Int16Array.of(1), { attributes: { a: 'b' } })
      }
      await edited(path, add, { inPlace })
      const after = propertiesAt(path)
      t.deepEqual(after.tensors.slice(0, 2), before.tensors)
      t.deepEqual({ ...after, tensors: 0, warnings: 0 }, { ...before, tensors: 0, warnings: 0 })
      t.deepEqual(names(path).slice(2), ['dense', 'csr', 'coo', 'object', 'stream', 'none', 'noted'])
      t.is(valuesAt(path, 'dense').compare(noise(300_000, 2)), 0)
      t.is(valuesAt(path, 'stream').compare(noise(200_000, 3)), 0)
      const file = openSync(path)
      t.deepEqual([...file.tensor('csr').csr().values], [5, 2])
      t.deepEqual([...file.tensor('coo').coo().coords], [2n])
      t.deepEqual({ ...file.tensor('noted').attributes }, { a: 'b' })
      for (const tensor of file.values()) for (const { offset } of tensor.components.values()) t.is(offset % 64, 0)
      t.true((await file.verify()).ok)
      t.is((await file.verify()).undigested, 0)
      file.close()
      // In place, no old byte changes.
      if (inPlace) t.true(readFileSync(path).subarray(0, old.length).equals(old))
    })

    test(`${label}: adds every dtype`, async (t) => {
      const path = await two(options)
      const given = dtypes.map((dtype, i) => ({ dtype, shape: [4, 2], data: sample(dtype, [4, 2], i) }))
      const add = async (editor) => {
        for (const tensor of given) await editor.add(tensor.dtype, tensor)
        const refused = WRITE_FORMATS[3].dtypes.filter((dtype) => !dtypes.includes(dtype))
        for (const dtype of refused) {
          const tensor = { dtype, shape: [8], data: sample(dtype, [8], 1) }
          t.is((await rejectionOf(() => editor.add('no', tensor)))?.code, 'ZT_BAD_DTYPE', dtype)
        }
      }
      await edited(path, add, { inPlace })
      for (const { dtype, data } of given) t.is(valuesAt(path, dtype).compare(littleEndian(data)), 0, dtype)
    })

    test(`${label}: uses the requested digests and compression`, async (t) => {
      const path = await two(options)
      const zeros = new Uint8Array(100_000)
      await edited(path, (editor) => editor.add('plain', zeros), { inPlace })
      await edited(path, (editor) => editor.add('hashed', zeros), { inPlace, digest: 'sha256' })
      await edited(path, (editor) => editor.add('bare', zeros), { inPlace, digest: false, compression: {} })
      const of = Object.fromEntries(propertiesAt(path).tensors.map((tensor) => [tensor.name, tensor.components[0]]))
      t.is(of.plain.digest, digestOf('crc32c', zeros))
      t.is(of.hashed.digest, digestOf('sha256', zeros))
      t.is(of.bare.digest, undefined)
      t.deepEqual([of.plain.encoding, of.bare.encoding], ['raw', 'zstd'])
      t.true(valuesAt(path, 'bare').equals(Buffer.from(zeros)))
    })

    test(`${label}: renames, removes, and frees names`, async (t) => {
      const path = await two(options)
      const before = propertiesAt(path).tensors
      const edit = async (editor) => {
        t.is((await rejectionOf(() => editor.rename('nobody', 'x')))?.code, 'ZT_NOT_FOUND')
        const taken = await rejectionOf(() => editor.rename('first', 'second'))
        t.true(taken instanceof ZTensorError)
        t.is(taken.code, 'ZT_BAD_INDEX')
        t.is(taken.tensor, 'second')
        await editor.rename('first', 'first')
        // The two swap names.
        await editor.rename('first', 'aside')
        t.is((await rejectionOf(() => editor.remove('first')))?.code, 'ZT_NOT_FOUND')
        await editor.rename('second', 'first')
        await editor.rename('aside', 'second')
        await editor.add('third', Int8Array.of(3))
        t.is((await rejectionOf(() => editor.add('first', Int8Array.of(3))))?.code, 'ZT_BAD_INDEX')
        t.is((await rejectionOf(() => editor.rename('first', 'third')))?.code, 'ZT_BAD_INDEX')
      }
      await edited(path, edit, { inPlace })
      const after = propertiesAt(path).tensors
      t.deepEqual(names(path), ['second', 'first', 'third'])
      t.deepEqual({ ...after[0], name: 'first' }, before[0])
      t.deepEqual({ ...after[1], name: 'second' }, before[1])
      const replace = async (editor) => {
        await editor.remove('second')
        t.is((await rejectionOf(() => editor.remove('second')))?.code, 'ZT_NOT_FOUND')
        await editor.add('second', Int8Array.of(9))
        await editor.rename('first', '層 "\\\0')
      }
      await edited(path, replace, { inPlace })
      t.deepEqual(names(path), ['層 "\\\0', 'third', 'second'])
      t.deepEqual([...valuesAt(path, 'second')], [9])
      await edited(path, (editor) => editor.rename('層 "\\\0', 'first'), { inPlace })
      await edited(
        path,
        async (editor) => {
          for (const name of ['first', 'third', 'second']) await editor.remove(name)
        },
        { inPlace },
      )
      t.deepEqual(names(path), [])
      await edited(path, (editor) => editor.add('again', Int8Array.of(1)), { inPlace })
      t.deepEqual(names(path), ['again'])
    })

    test(`${label}: a tensor that is renamed and renamed back is unchanged`, async (t) => {
      const path = await two(options)
      const before = propertiesAt(path)
      const edit = async (editor) => {
        await editor.rename('first', 'x')
        await editor.rename('x', 'first')
        await editor.setTensorAttributes('first', {})
      }
      await edited(path, edit, { inPlace })
      t.deepEqual(propertiesAt(path), before)
    })

    test(`${label}: sets and removes single attributes`, async (t) => {
      const path = await two(options)
      const edit = async (editor) => {
        await editor.setMetadata({ license: 'Apache-2.0', new: { deep: [1n, null, Uint8Array.of(1)] } })
        await editor.setMetadata(
          new Map([
            [7, 'seven'],
            ['new2', 1],
          ]),
        )
        await editor.setMetadata({ new2: undefined, nothing: undefined })
        await editor.setTensorAttributes('first', { axis: undefined, other: true })
        await editor.rename('second', 'renamed')
        await editor.setTensorAttributes('renamed', { a: 1 })
        t.is((await rejectionOf(() => editor.setTensorAttributes('second', {})))?.code, 'ZT_NOT_FOUND')
      }
      await edited(path, edit, { inPlace })
      const { attributes, tensors } = propertiesAt(path)
      t.deepEqual(Object.keys(attributes).sort(), ['7', 'license', 'made', 'new'])
      t.is(attributes.license, 'Apache-2.0')
      t.deepEqual([...attributes.made], [1, 2])
      t.deepEqual(Object.entries(tensors[0].attributes), [
        ['note', 'x'],
        ['other', true],
      ])
      t.deepEqual(Object.entries(tensors[1].attributes), [['a', 1]])
      const clear = async (editor) => {
        await editor.setMetadata(new Map(['license', 'made', 'new', 7].map((key) => [key, undefined])))
        await editor.setTensorAttributes('first', { note: undefined, other: undefined })
      }
      await edited(path, clear, { inPlace })
      const cleared = propertiesAt(path)
      t.deepEqual(Object.keys(cleared.attributes), [])
      t.deepEqual(Object.keys(cleared.tensors[0].attributes), [])
    })

    test(`${label}: rejects changes to tensors that this edit added`, async (t) => {
      const path = await two(options)
      await edited(
        path,
        async (editor) => {
          await editor.add('new', Int8Array.of(1))
          for (const call of [
            () => editor.rename('new', 'x'),
            () => editor.remove('new'),
            () => editor.setTensorAttributes('new', { a: 1 }),
          ]) {
            isArgumentError(t, await rejectionOf(call), 'added by this very edit')
          }
        },
        { inPlace },
      )
      t.deepEqual(names(path), ['first', 'second', 'new'])
    })

    test(`${label}: an edit without changes leaves the file unchanged`, async (t) => {
      const path = await two(options)
      const { ino, mtimeMs } = statSync(path)
      await edited(path, () => {}, { inPlace })
      await edited(path, (editor) => editor.rename('first', 'first'), { inPlace })
      t.like(statSync(path), { ino, mtimeMs })
    })

    test(`${label}: the same edits write the same bytes`, async (t) => {
      const both = await Promise.all(
        [1, 2].map(async () => {
          const path = await two(options)
          const edit = async (editor) => {
            await editor.add('big', noise(3_000_000, 1))
            await editor.rename('first', 'one')
            await editor.rename('second', 'two')
            await editor.setTensorAttributes('one', { z: 1, a: 2 })
            await editor.setTensorAttributes('two', { z: 1 })
          }
          return readFileSync(await edited(path, edit, { inPlace, compression: { minSavings: 0 } }))
        }),
      )
      t.true(both[0].equals(both[1]))
    })

    test(`${label}: keeps the file's own alignment by default`, async (t) => {
      const path = await two({ ...options, alignment: 4096 })
      await edited(path, (editor) => editor.add('a', Int8Array.of(1)), { inPlace })
      await edited(path, (editor) => editor.add('b', Int8Array.of(1)), { inPlace, alignment: 65536 })
      const file = openSync(path)
      const at = (name) => file.tensor(name).components.get('data').offset
      t.is(at('a') % 4096, 0)
      t.is(at('b') % 65536, 0)
      file.close()
    })

    test(`${label}: overlapping calls run in order`, async (t) => {
      const path = await two(options)
      const editor = await append(path, { inPlace })
      const calls = [
        editor.add('a', noise(2_000_000, 1)),
        editor.remove('first'),
        editor.add('first', Int8Array.of(1)),
        editor.rename('second', 'x'),
        editor.finish(),
      ]
      await Promise.all(calls)
      t.deepEqual(names(path), ['x', 'a', 'first'])
      for (const call of [() => editor.rename('x', 'y'), () => editor.remove('x'), () => editor.setMetadata({})]) {
        t.is((await rejectionOf(call))?.code, 'ZT_CLOSED')
      }
      await editor.abort()
      t.deepEqual(names(path), ['x', 'a', 'first'])
    })
  }

  test(`${version}: compact() removes only removed tensors and old indexes`, async (t) => {
    const path = await two({ ...options, compression: { minSavings: 0 } })
    await edited(path, (editor) => editor.add('kept', noise(100_000, 5)), { inPlace: true })
    await edited(path, (editor) => editor.add('gone', noise(200_000, 6)), { inPlace: true, digest: 'sha256' })
    await edited(path, (editor) => editor.add('empty', new Int8Array(0)), { inPlace: true })
    await edited(path, (editor) => editor.remove('gone'), { inPlace: true })
    const [before, { size }] = [propertiesAt(path), statSync(path)]
    const { byteLength, reclaimed } = await compact(path)
    t.is(byteLength, statSync(path).size)
    t.is(reclaimed, size - byteLength)
    t.true(reclaimed > 200_000)
    t.deepEqual(propertiesAt(path), before)
    const file = openSync(path)
    t.true((await file.verify()).ok)
    for (const tensor of file.values()) for (const { offset } of tensor.components.values()) t.is(offset % 64, 0)
    file.close()
    const [{ ino }, bytes] = [statSync(path), readFileSync(path)]
    t.deepEqual(await compact(pathToFileURL(path)), { byteLength, reclaimed: 0 })
    t.is(statSync(path).ino, ino)
    t.true(readFileSync(path).equals(bytes))
  })

  test(`${version}: a newly created file is already compact, with any alignment`, async (t) => {
    for (const alignment of [64, 4096]) {
      const path = await two({ ...options, alignment })
      t.is((await compact(path)).reclaimed, 0)
      await edited(path, async (editor) => editor.remove('second'))
      t.true((await compact(path)).reclaimed > 0)
      const file = openSync(path)
      t.is(file.tensor('first').components.get('data').offset % alignment, 0)
      file.close()
    }
  })
}

test('a 1.1 file remains one: its types, and no field of 1.2', async (t) => {
  const path = await written({ version: '1.2' }, (writer) => writer.add('old', Int8Array.of(1)))
  // The same length, so that nothing else moves.
  writeFileSync(path, Buffer.from(readFileSync(path).toString('latin1').replace('1.2.0', '1.1.0'), 'latin1'))
  const bits = sample('float8_e4m3fn', [8], 1)
  await edited(
    path,
    async (editor) => {
      await editor.add('f8', { dtype: 'float8_e4m3fn', shape: [8], data: bits })
      await editor.add('complex', { dtype: 'complex64', shape: [2], data: Float32Array.of(1, 2, 3, 4) })
      await editor.add('packed', new Float32Array(10_000))
      const data = sample('float8_e5m2fnuz', [8], 1)
      const error = await rejectionOf(() => editor.add('no', { dtype: 'float8_e5m2fnuz', shape: [8], data }))
      t.is(error?.code, 'ZT_BAD_DTYPE')
      t.true(error?.message.includes('1.1'))
    },
    { compression: {} },
  )
  const { version, tensors } = propertiesAt(path)
  t.is(version, '1.1.0')
  t.deepEqual(
    tensors.map(({ name, dtype }) => [name, dtype]),
    [
      ['old', 'int8'],
      ['f8', 'float8_e4m3fn'],
      ['complex', 'complex64'],
      ['packed', 'float32'],
    ],
  )
  const text = readFileSync(path).toString('latin1')
  for (const word of ['f8_e4m3', 'complex64']) t.true(text.includes(word))
  for (const word of ['uncompressed_length', 'f8_e4m3fn', 'dtype\x63f32\x64type']) t.false(text.includes(word))
  t.true(valuesAt(path, 'packed').equals(Buffer.alloc(40_000)))
})

test('keeps the mode and the link', async (t) => {
  if (process.platform === 'win32') return t.pass()
  const { path, names } = scratchFolder()
  await two({}, path('real'))
  const { chmodSync } = await import('node:fs')
  chmodSync(path('real'), 0o640)
  symlinkSync('real', path('link'))
  for (const { inPlace } of MODES) {
    await edited(path('link'), (editor) => editor.add(`${inPlace}`, Int8Array.of(1)), { inPlace })
  }
  await edited(path('link'), (editor) => editor.remove('true'))
  await compact(path('link'))
  t.true(lstatSync(path('link')).isSymbolicLink())
  t.is(statSync(path('real')).mode & 0o777, 0o640)
  t.deepEqual(names(), ['link', 'real'])
})

test('rejects files that cannot be edited with advice, and keeps them', async (t) => {
  const { path } = scratchFolder()
  const cases = [
    ['0.1', { version: '0.1' }, 'ZT_UNSUPPORTED_VERSION', 'convert'],
    ['safetensors', { format: 'safetensors' }, 'ZT_INVALID_ARG', 'convert'],
    ['btf', { format: 'btf' }, 'ZT_INVALID_ARG', 'convert'],
  ]
  for (const [name, options, code, hint] of cases) {
    await written(options, (writer) => writer.add('0', Float32Array.of(1)), path(name))
    const bytes = readFileSync(path(name))
    for (const call of [
      () => append(path(name)),
      () => append(path(name), { inPlace: true }),
      () => compact(path(name)),
    ]) {
      const error = await rejectionOf(call)
      t.is(error?.code, code, name)
      t.true(error?.message.includes(hint), error?.message)
    }
    t.true(readFileSync(path(name)).equals(bytes))
  }
  const file = await two({})
  truncateSync(file, statSync(file).size - 9)
  for (const call of [() => append(file), () => compact(file)]) {
    t.true(['ZT_TRUNCATED', 'ZT_BAD_INDEX'].includes((await rejectionOf(call))?.code))
  }
  for (const call of [append, compact]) {
    const error = await rejectionOf(() => call(path('missing')))
    t.is(error?.code, 'ZT_IO')
    t.is(error?.cause?.code, 'ENOENT')
    t.is((await rejectionOf(() => call(path('.'))))?.code, 'ZT_IO')
  }
})

test("checks arguments before the call's turn", async (t) => {
  const path = await two({})
  for (const [options, name] of [
    [{ inPlace: 1 }, 'inPlace'],
    [{ digest: 'md5' }, 'digest'],
    [{ alignment: 65 }, 'alignment'],
    [{ compression: { level: 0 } }, 'compression.level'],
    [{ signal: {} }, 'signal'],
    [{ maxRank: -1 }, 'maxRank'],
  ]) {
    isArgumentError(t, await rejectionOf(() => append(path, options)), name)
  }
  for (const wrong of [1, {}, '', 'a\0b']) isArgumentError(t, await rejectionOf(() => append(wrong)), 'path')
  isArgumentError(t, await rejectionOf(() => compact(path, { onProgress: 1 })), 'onProgress')
  isArgumentError(t, await rejectionOf(() => compact(path, { maxIndexBytes: 'x' })), 'maxIndexBytes')
  const editor = await append(path)
  isArgumentError(t, await rejectionOf(() => editor.rename(1, 'x')), 'name')
  isArgumentError(t, await rejectionOf(() => editor.rename('first', 'half \ud800')), 'to')
  isArgumentError(t, await rejectionOf(() => editor.remove()), 'name')
  isArgumentError(t, await rejectionOf(() => editor.setMetadata('x')), 'metadata')
  isArgumentError(t, await rejectionOf(() => editor.setMetadata({ a: () => {} })), 'metadata')
  isArgumentError(t, await rejectionOf(() => editor.setTensorAttributes('first', [1])), 'attributes')
  await editor.abort()
  t.is((await rejectionOf(() => append(path, { maxIndexBytes: 10 })))?.code, 'ZT_LIMIT')
})

test('rejects edits with a writer of create()', async (t) => {
  const writer = await create(scratchFolder().path('a'))
  t.false(writer instanceof TensorEditor)
  t.is(writer.rename, undefined)
  await writer.abort()
})
