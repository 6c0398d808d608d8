// Version 2 in several files: data shards next to their root, and tensors whose bytes stay in another model's file.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { sample, scratchFolder, written } from '../helpers/sample-files.mjs'

const KIB64 = 65536
const MAGIC = '895a54320d0a1a0a'
const tensors = Array.from({ length: 5 }, (_, at) => [`t${at}`, sample('int32', [KIB64 / 4 + 1 + at], at)])

async function sharded(path, options) {
  return written(
    { version: '2', maxShardBytes: 5 * KIB64, digest: 'sha256', ...options },
    async (w) => {
      for (const [name, data] of tensors) await w.add(name, data)
    },
    path,
  )
}

test('tensors go into the next shard when one is full', async (t) => {
  const { path, names } = scratchFolder()
  await sharded(path('m.zt'))
  t.deepEqual(names(), ['m-00001-of-00003.zt', 'm-00002-of-00003.zt', 'm-00003-of-00003.zt', 'm.zt'])
  const root = readFileSync(path('m.zt'))
  let next = 0
  for (const name of names().slice(0, 3)) {
    const bytes = readFileSync(path(name))
    t.true(bytes.length <= 5 * KIB64)
    t.is(bytes.subarray(0, 8).toString('hex'), MAGIC)
    // A data shard's footer names no manifest (§7.2).
    t.is(bytes.subarray(-40).toString('hex'), `${'00'.repeat(24)}0200000000000000${MAGIC}`)
    t.true(root.includes(createHash('sha256').update(bytes).digest('hex')))
    for (let at = KIB64; at + 40 < bytes.length && next < tensors.length; at += 2 * KIB64) {
      const data = littleEndian(tensors[next++][1])
      t.true(bytes.subarray(at, at + data.length).equals(data), `${name} ${at}`)
    }
  }
  t.is(next, tensors.length)
})

test('writes one file if everything fits', async (t) => {
  const { path, names } = scratchFolder()
  await sharded(path('m.zt'), { maxShardBytes: 2 ** 30 })
  t.deepEqual(names(), ['m.zt'])
  const file = openSync(path('m.zt'))
  for (const [name, data] of tensors) t.deepEqual(file.tensor(name).data, data)
  t.true((await file.verify()).ok)
  file.close()
})

test('a tensor larger than a shard gets a separate one', async (t) => {
  const { path, names } = scratchFolder()
  await sharded(path('m.zt'), { maxShardBytes: 1 })
  t.is(names().length, tensors.length + 1)
})

test('does not overwrite an existing shard, and leaves none of the others', async (t) => {
  const { path, names } = scratchFolder()
  writeFileSync(path('m-00002-of-00003.zt'), 'mine')
  const error = await rejectionOf(() => sharded(path('m.zt')))
  t.is(error.code, 'ZT_EXISTS')
  t.deepEqual(names(), ['m-00002-of-00003.zt'])
  t.is(readFileSync(path('m-00002-of-00003.zt'), 'utf8'), 'mine')
  await sharded(path('m.zt'), { overwrite: true })
  t.is(names().length, 4)
})

test('an abort leaves no files', async (t) => {
  const { path, names } = scratchFolder()
  const writer = await create(path('m.zt'), { version: '2', maxShardBytes: KIB64 })
  for (const [name, data] of tensors) await writer.add(name, data)
  await writer.abort()
  t.deepEqual(names(), [])
})

async function base(path, options) {
  return written(
    { version: '2', ...options },
    async (w) => {
      await w.add('w', Float32Array.of(1, 2, 3, 4))
      await w.add('f4', { dtype: 'float4_e2m1fn', shape: [3], data: Uint8Array.of(0x21, 3) })
      await w.addCsr('m', {
        shape: [1, 3],
        values: Int8Array.of(5),
        indices: Uint32Array.of(2),
        indptr: Uint32Array.of(0, 1),
      })
    },
    path,
  )
}

test('linked tensors stay in their files', async (t) => {
  const { path } = scratchFolder()
  await base(path('m-base.zt'))
  const file = openSync(path('m-base.zt'))
  await written(
    { version: '2', canonical: false, digest: 'sha256' },
    async (w) => {
      await w.add('delta', Float32Array.of(9))
      for (const name of file.keys()) await w.link(name, { file })
      await w.link('tied', { file, tensor: 'w' })
    },
    path('m.zt'),
  )
  const bytes = readFileSync(path('m.zt'))
  t.false(bytes.includes(littleEndian(Float32Array.of(1, 2, 3, 4))))
  t.true(
    bytes.includes(
      createHash('sha256')
        .update(readFileSync(path('m-base.zt')))
        .digest('hex'),
    ),
  )
  const root = openSync(path('m.zt'))
  t.deepEqual([...root.keys()].sort(), ['delta', 'f4', 'm', 'tied', 'w'])
  for (const [name, { offset }] of [...file.values()].map((tensor) => [
    tensor.name,
    [...tensor.components.values()][0],
  ])) {
    t.is([...root.tensor(name).components.values()][0].offset, offset, name)
    t.deepEqual(root.tensor(name).shape, file.tensor(name).shape)
  }
  t.deepEqual(root.tensor('delta').data, Float32Array.of(9))
  root.close()
  file.close()
})

test('rejects links to other files', async (t) => {
  const { path, names } = scratchFolder()
  const two = openSync(await base(path('two.zt')))
  const one = openSync(await written({ version: '1.2' }, (w) => w.add('w', Float32Array.of(1)), path('one.zt')))
  const writer = await create(path('new.zt'), { version: '2', canonical: false })
  await writer.add('there', Float32Array.of(1))
  const refused = async (link) => rejectionOf(link)
  t.is((await refused(() => writer.link('x', { file: two }))).code, 'ZT_NOT_FOUND')
  t.is((await refused(() => writer.link('there', { file: two, tensor: 'w' }))).code, 'ZT_BAD_INDEX')
  isArgumentError(t, await refused(() => writer.link('w', { file: one })), 'zTensor 2')
  isArgumentError(t, await refused(() => writer.link('w', { file: 'two.zt' })), 'file')
  isArgumentError(t, await refused(() => writer.link('w', { file: two, shard: 'other' })), 'already')
  await writer.abort()
  for (const shard of ['../w', '.w', '', 'x'.repeat(65)]) {
    const other = await create(path('other.zt'), { version: '2', canonical: false })
    t.is((await refused(() => other.link('w', { file: two, shard }))).code, 'ZT_BAD_INDEX', shard)
    await other.abort()
  }
  for (const options of [{ version: '2' }, { version: '1.2' }]) {
    const other = await create(path('other.zt'), options)
    isArgumentError(t, await refused(() => other.link('w', { file: two })), 'canonical: false')
    await other.abort()
  }
  t.deepEqual(names(), ['one.zt', 'two.zt'])
  t.false(existsSync(path('new.zt')))
  two.close()
  one.close()
})
