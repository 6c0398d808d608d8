// Which parts of a damaged or incomplete HDF5 file are read, and how the rest is reported.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import { contiguous, DATA, dataset, hdf5, header, link, lookup3, NONE, opaque, superblock } from '../corpus/hdf5.mjs'
import { littleEndian, sameBytes } from '../helpers/bytes.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const fixture = (name) => readFileSync(join(fixturePath('hdf5'), name))
const bytesOf = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)

/** The file in each way of opening it. */
async function inEachWay(t, bytes, check, name = 'file.h5') {
  const path = scratchFile(bytes, name)
  for (const file of [
    openSync(path),
    await open(path),
    openSync(new Uint8Array(bytes)),
    await open(new Uint8Array(bytes)),
  ]) {
    await check(file)
    file.close()
  }
}

/** The elements of all tensors of a whole file. */
async function whole(name) {
  const file = openSync(fixture(name))
  const elements = new Map()
  for (const tensor of file.values()) {
    const { encoding } = tensor.components.get('data')
    if (tensor.dtype !== undefined && !/szip|scaleoffset/.test(encoding))
      elements.set(tensor.name, Buffer.from(bytesOf(await tensor.load())))
  }
  file.close()
  return elements
}

for (const name of [
  'small.h5',
  'small-latest.h5',
  'user-block.h5',
  'filters.h5',
  'lengths-4.h5',
  'lengths-addresses-4.h5',
]) {
  test(`a truncated file passes: ${name}, shorter than its superblock states`, async (t) => {
    const bytes = fixture(name)
    const elements = await whole(name)
    for (const cut of [1, 2, 7, 300]) {
      await inEachWay(t, bytes.subarray(0, bytes.length - cut), async (file) => {
        const [warning] = file.warnings.filter(
          ({ code, tensor }) => code === 'ZT_WARN_TRUNCATED' && tensor === undefined,
        )
        t.regex(warning?.message ?? '', /the file is truncated: it should have \d+ bytes and has \d+/)
        const { ok, failures } = await file.verify()
        t.false(ok)
        t.true(
          failures.some(
            ({ code, tensor, message }) =>
              code === 'ZT_TRUNCATED' && tensor === undefined && message === warning.message,
          ),
        )
        // Existing data has its values; missing data is rejected.
        for (const tensor of file.values()) {
          if (!elements.has(tensor.name)) continue
          try {
            sameBytes(t, bytesOf(await tensor.load()), elements.get(tensor.name), tensor.name)
          } catch (error) {
            t.true(
              failures.some((failure) => failure.tensor === tensor.name),
              `${tensor.name}: ${error.message}`,
            )
          }
        }
      })
      const error = t.throws(() => openSync(new Uint8Array(bytes.subarray(0, bytes.length - cut)), { verify: true }))
      t.is(error.name, 'ZTensorError')
    }
    const longer = openSync(new Uint8Array(Buffer.concat([bytes, Buffer.alloc(100)])))
    t.deepEqual(
      [longer.warnings.filter(({ code }) => code === 'ZT_WARN_TRUNCATED'), (await longer.verify()).ok],
      [[], true],
    )
    longer.close()
  })
}

test('a truncated file passes: bytes before the superblock do not count', async (t) => {
  for (const name of ['small.h5', 'small-latest.h5']) {
    const file = openSync(new Uint8Array(Buffer.concat([Buffer.alloc(512), fixture(name)])))
    t.deepEqual(file.warnings, [])
    t.true((await file.verify()).ok)
    file.close()
  }
})

test('a truncated file passes: HDF5 in an archive of Keras', async (t) => {
  const { keras } = await import('../helpers/keras-archives.mjs')
  const weights = fixture('model.weights.h5')
  for (const deflate of [false, true]) {
    const file = openSync(new Uint8Array(keras(weights.subarray(0, weights.length - 1), { deflate })))
    t.true(file.warnings.some(({ code }) => code === 'ZT_WARN_TRUNCATED'))
    t.true((await file.verify()).failures.some(({ code }) => code === 'ZT_TRUNCATED'))
    file.close()
  }
})

test('a truncated file passes: reads the beginning of contiguous data, and rejects the rest', async (t) => {
  const numbers = Float32Array.from({ length: 40 * 100 }, (_, at) => at)
  const bytes = hdf5({
    dims: [40, 100],
    layout: contiguous(DATA, numbers.byteLength),
    data: littleEndian(numbers),
  })
  // 25 rows and a half.
  await inEachWay(t, bytes.subarray(0, DATA + 2550 * 4), async (file) => {
    const tensor = file.tensor('w')
    t.deepEqual([file.warnings.map(({ code, tensor }) => [code, tensor])], [[['ZT_WARN_TRUNCATED', 'w']]])
    t.is(tensor.copyReason, 'encoded')
    t.deepEqual(
      tensor.slice([
        [3, 5],
        [7, 9],
      ]).data,
      Float32Array.of(307, 308, 407, 408),
    )
    t.deepEqual(
      await tensor.load({
        slice: [
          [0, 20],
          [99, 100],
        ],
      }),
      numbers.filter((at) => at % 100 === 99 && at < 2000),
    )
    t.throws(() => tensor.slice([[30], null]).data, { code: 'ZT_TRUNCATED' })
    await t.throwsAsync(() => tensor.load(), { code: 'ZT_TRUNCATED' })
    const { ok, failures } = await file.verify()
    t.deepEqual([ok, failures.map(({ code, tensor }) => [code, tensor])], [false, [['ZT_TRUNCATED', 'w']]])
  })
})

