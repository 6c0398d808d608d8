// `filter` is a glob, a list of globs or a function, in every call that has it.
import test from 'ava'
import { convert, diff, open } from 'ztensor'
import { planJob } from 'ztensor/jobs'
import { report, serveReport } from 'ztensor/report'
import { run } from '../helpers/command.mjs'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const NAMES = ['encoder.bias', 'encoder.weight', 'head.bias', 'head.weight']
const sample = () =>
  written({}, async (writer) => {
    for (const [at, name] of NAMES.entries()) await writer.add(name, Float32Array.of(at))
  })

const CASES = [
  ['*.weight', ['encoder.weight', 'head.weight']],
  [
    ['encoder.*', 'head.b?as'],
    ['encoder.bias', 'encoder.weight', 'head.bias'],
  ],
  [['*.weight', '!head.*'], ['encoder.weight']],
  ['!*.bias', ['encoder.weight', 'head.weight']],
  [({ name }) => name.startsWith('head'), ['head.bias', 'head.weight']],
  [[], []],
  [undefined, NAMES],
]

for (const [filter, names] of CASES) {
  test(`filter: ${typeof filter === 'function' ? 'a function' : JSON.stringify(filter)}`, async (t) => {
    const source = await sample()
    const path = scratchPath('target.zt')
    if (names.length === 0)
      isArgumentError(
        t,
        await rejectionOf(() => convert(source, path, { filter })),
        'filter selects none of the tensors',
      )
    else {
      await convert(source, path, { filter })
      const file = await open(path)
      t.deepEqual([...file.keys()].sort(), names)
      file.close()
    }
    const { removed } = await diff(source, await written({}, () => {}), { filter })
    t.deepEqual(removed.map(({ name }) => name).sort(), names)
  })
}

test('rejects other filters', async (t) => {
  const source = await sample()
  for (const filter of [1, {}, [1], null, true]) {
    isArgumentError(t, await rejectionOf(() => convert(source, scratchPath('never.zt'), { filter })), 'filter')
    isArgumentError(t, await rejectionOf(() => diff(source, source, { filter })), 'filter')
  }
})

test('a glob that matches no tensor is an error in every call', async (t) => {
  const [source, other] = [await sample(), await written({}, (writer) => writer.add('new', Float32Array.of(1)))]
  for (const filter of ['typo', ['head.*', 'typo'], ['head.*', '!typo']])
    for (const call of [
      () => convert(source, scratchPath('never.zt'), { filter }),
      () => diff(source, source, { filter }),
      () => report(source, { filter }),
      () => report(source, { against: other, filter }),
      () => serveReport(source, { filter }),
    ])
      isArgumentError(t, await rejectionOf(call), "filter: '")
  // Those of either file count.
  t.is((await diff(source, other, { filter: ['head.*', 'new'] })).added.length, 1)
  t.regex(await report(source, { against: other, filter: ['head.*', 'new'] }), /<html/)
  for (const args of [
    ['diff', source, source],
    ['view', source, '--output', scratchPath('r.html')],
  ])
    t.is((await run([...args, '--filter', 'head.*', '--filter', 'typo'])).code, 1, args[0])
})

test('skip with globs skips only these tensors', async (t) => {
  const mixed = await written({ version: '1.2' }, async (writer) => {
    await writer.add('a.weight', Float32Array.of(1))
    await writer.add('a.complex', { dtype: 'complex128', shape: [1], data: Float64Array.of(1, 2) })
    await writer.add('b.complex', { dtype: 'complex128', shape: [1], data: Float64Array.of(1, 2) })
  })
  const target = () => scratchPath('mixed.safetensors')
  const two = await convert(mixed, target(), { skip: '*.complex' })
  t.deepEqual([two.tensors, two.skippedTensors], [1, 2])
  const error = await rejectionOf(() => convert(mixed, target(), { skip: ['a.*'] }))
  t.is(error.code, 'ZT_BAD_DTYPE')
  t.deepEqual(
    error.cause.map(({ tensor }) => tensor),
    ['b.complex'],
  )
  isArgumentError(t, await rejectionOf(() => convert(mixed, target(), { skip: 1 })), 'skip')
  for (const [args, code] of [
    [['--skip'], 1],
    [['--skip', '*.complex'], 0],
    [['--skip', 'a.*'], 2],
  ])
    t.is((await run(['convert', mixed, target(), ...args])).code, code, args.join(' '))
})

/** Calls with a function of the caller, whose result they use immediately. */
const CALLING = {
  load: (file, filter) => file.load({ filter }),
  prefetch: (file, filter) => file.prefetch({ filter }),
  evict: async (file, filter) => file.evict({ filter }),
  verify: (file, filter) => file.verify({ filter }),
  convert: (file, filter) => convert(file, scratchPath('never.zt'), { filter }),
  diff: (file, filter) => diff(file, file, { filter }),
  report: (file, filter) => report(file, { filter }),
  serveReport: (file, filter) => serveReport(file, { filter }),
  planJob: ({ path }, filter) => planJob('convert', path, scratchPath('never.zt'), { filter }),
  rename: (file, rename) => convert(file, scratchPath('never.zt'), { rename }),
}

for (const [call, run] of Object.entries(CALLING)) {
  test(`${call}: rejects an async function, also one that rejects`, async (t) => {
    const file = await open(await sample())
    const option = call === 'rename' ? /^rename must not be async/ : /^filter must not be async/
    // biome-ignore lint/suspicious/noThenProperty: a promise of another library
    const later = { then: (_resolve, reject) => reject?.(new Error('late')) }
    for (const given of [async () => true, () => Promise.reject(new Error('mine')), () => later]) {
      const error = await rejectionOf(() => run(file, given))
      t.is(error.code, 'ZT_INVALID_ARG')
      t.regex(error.message, option)
    }
    file.close()
  })
}

test('converts other results of a filter to booleans', async (t) => {
  const source = await sample()
  const file = await open(source)
  t.is((await file.load({ filter: () => 1 })).size, NAMES.length)
  t.is((await file.load({ filter: () => undefined })).size, 0)
  t.is((await file.load({ filter: ({ name }) => name.match(/head/) })).size, 2)
  file.close()
})
