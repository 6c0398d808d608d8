// Error messages for mistakes: they name the object, and what to do instead.
import { copyFileSync, readFileSync } from 'node:fs'
import test from 'ava'
import { append, convert, create, open, openSync, saveFile, toFloat32 } from 'ztensor'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const safetensors = fixturePath('st-dtypes.safetensors')
const sparse = fixturePath('zt101-sparse.zt')
const floats = () => written({}, (writer) => writer.add('x', new Float32Array(4), { shape: [2, 2] }))

async function rejectsWith(t, work, code, pattern) {
  const error = await rejectionOf(async () => work())
  t.is(error?.code, code, error?.message)
  t.regex(error.message, pattern)
}

test('saveFile names the tensor', async (t) => {
  const good = new Float32Array(2)
  const cases = [
    [[1, 2], /^tensors\['bad'\]: tensor must be a typed array/],
    [undefined, /^tensors\['bad'\]: the tensor must be .*got undefined/],
    [{ dtype: 'fp16', data: new Uint16Array(2) }, /^tensors\['bad'\]: dtype must be .*\('float16'\), got 'fp16'/],
    [{ shape: 2, data: good }, /^tensors\['bad'\]: shape must be an array/],
  ]
  for (const [bad, pattern] of cases)
    await rejectsWith(t, () => saveFile(scratchPath(), { good, bad }), 'ZT_INVALID_ARG', pattern)
})

test('saveFile describes the order of its arguments', async (t) => {
  const tensors = { good: new Float32Array(2) }
  await rejectsWith(t, () => saveFile(tensors, scratchPath()), 'ZT_INVALID_ARG', /saveFile\(path, tensors\)/)
})

test('saveFile replaces a file, unless overwrite is false', async (t) => {
  const path = scratchPath('twice.safetensors')
  await saveFile(path, { a: Float32Array.of(1) })
  await saveFile(path, { b: Float32Array.of(2) })
  const file = openSync(path)
  t.deepEqual([...file.keys()], ['b'])
  file.close()
  await rejectsWith(t, () => saveFile(path, { c: Float32Array.of(3) }, { overwrite: false }), 'ZT_EXISTS', /exists/)
})

test('errors translate dtype names of other libraries, and list all dtypes for unknown names', async (t) => {
  const source = await floats()
  const cast = (to) => () => convert(source, scratchPath(), { cast: { float32: to } })
  await rejectsWith(t, cast('bf16'), 'ZT_INVALID_ARG', /\('bfloat16'\), got 'bf16'$/)
  await rejectsWith(t, cast('nothing'), 'ZT_INVALID_ARG', /one of float64, float32, .*complex128\), got 'nothing'$/)
  await rejectsWith(t, () => convert(source, scratchPath(), { cast: 'bf16' }), 'ZT_INVALID_ARG', /an object of dtypes/)
})

test('errors about options list the valid options', async (t) => {
  await rejectsWith(t, () => create(scratchPath(), { digest: 'md5' }), 'ZT_INVALID_ARG', /false or one of 'crc32c'/)
  for (const compression of [3, 'zstd'])
    await rejectsWith(
      t,
      () => create(scratchPath(), { compression }),
      'ZT_INVALID_ARG',
      /true, false or .*\{ level: 3 \}/,
    )
  const attributes = { license: 'MIT', epoch: 3 }
  await rejectsWith(
    t,
    () => create(scratchPath('a.safetensors'), { metadata: attributes }),
    'ZT_INVALID_ARG',
    /'epoch'/,
  )
  const file = openSync(await floats())
  for (const bins of [0, 4097])
    await rejectsWith(t, () => file.tensor('x').stats({ bins }), 'ZT_INVALID_ARG', /from 1 to 4096, got/)
  file.close()
  await rejectsWith(t, () => open(''), 'ZT_INVALID_ARG', /^source must not be empty$/)
  await rejectsWith(t, () => open('a\0b'), 'ZT_INVALID_ARG', /^source must not contain null bytes$/)
})

test('errors name the right call for sparse tensors and for methods of tensors', async (t) => {
  const writer = await create(scratchPath())
  const [values, indices] = [new Float32Array(1), new Uint32Array(1)]
  const csr = { shape: [1, 1], values, indices, indptr: Uint32Array.of(0, 1) }
  await rejectsWith(t, () => writer.add('m', csr), 'ZT_INVALID_ARG', /addCsr\(\)/)
  await rejectsWith(t, () => writer.add('m', { shape: [1], values, coords: indices }), 'ZT_INVALID_ARG', /addCoo\(\)/)
  await writer.abort()
  const btf = await create(scratchPath('x.btf'))
  await rejectsWith(t, () => btf.addCsr('m', csr), 'ZT_BAD_LAYOUT', /BTF cannot hold the layout/)
  await btf.abort()
  const file = openSync(await floats())
  t.regex(thrownBy(() => file.tensor('x').csr()).message, /use data or load\(\)$/)
  const matrices = openSync(sparse)
  const matrix = [...matrices.values()].find(({ layout }) => layout === 'sparse_csr')
  t.regex(thrownBy(() => matrix.coo()).message, /use csr\(\)$/)
  file.close()
  matrices.close()
})

