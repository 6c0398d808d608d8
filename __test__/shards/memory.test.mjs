// A model in memory, or a list of models, whose index names other files: the option shards supplies them.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, sep } from 'node:path'
import test from 'ava'
import { convert, create, open, openSync } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

/** A folder with a set of several files, and its root. */
async function written(root, options) {
  const folder = scratchPath('set')
  mkdirSync(folder)
  const source = join(folder, 'source.zt')
  const writer = await create(source)
  for (const name of ['a', 'b', 'c'])
    await writer.add(
      name,
      Float32Array.from({ length: 64 }, (_, at) => at + name.charCodeAt(0)),
    )
  await writer.finish()
  const target = join(folder, 'out', root)
  mkdirSync(dirname(target))
  await convert(source, target, options)
  return dirname(target)
}

const rootOf = (folder, ending) =>
  join(
    folder,
    readdirSync(folder).find((name) => name.endsWith(ending)),
  )

/** Each index, and the folder that its files are in. */
const sets = {
  'ONNX, external data': async () => fixturePath('onnx/external.onnx'),
  'OpenVINO, .bin': async () => rootOf(fixturePath('openvino'), '.xml'),
  'zTensor 2, shards of a table': async () =>
    join(await written('model.zt', { version: '2', maxShardBytes: 400 }), 'model.zt'),
  'safetensors, the index of a sharded checkpoint': async () =>
    rootOf(await written('model.safetensors', { maxShardBytes: 400 }), '.index.json'),
}

/** The contents of all tensors. */
async function contents(file) {
  const found = {}
  for (const tensor of file.values()) {
    found[tensor.name] = [tensor.dtype, [...tensor.shape]]
    if (tensor.dtype === undefined || tensor.layout !== 'dense') continue
    const { data } = tensor
    found[tensor.name].push(littleEndian(data).toString('hex'))
    const loaded = await tensor.load()
    found[tensor.name].push(littleEndian(loaded).toString('hex'))
  }
  return found
}

for (const [title, root] of Object.entries(sets)) {
  test(`requests the shards of a model in memory: ${title}`, async (t) => {
    const path = await root()
    const whole = openSync(path)
    const expected = await contents(whole)
    const format = whole.format
    whole.close()
    const bytes = readFileSync(path)
    // Its files are elsewhere, under other names.
    const elsewhere = scratchPath('elsewhere')
    mkdirSync(elsewhere)
    const others = readdirSync(dirname(path), { recursive: true }).filter(
      (name) => name !== basename(path) && statSync(join(dirname(path), name)).isFile(),
    )
    for (const [at, name] of others.entries()) copyFileSync(join(dirname(path), name), join(elsewhere, `${at}.moved`))
    const asName = (path) => path.replaceAll(sep, '/')
    const known = new Map(others.map((path, at) => [asName(path), join(elsewhere, `${at}.moved`)]))
    const asked = []
    const find = (name) => {
      asked.push(name)
      if (title.startsWith('OpenVINO')) return known.get(basename(path).replace(/\.xml$/, '.bin'))
      return known.get(name) ?? known.get(`model-${name}.zt`)
    }
    for (const [way, opening] of Object.entries({
      openSync: async (source) => openSync(source, { shards: find }),
      open: (source) => open(source, { shards: async (name) => find(name) }),
      'open, ArrayBuffer': (source) => open(new Uint8Array(source).buffer, { shards: find }),
    })) {
      asked.length = 0
      const file = await opening(bytes)
      t.true(asked.length > 0, way)
      t.is(file.format, format)
      t.is(file.path, undefined)
      t.is(file.files?.[0].path, undefined)
      t.deepEqual(await contents(file), expected, way)
      t.true((await file.verify()).ok)
      const all = await file.load(Object.keys(expected).filter((name) => expected[name].length > 2))
      t.true(all.size > 0)
      file.close()
    }
  })

  test(`rejects missing shards of a model in memory: ${title}`, async (t) => {
    const path = await root()
    // A file of that name in the working directory is not used.
    const opened = await Promise.resolve()
      .then(() => open(readFileSync(path), { shards: () => undefined }))
      .catch((error) => error)
    if (opened instanceof Error) {
      t.regex(opened.code, /^ZT_(IO|INCOMPLETE)$/)
      return
    }
    t.true(opened.warnings.some(({ code }) => code === 'ZT_WARN_INCOMPLETE_SET'))
    opened.close()
  })

  test(`requests the shards of a list of models: ${title}`, async (t) => {
    const path = await root()
    if (path.endsWith('.json')) return t.pass('a list is of tensor files')
    const other = scratchPath('other.zt')
    const writer = await create(other)
    await writer.add('of the other', new Float32Array(2))
    await writer.finish()
    for (const opening of [openSync, open]) {
      const asked = []
      const file = await opening([path, other], {
        shards: (name) => {
          asked.push(name)
          return undefined
        },
      })
      t.true(asked.length > 0)
      t.true(file.has('of the other'))
      file.close()
    }
  })
}

test('reads a model in memory without other files in place, also with the option shards', (t) => {
  const bytes = readFileSync(fixturePath('onnx/graph.onnx'))
  const asked = []
  const file = openSync(bytes, { shards: (name) => asked.push(name) })
  t.deepEqual(asked, [])
  t.is(file.format, 'onnx')
  file.close()
})
