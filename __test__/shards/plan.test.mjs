// Tensor parallelism: the parts of each rank, and that all ranks together match the rules.
import { statSync } from 'node:fs'
import test from 'ava'
import { openSync, Plan } from 'ztensor'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { sample, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint } from '../helpers/sharded.mjs'

const SHAPES = {
  'model.embed.weight': [12, 6],
  'layers.0.q.weight': [12, 6],
  'layers.0.q.bias': [12],
  'layers.0.o.weight': [6, 12],
  'layers.0.o.bias': [6],
  'layers.0.experts': [3, 12, 6],
  norm: [7],
  scale: [],
}
const RULES = {
  '*.q.*': 'column',
  '*.o.*': 'row',
  '*.embed.*': { dim: 1 },
  '*.experts': { dim: 0 },
  '*': 'replicate',
}
/** The dimension that the rules divide of each tensor. */
const DIMS = {
  'model.embed.weight': 1,
  'layers.0.q.weight': 0,
  'layers.0.q.bias': 0,
  'layers.0.o.weight': 1,
  'layers.0.experts': 0,
}

function closeAfterTest(t, file) {
  t.teardown(() => file.close())
  return file
}

const parallel = (options = {}) =>
  written(options, async (w) => {
    let seed = 1
    for (const [name, shape] of Object.entries(SHAPES)) {
      await w.add(name, { dtype: 'bfloat16', shape, data: sample('bfloat16', shape, seed++) })
    }
  })

for (const [what, options] of Object.entries({
  'zTensor 1.0': {},
  safetensors: { format: 'safetensors' },
  'zTensor 2': { version: '2' },
})) {
  test(`ranks together have each divided byte once and each replicated one every time (${what})`, async (t) => {
    const file = closeAfterTest(t, openSync(await parallel(options)))
    for (const worldSize of [1, 3]) {
      const counts = new Uint8Array(file.byteLength)
      let total = 0
      for (let rank = 0; rank < worldSize; rank++) {
        const plan = file.plan({ rank, worldSize, rules: RULES })
        t.true(plan instanceof Plan)
        t.deepEqual([plan.rank, plan.worldSize], [rank, worldSize])
        let end = -1
        let bytes = 0
        let ranges = 0
        for (const range of plan.ranges()) {
          t.is(range.path, file.path)
          t.true(range.offset > end, 'in order, and what touches is one')
          t.true(range.length > 0)
          end = range.offset + range.length
          bytes += range.length
          ranges += 1
          for (let at = range.offset; at < end; at++) counts[at] += 1
        }
        t.is(plan.byteLength, bytes)
        t.is(plan.rangeCount, ranges)
        t.is(
          bytes,
          [...plan.tensors.values()].reduce((sum, tensor) => sum + tensor.byteLength, 0),
        )
        total += bytes
      }
      let expected = 0
      for (const [name, tensor] of file) {
        const times = name in DIMS ? 1 : worldSize
        const { offset, storedLength } = tensor.components.get('data')
        t.true(
          counts.subarray(offset, offset + storedLength).every((count) => count === times),
          `${name} of ${worldSize}`,
        )
        expected += times * storedLength
      }
      t.is(total, expected)
    }
  })
}

test('load({ plan }) returns the parts of shard()', async (t) => {
  for (const options of [{}, { compression: { level: 3, minSavings: 0 } }]) {
    const file = closeAfterTest(t, openSync(await parallel(options)))
    for (let rank = 0; rank < 3; rank++) {
      const plan = file.plan({ rank, worldSize: 3, rules: RULES })
      const seen = []
      const loaded = await file.load({ plan, onProgress: (progress) => seen.push(progress) })
      t.deepEqual([...loaded.keys()], Object.keys(SHAPES))
      for (const [name, { data }] of loaded) {
        const dim = DIMS[name]
        const part = plan.tensors.get(name)
        t.is(part.dim, dim)
        const tensor = file.tensor(name)
        const expected = dim === undefined ? tensor : tensor.shard({ dim, rank, worldSize: 3 })
        t.deepEqual(part.shape, expected.shape)
        t.deepEqual(data, new Uint16Array(expected.data), name)
        t.is(part.byteLength, data.byteLength)
      }
      const last = seen.at(-1)
      t.is(last.bytes, last.totalBytes)
      t.is(last.tensors, loaded.size)
      const some = await file.load({ plan, names: ['layers.0.o.weight'] })
      t.deepEqual([...some.keys()], ['layers.0.o.weight'])
    }
  }
})

