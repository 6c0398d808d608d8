// Very many tensors: work for each of them takes few native calls, and more than one turn of the event loop.
import { readFileSync } from 'node:fs'
import { inspect } from 'node:util'
import test from 'ava'
import { compare, convert, open, openSync } from 'ztensor'
import { binding } from '../helpers/binding.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

/** Several batches and turns of 10,000. */
const COUNT = 25_000

const path = await written({ version: '1.2', digest: 'crc32c' }, async (writer) => {
  for (let at = 0; at < COUNT; at++) await writer.add(`layer.${at}`, Uint16Array.of(at % 65_536, at % 7))
})
const bytes = readFileSync(path)

/** The number of calls of each function of a native class during `run`, by name. */
async function crossings(prototype, names, run) {
  const originals = names.map((name) => [name, prototype[name]])
  const counts = Object.fromEntries(names.map((name) => [name, 0]))
  for (const [name, original] of originals) {
    prototype[name] = function (...args) {
      counts[name] += 1
      return original.apply(this, args)
    }
  }
  try {
    await run()
  } finally {
    for (const [name, original] of originals) prototype[name] = original
  }
  return counts
}

/** Turns of the event loop between the first and the last call of the function that `run` gets. */
async function turnsBetween(run) {
  let [turns, first, last] = [0, undefined, 0]
  let running = true
  const tick = () => {
    turns += 1
    if (running) setImmediate(tick)
  }
  setImmediate(tick)
  try {
    await run(() => {
      first ??= turns
      last = turns
    })
  } finally {
    running = false
  }
  return last - first
}

/** Files above 256 KiB, of every format, whose indexes are at different offsets. */
const indexed = {
  'zTensor 0.1': { version: '0.1' },
  'zTensor 1.0': { version: '1.0' },
  'zTensor 1.2': { version: '1.2' },
  'zTensor 2': { version: '2', canonical: false, alignment: 4096 },
  safetensors: { format: 'safetensors' },
  BTF: { format: 'btf', cast: { uint16: 'int32' } },
}
for (const [kind, options] of Object.entries(indexed)) {
  test.serial(`reads the index of a large file in memory off the event loop: ${kind}`, async (t) => {
    const target = scratchPath('indexed')
    await convert(path, target, { ...options, filter: ({ name }) => name.length < 11 })
    const memory = readFileSync(target)
    const attempts = []
    const { MemoryOpening, openMemory } = binding
    const { attempt } = MemoryOpening.prototype
    MemoryOpening.prototype.attempt = async function (...args) {
      const made = await attempt.apply(this, args)
      attempts.push(made !== null)
      return made
    }
    binding.openMemory = () => t.fail('opened on this thread')
    let file
    try {
      file = await open(memory)
    } finally {
      MemoryOpening.prototype.attempt = attempt
      binding.openMemory = openMemory
    }
    t.true(attempts.length <= 4 && attempts.at(-1), `${attempts.length} attempts`)
    const same = openSync(memory)
    t.deepEqual([...file.keys()], [...same.keys()])
    for (const name of [...file.keys()].slice(-3)) t.deepEqual(file.tensor(name).data, same.tensor(name).data)
    file.close()
    same.close()
    // Damage is rejected like on this thread.
    for (const length of [300_000, memory.length >> 1, memory.length - 9, memory.length - 1]) {
      const prefix = memory.subarray(0, length)
      const refused = thrownBy(() => openSync(prefix))
      const { code, message, offset, rule } = (await rejectionOf(() => open(prefix))) ?? {}
      t.deepEqual(
        { code, message, offset, rule },
        { code: refused?.code, message: refused?.message, offset: refused?.offset, rule: refused?.rule },
      )
    }
  })
}

test.serial('opening a file in memory can be aborted, and its memory can be freed', async (t) => {
  const controller = new AbortController()
  const opening = open(bytes, { signal: controller.signal })
  controller.abort(new Error('enough'))
  t.is((await rejectionOf(() => opening))?.message, 'enough')
  const gone = new Uint8Array(bytes)
  const reading = open(gone)
  structuredClone(gone.buffer, { transfer: [gone.buffer] })
  t.is((await rejectionOf(() => reading))?.code, 'ZT_CLOSED')
})

