// The same tensors are the same file on every machine, big-endian ones included: each file that is written has the SHA-256 of a table.
// The arrays contain numbers, not bytes, so that the test does not depend on the byte order.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import test from 'ava'
import { append, convert, create, editMetadata, loadFile, open, saveFile } from 'ztensor'
import { DTYPES, streamed, WRITE_FORMATS, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { weights, writeLlama } from '../helpers/tiny-models.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const all = Object.keys(DTYPES)
const FORMATS = [
  ...WRITE_FORMATS.filter(({ name }) => name !== '1.0'),
  { name: '1.0', options: { version: '1.0', generator: 'g' }, dtypes: WRITE_FORMATS[1].dtypes, zt: true },
  { name: '2', options: { version: '2' }, dtypes: all.filter((dtype) => !dtype.startsWith('float6')), zt: true },
  {
    name: 'npz',
    options: { format: 'npz' },
    dtypes: [...all.slice(0, 3), ...all.slice(4, 13), 'complex64', 'complex128'],
  },
]

/** Elements of a dtype: different numbers, with significant values in every byte. Booleans are 0 and 1. */
function elements(dtype, length) {
  const [Class, bits] = DTYPES[dtype]
  const count = (length * bits) / 8 / Class.BYTES_PER_ELEMENT
  const value = (at) => {
    if (dtype === 'bool') return at & 1
    if (Class === Float32Array || Class === Float64Array) return (at - 7) / 3
    return Class === BigInt64Array || Class === BigUint64Array
      ? BigInt(at) * 0x0102030405060708n
      : Math.imul(at, 0x01020304 >>> (32 - 8 * Class.BYTES_PER_ELEMENT))
  }
  return Class.from({ length: count }, (_, at) => value(at))
}

const sha256 = (path) => createHash('sha256').update(readFileSync(path)).digest('hex')

/** The little-endian bytes of float32 numbers. */
const bytesOf = (numbers) => {
  const bytes = new Uint8Array(numbers.length * 4)
  for (const [at, number] of numbers.entries()) new DataView(bytes.buffer).setFloat32(at * 4, number, true)
  return bytes
}

/** Adds numbers in every way that the format has. */
async function everything(writer, { name: format, dtypes, zt }) {
  let count = 0
  const named = (name) => (format === 'btf' ? String(count++) : name)
  // Small tensors are passed in one block, larger ones separately, and the largest in pieces.
  for (const size of [24, 2400, 24_000]) {
    for (const dtype of dtypes)
      await writer.add(named(`${dtype} ${size}`), { dtype, shape: [size], data: elements(dtype, size) })
  }
  const numbers = elements('float32', 24_000)
  const shape = [24_000]
  await writer.add(named('in pieces'), elements('int32', 2 ** 20 + 24))
  await writer.add(named('bytes'), { dtype: 'float32', shape: [24], data: bytesOf(numbers.subarray(0, 24)) })
  await writer.add(named('more bytes'), { dtype: 'float32', shape, data: new DataView(bytesOf(numbers).buffer) })
  await streamed(writer.stream(named('stream'), { dtype: 'float32', shape }), [bytesOf(numbers)])
  for (const dtype of ['float16', 'bfloat16', 'float8_e4m3fn']) {
    if (!dtypes.includes(dtype)) continue
    for (const size of [24, 24_000]) {
      await writer.add(named(`${dtype} of float32 ${size}`), { dtype, data: numbers.subarray(0, size) })
      await writer.add(named(`${dtype} of float64 ${size}`), { dtype, data: elements('float64', size) })
    }
  }
  const values = Float32Array.of(1.5, -2.5, 3)
  if (zt) {
    const [indices, indptr] = [Int32Array.of(300, 1, 7), Uint16Array.of(0, 1, 3)]
    await writer.addCsr('csr', { shape: [2, 400], values, indices: indices.slice(), indptr })
    const wide = [BigUint64Array.of(3n, 1n, 7n), BigInt64Array.of(0n, 1n, 3n)]
    await writer.addCsr('wide csr', {
      shape: [2, 400],
      dtype: 'bfloat16',
      values: Uint16Array.of(1, 0x3f80, 3),
      indices: wide[0],
      indptr: wide[1],
    })
  }
  if (zt || format === 'btf') {
    await writer.addCoo(named('coo'), { shape: [2, 400], values, coords: BigUint64Array.of(0n, 1n, 1n, 300n, 1n, 7n) })
  }
  if (format === '1.2' || format === '2') {
    await writer.addObject('quantized', {
      layout: 'zt.quant_group/1',
      shape: [2, 8],
      attributes: {
        ...{ bits: 4, group_size: 4, axis: 1, packing: { word: 'u32', order: 'lsb_first', per_word: 8 } },
        ...{ scale_form: 'f32_factors', zero_point: { form: 'implied', value: 8 } },
      },
      components: {
        scales: { dtype: 'float32', data: Float32Array.of(1, 2, 3, 4) },
        data: { dtype: 'uint32', data: Uint32Array.of(0x76543210, 0xfedcba98) },
      },
    })
  }
}

/** Name of a file -> its digest. */
const EXPECTED = {
  '2, compressed: every way to add': '42f2c372fd9c2ac6523b229e26ffb3a355d2836d1f6a15bc8eb5300afdeb3816',
  '0.1, compressed: every way to add': 'fc193139e0317c6d9ecc10081a62bada795f1105a43f09d63bdd574a4eac95ff',
  '0.1: conversion of a cast': '597578e3f3244618115bc670c0844a6132b104e9dea03801299e72c4f2cacf99',
  '0.1: conversion of dequantized blocks': '095b88b43321f35d69b50671ef87d29fbe24a2086accff30b731af465a274dd2',
  '0.1: conversion of dequantized groups as bfloat16':
    'b31ade97ebf42f13b0d890587c4f3413a97423a0f615a34755f9f3b3ff4c4a6f',
  '0.1: conversion of sparse tensors': '21556d6c206ceefbecdf29ab42497dbc70945daa19c1b6d0fd8a6d03c1cab0ea',
  '0.1: every way to add': 'a41091570d7a57b6f30c832eec43b4c11bd39b40aff332864bf37668ccd29c8f',
  '1.0, compressed: every way to add': '61f1d7a563b757bfd4020389f7dc545def4ffa0e6d421762b74b39a87c549830',
  '1.0: conversion of a cast': '244b09051cd947d9594228d5ef60dbfdc6493a59428f2c2fdf5263856f9409d2',
  '1.0: conversion of dequantized blocks': 'c424f9c00c9f34114dd644e0cf20a89b05c93eb63274c8e132c0fb68ed5a15c6',
  '1.0: conversion of dequantized groups as bfloat16':
    '1b744202345c037a45975b8a3791932ef351dd15bf8d0b22a0f758f78234a098',
  '1.0: conversion of sparse tensors': 'ccdc3b7912aa0f3a38070ce968a67b1a4d6c9a5a172d8d9649bc0802d515305a',
  '1.0: every way to add': '6fe7ecc4a510d8ef917b3f12b576a66f0f31bd874dd0e79c74e6dd875b36f449',
  '1.0: tensors that are added later': '9d71b6daf91efb4c2a884738eab6c8bdddd32c1554d6025861865c2d90e3a187',
  '1.2, compressed: every way to add': '7508513c6c52736597dc37c4012dc8c201ee64d01a1f9c44abe6f460d9578f84',
  '1.2: conversion of a cast': 'cce0b73d1e4066a89a8b2ccfb18064d6f5ae2c6d051d84c3c9b58dc7c9122a3a',
  '1.2: conversion of dequantized blocks': '3e28357e5dd5f307c56a3d3216e1d1ec4fe4bf09baffc430f6727624d6b680b9',
  '1.2: conversion of dequantized groups as bfloat16':
    '2077ec28dce6c0e01ef93ceefab567ca29e8b915fe92909348da1f2e796f589a',
  '1.2: conversion of sparse tensors': '64734db84af988f191bb42dede3c35093a816f430631e8a324fa08aa1221b7c3',
  '1.2: every way to add': 'f79a806aebc9982d870053f5cf68f76eaf736fa0fd88371ec82be1a3a14168b3',
  '1.2: tensors that are added later': '6560016c94e8631a8152b5066958c09b62081807c7ef9eb490af06cbe4e62554',
  '2: conversion of a cast': '2e9f29cd0513591e6736f01b625373a4e706084dce720a1d4098cdc0dd4630fc',
  '2: conversion of dequantized blocks': 'fd6e1927aeed9087c51678ba66c96b94c18c5a7a88a5a7c9bc5584bdb38e50ee',
  '2: conversion of dequantized groups as bfloat16': '7bf691c17b2d25b5a25449834a60faccbf6b31c8687512e3ec08f30969439f32',
  '2: conversion of sparse tensors': 'eb9cc2aca902da08653256d1afb9573c41758944d3f97c0580cdd0994d886025',
  '2: every way to add': '0399b13eecc9cfccd10f9abeeabde1ceeffe972cbda84428b15ca9df38a7df6a',
  '2: tensors that are added later': 'fdb6a4be1810e3a79810597c07ba0ea4ad675d210e42721f03f95904edb595af',
  'btf: every way to add': 'fe4b446b5a460a7c43ef1e9954581822f9ec796bfd1e613243135eed8a5a69bf',
  '1.2: metadata that is edited': 'cf3326c2ceeebf06881deb16267ee660f7f1426cadebddd2a75b7732cc466a52',
  '2: metadata that is edited': 'd7dd1bcc370d6a377365648c570c7a31be0425ee84c8c32f377421ac0fe19e40',
  'gguf: a mixture of bfloat16': 'f2e8b29d6253230683e1cc21e2ee7203d05c6b477a2154579c38ce8a91afcd17',
  'gguf: a mixture of float32': 'd0eff8b3af2418d6dd931feff66ce20391b4ce53bb35dd8926a4f8ae7e49eb9e',
  'gguf: every type of blocks, and dense tensors': '8c28bf485e0d93648b9e1f6710fd88437da33a8eeb786738d8b8a1854e8d373a',
  'gguf: metadata that is edited': '7509773083ecf5f410218ada861af0fb130eed49acb22bce0c09886200fb2052',
  'safetensors: metadata that is edited': 'fd9fd7191c6a871b9dd2212e31b7520d779f05abc66a4699072d233607955abc',
  'npy: large': '55662009d5816e72c2fb32c4688e7fe9df785584f224ca67be0f228ba5f24f95',
  'npy: small': '62ce7c72960d9fd467d0ee8b98389abcb29fcb6a919cd2b3e1eb27776c852a28',
  'npz: conversion of a cast': 'f3b12b90f6bbb867dbf6491271e03621f3dddbd65eb5ad4d47d5d74465786d29',
  'npz: conversion of dequantized blocks': 'edbf3c4925492b52e4e8e829de9f68915c5c164fbf26bb40ced796489a586267',
  'npz: conversion of dequantized groups as bfloat16':
    'c6599d0cacfcc74b5877dd2964e85bb33dcef0fef80d736e3c2a4936ae892c66',
  'npz: every way to add': '593e54016f44a77850344a5af46357cfffa25d3a119b5bd2a4f1d9e13658096a',
  'safetensors: conversion of a cast': 'dafe30c8b41d2657f41d7dff31e0c6aeca5fc7b22bbc85da7370542499602517',
  'safetensors: conversion of dequantized blocks': '0128e0495500aa19b92e1cfd51cf7f6aaa94e8e9b31eaaea52b085f6a410f654',
  'safetensors: conversion of dequantized groups as bfloat16':
    '67df9759994df227fda2accb61b0adc12849f98f358e26e87acb5fe4ea804b66',
  'safetensors: every way to add': '2719d19031172bbd919701c7969ad8a35ede6a81f07e3bff3fe6d48bf13f8920',
  'tensors of an open file and of loadFile(), saved':
    'f3d0db00cbe42aac17c31240e696dea7f660c81397e5811abd9c80eac6a2dedf',
}

const same = (title, write) => test(title, async (t) => t.is(sha256(await write()), EXPECTED[title]))

for (const format of FORMATS) {
  for (const compression of format.zt ? [false, { level: 3 }] : [false]) {
    same(`${format.name}${compression ? ', compressed' : ''}: every way to add`, () =>
      written(
        { ...format.options, compression, ...(format.name === '2' && compression ? { canonical: false } : {}) },
        (writer) => everything(writer, format),
      ),
    )
  }
}

for (const [name, tensor] of Object.entries({
  small: elements('float64', 24),
  large: { dtype: 'complex64', shape: [4000], data: elements('complex64', 4000) },
}))
  same(`npy: ${name}`, () => written({ format: 'npy' }, (writer) => writer.add('x', tensor), scratchPath('x.npy')))

for (const version of ['1.0', '1.2', '2']) {
  same(`${version}: tensors that are added later`, async () => {
    const options = { version, ...(version === '1.0' ? { generator: 'g' } : {}) }
    const path = await written(options, (writer) => writer.add('a', Float32Array.of(1, 2)))
    const editor = await append(path)
    await editor.add('b', Int16Array.of(-2, 515))
    await editor.add('c', elements('float64', 12_000))
    await editor.finish()
    return path
  })
}

const GGUF = fixturePath('gguf/types.gguf')
const QUANTIZED = fixturePath('zt2-quantized.zt')
const SPARSE = fixturePath('zt2-sparse.zt')

for (const format of FORMATS.filter(({ name }) => name !== 'btf')) {
  for (const [what, source, how] of [
    ['dequantized blocks', GGUF, { dequantize: 'float32', copyMetadata: false, copyAttributes: false }],
    [
      'dequantized groups as bfloat16',
      QUANTIZED,
      { dequantize: format.name === 'npz' ? 'float16' : 'bfloat16', copyMetadata: false, copyAttributes: false },
    ],
    [
      'a cast',
      fixturePath('zt2-dtypes.zt'),
      { cast: { float64: 'float32' }, copyMetadata: false, copyAttributes: false },
    ],
    ...(format.zt ? [['sparse tensors', SPARSE, { copyMetadata: false, copyAttributes: false }]] : []),
  ]) {
    same(`${format.name}: conversion of ${what}`, async () => {
      const to = scratchPath(`converted.${format.options.format ?? 'zt'}`)
      await convert(source, to, { ...format.options, ...how, skip: true, overwrite: true })
      return to
    })
  }
}

same('tensors of an open file and of loadFile(), saved', async () => {
  const path = scratchPath('saved.zt')
  const file = await open(fixturePath('zt2-sparse.zt'))
  const other = await open(QUANTIZED)
  const loaded = await loadFile(fixturePath('zt2-dtypes.zt'))
  const opened = [...file, ...other].map(([name, tensor]) => [`open ${name}`, tensor])
  await saveFile(path, [...loaded, ...opened], { version: '2' })
  file.close()
  other.close()
  return path
})

/** Types that llama.cpp quantizes to without an importance matrix. */
const BLOCK_TYPES = [
  ...['q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q2_k', 'q3_k', 'q4_k', 'q5_k', 'q6_k', 'q8_k'],
  ...['iq4_nl', 'iq4_xs', 'tq1_0', 'tq2_0', 'mxfp4', 'nvfp4'],
]

same('gguf: every type of blocks, and dense tensors', async () => {
  const writer = await create(scratchPath('x.gguf'), {
    metadata: { 'general.architecture': 'llama', large: 2 ** 40, double: 1e300, floats: [1, 0.5], name: 'ü' },
  })
  for (const [at, type] of BLOCK_TYPES.entries())
    await writer.add(type, weights(8 * 512, at + 1), { shape: [8, 512], type })
  const dtypes = ['float64', 'float32', 'float16', 'bfloat16', 'int64', 'int32', 'int16', 'int8']
  for (const dtype of dtypes) await writer.add(dtype, { dtype, shape: [24], data: elements(dtype, 24) })
  await writer.finish()
  return writer.path
})

for (const dtype of ['float32', 'bfloat16']) {
  same(`gguf: a mixture of ${dtype}`, async () => {
    const [source, plain, target] = ['s.gguf', 's.zt', 'x.gguf'].map((name) => scratchPath(name))
    await writeLlama(source, { layers: 1, words: 32 })
    await convert(source, plain, { dtype })
    await convert(plain, target, { quantize: 'q4_k_m' })
    return target
  })
}

// The headers keep their length. A longer one grows by blocks of the file system.
for (const format of ['safetensors', 'gguf', '1.2', '2']) {
  same(`${format}: metadata that is edited`, async () => {
    const zt = format.includes('2')
    const path = scratchPath(zt ? 'x.zt' : `x.${format}`)
    const writer = await create(path, { metadata: { a: '1', b: '2' }, ...(zt ? { version: format } : {}) })
    for (const name of ['t.0', 't.1', 't.2']) await writer.add(name, elements('float32', 24))
    await writer.finish()
    await editMetadata(path, { set: { a: '3' }, remove: 'b', rename: { 't.*': 'u.*' } })
    return path
  })
}
