// safetensors checkpoints in several files: `maxShardBytes` of create and convert, `ztensor split`, `--max-shard-size`.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { convert, create, openSync } from 'ztensor'
import { sameBytes } from '../helpers/bytes.mjs'
import { run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'

const NAMES = ['b', 'a', 'd', 'c', 'e']
const kilobyte = (fill) => new Float32Array(250).fill(fill)

async function checkpoint(target, options = {}) {
  const writer = await create(target, { format: 'safetensors', maxShardBytes: 2500, ...options })
  for (const [at, name] of NAMES.entries()) await writer.add(name, kilobyte(at))
  return writer
}

const parts = (total) => Array.from({ length: total }, (_, at) => `m-0000${at + 1}-of-0000${total}.safetensors`)
const INDEX = 'm.safetensors.index.json'

function assertSameTensors(t, source) {
  const file = openSync(source)
  t.deepEqual([...file.keys()].sort(), [...NAMES].sort())
  for (const [at, name] of NAMES.entries()) t.deepEqual(file.tensor(name).data, kilobyte(at))
  file.close()
}

test('tensors go into the next file when one is full, and the index contains their files', async (t) => {
  const { path, names } = scratchFolder()
  const writer = await checkpoint(path('m.safetensors'), { metadata: { format: 'pt' } })
  t.false(
    names().some((name) => name.endsWith('.safetensors') || name.endsWith('.json')),
    'nothing before the end',
  )
  await writer.finish()
  t.deepEqual(names(), [...parts(3), INDEX].sort())
  const index = JSON.parse(readFileSync(path(INDEX), 'utf8'))
  t.deepEqual(index, {
    metadata: { total_size: 5000 },
    weight_map: { a: parts(3)[0], b: parts(3)[0], c: parts(3)[1], d: parts(3)[1], e: parts(3)[2] },
  })
  t.deepEqual(Object.keys(index.weight_map), [...NAMES].sort())
  for (const name of parts(3)) {
    const file = openSync(path(name))
    t.deepEqual({ ...file.metadata }, { format: 'pt' })
    file.close()
  }
  assertSameTensors(t, path(INDEX))
  assertSameTensors(t, path('.'))
})

test('writes one file if everything fits', async (t) => {
  const { path, names } = scratchFolder()
  await (await checkpoint(path('m.safetensors'), { maxShardBytes: 5000 })).finish()
  t.deepEqual(names(), ['m.safetensors'])
  assertSameTensors(t, path('m.safetensors'))
})

test('a tensor larger than the maximum gets a separate file', async (t) => {
  const { path, names } = scratchFolder()
  await (await checkpoint(path('m.safetensors'), { maxShardBytes: 1 })).finish()
  t.deepEqual(names(), [...parts(5), INDEX].sort())
  assertSameTensors(t, path(INDEX))
})

test('rejects a name that exists in a complete file', async (t) => {
  const { path } = scratchFolder()
  const writer = await checkpoint(path('m.safetensors'))
  const error = await rejectionOf(() => writer.add('b', kilobyte(9)))
  t.is(error.code, 'ZT_BAD_INDEX')
  await writer.abort()
})

test('an abort leaves no files', async (t) => {
  const { path, names } = scratchFolder()
  await (await checkpoint(path('m.safetensors'))).abort()
  t.deepEqual(names(), [])
})

for (const taken of [parts(3)[2], INDEX]) {
  test(`keeps an existing ${taken}, and creates no other file`, async (t) => {
    const { path, names } = scratchFolder()
    const writer = await checkpoint(path('m.safetensors'))
    writeFileSync(path(taken), 'theirs')
    const error = await rejectionOf(() => writer.finish())
    t.is(error.code, 'ZT_EXISTS')
    t.deepEqual(names(), [taken])
    t.is(readFileSync(path(taken), 'utf8'), 'theirs')
  })

  test(`replaces ${taken} with overwrite`, async (t) => {
    const { path } = scratchFolder()
    writeFileSync(path(taken), 'theirs')
    await (await checkpoint(path('m.safetensors'), { overwrite: true })).finish()
    assertSameTensors(t, path(INDEX))
  })
}

test('rejects shards of BTF', async (t) => {
  const { path } = scratchFolder()
  const error = await rejectionOf(() => create(path('m.btf'), { format: 'btf', maxShardBytes: 1 }))
  t.is(error.code, 'ZT_INVALID_ARG')
  t.regex(error.message, /zTensor 2, safetensors and GGUF/)
})

test('converts a file into shards and back', async (t) => {
  const { path, names } = scratchFolder()
  await (await checkpoint(path('one.safetensors'), { maxShardBytes: undefined })).finish()
  const { tensors } = await convert(path('one.safetensors'), path('m.safetensors'), { maxShardBytes: 2500 })
  t.is(tensors, 5)
  t.true(names().includes(parts(3)[2]))
  await convert(path(INDEX), path('again.safetensors'))
  sameBytes(t, readFileSync(path('again.safetensors')), readFileSync(path('one.safetensors')))
})

test('ztensor split selects safetensors or zTensor 2 by the name of the target', async (t) => {
  const { path, names } = scratchFolder()
  await (await checkpoint(path('one.safetensors'), { maxShardBytes: undefined })).finish()
  const safetensors = await run(['split', path('one.safetensors'), path('m.safetensors'), '--max-shard-size', '2.5kB'])
  t.is(safetensors.code, 0, safetensors.stderr)
  assertSameTensors(t, path(INDEX))
  for (const name of [...parts(3), INDEX]) rmSync(path(name))
  const two = await run(['split', path('one.safetensors'), path('m.zt'), '--max-shard-size', '150kB'])
  t.is(two.code, 0, two.stderr)
  t.deepEqual(names(), ['m-00001-of-00003.zt', 'm-00002-of-00003.zt', 'm-00003-of-00003.zt', 'm.zt', 'one.safetensors'])
  assertSameTensors(t, path('m.zt'))
})

for (const size of ['0', 'many', '-1', '1e3', '5XB']) {
  test(`ztensor rejects the size ${size}`, async (t) => {
    const { path, names } = scratchFolder()
    await (await checkpoint(path('one.safetensors'), { maxShardBytes: undefined })).finish()
    const target = path('m.safetensors')
    const result = await run(['convert', path('one.safetensors'), target, `--max-shard-size=${size}`])
    t.is(result.code, 2)
    t.regex(result.stderr, /5GB/)
    t.deepEqual(names(), ['one.safetensors'])
  })
}