test('explains an open file as a path, and a file posted without share()', async (t) => {
  const file = openSync(await floats())
  await rejectsWith(t, () => open(file), 'ZT_INVALID_ARG', /pass its path$/)
  await rejectsWith(t, () => open({}), 'ZT_INVALID_ARG', /share\(\)/)
  file.close()
})

test('toFloat32 rejects an array of another dtype', (t) => {
  const wrong = [
    [Float32Array.of(1, 2), 'bfloat16'],
    [Uint8Array.of(1, 2, 3), 'bfloat16'],
    [Uint16Array.of(1), 'bf16'],
  ]
  for (const [values, dtype] of wrong)
    isArgumentError(
      t,
      thrownBy(() => toFloat32(values, dtype)),
      dtype === 'bf16' ? 'dtype' : 'values',
    )
  t.deepEqual([...toFloat32(Uint16Array.of(0x3f80), 'bfloat16')], [1])
  t.deepEqual([...toFloat32(Uint8Array.of(0x80, 0x3f), 'bfloat16')], [1])
})

test('explains that this edit has removed or renamed the tensor', async (t) => {
  const path = await written({}, async (writer) => {
    for (const name of ['a', 'b']) await writer.add(name, new Float32Array(1))
  })
  const editor = await append(path)
  await editor.remove('a')
  await rejectsWith(t, () => editor.remove('a'), 'ZT_NOT_FOUND', /the tensor was removed before/)
  await editor.rename('b', 'c')
  await rejectsWith(t, () => editor.remove('b'), 'ZT_NOT_FOUND', /the tensor is called "c" now/)
  await editor.abort()
})

test('targets: a URL, a folder, two tensors with one name, tensors that the format cannot store', async (t) => {
  const source = await floats()
  await rejectsWith(
    t,
    () => convert(source, 'https://host/x.zt'),
    'ZT_INVALID_ARG',
    /cannot be written, .*write a local file/,
  )
  await rejectsWith(t, () => open('ftp://host/x.zt'), 'ZT_IO', /download the file first/)
  const folder = fixturePath('numpy')
  await rejectsWith(t, () => convert(source, folder), 'ZT_EXISTS', /is a folder; specify a file in it$/)
  await rejectsWith(
    t,
    () => convert(source, folder, { overwrite: true }),
    'ZT_IO',
    /is a folder; only files can be replaced/,
  )
  const two = await written({}, async (writer) => {
    for (const name of ['a', 'b']) await writer.add(name, new Float32Array(1))
  })
  await rejectsWith(
    t,
    () => convert(two, scratchPath(), { rename: () => 'x' }),
    'ZT_BAD_INDEX',
    /the tensors ".*" and ".*" would both be called "x"/,
  )
  await rejectsWith(t, () => convert(safetensors, scratchPath('x.npz')), 'ZT_BAD_DTYPE', /option cast converts dtypes/)
  const noted = await written({ metadata: { by: 'me' } }, (writer) => writer.add('x', new Float32Array(1)))
  await rejectsWith(
    t,
    () => convert(noted, scratchPath('y.npz'), { strictMetadata: true }),
    'ZT_INVALID_ARG',
    /copyMetadata: false omits it/,
  )
  t.is((await convert(noted, scratchPath('y.npz'), { copyMetadata: false })).tensors, 1)
})

test('describes the file: another format than requested, an image, a program', async (t) => {
  await rejectsWith(
    t,
    () => open(safetensors, { format: 'zt' }),
    'ZT_BAD_MAGIC',
    /this is safetensors, not zTensor: omit the option format/,
  )
  const kinds = {
    'an image': Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'),
    'a PDF document': Buffer.from('%PDF-1.7 and more'),
    'a program or library': readFileSync(process.execPath).subarray(0, 4096),
  }
  for (const [what, bytes] of Object.entries(kinds)) {
    const error = await rejectionOf(() => open(scratchFile(bytes, 'x.bin')))
    t.is(error.code, 'ZT_BAD_MAGIC')
    if (what !== 'a program or library' || process.platform === 'linux')
      t.true(error.message.includes(what), error.message)
  }
})

test('many problems make a message of at most two kilobytes, and a complete list', async (t) => {
  const names = Array.from({ length: 2000 }, (_, at) => `${'long.'.repeat(10)}${at}`)
  const path = await written({}, async (writer) => {
    for (const name of names) await writer.add(name, new Uint8Array(1))
  })
  // Each file clashes with each before it.
  const copies = Array.from({ length: 60 }, () => scratchPath())
  for (const [at, copy] of copies.entries()) {
    const writer = await create(copy)
    for (let first = 0; first < copies.length; first++)
      if (first !== at) await writer.add(`${Math.min(first, at)} ${Math.max(first, at)}`, new Uint8Array(1))
    await writer.finish()
  }
  const again = scratchPath()
  copyFileSync(path, again)
  const twice = await rejectionOf(() => open([path, again]))
  t.regex(twice.message, /contain it, and 1999 more tensors of the same names/)
  t.true(twice.message.length < 2500)
  const error = await rejectionOf(() => open(copies))
  t.is(error.code, 'ZT_BAD_INDEX')
  t.true(error.message.length < 2500, `${error.message.length}`)
  t.regex(error.message, /; and \d+ more$/)
  t.is(error.cause.length, 1000)
})