const READS = ['load', 'loadBatch', 'loadSparse', 'verify', 'stage', 'stageNext', 'find', 'components']

for (const [kind, source] of Object.entries({ 'a path': path, memory: bytes })) {
  const staged = kind === 'memory' ? 3 : 0

  test.serial(`load of very many tensors from ${kind} crosses once a batch`, async (t) => {
    const file = openSync(source)
    let loaded
    const counts = await crossings(binding.NativeFile.prototype, READS, async () => {
      loaded = await file.load()
    })
    t.like(counts, { load: 0, loadBatch: 3, stage: 0, stageNext: staged, find: 0, components: 0 })
    t.deepEqual([...loaded.keys()], [...file.keys()])
    for (const at of [0, 9_999, 10_000, 24_999]) t.deepEqual(loaded.get(`layer.${at}`).data, Uint16Array.of(at, at % 7))
    file.close()
  })

  test.serial(`verify of very many tensors from ${kind} crosses once a batch, and counts all`, async (t) => {
    const file = openSync(source)
    const events = []
    let result
    const counts = await crossings(binding.NativeFile.prototype, READS, async () => {
      result = await file.verify({ onProgress: (progress) => events.push(progress) })
    })
    t.like(counts, { verify: staged || 1, stage: 0, stageNext: staged })
    t.is(result.ok, true)
    t.is(result.checked, COUNT)
    t.like(events.at(-1), { bytes: COUNT * 4, totalBytes: COUNT * 4, tensors: COUNT, totalTensors: COUNT })
    file.close()
  })

  test.serial(`convert of very many tensors from ${kind} crosses once a batch, in many turns`, async (t) => {
    const target = scratchPath('many.safetensors')
    const events = []
    let turns
    const calls = ['select', 'plan', 'begin', 'write', 'stageNext']
    const counts = await crossings(binding.NativeConversion.prototype, calls, async () => {
      turns = await turnsBetween((called) =>
        convert(source, target, {
          filter: (tensor) => {
            called()
            return tensor.name !== 'layer.3'
          },
          rename: (name) => `x.${name}`,
          onProgress: (progress) => events.push(progress),
        }),
      )
    })
    t.deepEqual(counts, { select: 3, plan: 1, begin: 1, write: staged || 1, stageNext: staged })
    t.true(turns >= 2, `${turns} turns`)
    const all = (COUNT - 1) * 4
    t.like(events.at(-1), { bytes: all, totalBytes: all, tensors: COUNT - 1, totalTensors: COUNT - 1 })
    for (let at = 1; at < events.length; at++) t.true(events[at].bytes >= events[at - 1].bytes)
    const file = openSync(target)
    t.is(file.size, COUNT - 1)
    t.false(file.has('x.layer.3'))
    for (const at of [0, 4, 24_999]) t.deepEqual([...file.tensor(`x.layer.${at}`).data], [at, at % 7])
    file.close()
  })
}

test.serial('stages are released after their batch', async (t) => {
  const file = openSync(bytes)
  const { finish } = binding.StageBuilder.prototype
  let [made, held, most] = [0, 0, 0]
  binding.StageBuilder.prototype.finish = function () {
    const stage = finish.call(this)
    const { release } = stage
    made += 1
    held += 1
    most = Math.max(most, held)
    stage.release = () => {
      held -= 1
      release.call(stage)
    }
    return stage
  }
  try {
    await file.load()
    await file.verify()
    await compare(file.tensor('layer.1'), file.tensor('layer.8'))
  } finally {
    binding.StageBuilder.prototype.finish = finish
  }
  t.deepEqual({ made, held, most }, { made: 3 + 3 + 2, held: 0, most: 2 })
  file.close()
})

