// A lone surrogate has no UTF-8, and its usual replacement is U+FFFD. It finds nothing with that name, and is never
// written.
import { existsSync } from 'node:fs'
import test from 'ava'
import { append, compact, convert, create, open, openSync, verify } from 'ztensor'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const HALF = '\ud800'
const OTHER = '\ufffd'
const x = Uint8Array.of(1, 2, 3)

/** A file named U+FFFD with a tensor named U+FFFD. */
async function written(options = { version: '1.2' }) {
  const path = scratchPath(`${OTHER}.zt`)
  const writer = await create(path, options)
  await writer.add(OTHER, x)
  await writer.add('x', x)
  await writer.finish()
  return path
}

test('finds no tensor by a lone surrogate', async (t) => {
  for (const options of [{ version: '1.2' }, { format: 'safetensors' }]) {
    const file = openSync(await written(options))
    for (const name of [HALF, '\udc00', `${HALF}x`, `x${HALF}`]) {
      t.false(file.has(name))
      t.is(file.get(name), undefined)
      const calls = [
        () => file.tensor(name),
        () => file.load({ names: ['x', name] }),
        () => file.prefetch([name]),
        () => file.evict([name]),
      ]
      for (const call of calls) t.is((await rejectionOf(call))?.code, 'ZT_NOT_FOUND', String(call))
    }
    t.true(file.has(OTHER))
    t.deepEqual([...(await file.load({ names: [OTHER] })).keys()], [OTHER])
  }
})

test('no rule of a plan matches by a lone surrogate, and each character still counts once', async (t) => {
  const file = openSync(await written())
  const plan = (pattern) =>
    file.plan({
      rank: 0,
      worldSize: 1,
      rules: [
        [pattern, 'replicate'],
        ['x', 'replicate'],
      ],
    })
  isArgumentError(t, await rejectionOf(() => plan(HALF)), 'rules')
  t.is(plan(OTHER).tensors.size, 2)
})

test('finds and creates no path with a lone surrogate', async (t) => {
  const path = await written()
  const half = path.replace(OTHER, HALF)
  t.true(existsSync(path))
  const readers = [
    (source) => openSync(source),
    (source) => open(source),
    (source) => verify(source),
    (source) => openSync([path, source]),
    (source) => convert(source, scratchPath('to.zt')),
  ]
  for (const read of readers) isArgumentError(t, await rejectionOf(() => read(half)), 'source')
  isArgumentError(t, await rejectionOf(() => create(half, { overwrite: true })), 'path')
  isArgumentError(t, await rejectionOf(() => append(half)), 'path')
  isArgumentError(t, await rejectionOf(() => compact(half)), 'path')
  isArgumentError(t, await rejectionOf(() => convert(path, half, { overwrite: true })), 'path')
  const file = openSync(path)
  isArgumentError(
    t,
    thrownBy(() => openSync({ ...file.share(), path: half })),
    'source.path',
  )
})

test('writes no text with a lone surrogate', async (t) => {
  const path = await written({ version: '2', canonical: false })
  const rename = () => convert(path, scratchPath('to.zt'), { rename: (name) => name.replace(OTHER, HALF) })
  isArgumentError(t, await rejectionOf(rename), 'rename')
  const base = openSync(path)
  const writer = await create(scratchPath('to.zt'), { version: '2', canonical: false })
  const components = (role) => ({ [role]: { dtype: 'uint8', data: x } })
  const calls = {
    'stream name': () => writer.stream(HALF, { dtype: 'uint8', shape: [3] }),
    'add name': () => writer.add(HALF, x),
    'addObject name': () => writer.addObject(HALF, { layout: 'mine', shape: [3], components: components('data') }),
    'addObject layout': () => writer.addObject('a', { layout: HALF, shape: [3], components: components('data') }),
    'addObject components': () => writer.addObject('a', { layout: 'mine', shape: [3], components: components(HALF) }),
    'link name': () => writer.link(HALF, { file: base, tensor: 'x' }),
    'link tensor': () => writer.link('a', { file: base, tensor: HALF }),
    'link shard': () => writer.link('a', { file: base, tensor: 'x', shard: HALF }),
    'add attributes': () => writer.add('a', x, { attributes: { a: [HALF] } }),
    'create metadata': () => create(scratchPath(), { metadata: { [HALF]: 1 } }),
    'generator generator': () => create(scratchPath(), { version: '1.0', generator: HALF }),
  }
  for (const [name, call] of Object.entries(calls)) isArgumentError(t, await rejectionOf(call), name.split(' ')[1])
  await writer.abort()
  const editor = await append(path)
  const edits = {
    rename: () => editor.rename(HALF, 'a'),
    'rename to': () => editor.rename('x', HALF),
    remove: () => editor.remove(HALF),
    'tensor attributes': () => editor.setTensorAttributes(HALF, { a: 1 }),
    attributes: () => editor.setMetadata({ a: HALF }),
    'attributes taken out': () => editor.setMetadata({ [HALF]: undefined }),
  }
  for (const [name, call] of Object.entries(edits)) t.is((await rejectionOf(call))?.code, 'ZT_INVALID_ARG', name)
  await editor.abort()
})
