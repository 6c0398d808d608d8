// Names and keys of GGUF with NUL: llama.cpp ends them there, so it would read different ones.
import { writeFileSync } from 'node:fs'
import test from 'ava'
import { convert, create, editMetadata, open, openSync } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { gguf } from '../helpers/gguf-writer.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'

const NUL = { code: 'ZT_INVALID_ARG' }
const one = { type: 0, shape: [1], data: Buffer.alloc(4) }

test('create, convert and rename reject names and keys with NUL in GGUF', async (t) => {
  const { path } = scratchFolder()
  const attributes = { 'general.architecture': 'x' }
  const writer = await create(path('a.gguf'), { format: 'gguf', metadata: attributes })
  const added = await rejectionOf(() => writer.add('a\0b', new Float32Array(1)))
  t.like(added, NUL)
  t.regex(added.message, /NUL/)
  await writer.abort()
  const keyed = await rejectionOf(() =>
    create(path('b.gguf'), { format: 'gguf', metadata: { ...attributes, 'k\0e': 1 } }),
  )
  t.like(keyed, NUL)
  t.regex(keyed.message, /NUL/)
  const source = await create(path('s.zt'))
  await source.add('a\0b', new Float32Array(1))
  await source.finish()
  const options = { copyMetadata: false, metadata: attributes }
  t.like(await rejectionOf(() => convert(path('s.zt'), path('c.gguf'), options)), { ...NUL, tensor: 'a\0b' })
  await convert(path('s.zt'), path('c.gguf'), { ...options, rename: (name) => name.replace('\0', '_') })
  t.deepEqual([...openSync(path('c.gguf')).keys()], ['a_b'])
})

test('editMetadata rejects keys and names with NUL', async (t) => {
  const { path } = scratchFolder()
  writeFileSync(path('m.gguf'), gguf({ tensors: [{ ...one, name: 'a' }] }))
  for (const edit of [{ set: { 'k\0e': 1 } }, { rename: { a: 'b\0c' } }]) {
    const error = await rejectionOf(() => editMetadata(path('m.gguf'), edit))
    t.like(error, NUL)
    t.regex(error.message, /NUL/)
  }
})

test('opens a file with a NUL in a name or a key, with a warning for each', async (t) => {
  const { path } = scratchFolder()
  writeFileSync(path('m.gguf'), gguf({ metadata: [['k\0e', 'u32', 1]], tensors: [{ ...one, name: 'a\0b' }] }))
  const file = await open(path('m.gguf'))
  const found = file.warnings.filter(({ code }) => code === 'ZT_WARN_NUL')
  t.is(found.length, 2)
  t.true(found.some(({ tensor }) => tensor === 'a\0b'))
  t.true(found.some(({ message }) => message.includes('"k\\0e"')))
  t.deepEqual([...file.keys()], ['a\0b'])
  file.close()
})
