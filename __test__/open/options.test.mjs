// Unknown options: each call rejects them and suggests similar ones.
import { PassThrough } from 'node:stream'
import test from 'ava'
import {
  append,
  compact,
  compare,
  convert,
  create,
  diff,
  loadFile,
  open,
  openSync,
  saveFile,
  toFloat32,
  verify,
} from 'ztensor'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const F = Float32Array.of(1, 2, 3, 4)
const fill = async (w) => {
  await w.add('a', { shape: [2, 2], data: F })
  await w.addCsr('m', {
    shape: [1, 3],
    values: F.subarray(0, 1),
    indices: Int32Array.of(2),
    indptr: Int32Array.of(0, 1),
  })
}
const path = await written({ version: '1.0' }, fill)
const file = openSync(path)
test.after(() => file.close())
const a = file.tensor('a')
const writing = async (call) => {
  const writer = await create(scratchPath('unknown'))
  try {
    await call(writer)
  } finally {
    await writer.abort()
  }
}

/** Calls that take options, and the options of each. */
const CALLS = {
  openSync: [(o) => openSync(path, o), 'verify'],
  open: [(o) => open(path, o), 'verify'],
  verify: [(o) => verify(path, o), 'canonical'],
  loadFile: [(o) => loadFile(path, o), 'names'],
  diff: [(o) => diff(path, path, o), 'filter'],
  compare: [(o) => compare(a, a, o), 'atol'],
  create: [(o) => create(scratchPath('unknown'), o), 'version'],
  'create compression': [(o) => create(scratchPath('unknown'), { compression: o }), 'level'],
  'create in a stream': [(o) => create(new PassThrough(), o), 'version'],
  saveFile: [(o) => saveFile(scratchPath('unknown'), {}, o), 'version'],
  convert: [(o) => convert(path, scratchPath('unknown.zt'), o), 'filter'],
  append: [(o) => append(path, o), 'inPlace'],
  compact: [(o) => compact(path, o), 'maxRank'],
  toFloat32: [(o) => toFloat32(F, 'float32', o), 'into'],
  'file.tensor': [(o) => file.tensor('a', o), 'dtype'],
  'file.load': [(o) => file.load(o), 'names', false],
  'file.load of names': [(o) => file.load(['a'], o), 'concurrency'],
  'file.prefetch': [(o) => file.prefetch(['a'], o), 'concurrentBytes'],
  'file.evict': [(o) => file.evict(o), 'names', false],
  'file.verify': [(o) => file.verify(o), 'canonical'],
  'file.contentDigest': [(o) => file.contentDigest('sha256', o), 'signal'],
  'file.plan': [(o) => file.plan(o), 'worldSize'],
  'file.share': [(o) => file.share(o), 'memory'],
  'tensor.load': [(o) => a.load(o), 'slice'],
  'tensor.toFloat32': [(o) => a.toFloat32(o), 'into'],
  'tensor.toArray': [(o) => a.toArray(o), 'maxElements'],
  'tensor.createReadStream': [(o) => a.createReadStream(o), 'signal'],
  'tensor.shard': [(o) => a.shard(o), 'worldSize'],
  'tensor.verify': [(o) => a.verify(o), 'signal'],
  'tensor.stats': [(o) => a.stats(o), 'bins'],
  'tensor.loadCsr': [(o) => file.tensor('m').loadCsr(o), 'signal'],
  'slice.toFloat32': [(o) => a.slice([]).toFloat32(o), 'into'],
  'csr.toDense': [(o) => file.tensor('m').csr().toDense(o), 'maxBytes'],
  'component.load': [(o) => a.components.get('data').load(o), 'signal'],
  'writer.add': [(o) => writing((w) => w.add('x', F, o)), 'shape'],
  'writer.addCsr': [(o) => writing((w) => w.addCsr('x', file.tensor('m').csr(), o)), 'attributes'],
  'writer.stream': [(o) => writing((w) => w.stream('x', { dtype: 'int8', shape: [1] }, o)), 'attributes'],
  'a tensor to write': [(o) => writing((w) => w.add('x', { data: F, ...o })), 'dtype', false],
}

for (const [name, [call, option, refusesArrays = true]] of Object.entries(CALLS)) {
  test(`${name} rejects an unknown option`, async (t) => {
    const wrong = `${option.slice(0, -1)}x`
    const error = await rejectionOf(async () => call({ [wrong]: undefined }))
    isArgumentError(t, error, wrong)
    t.true(error instanceof TypeError)
    t.true(error.message.includes(`did you mean ${option}`), error.message)
    isArgumentError(t, await rejectionOf(async () => call({ nothingLikeIt: 1 })), 'nothingLikeIt')
    if (!refusesArrays) return
    for (const none of [['a'], new Map(), 7, null]) isArgumentError(t, await rejectionOf(async () => call(none)), '')
  })
}

test('suggests an option for a transposed letter', (t) => {
  t.throws(() => openSync(path, { verfiy: true }), { message: /did you mean verify\?/ })
})

test('load, prefetch and evict take the same names', async (t) => {
  for (const names of [['a'], new Set(['a']), ['a'].values()]) t.deepEqual([...(await file.load(names)).keys()], ['a'])
  t.deepEqual([...(await file.load({ names: ['m'] })).keys()], ['m'])
  t.is((await file.load(undefined, { concurrency: 1 })).size, 2)
  await file.prefetch(['a'])
  await file.prefetch({ names: ['a'], concurrentBytes: 1 })
  file.evict(['a'])
  file.evict({ names: ['a'] })
  for (const call of ['load', 'prefetch', 'evict']) {
    for (const given of [['gone'], { names: ['gone'] }])
      t.is((await rejectionOf(async () => file[call](given)))?.code, 'ZT_NOT_FOUND', call)
    isArgumentError(t, await rejectionOf(async () => file[call]('a')), 'names')
  }
})
