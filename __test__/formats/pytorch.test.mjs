// Files of PyTorch: every tensor, read in every way.
import { mkdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import {
  archive,
  build,
  call,
  cat,
  dict,
  int,
  legacy,
  list,
  NONE,
  ordered,
  pickle,
  tensor,
  text,
} from '../corpus/pytorch.mjs'
import { f32s } from '../corpus/zt.mjs'
import { littleEndian, sameBytes } from '../helpers/bytes.mjs'
import { canMap, expectedReason } from '../helpers/data-placement.mjs'
import { thrownBy } from '../helpers/errors.mjs'
import { testExpected } from '../helpers/foreign-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const folder = fixturePath('pytorch')
const { attributes } = JSON.parse(readFileSync(join(folder, 'expected.json'), 'utf8'))
const warningsOf = (name) => {
  const file = openSync(join(folder, name))
  const { warnings } = file
  file.close()
  return warnings.map(({ code, message, tensor: of }) => [code, of ?? message])
}

testExpected(folder, {
  same(t, file, name) {
    t.is(file.format, 'pytorch')
    t.is(file.version, name === 'legacy.pt' ? '1001' : '3')
  },
  verified(t, { checked }, name) {
    // Legacy files and tensors in a pickle have no digests.
    if (!/^(legacy|numpy)/.test(name)) t.true(checked > 0)
  },
})

for (const [name, expected] of Object.entries(attributes)) {
  test(`${name}: attributes`, (t) => {
    const file = openSync(join(folder, name))
    t.deepEqual(JSON.parse(JSON.stringify(file.metadata)), expected)
    file.close()
  })
}

for (const name of ['dtypes.pt', 'views.pt', 'tied.pt', 'checkpoint.ckpt', 'numpy2.pt', 'legacy.pt'])
  test(`${name}: every tensor has the same elements after a conversion`, async (t) => {
    for (const [ending, version] of [['zt', '1.2'], ['zt', '2'], ['safetensors']]) {
      // It has no complex128.
      if (ending === 'safetensors' && /dtypes|legacy/.test(name)) continue
      const target = scratchPath(`${version}.${ending}`)
      await convert(join(folder, name), target, { version, skip: version !== '1.2' })
      const [from, to] = [openSync(join(folder, name)), openSync(target)]
      for (const tensor of from.values()) {
        const found = to.tensor(tensor.name)
        t.deepEqual([found.dtype, found.shape], [tensor.dtype, tensor.shape], tensor.name)
        sameBytes(t, littleEndian(await found.load()), littleEndian(await tensor.load()), tensor.name)
      }
      from.close()
      to.close()
    }
  })

test('lists the other content of a checkpoint', (t) => {
  const file = openSync(join(folder, 'checkpoint.ckpt'))
  const found = file.metadata
  t.is(found.epoch, 3)
  t.is(found.loss, 0.5)
  t.is(found.big, 1n << 70n)
  t.deepEqual({ ...found.args }, { lr: 0.01, layers: [1, 2], name: 'tiny' })
  t.deepEqual({ ...found.history }, { loss: [1, 0.5] })
  t.is(found.dtype, 'torch.bfloat16')
  t.deepEqual(found.size, [2, 3])
  t.is(found.device, 'cuda:0')
  t.is(found.optimizer.param_groups[0].lr, 0.01)
  t.deepEqual(
    file.warnings.map(({ code, message }) => [code, message.includes('argparse.Namespace')]),
    [['ZT_WARN_SKIPPED', true]],
  )
  file.close()
})

test('lists tensors without values here, and names them in warnings', (t) => {
  const found = new Map(warningsOf('layouts.pt').map(([code, tensor]) => [tensor, code]))
  const layouts = ['csc', 'bsr', 'quantized', 'channels']
  for (const name of layouts) t.is(found.get(name), 'ZT_WARN_UNKNOWN_LAYOUT', name)
  t.is(found.get('half_complex'), 'ZT_WARN_UNKNOWN_TYPE')
  t.is(found.get('meta'), 'ZT_WARN_SKIPPED')
  t.is(found.size, 6)
})

test('copies conjugated and negated views', (t) => {
  const file = openSync(join(folder, 'layouts.pt'))
  for (const name of ['conj', 'neg', 'both']) {
    const { mapped, copyReason } = file.tensor(name)
    t.deepEqual([mapped, copyReason], [false, 'reordered'], name)
  }
  const { data } = file.tensor('conj')
  // 0 - 0i, 1 - 1i, … are stored.
  t.deepEqual(Array.from(data.subarray(2, 6)), [1, 1, 2, 2])
  file.close()
})

test('sparse tensors have the values of PyTorch', (t) => {
  const file = openSync(join(folder, 'layouts.pt'))
  const dense = Array.from(file.tensor('dense').data)
  t.deepEqual(Array.from(file.tensor('csr').csr().toDense()), dense)
  t.deepEqual(Array.from(file.tensor('coo').coo().toDense()), dense)
  file.close()
})

test('aliases contiguous, aligned tensors, and gives the reason for others', (t) => {
  const reasons = {
    base: undefined,
    row: undefined,
    column: 'reordered',
    transposed: 'reordered',
    expanded: 'reordered',
  }
  const file = openSync(join(folder, 'views.pt'))
  for (const [name, reason] of Object.entries(reasons)) {
    const { mapped, copyReason, data } = file.tensor(name)
    t.is(mapped, reason === undefined && canMap(data.BYTES_PER_ELEMENT), name)
    t.is(copyReason, expectedReason(reason, data.BYTES_PER_ELEMENT), name)
  }
  file.close()
})

test('repeated elements: an option of open permits more than 16 times the file size, in every way of loading', async (t) => {
  const [rows, columns] = [1 << 14, 4]
  const path = scratchPath('expanded.pt')
  const main = pickle(dict([text('w'), tensor('0', [rows, columns], [0, 1])]))
  await writeFile(path, archive(main, { 'data/0': f32s(1, 2, 3, 4) }))
  const byteLength = rows * columns * 4
  const isRight = (data) => {
    t.is(data.length, rows * columns)
    t.true(data.every((value, at) => value === 1 + (at % columns)))
  }
  for (const maxDecodedBytes of [undefined, byteLength - 1]) {
    const file = openSync(path, { maxDecodedBytes })
    for (const attempt of [() => file.tensor('w').load(), () => file.load(), async () => file.tensor('w').data]) {
      const { code, message } = await t.throwsAsync(attempt)
      t.is(code, 'ZT_LIMIT')
      t.regex(message, /maxDecodedBytes/)
    }
    file.close()
  }
  for (const source of [path, new Uint8Array(readFileSync(path))]) {
    const file = openSync(source, { maxDecodedBytes: byteLength })
    isRight(file.tensor('w').data)
    isRight(await file.tensor('w').load())
    isRight((await file.load()).get('w').data ?? (await file.load()).get('w'))
    isRight(await file.tensor('w').load({ as: 'float32' }))
    t.true((await file.verify()).ok)
    file.close()
  }
  const target = scratchPath('expanded.zt')
  await t.throwsAsync(convert(path, target), { code: 'ZT_LIMIT' })
  await convert(path, target, { source: { maxDecodedBytes: byteLength } })
  const file = openSync(target)
  isRight(file.tensor('w').data)
  file.close()
  const job = await planJob('convert', path, scratchPath('expanded-job.zt'), {
    source: { maxDecodedBytes: byteLength },
  })
  t.is(job.source.maxDecodedBytes, byteLength)
  const results = []
  for (const task of job.tasks) results.push(await runTask(task))
  await finishJob(job, results)
})

test('opens the index of a sharded checkpoint, its folder, and a list of its files', async (t) => {
  const folder = scratchPath('sharded')
  mkdirSync(folder)
  const shard = (name, start) =>
    archive(pickle(dict([text(name), tensor('0', [2], [1], { numel: 2 })])), { 'data/0': f32s(start, start + 1) })
  const names = ['pytorch_model-00001-of-00002.bin', 'pytorch_model-00002-of-00002.bin']
  await writeFile(join(folder, names[0]), shard('a', 1))
  await writeFile(join(folder, names[1]), shard('b', 3))
  const index = join(folder, 'pytorch_model.bin.index.json')
  await writeFile(index, JSON.stringify({ metadata: { total_size: 16 }, weight_map: { a: names[0], b: names[1] } }))
  await writeFile(join(folder, 'training_args.bin'), 'no model')
  for (const source of [index, folder, names.map((name) => join(folder, name))]) {
    const file = openSync(source)
    t.is(file.format, 'pytorch')
    t.deepEqual(file.warnings, [])
    t.deepEqual(Array.from(file.tensor('a').data), [1, 2])
    t.deepEqual(Array.from(await file.tensor('b').load()), [3, 4])
    file.close()
  }
  const unread = openSync(index, { shards: 'none' })
  t.is(unread.format, 'pytorch')
  t.deepEqual([...unread.keys()], ['a', 'b'])
  unread.close()
})

test('counts damaged tensors beyond the listed ones, and shortens a long key', async (t) => {
  const bad = call('torch._utils', '_rebuild_tensor_v2')
  const key = 'k'.repeat(1 << 20)
  const main = pickle(dict([text(key), list(...Array(1500).fill(bad))], [text('w'), tensor('0', [4], [1])]))
  const before = process.memoryUsage().rss
  const file = openSync(archive(main, { 'data/0': f32s(1, 2, 3, 4) }))
  t.true(process.memoryUsage().rss - before < 256 << 20)
  t.deepEqual([...file.keys()], ['w'])
  t.is(file.warnings.length, 1001)
  t.true(file.warnings.slice(0, 1000).every(({ code, tensor: of }) => code === 'ZT_WARN_DAMAGED' && of.length < 200))
  t.like(file.warnings[1000], { code: 'ZT_WARN_TRUNCATED_LIST', message: '500 more warnings are not listed' })
  t.false((await file.verify()).ok)
  file.close()
})

const LONG_KEYS = {
  'one text of many dicts': cat(text('k'.repeat(1 << 20)), 'q\x000](', '}h\x00Ns'.repeat(200_000), 'e'),
  'one text many times': cat(text('k'.repeat(1 << 20)), 'q\x000}(', 'h\x00N'.repeat(200_000), 'u'),
}
for (const [name, values] of Object.entries(LONG_KEYS))
  test(`long keys cost no more than the pickle: ${name}`, (t) => {
    const main = pickle(dict([text('w'), tensor('0', [4], [1])], [text('x'), values]))
    const before = process.cpuUsage()
    const file = openSync(archive(main, { 'data/0': f32s(1, 2, 3, 4) }))
    t.deepEqual([...file.keys()], ['w'])
    file.close()
    const { user, system } = process.cpuUsage(before)
    // CPU time, because the machine may be busy. It takes minutes without a limit.
    t.true((user + system) / 1e6 < 30, `${(user + system) / 1e6} s`)
  })

test('searches tensors with too many values only in a few attributes', (t) => {
  const bomb = cat(
    '](',
    NONE,
    'eq\x00',
    ...Array.from({ length: 40 }, (_, at) =>
      cat('0](', `h${String.fromCharCode(at)}`.repeat(2), `eq${String.fromCharCode(at + 1)}`),
    ),
  )
  const entries = Array.from({ length: 2000 }, (_, at) => [text(`bomb${at}`), 'h\x28'])
  const main = pickle(bomb, '0', dict([text('w'), tensor('0', [4], [1])], ...entries))
  const file = openSync(archive(main, { 'data/0': f32s(1, 2, 3, 4) }), { maxAttributeValues: 100_000 })
  t.is(file.warnings.length, 17)
  t.regex(file.warnings[16].message, /^the values that follow: .*maxAttributeValues/)
  file.close()
})

test('names the type of a storage of unknown length in a legacy file', (t) => {
  const main = pickle(dict([text('x'), tensor('a', [3], [1], { type: 'NewStorage', numel: 3 })]))
  const error = thrownBy(() => openSync(legacy(main, [['a', 3, Buffer.alloc(7)]])))
  t.is(error?.code, 'ZT_BAD_INDEX')
  t.is(error.tensor, undefined)
  t.regex(error.message, /element size of the storage "a" is unknown: "NewStorage" is an unknown type/)
})

test('omits the _metadata of a state_dict, versions of its modules, and lists other attributes', (t) => {
  const state = build(
    cat(ordered(), '(', text('w'), tensor('0', [1], [1], { numel: 1 }), text('step'), int(7), 'u'),
    dict([text('_metadata'), build(ordered(), dict([text('version'), int(1)]))], [text('note'), text('mine')]),
  )
  const file = openSync(archive(pickle(state), { 'data/0': littleEndian(Float32Array.of(5)) }))
  t.deepEqual({ ...file.metadata }, { step: 7, note: 'mine' })
  t.deepEqual(file.get('w').data, Float32Array.of(5))
  file.close()
})
