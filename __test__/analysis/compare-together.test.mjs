// compare(): pairs that are requested together are compared together, with the result of separate calls.
import test from 'ava'
import { compare, openSync } from 'ztensor'
import { main, run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { writtenOnProcessors } from '../helpers/processors.mjs'
import { noise, twoRows, written } from '../helpers/sample-files.mjs'

const COUNT = 3000
const values = (i, more = 0) => new Float32Array(1 + (i % 50)).map((_, at) => i + at + more)

/** Many small tensors and some large ones; `change` selects those that differ. */
const many = (options, change) =>
  written(options, async (writer) => {
    for (let i = 0; i < COUNT; i++) {
      await writer.add(`small.${i}`, values(i, change(i)))
      if (i % 1000 === 500) {
        const data = new Float32Array(noise(12 << 20, i).buffer).map((value) => (Math.abs(value) < 1e6 ? value : 0))
        if (change(i) !== 0) data[2_000_000] += 1
        await writer.add(`large.${i}`, data)
      }
    }
    await writer.addCsr('sparse', twoRows(1, 2 + change(1)))
    const codes = { codes: { dtype: 'uint8', data: Uint8Array.of(1 + 2 * change(1)) } }
    await writer.addObject('parts', { layout: 'x.y/1', shape: [1], dtype: 'uint8', components: codes })
  })
const changes = (i) => (i % 7 === 1 || i === 1500 ? 0.5 : 0)
const paths = await Promise.all([
  many({ version: '1.2' }, () => 0),
  many({ version: '1.2', compression: { level: 1, minSavings: 0 } }, changes),
])

const outcome = (promise) => promise.catch(({ code, tensor, message }) => ({ code, tensor, message }))

test('compares each pair like a single call, including rejections', async (t) => {
  const [a, b] = paths.map((path) => openSync(path))
  const pairs = [...a.keys()].reverse().map((name, at) => {
    // Neighbors with other tolerances, and some that do not fit.
    return [a.tensor(name), b.tensor(name), { atol: at % 5 === 0 ? 1 : 0 }]
  })
  pairs.push([a.tensor('small.3'), b.tensor('small.4'), {}])
  const together = await Promise.all(pairs.map((pair) => outcome(compare(...pair))))
  for (const [at, pair] of pairs.entries()) {
    if (at > 20 && at < pairs.length - 20 && pair[0].size < 1000 && at % 11 !== 0) continue
    t.deepEqual(together[at], await outcome(compare(...pair)), pair[0].name)
  }
  t.is(together[pairs.findIndex(([{ name }]) => name === 'parts')].code, 'ZT_BAD_LAYOUT')
  t.is(together.at(-1).code, 'ZT_BAD_SHAPE')
  const large = together[pairs.findIndex(([{ name }]) => name === 'large.1500')]
  t.deepEqual([large.differing, large.firstDifference], [1, 2_000_000])
  const differing = pairs.filter(
    ([{ name }, , { atol }], at) => name.startsWith('small.') && atol === 0 && together[at].differing > 0,
  )
  t.true(differing.length > 0)
  for (const [{ name }] of differing) t.not(changes(Number(name.slice(6))), 0)
  for (const file of [a, b]) file.close()
})

test('an abort or a closed file ends all comparisons', async (t) => {
  const [a, b] = paths.map((path) => openSync(path))
  const all = (options) => [...a.values()].map((tensor) => compare(tensor, b.get(tensor.name), options))
  const stop = new AbortController()
  const stopped = all({ signal: stop.signal })
  stop.abort(new Error('enough'))
  for (const one of await Promise.allSettled(stopped)) t.is(one.reason?.message, 'enough')
  const closed = all({})
  b.close()
  for (const one of await Promise.allSettled(closed)) t.is(one.reason?.code, 'ZT_CLOSED')
  t.is((await rejectionOf(() => compare(a.tensor('sparse'), a.tensor('sparse')))) ?? 'fine', 'fine')
  a.close()
})

const CHANGED = [...Array(COUNT).keys()].filter(changes)

test('ztensor diff lists tensors in file order', async (t) => {
  const { code, stdout } = await run(['diff', ...paths, '--json'])
  t.is(code, 1)
  const { changed, unchanged } = JSON.parse(stdout)
  const names = changed.map(({ name }) => name)
  t.deepEqual(names, [
    ...CHANGED.flatMap((i) => (i % 1000 === 500 ? [`small.${i}`, `large.${i}`] : [`small.${i}`])),
    'sparse',
    'parts',
  ])
  t.is(changed.length + unchanged, COUNT + 5)
})

if (process.platform === 'linux') {
  test('ztensor diff prints the same on one processor and on all', (t) => {
    const { one, all } = writtenOnProcessors(`
      import { spawnSync } from 'node:child_process'
      import { writeFileSync } from 'node:fs'
      const { stdout } = spawnSync(process.execPath, ${JSON.stringify([main, 'diff', ...paths])})
      writeFileSync(process.argv[1], stdout)`)
    t.true(all.length > 1000)
    t.is(String(one), String(all))
  })
}
