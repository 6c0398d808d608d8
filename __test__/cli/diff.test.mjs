// `ztensor diff` and `ztensor stats`, run as processes.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { convert } from 'ztensor'
import { missing, run } from '../helpers/command.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const diff = (...args) => run(['diff', ...args])

const model = (change = {}, options = { version: '1.2' }) =>
  written(options, async (writer) => {
    const { bias = Float32Array.of(1, 2), data = new Float32Array(12).map((_, i) => i), ...more } = change
    await writer.add('bias', bias, change.attributes === undefined ? {} : { attributes: change.attributes })
    await writer.add('wte', { dtype: 'float32', shape: [3, 4], data })
    for (const [name, tensor] of Object.entries(more)) if (name !== 'attributes') await writer.add(name, tensor)
  })

test('exits with 0 for equal tensors in other formats and versions', async (t) => {
  const source = await model()
  for (const options of [
    { version: '0.1' },
    { version: '1.0', compression: { level: 3 } },
    { version: '2' },
    { format: 'safetensors' },
  ]) {
    const target = scratchPath('other')
    await convert(source, target, options)
    const { code, stdout, stderr } = await diff(source, target)
    t.deepEqual([code, stdout, stderr], [0, '2 tensors the same\n', ''])
  }
})

test('compares additional components by their bytes, except with --values', async (t) => {
  const withOther = (version, other) =>
    written({ version }, (writer) =>
      writer.addObject('w', {
        layout: 'dense',
        dtype: 'float32',
        shape: [2],
        components: {
          data: { dtype: 'float32', data: Float32Array.of(1, 2) },
          ...(other && { scale: { dtype: 'float32', data: other } }),
        },
      }),
    )
  const a = await withOther('1.2', Float32Array.of(3, 4, 5))
  const same = await diff(a, await withOther('1.2', Float32Array.of(3, 4, 5)))
  t.deepEqual([same.code, same.stdout], [0, '1 tensor the same\n'])
  for (const b of [await withOther('1.2', Float32Array.of(3, 4, 6)), await withOther('1.0')]) {
    const { code, stdout } = await diff(a, b)
    t.deepEqual([code, stdout.split('\n').slice(0, 2)], [1, ['changed  w', '  components: the bytes of scale differ']])
    const json = await diff(a, b, '--json')
    t.deepEqual(JSON.parse(json.stdout).changed[0].components, ['scale'])
    const values = await diff(a, b, '--values')
    t.deepEqual([values.code, values.stdout], [0, '1 tensor the same\n'])
  }
})

test('lists added, removed and changed tensors, and exits with 1', async (t) => {
  const data = new Float32Array(12).map((_, i) => i)
  data[6] = 6.5
  data[11] = NaN
  const a = await model({ old: Int8Array.of(1, 2, 3), cast: Float32Array.of(1), cut: Float32Array.of(1, 2) })
  const b = await model({ data, new: Int8Array.of(1), cast: Float64Array.of(1), cut: Float32Array.of(1) })
  const { code, stdout, stderr } = await diff(a, b)
  t.is(stderr, '')
  t.is(code, 1)
  t.deepEqual(stdout.split('\n'), [
    'removed  old  int8 [3]',
    'added    new  int8 [1]',
    'changed  cast',
    '  dtype float32 → float64',
    'changed  cut',
    '  shape [2] → [1]',
    'changed  wte',
    '  values: 2 of 12 values differ, by at most 0.5 (relative 0.076923), ‖Δ‖ / ‖before‖ 2.5482 %, cosine 0.99971, 1 NaN on one side, first [1, 2]',
    '1 removed, 1 added, 3 changed, 1 tensor the same',
    '',
  ])
  const quiet = await diff(a, b, '--quiet')
  t.deepEqual([quiet.code, quiet.stdout, quiet.stderr], [1, '', ''])
  const some = await diff(a, b, '--filter', 'b*')
  t.deepEqual([some.code, some.stdout], [0, '1 tensor the same\n'])
})

