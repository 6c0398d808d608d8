// `filter` is a glob, a list of globs or a function, in every call that has it.
import test from 'ava'
import { convert, diff, open } from 'ztensor'
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
    await convert(source, path, { filter })
    const file = await open(path)
    t.deepEqual([...file.keys()].sort(), names)
    file.close()
    const { removed } = await diff(source, await written({}, () => {}), { filter })
    t.deepEqual(removed.map(({ name }) => name).sort(), names)
  })
}

test('anything else is refused', async (t) => {
  const source = await sample()
  for (const filter of [1, {}, [1], null, true]) {
    isArgumentError(t, await rejectionOf(() => convert(source, scratchPath('never.zt'), { filter })), 'filter')
    isArgumentError(t, await rejectionOf(() => diff(source, source, { filter })), 'filter')
  }
})
