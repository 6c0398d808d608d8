// An index names files of its own folder: what is linked to another one is refused, unless the caller or a digest says so.
import { renameSync, symlinkSync } from 'node:fs'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { rejectionOf, thrownBy } from '../raised.mjs'
import { checkpoint, TWO } from '../sharded.mjs'
import { sample, scratchFolder, written } from '../writing.mjs'

// Windows lets only some users make links.
const linked = process.platform === 'win32' ? test.skip : test
const [first] = Object.keys(TWO)

linked(
  'a file of an index that is linked from another folder is ZT_OUT_OF_BOUNDS, whichever way it is opened',
  async (t) => {
    const elsewhere = scratchFolder().path('secret')
    const { folder, index, path } = checkpoint(TWO)
    renameSync(path(first), elsewhere)
    symlinkSync(elsewhere, path(first))
    for (const source of [index, folder]) {
      for (const error of [thrownBy(() => openSync(source)), await rejectionOf(() => open(source))]) {
        t.is(error?.code, 'ZT_OUT_OF_BOUNDS', error?.message)
        t.true(error.message.includes(first) && error.message.includes('shards'), error.message)
      }
    }
    const file = openSync(index, { shards: (name) => (name === first ? elsewhere : undefined) })
    t.deepEqual([...file.tensor('z.first').data], [1, 2])
    file.close()
  },
)

linked('a file of an index may be linked inside of its folder', (t) => {
  const { index, path } = checkpoint(TWO)
  renameSync(path(first), path('blob'))
  symlinkSync('blob', path(first))
  const file = openSync(index)
  t.deepEqual([...file.tensor('z.first').data], [1, 2])
  file.close()
})

linked('a shard of zTensor 2 that is linked from another folder is found by its digest', async (t) => {
  const { path, names } = scratchFolder()
  const tensors = ['a', 'b'].map((name, at) => [name, sample('int32', [50_000], at)])
  const add = async (w) => {
    for (const [name, data] of tensors) await w.add(name, data)
  }
  await written({ version: '2', maxShardSize: 4096, digest: 'sha256' }, add, path('m.zt'))
  const [shard] = names()
  const elsewhere = scratchFolder().path('blob')
  renameSync(path(shard), elsewhere)
  symlinkSync(elsewhere, path(shard))
  const file = openSync(path('m.zt'))
  t.is(file.files.length, 3)
  for (const [name, data] of tensors) t.deepEqual(file.tensor(name).data, data)
  file.close()
})