test('--json contains everything', async (t) => {
  const a = await model({ old: Int8Array.of(1) })
  const b = await model({ bias: Float32Array.of(1, Infinity) })
  const { code, stdout } = await diff(a, b, '--json')
  t.is(code, 1)
  const { same, removed, added, changed, unchanged, metadata } = JSON.parse(stdout)
  t.deepEqual({ same, added, unchanged, metadata }, { same: false, added: [], unchanged: 1, metadata: [] })
  t.deepEqual(removed, [{ name: 'old', dtype: 'int8', shape: [1], layout: 'dense' }])
  t.is(changed.length, 1)
  const { values, ...rest } = changed[0]
  t.deepEqual(rest, { name: 'bias', dtype: null, shape: null, layout: null, attributes: [] })
  t.like(values, { elements: 2, differing: 1, firstDifference: 1, maxAbsolute: 'Infinity', unmatchedNaN: 0 })
  const none = JSON.parse((await diff(a, a, '--json')).stdout)
  t.deepEqual([none.same, none.changed, none.unchanged], [true, [], 3])
})

test('--atol, --rtol and --values', async (t) => {
  const a = await model()
  const b = await model({ bias: Float64Array.of(1, 2.125) })
  const codes = async (...options) => (await diff(a, b, '--quiet', ...options)).code
  t.is(await codes('--values'), 1)
  t.is(await codes('--atol', '0.125'), 1) // the dtype
  t.is(await codes('--values', '--atol', '0.125'), 0)
  t.is(await codes('--values', '--atol', '0.1'), 1)
  t.is(await codes('--values', '--rtol', '0.06'), 0)
})

test('lists metadata that differs; with --metadata it counts, and so do attributes of tensors', async (t) => {
  const a = await model({ attributes: { unit: 'm' } }, { version: '1.2', metadata: { license: 'MIT' } })
  const b = await model({ attributes: { unit: 's' } }, { version: '1.2', metadata: { author: 'me' } })
  const metadata = ['changed  metadata license: MIT → none', 'changed  metadata author: none → me']
  const listed = await diff(a, b)
  t.is(listed.code, 0)
  t.deepEqual(listed.stdout.split('\n').slice(0, -2), metadata)
  const { code, stdout } = await diff(a, b, '--metadata')
  t.is(code, 1)
  t.deepEqual(stdout.split('\n').slice(0, -2), ['changed  bias', '  attribute unit: m → s', ...metadata])
})

test('compares layouts that cannot be decoded by the bytes of their components', async (t) => {
  const odd = (last) =>
    written({ version: '1.2' }, async (writer) => {
      const components = {
        codes: { dtype: 'uint8', data: Uint8Array.of(1, 2, last) },
        table: { dtype: 'float32', data: Float32Array.of(1) },
      }
      await writer.addObject('odd', { layout: 'some.thing/1', shape: [3], components })
    })
  t.is((await diff(await odd(3), await odd(3))).code, 0)
  const { code, stdout } = await diff(await odd(3), await odd(4))
  t.is(code, 1)
  t.true(stdout.includes('  values: the bytes of codes differ\n'), stdout)
})

test('sparse and dense differ in layout, and are equal with --values', async (t) => {
  const sparse = await written({ version: '1.2' }, async (writer) => {
    const arrays = { values: Float32Array.of(1, 2), indices: Uint32Array.of(0, 2), indptr: Uint32Array.of(0, 1, 2) }
    await writer.addCsr('m', { shape: [2, 3], ...arrays })
  })
  const dense = await written({ version: '1.2' }, async (writer) => {
    await writer.add('m', { dtype: 'float32', shape: [2, 3], data: Float32Array.of(1, 0, 0, 0, 0, 2) })
  })
  const { code, stdout } = await diff(sparse, dense)
  t.is(code, 1)
  t.true(stdout.includes('  layout sparse_csr → dense\n'), stdout)
  t.is((await diff(sparse, dense, '--values')).code, 0)
})