test.serial('looks up names together, in several turns, each once, in the requested order', async (t) => {
  const file = openSync(path)
  const names = Array.from({ length: COUNT }, (_, at) => `layer.${COUNT - 1 - at}`)
  const { findAll } = binding.NativeFile.prototype
  for (const call of [(given) => file.load({ names: given }), (given) => file.prefetch(given)]) {
    const given = [...names, 'layer.5']
    let loaded
    const turns = await turnsBetween(async (called) => {
      binding.NativeFile.prototype.findAll = function (joined) {
        called()
        return findAll.call(this, joined)
      }
      try {
        const calling = call(given)
        given.length = 0 // the load uses the names at the time of the call
        loaded = await calling
      } finally {
        binding.NativeFile.prototype.findAll = findAll
      }
    })
    t.true(turns >= 2, `${turns} turns`)
    if (loaded !== undefined) t.deepEqual([...loaded.keys()], names)
  }
  const counts = await crossings(binding.NativeFile.prototype, ['find', 'findAll'], () => file.evict(names))
  t.deepEqual(counts, { find: 0, findAll: 3 })
  t.is((await rejectionOf(() => file.load({ names: [...names, 'nowhere'] })))?.code, 'ZT_NOT_FOUND')
  isArgumentError(t, await rejectionOf(() => file.load({ names: [...names, 7] })), 'an entry of names')
  const closing = file.load({ names })
  file.close()
  t.is((await rejectionOf(() => closing))?.code, 'ZT_CLOSED')
})

test('finds names that cannot be looked up together', async (t) => {
  const names = ['', 'a', 'a\0b', 'b', '\0', 'é', '\ufffd']
  const file = openSync(
    await written({ version: '1.2' }, async (writer) => {
      for (const [at, name] of names.entries()) await writer.add(name, Uint8Array.of(at))
    }),
  )
  for (const some of [names, [...names].reverse(), [''], ['a', 'b'], ['a\0b'], []]) {
    t.deepEqual([...(await file.load({ names: some })).keys()], some)
  }
  for (const unknown of ['a\0', 'c'])
    t.is((await rejectionOf(() => file.load({ names: ['a', unknown, 7] })))?.code, 'ZT_NOT_FOUND')
  file.close()
})

test.serial('flattens the index of many tensors off the event loop, with any names', async (t) => {
  const names = (at) => (at % 3 === 0 ? `é${at}` : at % 3 === 1 ? `${at}😀` : `${at}`)
  const wide = await written({ version: '1.2' }, async (writer) => {
    for (let at = 0; at < 12_000; at++) await writer.add(names(at), Uint8Array.of(at % 256))
  })
  const [file, other] = [openSync(wide), openSync(wide)]
  let loaded
  const counts = await crossings(binding.NativeFile.prototype, ['prepareIndex', 'index', 'checkTotal'], async () => {
    loaded = await file.load()
  })
  t.deepEqual(counts, { prepareIndex: 1, index: 1, checkTotal: 0 })
  t.deepEqual([...loaded.keys()], [...other.keys()])
  t.is([...loaded.keys()][1], '1😀')
  t.deepEqual(
    [...file].map(([, tensor]) => [...tensor.data]),
    [...other].map(([, tensor]) => [...tensor.data]),
  )
  file.close()
  other.close()
})

test.serial('a plan crosses once, and loading by it looks up no names', async (t) => {
  const file = openSync(path)
  const rules = { 'layer.?': 'column', '*': 'replicate' }
  let plan
  const counts = await crossings(binding, ['shardRanges'], async () => {
    plan = file.plan({ rank: 1, worldSize: 2, rules })
  })
  t.is(counts.shardRanges, 0)
  t.is(plan.tensors.size, COUNT)
  let loaded
  const reads = await crossings(binding.NativeFile.prototype, READS, async () => {
    loaded = await file.load({ plan })
  })
  t.is(reads.find, 0)
  t.deepEqual([reads.load, reads.loadBatch], [0, Math.ceil(COUNT / 10_000)])
  t.deepEqual([...loaded.get('layer.9').data], [9 % 7])
  t.deepEqual([...loaded.get('layer.10').data], [10, 3])
  file.close()
})

