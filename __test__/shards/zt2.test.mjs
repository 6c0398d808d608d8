// zTensor 2 models in several files: the shard table, the search for shards, and overlays.
import { createHash } from 'node:crypto'
import { copyFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { open, openSync, ZTensorError } from 'ztensor'
import { dense, digestOf, file, footer, MAGIC } from '../corpus/zt2.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { isMapped } from '../helpers/data-placement.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'

const PAGE = 4096
const floats = (...numbers) => littleEndian(Float32Array.from(numbers))
const sha256 = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

/** A data shard: magic, one blob on the first page, a footer without a manifest. */
function dataShard(blob) {
  const body = Buffer.alloc(PAGE * 2)
  MAGIC.copy(body)
  blob.copy(body, PAGE)
  return Buffer.concat([body, footer()])
}

/** A root `<stem>.zt` with one tensor in the root and one in each of two shards. */
function model({ stem = 'model', names = ['00001', '00002'], digest = sha256, table = (entry) => entry } = {}) {
  const made = scratchFolder()
  const blobs = [floats(1, 2), floats(3, 4, 5)]
  const shards = {}
  const objects = { own: dense('f32', [1], PAGE, 4, { digest: digestOf(floats(9)) }) }
  for (const [at, name] of names.entries()) {
    const bytes = dataShard(blobs[at])
    writeFileSync(made.path(`${stem}-${name}.zt`), bytes)
    shards[name] = table({ size: bytes.length, digest: digest(bytes) }, name)
    objects[`in.${name}`] = dense('f32', [blobs[at].length / 4], PAGE, blobs[at].length, {
      shard: name,
      digest: digestOf(blobs[at]),
    })
  }
  const root = made.path(`${stem}.zt`)
  writeFileSync(root, file({ blobs: { [PAGE]: floats(9) }, manifest: { objects, shards } }))
  return { ...made, root, shard: (name) => made.path(`${stem}-${name}.zt`) }
}

async function refused(t, source, code, options) {
  const error = await rejectionOf(async () => (await open(source, options)).close())
  t.true(error instanceof ZTensorError, error?.stack ?? 'nothing thrown')
  t.is(error.code, code, error.message)
  t.is(thrownBy(() => openSync(source, options).close())?.message, error.message)
  return error
}

const values = (file) => Object.fromEntries([...file].map(([name, tensor]) => [name, [...tensor.data]]))
const EXPECTED = { own: [9], 'in.00001': [1, 2], 'in.00002': [3, 4, 5] }

for (const digest of [sha256, digestOf]) {
  test(`a root opens with the shards in its folder (${digest(Buffer.alloc(0)).split(':')[0]})`, async (t) => {
    const made = model({ digest })
    for (const source of [made.root, made.folder]) {
      const file = await open(source)
      t.deepEqual([file.format, file.version], ['zt', '2'])
      t.deepEqual(values(file), EXPECTED)
      t.deepEqual(
        file.files.map(({ path, name }) => [path, name]),
        [
          [made.root, undefined],
          [made.shard('00001'), '00001'],
          [made.shard('00002'), '00002'],
        ],
      )
      t.is(file.tensor('in.00002').components.get('data').path, made.shard('00002'))
      t.deepEqual([...(await file.tensor('in.00002').load())], [3, 4, 5])
      isMapped(t, file.tensor('in.00002'), 4)
      t.like(await file.verify(), { ok: true, checked: 5, undigested: 0, failures: [] })
      file.close()
    }
  })
}

test('shards keep the names of a numbered set', (t) => {
  const made = model({ names: ['00001-of-00002', '00002-of-00002'] })
  for (const source of [made.root, made.folder]) {
    const file = openSync(source)
    t.deepEqual(Object.values(values(file)), [[9], [1, 2], [3, 4, 5]])
    file.close()
  }
})

test('finds a shard with another name by its size and digest', async (t) => {
  for (const digest of [sha256, digestOf]) {
    const made = model({ digest })
    renameSync(made.shard('00001'), made.path('blob-a'))
    renameSync(made.shard('00002'), made.path('blob-b'))
    const file = await open(made.root)
    t.deepEqual(values(file), EXPECTED)
    t.is(file.files[2].path, made.path('blob-b'))
    file.close()
  }
})

test('searches shards only in the folder of the caller', async (t) => {
  const made = model()
  const other = scratchFolder()
  renameSync(made.shard('00001'), other.path('elsewhere'))
  const asked = []
  const shards = (name) => {
    asked.push(name)
    return name === '00001' ? other.path('elsewhere') : undefined
  }
  const file = await open(made.root, { shards })
  t.deepEqual(asked, ['00001', '00002'])
  t.deepEqual(values(file), EXPECTED)
  file.close()
  const error = await refused(t, made.root, 'ZT_INCOMPLETE', { shards: () => other.path('absent') })
  t.is(error.cause.length, 2)
})

test('missing, misplaced and foreign shards are one error, at open', async (t) => {
  const made = model({ names: ['00001', '00002'] })
  rmSync(made.shard('00001'))
  writeFileSync(made.shard('00002'), Buffer.alloc(7))
  const error = await refused(t, made.root, 'ZT_IO')
  t.deepEqual(
    error.cause.map(({ code }) => code),
    ['ZT_IO', 'ZT_BAD_INDEX'],
  )
  t.true(error.cause[0].message.includes(made.shard('00001')))
  t.true(error.cause[1].message.includes('7 bytes'), error.cause[1].message)
  t.is(error.cause[1].rule, 'zTensor 2 §7.3 Verification ladder')
})

test('a shard of the right size must be a zTensor 2 file', async (t) => {
  const made = model()
  const good = readFileSync(made.shard('00001'))
  const cases = {
    'another magic': [Buffer.concat([Buffer.from('ZTEN1000'), good.subarray(8)]), 'ZT_BAD_MAGIC'],
    'no magic at its end': [Buffer.concat([good.subarray(0, -8), Buffer.alloc(8)]), 'ZT_TRUNCATED'],
    'another version': [Buffer.concat([good.subarray(0, -40), footer({ version: 3 })]), 'ZT_UNSUPPORTED_VERSION'],
  }
  for (const [what, [bytes, code]] of Object.entries(cases)) {
    writeFileSync(made.shard('00001'), bytes)
    const error = await refused(t, made.root, code)
    t.true(error.message.includes('model-00001.zt'), what)
  }
})

test('verify() hashes whole shards, including bytes outside of tensors', async (t) => {
  const made = model()
  const bytes = readFileSync(made.shard('00002'))
  bytes[PAGE + 100] ^= 1 // padding
  writeFileSync(made.shard('00002'), bytes)
  const file = await open(made.root)
  t.deepEqual(values(file), EXPECTED)
  const { ok, checked, failures } = await file.verify()
  t.deepEqual([ok, checked, failures.length], [false, 5, 1])
  t.is(failures[0].code, 'ZT_DIGEST_MISMATCH')
  t.true(failures[0].message.includes('00002'), failures[0].message)
  t.true((await file.tensor('in.00002').verify()).ok)
  file.close()
})

test('ignores a digest of an unknown algorithm', async (t) => {
  const made = model({ digest: () => 'blake9:00' })
  const file = await open(made.root)
  t.like(await file.verify(), { ok: true, checked: 3, undigested: 2 })
  file.close()
})

test("shards: 'none' opens only a root", async (t) => {
  const made = model()
  rmSync(made.shard('00001'))
  rmSync(made.shard('00002'))
  for (const source of [made.root, readFileSync(made.root)]) {
    const file = await open(source, { shards: 'none' })
    t.deepEqual([...file.keys()], ['own', 'in.00001', 'in.00002'])
    t.deepEqual([...file.tensor('own').data], [9])
    const away = file.tensor('in.00002')
    t.like(away, { dtype: 'float32', shape: [3], byteLength: 12 })
    t.is(away.components.get('data').digest, digestOf(floats(3, 4, 5)))
    t.is(thrownBy(() => away.data)?.code, 'ZT_IO')
    t.is((await rejectionOf(() => away.load()))?.code, 'ZT_IO')
    // Memory has no files to read.
    const unfetched = await rejectionOf(() => file.prefetch(['in.00002']))
    t.is(unfetched?.code, source === made.root ? 'ZT_IO' : undefined)
    t.is(await file.prefetch(['own']), undefined)
    const unverified = await rejectionOf(() => file.verify())
    t.is(unverified?.code, 'ZT_IO')
    t.regex(unverified.message, source === made.root ? /without that option/ : /by its path/)
    file.close()
  }
})

test('a root in memory cannot find its shards', async (t) => {
  const error = await refused(t, readFileSync(model().root), 'ZT_INCOMPLETE')
  t.true(error.message.includes('by its path'))
})

test('an overlay refers to the blobs of another model', async (t) => {
  const made = scratchFolder()
  const base = file({ blobs: { [PAGE]: floats(1, 2, 3) }, manifest: { objects: { w: dense('f32', [3], PAGE, 12) } } })
  writeFileSync(made.path('base.zt'), base)
  const objects = {
    w: dense('f32', [3], PAGE, 12, { shard: 'base' }),
    'w.delta': dense('f32', [1], PAGE, 4),
  }
  const shards = { base: { size: base.length, digest: sha256(base) } }
  writeFileSync(made.path('lora.zt'), file({ blobs: { [PAGE]: floats(7) }, manifest: { objects, shards } }))
  const overlay = await open(made.path('lora.zt'))
  t.deepEqual(values(overlay), { w: [1, 2, 3], 'w.delta': [7] })
  t.is(overlay.files[1].path, made.path('base.zt'))
  t.true((await overlay.verify()).ok)
  overlay.close()
})

test('several roots open as one, each with its shards', async (t) => {
  const one = model({ stem: 'a', names: ['x'] })
  const other = scratchFolder()
  copyFileSync(one.root, other.path('a.zt'))
  const two = model({ stem: 'b', names: ['y'] })
  const clash = await rejectionOf(() => open([one.root, two.root]))
  t.like(clash, { code: 'ZT_BAD_INDEX', tensor: 'own' })
  const plain = scratchFolder()
  writeFileSync(
    plain.path('p.zt'),
    file({ blobs: { [PAGE]: floats(6) }, manifest: { objects: { p: dense('f32', [1], PAGE, 4) } } }),
  )
  const both = await open([plain.path('p.zt'), one.root])
  t.deepEqual(values(both), { p: [6], own: [9], 'in.x': [1, 2] })
  t.like(await both.verify(), { ok: true, checked: 3, undigested: 1 })
  both.close()
})
