// The content of a report, also for hostile files.
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { create, diff, open, saveFile } from 'ztensor'
import { report } from 'ztensor/report'
import { square10, zt10 } from '../corpus/zt.mjs'
import { fixture, safetensors, write } from '../helpers/command.mjs'
import { dataOf, HOSTILE, hashOf, numbersOf, policyOf, shellOf } from '../helpers/report-page.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const floats = (...values) => Float32Array.from(values)

test('is smaller than 400 KB without its data, and makes no network requests', async (t) => {
  const shell = shellOf(await report('examples/model.safetensors'))
  t.true(Buffer.byteLength(shell) < 400_000)
  // Names of XML namespaces and licenses are not requests.
  const addresses = Array.from(shell.matchAll(/https?:\/\/[^\s"'`)]+/g), ([address]) => address)
  const known = /^http:\/\/www\.w3\.org\/|^https:\/\/www\.apache\.org\/licenses\//
  t.deepEqual(
    addresses.filter((address) => !known.test(address)),
    [],
  )
  t.notRegex(shell, /<link(?! rel="icon" href="data:,")|<iframe|<img|\bimport\(|@import|url\(/)
})

test('has a policy that allows only its own script and style', async (t) => {
  const html = await report('examples/model.safetensors')
  const policy = policyOf(html)
  const [, style] = /<style>([\s\S]*?)<\/style>/.exec(html)
  const [, script] = /<script>([\s\S]*?)<\/script>/.exec(html)
  t.is(policy.get('default-src'), "'none'")
  t.is(policy.get('connect-src'), "'none'")
  t.is(policy.get('script-src'), hashOf(script))
  t.is(policy.get('style-src'), hashOf(style))
  t.is(policy.get('base-uri'), "'none'")
  t.is(policy.get('trusted-types'), "'none'")
  t.true(html.indexOf('Content-Security-Policy') < html.indexOf('<style>'))
})

test('is the same for the same file', async (t) => {
  t.is(await report('examples/model.safetensors'), await report('examples/model.safetensors'))
})

test('lists every tensor like the file', async (t) => {
  const path = fixture('zt12-dtypes.zt')
  const data = dataOf(await report(path))
  const file = await open(path)
  t.deepEqual(data.tensors.names, [...file.keys()])
  const [dtype, shape] = ['dtype', 'shape'].map((key) => numbersOf(data.tensors[key], file.size))
  for (const [at, tensor] of Array.from(file.values()).entries()) {
    t.is(data.dtypes[dtype[at]], tensor.dtype)
    t.deepEqual(data.shapes[shape[at]], [...tensor.shape])
  }
  const offsets = numbersOf(data.parts.offset, file.size)
  const components = Array.from(file.values()).flatMap((tensor) => [...tensor.components.values()])
  t.deepEqual(
    offsets.slice(0, components.length),
    components.map(({ offset }) => offset ?? -1),
  )
  t.is(data.file.format, 'zt')
  file.close()
})

test('names the storage types of quantized tensors, and the layouts of all', async (t) => {
  for (const path of [fixture('gguf/types.gguf'), fixture('zt101-sparse.zt')]) {
    const data = dataOf(await report(path))
    const file = await open(path)
    const [type, layout, bytes] = ['dtype', 'layout', 'bytes'].map((key) => numbersOf(data.tensors[key], file.size))
    for (const [at, tensor] of Array.from(file.values()).entries()) {
      t.is(data.dtypes[type[at]], tensor.storageType, tensor.name)
      t.is(data.layouts[layout[at]], tensor.layout, tensor.name)
      t.is(bytes[at], tensor.byteLength, tensor.name)
    }
    t.false(data.dtypes.includes('unknown'), path)
    file.close()
  }
  const { dtypes } = dataOf(await report(fixture('gguf/types.gguf')))
  for (const name of ['q4_k', 'q6_k', 'q8_0']) t.true(dtypes.includes(name), dtypes.join())
})

test('counts NaN and infinities of each tensor', async (t) => {
  const tensors = {
    good: ['F32', [2], floats(1, 2)],
    nan: ['F32', [3], floats(Number.NaN, 1, Number.NaN)],
    infinite: ['F32', [3], floats(Infinity, -Infinity, 0)],
  }
  const { found, tensors: listed } = dataOf(await report(write('not-finite.safetensors', safetensors(tensors))))
  const counts = (key) => Object.fromEntries(numbersOf(found[key], 3).map((count, at) => [listed.names[at], count]))
  t.deepEqual(counts('nan'), { good: 0, nan: 2, infinite: 0 })
  t.deepEqual(counts('positiveInfinite'), { good: 0, nan: 0, infinite: 1 })
  t.deepEqual(counts('negativeInfinite'), { good: 0, nan: 0, infinite: 1 })
  t.is(found.max[listed.names.indexOf('nan')], 1)
})

test('has the statistics of the library', async (t) => {
  const path = write('values.safetensors', safetensors({ w: ['F32', [6], floats(1, 2, 2, Number.NaN, Infinity, 0)] }))
  const { found } = dataOf(await report(path))
  t.like(found, { min: [0], max: [2], mean: [1.25], failed: [] })
  for (const [key, value] of Object.entries({ count: 6, nan: 1, positiveInfinite: 1, negativeInfinite: 0, zeros: 1 })) {
    t.deepEqual(found[key], { all: value }, key)
  }
  const bins = Buffer.from(found.histograms.bins[0], 'base64')
  t.is(bins.length, 48)
  t.deepEqual([...bins].filter((byte) => byte > 0).length, 3)
  t.deepEqual([bins[0] > 0, bins[47]], [true, 255])
})

test('statistics: false reads no values', async (t) => {
  const data = dataOf(await report('examples/model.safetensors', { statistics: false }))
  t.false('found' in data)
  t.is(data.live, false)
})

test('shows why a tensor has no statistics, and shows the others', async (t) => {
  const path = write('complex.safetensors', safetensors({ c: ['C64', [2]], f: ['F32', [2], floats(3, 4)] }))
  const { found, tensors } = dataOf(await report(path))
  t.deepEqual(
    found.failed.map(([at, code]) => [tensors.names[at], code]),
    [['c', 'ZT_BAD_DTYPE']],
  )
  t.is(found.max[tensors.names.indexOf('f')], 4)
})

test('hostile names are only data', async (t) => {
  const tensors = Object.fromEntries(HOSTILE.map((name) => [name, ['F32', [1], floats(1)]]))
  Object.defineProperty(tensors, '__proto__', { value: ['F32', [1], floats(1)], enumerable: true })
  const metadata = Object.fromEntries(HOSTILE.map((name) => [name, name]))
  const path = write('hostile.safetensors', safetensors(tensors, metadata))
  const html = await report(path)
  const data = dataOf(html)
  t.deepEqual(new Set(data.tensors.names), new Set(HOSTILE))
  t.true(data.file.metadata.some(({ key }) => key === HOSTILE[0]))
  // One script of data and one of the page, with any names.
  t.is(html.match(/<script/g).length, 2)
  t.is(html.match(/<\/script/g).length, 2)
})

// Windows has no such names.
const onPosix = process.platform === 'win32' ? test.skip : test

onPosix('the name of the file is text in the title', async (t) => {
  const path = write('<∕title><script>"&.safetensors', safetensors({ w: ['F32', [1]] }))
  t.regex(await report(path), /<title>&lt;∕title&gt;&lt;script&gt;&quot;&amp;\.safetensors · ztensor<\/title>/)
})

test('the page contains no invalid text from the file name', async (t) => {
  const file = await open(safetensors({ w: ['F32', [1]] }))
  t.regex(await report(file), /<title>a file in memory · ztensor<\/title>/)
  file.close()
  const path = write('a\u202eb.safetensors', safetensors({ w: ['F32', [1]] }))
  t.regex(await report(path), /<title>a\ufffdb\.safetensors · ztensor<\/title>/)
})

test('shortens long values, and shows how much is omitted', async (t) => {
  const many = Object.fromEntries(
    Array.from({ length: 2500 }, (_, at) => [`key ${at}`, 'x'.repeat(at === 0 ? 9000 : 1)]),
  )
  const { file } = dataOf(await report(write('long.safetensors', safetensors({ w: ['F32', [1]] }, many))))
  t.is(file.metadata.length, 2000)
  t.is(file.moreMetadata, 500)
  t.true(file.metadata.every(({ value }) => value.length <= 4001))
})

test('a file without tensors has a report', async (t) => {
  const { tensors, found } = dataOf(await report(write('none.safetensors', safetensors({}))))
  t.deepEqual(tensors.names, [])
  t.deepEqual(found.failed, [])
})

async function pair() {
  const [base, tuned] = [scratchPath('base.zt'), scratchPath('tuned.zt')]
  const before = await create(base)
  await before.add('same', { dtype: 'float32', shape: [2], data: floats(1, 2) })
  await before.add('moved', { dtype: 'float32', shape: [2, 2], data: floats(3, 0, 0, 4) })
  await before.add('gone', { dtype: 'float32', shape: [1], data: floats(1) })
  await before.add('cast', { dtype: 'float32', shape: [2], data: floats(1, 1) })
  await before.finish()
  const after = await create(tuned)
  await after.add('same', { dtype: 'float32', shape: [2], data: floats(1, 2) })
  await after.add('moved', { dtype: 'float32', shape: [2, 2], data: floats(3, 0, 0, 4.5) })
  await after.add('cast', { dtype: 'float64', shape: [2], data: Float64Array.of(1, 1) })
  await after.add('new', { dtype: 'float32', shape: [1], data: floats(1) })
  await after.finish()
  return { base, tuned }
}

test('compared with another file: lists added, removed and changed tensors, and the differences', async (t) => {
  const { base, tuned } = await pair()
  const data = dataOf(await report(tuned, { against: base }))
  const name = (at) => data.tensors.names[at]
  t.deepEqual(data.diff.added.map(name), ['new'])
  t.deepEqual(data.diff.removed, [{ name: 'gone', dtype: 'float32', shape: [1] }])
  t.is(data.diff.unchanged, 1)
  t.deepEqual(new Set(data.diff.changed.map(({ tensor }) => name(tensor))), new Set(['moved', 'cast']))
  const moved = data.diff.changed.find(({ tensor }) => name(tensor) === 'moved')
  t.is(moved.sums.differenceSquared, 0.25)
  t.is(moved.sums.otherSquared, 25)
  t.deepEqual(moved.sums.exponents, { first: -1, counts: [1] })
  const cosine = (9 + 18) / (5 * Math.hypot(3, 4.5))
  t.true(Math.abs(moved.sums.cosine - cosine) < 1e-4)
  t.deepEqual([moved.values.differing, moved.values.maxAbsolute], [1, 0.5])
  const cast = data.diff.changed.find(({ tensor }) => name(tensor) === 'cast')
  t.is(cast.dtype, 'float32')
  t.false('values' in cast)
})

test('sums omit values that are not finite, and cover tensors in several pieces', async (t) => {
  const size = 2 ** 20 + 7
  const values = new Float32Array(size).fill(2)
  const changed = values.slice()
  changed[0] = Number.NaN
  changed[size - 1] = 6
  const [base, tuned] = [scratchPath('base.zt'), scratchPath('tuned.zt')]
  for (const [path, data] of [
    [base, values],
    [tuned, changed],
  ]) {
    const writer = await create(path)
    await writer.add('w', { dtype: 'float32', shape: [size], data })
    await writer.finish()
  }
  const [{ sums, values: compared }] = dataOf(await report(tuned, { against: base })).diff.changed
  t.is(sums.differenceSquared, 16)
  t.is(sums.otherSquared, 4 * (size - 1))
  t.deepEqual(sums.exponents, { first: 2, counts: [1] })
  t.is(compared.unmatchedNaN, 1)
})

test('compares two files like diff', async (t) => {
  const { base, tuned } = await pair()
  const { changed, unchanged } = await diff(base, tuned)
  const shown = dataOf(await report(tuned, { against: base })).diff
  t.is(shown.changed.length, changed.length)
  t.is(shown.unchanged, unchanged)
})

test('leaves given open files open, of any format', async (t) => {
  for (const name of ['examples/model.safetensors', fixture('zt12-dtypes.zt')]) {
    const file = await open(name)
    const data = dataOf(await report(file, { against: file }))
    t.is(data.diff.changed.length, 0)
    t.false(file.closed)
    file.close()
  }
})

test('reports progress, and ends at its signal', async (t) => {
  const seen = []
  await report('examples/model.safetensors', { onProgress: (progress) => seen.push(progress) })
  const last = seen.at(-1)
  t.is(last.tensors, last.totalTensors)
  t.is(last.bytes, last.totalBytes)
  t.true(seen.every(({ bytes }, at) => at === 0 || bytes >= seen[at - 1].bytes))

  const reason = new Error('enough')
  const stop = new AbortController()
  const work = report('examples/model.safetensors', { onProgress: () => stop.abort(reason), signal: stop.signal })
  t.is(await t.throwsAsync(work), reason)
  t.is(await t.throwsAsync(report('examples/model.safetensors', { signal: AbortSignal.abort(reason) })), reason)
})

test('rejects unknown options', async (t) => {
  for (const options of [{ stats: true }, { statistics: 1 }, { onProgress: 1 }, { against: 7 }]) {
    await t.throwsAsync(report('examples/model.safetensors', options), { code: 'ZT_INVALID_ARG' })
  }
})

test('a filter: shows only these tensors everywhere, and the page states it', async (t) => {
  const { base, tuned } = await pair()
  const data = dataOf(await report(tuned, { against: base, filter: ['*o*', '!new'] }))
  t.deepEqual(data.tensors.names, ['moved'])
  t.deepEqual(data.file.filter, { globs: ['*o*', '!new'], tensors: 4 })
  t.is(data.file.parameters, 4)
  t.deepEqual(data.parts.tensor, { all: 0 })
  t.deepEqual(data.found.max, [4.5])
  t.is(data.diff.changed.length, 1)
  t.is(data.diff.changed[0].tensor, 0)
  t.deepEqual([data.diff.added, data.diff.unchanged, data.diff.tensors], [[], 0, 2])
  t.deepEqual(data.diff.removed, [{ name: 'gone', dtype: 'float32', shape: [1] }])
  // A function sees the tensors of this file; a tensor that both have is compared if it is shown.
  const wide = dataOf(await report(tuned, { against: base, filter: ({ dtype }) => dtype === 'float64' }))
  t.deepEqual([wide.tensors.names, wide.file.filter.globs, wide.diff.removed], [['cast'], [], []])
  t.is(wide.diff.changed[0].dtype, 'float32')
  const none = dataOf(await report(tuned, { against: base, filter: () => false }))
  t.deepEqual([none.tensors.names, none.found.max, none.diff.tensors], [[], [], 0])
  t.false('filter' in dataOf(await report(tuned)).file)
})

test('a filter omits the warnings of other tensors, and progress covers its tensors', async (t) => {
  const path = write('many.safetensors', safetensors({ a: ['F32', [2], floats(1, 2)], b: ['F32', [2], floats(3, 4)] }))
  const seen = []
  await report(path, { filter: 'b', onProgress: (progress) => seen.push(progress) })
  t.like(seen.at(-1), { bytes: 8, totalBytes: 8, tensors: 1, totalTensors: 1 })
  const odd = { dtype: 'uint8', shape: [4], format: 'x.y/1', components: { data: { bytes: Buffer.from([1, 2]) } } }
  const bytes = zt10({ w: square10(), odd })
  const warned = async (filter) => dataOf(await report(bytes, { filter })).file.warnings.map(({ tensor }) => tensor)
  t.deepEqual(await warned(undefined), ['odd'])
  t.deepEqual(await warned('odd'), ['odd'])
  t.deepEqual(await warned('w'), [])
})

test('lists the metadata that differs, and tells two files of one name apart', async (t) => {
  const { folder, path } = scratchFolder()
  for (const name of ['base', 'tuned']) mkdirSync(join(folder, name))
  const paths = ['base', 'tuned'].map((name) => path(`${name}/model.safetensors`))
  await saveFile(paths[0], { w: floats(1) }, { metadata: { format: 'pt', license: 'mit' } })
  await saveFile(paths[1], { w: floats(1) }, { metadata: { format: 'pt', '<b>': 'x' } })
  const html = await report(paths[1], { against: paths[0] })
  const { file, diff } = dataOf(html)
  t.deepEqual(diff.metadata, [
    { key: 'license', before: 'mit', after: null },
    { key: '<b>', before: null, after: 'x' },
  ])
  t.is(diff.moreMetadata, 0)
  t.deepEqual([file.name, diff.against], ['tuned/model.safetensors', 'base/model.safetensors'])
  t.regex(html, /<title>tuned\/model\.safetensors and base\/model\.safetensors · ztensor<\/title>/)
  t.is(dataOf(await report(paths[1])).file.name, 'model.safetensors')
  t.regex(await report(paths[1], { against: paths[0], title: 'x' }), /<title>x · ztensor</)
})

test('shows the config.json of a model, and no other file by a link', async (t) => {
  const { folder, path } = scratchFolder()
  const weights = path('model.safetensors')
  await saveFile(weights, { w: floats(1) })
  const configOf = async () => dataOf(await report(weights)).file.config
  t.is(await configOf(), undefined)
  const config = { model_type: 'llama', rope: { theta: 1e4 }, architectures: ['LlamaForCausalLM'] }
  writeFileSync(path('config.json'), JSON.stringify(config))
  const rows = [
    { key: 'model_type', value: 'llama' },
    { key: 'rope', value: '{ theta: 10000 }' },
    { key: 'architectures', value: "[ 'LlamaForCausalLM' ]" },
  ]
  t.deepEqual(await configOf(), rows)
  t.deepEqual(dataOf(await report(folder)).file.config, rows)
  for (const other of ['[1]', '{"name":"a package"}', '{', `{"model_type":"${'x'.repeat(2 ** 20)}"}`]) {
    writeFileSync(path('config.json'), other)
    t.is(await configOf(), undefined, other.slice(0, 40))
  }
  if (process.platform === 'win32') return
  const outside = scratchPath('outside.json')
  writeFileSync(outside, JSON.stringify(config))
  const link = async (target) => {
    rmSync(path('config.json'))
    symlinkSync(target, path('config.json'))
    return configOf()
  }
  t.is(await link(outside), undefined)
  writeFileSync(path('other.json'), JSON.stringify(config))
  t.deepEqual(await link('other.json'), rows)
  t.is(await link('/dev/zero'), undefined)
})

test('shows the config.json of a snapshot in the cache of the hub', async (t) => {
  if (process.platform === 'win32') return t.pass()
  const { folder, path } = scratchFolder()
  const snapshot = join(folder, 'snapshots/0123')
  for (const name of [snapshot, path('blobs')]) mkdirSync(name, { recursive: true })
  writeFileSync(path('blobs/abc'), '{"model_type":"bert"}')
  await saveFile(path('blobs/def'), { w: floats(1) }, { format: 'safetensors' })
  symlinkSync('../../blobs/abc', join(snapshot, 'config.json'))
  symlinkSync('../../blobs/def', join(snapshot, 'model.safetensors'))
  const { file } = dataOf(await report(join(snapshot, 'model.safetensors')))
  t.deepEqual(file.config, [{ key: 'model_type', value: 'bert' }])
})