test('exits with 2 for unreadable files and mistyped options', async (t) => {
  const a = await model()
  const short = readFileSync(a).subarray(0, -5)
  for (const args of [
    [a, missing()],
    [missing(), a],
    [a],
    [a, a, '--atol', 'x'],
    [a, a, '--rtol=-1'],
    [a, a, '--quiet', '--json'],
    [a, scratchFile(short)],
  ]) {
    const { code, stdout, stderr } = await diff(...args)
    t.is(code, 2, args.join(' '))
    t.is(stdout, '')
    t.regex(stderr, /^ztensor: .*\(ZT_[A-Z_]+\)\n/)
  }
})

test('prints names from a file safely', async (t) => {
  const hostile = await written({ version: '1.2' }, (writer) => writer.add('a\u001b[31m\nb', Int8Array.of(1)))
  const { stdout } = await diff(
    hostile,
    await written({ version: '1.2' }, (writer) => writer.add('c', Int8Array.of(1))),
  )
  t.false(stdout.includes('\u001b'))
  t.is(stdout.split('\n').length, 4)
})

test('stats prints a row per tensor, a histogram on request, and JSON', async (t) => {
  const path = await model({
    data: new Float32Array(12).map((_, i) => i % 4),
    c: { dtype: 'complex64', shape: [1], data: Float32Array.of(1, 2) },
  })
  const { code, stdout } = await run(['stats', path])
  t.is(code, 0)
  const rows = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/ {2,}/))
  t.deepEqual(rows, [
    ['name', 'dtype', 'count', 'min', 'max', 'mean', 'std', 'zeros', 'NaN', 'Inf', 'error'],
    ['bias', 'float32', '2', '1', '2', '1.5', '0.5', '0', '0', '0'],
    ['c', 'complex64', '-', '-', '-', '-', '-', '-', '-', '-', 'ZT_BAD_DTYPE'],
    ['wte', 'float32', '12', '0', '3', '1.5', '1.118', '3', '0', '0'],
  ])
  const bins = await run(['stats', path, 'wte', '--bins', '2'])
  t.is(bins.code, 0)
  t.regex(bins.stdout, /\nwte\n {2}0 {2}6 {2}█{50}\n1\.5 {2}6 {2}█{50}\n {2}3\n$/)
  const [json] = JSON.parse((await run(['stats', path, 'wte', '--json', '--bins', '2'])).stdout)
  t.like(json, { name: 'wte', count: 12, zeros: 3, histogram: { edges: [0, 1.5, 3], counts: [6, 6] } })
  for (const args of [
    [path, 'nope'],
    [path, 'c'],
    [path, '--bins', '0'],
    [path, '--bins', 'x'],
  ]) {
    t.is((await run(['stats', ...args])).code, 2, args.join(' '))
  }
})

test('--sort change lists the most changed tensors first, and --rename compares other names', async (t) => {
  const data = (change) => Float32Array.of(3, 4 + change)
  const a = await model({ 'h.0': data(0), 'h.1': data(0), 'h.2': data(0), 'h.3': Float32Array.of(1) })
  const b = await model({ 'h.0': data(1), 'h.1': data(2), 'h.2': data(0.5), 'h.3': Float32Array.of(1, 2) })
  const changed = ({ stdout }) => Array.from(stdout.matchAll(/^changed {2}(.*)$/gm), ([, name]) => name)
  t.deepEqual(changed(await diff(a, b)), ['h.0', 'h.1', 'h.2', 'h.3'])
  t.deepEqual(changed(await diff(a, b, '--sort', 'change')), ['h.3', 'h.1', 'h.0', 'h.2'])
  const json = JSON.parse((await diff(a, b, '--json')).stdout)
  t.deepEqual(
    json.changed.map(({ values }) => values?.relativeChange ?? null),
    [0.2, 0.4, 0.1, null],
  )
  const renamed = scratchPath('renamed.zt')
  await convert(b, renamed, { rename: { 'h.*': 'layer.*' } })
  const under = await diff(a, renamed, '--rename', 'h.*=layer.*')
  t.deepEqual(
    changed(under),
    [0, 1, 2, 3].map((at) => `h.${at} (now layer.${at})`),
  )
  t.is((await diff(a, renamed, '--rename', 'z*=y*')).code, 2)
})