test('the tensors of a plan are a map, also after the file is closed', async (t) => {
  const small = await written({ version: '1.2' }, async (writer) => {
    for (const name of ['a', 'b', 'c']) await writer.add(name, Float32Array.of(1, 2, 3, 4))
  })
  const file = openSync(small)
  const { tensors } = file.plan({ rank: 1, worldSize: 2, rules: { a: 'column', '*': 'replicate' } })
  const a = { name: 'a', dim: 0, ranges: [[2, 4]], shape: [2], byteLength: 8 }
  const look = () => {
    t.deepEqual(tensors.get('a'), a)
    t.is(tensors.get('a'), tensors.get('a'))
    t.like(tensors.get('b'), { name: 'b', dim: undefined, shape: [4], byteLength: 16 })
    t.is(tensors.get('d'), undefined)
    t.is(tensors.get(7), undefined)
    t.deepEqual([tensors.has('c'), tensors.has('d')], [true, false])
    t.deepEqual([...tensors.keys()], ['a', 'b', 'c'])
    t.deepEqual(
      [...tensors.values()].map(({ name }) => name),
      ['a', 'b', 'c'],
    )
    t.deepEqual([...tensors.entries()][0], ['a', a])
    const seen = []
    tensors.forEach(
      function (part, name, map) {
        seen.push([part.name === name, map === tensors, this.self])
      },
      { self: 1 },
    )
    t.deepEqual(seen, Array(3).fill([true, true, 1]))
    t.is(inspect(tensors), 'PlannedTensors { size: 3 }')
  }
  look()
  file.close()
  look()
})

test('a pattern with half a surrogate pair matches nothing', async (t) => {
  const file = openSync(await written({ version: '1.2' }, (writer) => writer.add('\ufffd', Uint8Array.of(1))))
  isArgumentError(
    t,
    thrownBy(() => file.plan({ rank: 0, worldSize: 1, rules: { '\ud800': 'replicate' } })),
    'rules',
  )
  file.close()
})

test('a file in memory loads like a file on disk, for any tensors', async (t) => {
  const mixed = await written({ version: '1.2', compression: { level: 1 } }, async (writer) => {
    for (let at = 0; at < 300; at++) {
      await writer.add(
        `small.${at}`,
        Float64Array.from({ length: at % 50 }, (_, i) => at + i),
      )
      if (at % 100 === 7)
        await writer.add(
          `large.${at}`,
          Int32Array.from({ length: 2 << 20 }, (_, i) => (i * at) ^ i),
        )
      if (at % 100 === 9) await writer.add(`squeezed.${at}`, new Float32Array(5000).fill(at))
    }
    await writer.addCsr('sparse', {
      shape: [2, 2],
      values: Float32Array.of(1, 2),
      indices: Uint32Array.of(0, 1),
      indptr: Uint32Array.of(0, 1, 2),
    })
  })
  const [file, memory] = [openSync(mixed), openSync(readFileSync(mixed))]
  const backwards = [...file.keys()].reverse()
  for (const names of [undefined, backwards, backwards.filter((_, at) => at % 5 === 0)]) {
    const [expected, loaded] = [await file.load({ names }), await memory.load({ names })]
    t.deepEqual([...loaded.keys()], [...expected.keys()])
    for (const [name, array] of loaded) {
      if (name === 'sparse') t.deepEqual([...array.values], [1, 2])
      else t.true(littleEndian(array.data).equals(littleEndian(expected.get(name).data)), name)
    }
  }
  const events = []
  await memory.load({ onProgress: (progress) => events.push(progress) })
  for (let at = 1; at < events.length; at++) t.true(events[at].bytes >= events[at - 1].bytes)
  t.is(events.at(-1).bytes, events.at(-1).totalBytes)
  t.true((await memory.verify()).ok)
  file.close()
  memory.close()
})

test('compares pairs in memory that are requested in one turn together', async (t) => {
  const [a, b, c] = [openSync(bytes), openSync(bytes.slice()), openSync(path)]
  for (const [first, second] of [
    [a, b],
    [a, c],
    [c, b],
  ]) {
    const { compare: original } = binding
    let calls = 0
    binding.compare = (...args) => {
      calls += 1
      return original(...args)
    }
    let found
    try {
      found = await Promise.all(
        Array.from({ length: 1000 }, (_, at) => compare(first.tensor(`layer.${at}`), second.tensor(`layer.${at + 7}`))),
      )
    } finally {
      binding.compare = original
    }
    t.is(calls, 1)
    t.true(found.every(({ differing, maxAbsolute }) => differing === 1 && maxAbsolute === 7))
  }
  for (const file of [a, b, c]) file.close()
})