test('a part of encoded data needs all of it', async (t) => {
  const path = await written({ version: '1.0', compression: { level: 3, minSavings: 0 } }, (w) =>
    w.add('w', { dtype: 'float32', shape: [256, 16], data: new Float32Array(4096) }),
  )
  const file = closeAfterTest(t, openSync(path))
  const { offset, storedLength, encoding } = file.tensor('w').components.get('data')
  t.is(encoding, 'zstd')
  const [range, ...more] = file.plan({ rank: 1, worldSize: 2, rules: { '*': 'column' } }).ranges()
  t.deepEqual([range, more], [{ file: 0, path, offset, length: storedLength }, []])
})

test('neighboring parts are one range, over the files of a checkpoint in order', (t) => {
  const made = checkpoint({
    'm-1-of-2.safetensors': { a: [1, 2], b: [3, 4] },
    'm-2-of-2.safetensors': { c: [5, 6] },
  })
  const file = closeAfterTest(t, openSync(made.index))
  const ranges = (rules, rank = 0) =>
    [...file.plan({ rank, worldSize: 2, rules }).ranges()].map(({ file, path, offset, length }) => {
      t.is(path, made.path(`m-${file + 1}-of-2.safetensors`))
      return [file, offset - (statSync(path).size - (file === 0 ? 16 : 8)), length]
    })
  t.deepEqual(ranges({ '*': 'replicate' }), [
    [0, 0, 16],
    [1, 0, 8],
  ])
  t.deepEqual(ranges({ a: 'replicate', '*': 'column' }), [
    [0, 0, 12],
    [1, 0, 4],
  ])
  t.deepEqual(ranges({ '*': 'column' }, 1), [
    [0, 4, 4],
    [0, 12, 4],
    [1, 4, 4],
  ])
})

test('the first matching rule applies, also in a list', async (t) => {
  const file = closeAfterTest(t, openSync(await parallel()))
  const rules = [
    ['*.bias', 'replicate'],
    ['layers.?.q.*', 'column'],
    ['*', 'replicate'],
  ]
  const { tensors } = file.plan({ rank: 0, worldSize: 3, rules })
  t.is(tensors.get('layers.0.q.bias').dim, undefined)
  t.is(tensors.get('layers.0.q.weight').dim, 0)
  t.deepEqual(tensors.get('layers.0.q.weight').ranges, [
    [0, 4],
    [0, 6],
  ])
})

test('names tensors that cannot be divided, and those without a rule', async (t) => {
  const file = closeAfterTest(t, openSync(await parallel()))
  const plan = (rules, more) => thrownBy(() => file.plan({ rank: 0, worldSize: 3, rules, ...more }))
  isArgumentError(t, plan({ '*': 'column' }), '"norm"')
  isArgumentError(t, plan({ norm: 'replicate', '*': 'column' }), '"scale" is a scalar')
  isArgumentError(t, plan({ '*': { dim: 9 } }), '"model.embed.weight"')
  isArgumentError(t, plan({ 'layers.*': 'replicate', norm: 'replicate' }), '"model.embed.weight", "scale"')
  isArgumentError(t, plan({ '*': 'diagonal' }), 'rules for "*"')
  isArgumentError(t, plan({ '*': { dim: -1 } }), 'dim')
  isArgumentError(t, plan([['*']]), 'rules for "*"')
  isArgumentError(t, plan(['*']), 'rules[0]')
  isArgumentError(t, plan(undefined), 'rules')
  isArgumentError(t, plan({ '*': 'replicate' }, { rank: 3 }), 'rank')
  isArgumentError(t, plan({ '*': 'replicate' }, { worldSize: 0 }), 'worldSize')
  const other = closeAfterTest(t, openSync(await parallel()))
  const foreign = other.plan({ rank: 0, worldSize: 1, rules: { '*': 'replicate' } })
  isArgumentError(t, await rejectionOf(() => file.load({ plan: foreign })), 'plan')
  isArgumentError(t, await rejectionOf(() => file.load({ plan: {} })), 'plan')
})

test('divides only dense tensors', async (t) => {
  const path = await written(
    {},
    (w) =>
      w.addCsr('m', {
        shape: [2, 2],
        values: Float32Array.of(7),
        indices: BigUint64Array.of(1n),
        indptr: BigUint64Array.of(0n, 0n, 1n),
      }),
    scratchPath('sparse.zt'),
  )
  const file = closeAfterTest(t, openSync(path))
  t.like(
    thrownBy(() => file.plan({ rank: 0, worldSize: 2, rules: { '*': 'column' } })),
    { code: 'ZT_BAD_LAYOUT', tensor: 'm' },
  )
  const plan = file.plan({ rank: 1, worldSize: 2, rules: { '*': 'replicate' } })
  t.deepEqual([...(await file.load({ plan })).get('m').values], [7])
  file.close()
  t.is(thrownBy(() => file.plan({ rank: 0, worldSize: 2, rules: {} }))?.code, 'ZT_CLOSED')
})