test('a truncated file passes: a chunk beyond the end hides no other', async (t) => {
  const { chunked, tree, INDEX } = await import('../corpus/hdf5.mjs')
  const [first, second] = [
    [1, 2, 4, 5],
    [3, 0, 6, 0],
  ].map((numbers) => littleEndian(Float32Array.from(numbers)))
  const index = tree(2, [
    { offsets: [0, 0], address: DATA, size: 16 },
    { offsets: [0, 2], address: DATA + 16, size: 16 },
  ])
  const bytes = hdf5({ layout: chunked([2, 2]), data: Buffer.concat([first, second]), at: { [INDEX]: index } })
  await inEachWay(t, bytes.subarray(0, bytes.length - 1), async (file) => {
    const tensor = file.tensor('w')
    t.deepEqual(
      file.warnings.map(({ code, tensor }) => [code, tensor]),
      [['ZT_WARN_TRUNCATED', 'w']],
    )
    t.deepEqual(tensor.slice([null, [0, 2]]).data, Float32Array.of(1, 2, 4, 5))
    await t.throwsAsync(() => tensor.load(), { code: 'ZT_TRUNCATED' })
    const { ok, failures } = await file.verify()
    t.deepEqual([ok, failures.map(({ code, tensor }) => [code, tensor])], [false, [['ZT_TRUNCATED', 'w']]])
  })
})

test('missing elements of 4 GiB take no memory', (t) => {
  const own = (nth) =>
    dataset({
      kind: opaque(0xffff_ffff),
      dims: [1],
      layout: contiguous(...(nth % 2 ? [DATA, 0xffff_ffff] : [NONE, 0])),
    })
  const offsets = Array.from({ length: 50 }, (_, nth) => 8192 + 256 * nth)
  const bytes = hdf5({
    block: superblock({ root: 4096 }),
    at: {
      4096: header(offsets.map((offset) => link(`w${offset}`, offset))),
      ...Object.fromEntries(offsets.map((offset, nth) => [offset, own(nth)])),
    },
  })
  const file = openSync(new Uint8Array(bytes))
  t.is(file.size, 50)
  t.is(file.warnings.filter(({ code }) => code === 'ZT_WARN_TRUNCATED').length, 25)
  t.throws(() => file.tensor('w8192').components.get('data').data, { code: 'ZT_LIMIT' })
  file.close()
})

/** Offsets of a signature. */
function* occurrences(bytes, signature) {
  for (let at = bytes.indexOf(signature); at >= 0; at = bytes.indexOf(signature, at + 1)) yield at
}

// The parts of indexes of chunks, of groups and of attributes that have checksums.
for (const signature of [
  'OHDR',
  'OCHK',
  'FRHP',
  'FHDB',
  'FHIB',
  'BTHD',
  'BTLF',
  'BTIN',
  'FAHD',
  'FADB',
  'EAHD',
  'EAIB',
  'EADB',
]) {
  test(`reports a damaged ${signature}, and verify() fails`, async (t) => {
    let tried = 0
    for (const name of [
      'storage-latest.h5',
      'storage-v110.h5',
      'groups-latest.h5',
      'attributes-latest.h5',
      'shared.h5',
      'small-latest.h5',
    ]) {
      const bytes = fixture(name)
      const before = openSync(new Uint8Array(bytes))
      const [names, warnings] = [[...before.keys()], before.warnings.length]
      before.close()
      for (const at of occurrences(bytes, signature)) {
        // The first is the root group.
        if (signature === 'OHDR' && at < 200) continue
        // The version, and what follows it.
        for (const behind of [4, 5, 6, 12]) {
          if (tried >= 80) break
          tried += 1
          const damaged = new Uint8Array(bytes)
          damaged[at + behind] ^= 0x10
          let file
          try {
            file = openSync(damaged)
          } catch (error) {
            // The index of the root group.
            t.is(error.name, 'ZTensorError')
            continue
          }
          const { ok } = await file.verify()
          const lost = names.filter((name) => !file.has(name))
          // Unreachable objects are not a loss.
          if (ok) t.deepEqual([lost, file.warnings.length], [[], warnings], `${name}: ${at} + ${behind}`)
          const reported = file.warnings.some(({ code }) => /DAMAGED|TRUNCATED/.test(code))
          if (lost.length > 0) t.true(reported && !ok, `${name}: ${at} + ${behind}: ${lost}`)
          file.close()
        }
      }
    }
    t.true(tried > 0)
  })
}

for (const [signature, length, name] of [
  ['FAHD', 24, 'storage-latest.h5'],
  ['EAHD', 68, 'storage-latest.h5'],
]) {
  test(`an item vanishes: ${signature} whose elements have another size, with a valid checksum`, async (t) => {
    const bytes = fixture(name)
    let seen = 0
    for (const at of occurrences(bytes, signature)) {
      const damaged = Buffer.from(bytes)
      damaged[at + 6] += 1
      damaged.writeUInt32LE(lookup3(damaged.subarray(at, at + length)), at + length)
      const original = bytes.readUInt32LE(at + length)
      // The checksum is at the expected offset.
      t.is(lookup3(bytes.subarray(at, at + length)), original)
      const file = openSync(new Uint8Array(damaged))
      const [{ tensor, code }] = file.warnings
      t.is(code, 'ZT_WARN_DAMAGED')
      await t.throwsAsync(() => file.tensor(tensor).load(), { code: 'ZT_BAD_INDEX', message: /elements of \d+ bytes/ })
      const { failures } = await file.verify()
      t.deepEqual(
        failures.map(({ code, tensor }) => [code, tensor]),
        [['ZT_BAD_INDEX', tensor]],
      )
      seen += 1
      file.close()
    }
    t.true(seen > 0)
  })
}

test('one odd attribute rejects the file: attributes in a heap of which one is damaged', async (t) => {
  const bytes = fixture('attributes.h5')
  const before = openSync(new Uint8Array(bytes))
  const attributes = { ...before.tensor('x').attributes }
  before.close()
  // Variable-length strings are in a global heap.
  const at = bytes.indexOf('GCOL')
  t.true(at > 0)
  const damaged = new Uint8Array(bytes)
  damaged[at] ^= 1
  const file = openSync(damaged)
  const remaining = { ...file.tensor('x').attributes }
  t.true(Object.keys(remaining).length < Object.keys(attributes).length && Object.keys(remaining).length > 0)
  for (const [key, value] of Object.entries(remaining)) t.deepEqual(value, attributes[key], key)
  for (const key of Object.keys(attributes).filter((key) => !(key in remaining)))
    t.true(
      file.warnings.some(
        ({ code, tensor, message }) => code === 'ZT_WARN_DAMAGED' && tensor === 'x' && message.includes(`"${key}"`),
      ),
      key,
    )
  t.false((await file.verify()).ok)
  t.true((await file.tensor('x').load()).length > 0)
  file.close()
})

test('an error of the source during reads of attribute strings is not damage', async (t) => {
  const bytes = fixture('attributes.h5')
  const heap = bytes.indexOf('GCOL')
  const thrown = new Error('out of reach')
  const source = {
    byteLength: bytes.length,
    read(offset, length) {
      if (offset <= heap && heap < offset + length) throw thrown
      return bytes.subarray(offset, offset + length)
    },
  }
  const error = await t.throwsAsync(() => open(source), { code: 'ZT_IO' })
  t.is(error.cause, thrown)
})

test('a truncated file passes: a verification in many tasks reports it once, and one of a tensor does not', async (t) => {
  const bytes = fixture('small.h5')
  const path = scratchFile(bytes.subarray(0, bytes.length - 1), 'cut.h5')
  const job = await planJob('verify', path, { maxTaskBytes: 1 })
  t.true(job.tasks.length > 1)
  const results = await Promise.all(job.tasks.map((task) => runTask(task)))
  const { ok, failures } = await finishJob(job, results)
  t.false(ok)
  t.is(failures.filter(({ code, tensor }) => code === 'ZT_TRUNCATED' && tensor === undefined).length, 1)
  const file = openSync(path)
  const whole = [...file.values()].filter(({ name }) => !failures.some(({ tensor }) => tensor === name))
  for (const tensor of whole) t.true((await tensor.verify()).ok)
  t.true(whole.length > 0)
  file.close()
})

test('a truncated file passes: the error names a file of a list', async (t) => {
  const bytes = fixture('small.h5')
  const cut = scratchFile(bytes.subarray(0, bytes.length - 1), 'cut.h5')
  const file = openSync([cut, scratchFile(fixture('nothing.h5'), 'other.h5')])
  t.true(file.warnings.some(({ code, path }) => code === 'ZT_WARN_TRUNCATED' && /cut\.h5/.test(path)))
  const { failures } = await file.verify()
  t.true(failures.some(({ code, message }) => code === 'ZT_TRUNCATED' && /cut\.h5/.test(message)))
  file.close()
})
