// addCsr() and addCoo() of arrays that are invalid, or that JavaScript transfers or changes meanwhile: no file contains unchecked
// data, and a rejection before writing leaves the file unchanged.
import { readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import test from 'ava'
import { create, openSync, ZTensorError } from 'ztensor'
import { BIG_ENDIAN_HOST } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { collecting, scratchFolder, WRITE_FORMATS, written } from '../helpers/sample-files.mjs'

const ALL = [...WRITE_FORMATS.filter(({ zt }) => zt), { name: '2', options: { version: '2' } }]
const f32 = (...numbers) => Float32Array.from(numbers)
const i32 = (...numbers) => Int32Array.from(numbers)
const u32 = (...numbers) => Uint32Array.from(numbers)

/** Tests of arrays that the writer reads in place. A big-endian host swaps them into copies within the call. */
const sharedTest = BIG_ENDIAN_HOST ? test.skip : test

/** More than the copy of one turn of the event loop. */
const LARGE = 2 ** 21 + 1

/** A matrix with one value in each row. */
function diagonal(size = LARGE) {
  const count = (_, at) => at
  return {
    shape: [size, size],
    values: new Float32Array(size).fill(1),
    indices: Uint32Array.from({ length: size }, count),
    indptr: Uint32Array.from({ length: size + 1 }, count),
  }
}

/** As many values in one dimension. */
function line(size = LARGE) {
  const { values, indices } = diagonal(size)
  return { shape: [size], values, coords: indices }
}

const CSR = { shape: [2, 3], values: f32(1, 2, 3), indices: u32(0, 2, 1), indptr: u32(0, 2, 3) }
const COO = { shape: [2, 3], values: f32(1, 2, 3), coords: u32(0, 0, 1, 0, 2, 1) }

const WRONG = [
  ['too few values', 'addCsr', { ...CSR, values: f32(1, 2) }],
  ['too many values', 'addCsr', { ...CSR, values: f32(1, 2, 3, 4) }],
  ['a column outside', 'addCsr', { ...CSR, indices: u32(0, 3, 1) }],
  ['a negative column', 'addCsr', { ...CSR, indices: i32(0, -1, 1) }],
  ['too few row pointers', 'addCsr', { ...CSR, indptr: u32(0, 3) }],
  ['no row pointers', 'addCsr', { ...CSR, indptr: u32() }],
  ['row pointers that begin late', 'addCsr', { ...CSR, indptr: u32(1, 2, 3) }],
  ['row pointers that fall', 'addCsr', { ...CSR, indptr: u32(0, 4, 3) }],
  ['row pointers that end early', 'addCsr', { ...CSR, indptr: u32(0, 2, 2) }],
  ['a negative row pointer', 'addCsr', { ...CSR, indptr: i32(0, -1, 3) }],
  ['fewer coordinates of one dimension', 'addCoo', { ...COO, coords: u32(0, 0, 1, 0, 2) }],
  ['too few values by coordinates', 'addCoo', { ...COO, values: f32(1, 2) }],
  ['a coordinate outside', 'addCoo', { ...COO, coords: u32(0, 0, 2, 0, 2, 1) }],
  ['a negative coordinate', 'addCoo', { ...COO, coords: i32(0, 0, 1, 0, -2, 1) }],
]

for (const { name: format, options } of ALL) {
  test(`${format}: rejects invalid sparse tensors, and continues`, async (t) => {
    const path = await written(options, async (writer) => {
      for (const [what, method, input] of WRONG) {
        const refused = await rejectionOf(() => writer[method]('t', input))
        t.true(refused instanceof ZTensorError, what)
        t.is(refused.code, 'ZT_BAD_SPARSE', what)
        t.is(refused.tensor, 't', what)
        const profile = method === 'addCsr' ? 'zt.sparse_csr/1' : 'zt.sparse_coo/1'
        t.is(refused.rule, options.version === '2' ? `${profile} Validation` : undefined, what)
      }
      await writer.addCsr('t', CSR)
      t.is((await rejectionOf(() => writer.addCoo('t', COO)))?.code, 'ZT_BAD_INDEX')
      await writer.addCoo('u', COO)
    })
    const file = openSync(path)
    t.deepEqual([...file.keys()].sort(), ['t', 'u'])
    t.deepEqual((await file.verify()).failures, [])
    file.close()
  })

  sharedTest(`${format}: rejects arrays that are transferred away, and continues`, async (t) => {
    for (const [method, make] of [
      ['addCsr', diagonal],
      ['addCoo', line],
    ]) {
      const path = await written(options, async (writer) => {
        for (const role of Object.keys(make(1)).filter((key) => key !== 'shape')) {
          const input = make()
          const added = rejectionOf(() => writer[method]('t', input))
          // The copy starts in this turn of the event loop, and does not finish in it.
          for (let i = 0; i < 100; i++) await null
          structuredClone(0, { transfer: [input[role].buffer] })
          t.is((await added)?.code, 'ZT_CLOSED', `${method} ${role}`)
        }
        await writer[method]('t', make(4))
      })
      const file = openSync(path)
      t.deepEqual(file.tensor('t').shape, make(4).shape)
      file.close()
    }
  })

  sharedTest(`${format}: checks arrays that change while it writes them`, async (t) => {
    for (const [method, make, role] of [
      ['addCsr', diagonal, 'indices'],
      ['addCsr', diagonal, 'indptr'],
      ['addCoo', line, 'coords'],
    ]) {
      let codes = new Set()
      const path = await written(options, async (writer) => {
        const input = make()
        const added = rejectionOf(() => writer[method]('late', input))
        for (let i = 0; i < 100; i++) await null
        // The end of the array that is copied last.
        input[role][LARGE - 1] = 0xffff_ffff
        t.is((await added)?.code, 'ZT_BAD_SPARSE', `${method} ${role}`)

        const other = make()
        const right = other[role][LARGE - 1]
        let done = false
        const racing = rejectionOf(() => writer[method]('racing', other)).then((refused) => {
          done = true
          codes.add(refused?.code)
        })
        while (!done) {
          other[role][LARGE - 1] = other[role][LARGE - 1] === right ? 0xffff_ffff : right
          await turn()
        }
        await racing
        await writer[method]('right', make(4))
      })
      const file = openSync(path)
      t.deepEqual((await file.verify()).failures, [], `${method} ${role}`)
      codes = [...codes]
      t.deepEqual([...file.keys()].sort(), codes[0] === undefined ? ['racing', 'right'] : ['right'])
      if (codes[0] !== undefined) t.is(codes[0], 'ZT_BAD_SPARSE')
      file.close()
    }
  })
}

test('a signal ends the copy of arrays, and leaves nothing', async (t) => {
  const { path, names } = scratchFolder()
  const abort = new AbortController()
  const writer = await create(path('a.zt'), { signal: abort.signal })
  const added = rejectionOf(() => writer.addCsr('t', diagonal()))
  for (let i = 0; i < 100; i++) await null
  const reason = new Error('enough')
  abort.abort(reason)
  t.is(await added, reason)
  t.is(await rejectionOf(() => writer.addCsr('u', CSR)), reason)
  t.deepEqual(names(), [])
})

test("calls overlap, and each array has its values of the call's turn", async (t) => {
  const path = await written({ version: '1.2' }, async (writer) => {
    const inputs = Array.from({ length: 5 }, () => diagonal(2 ** 18))
    const adding = inputs.map((input, i) => writer.addCsr(`t${i}`, input))
    adding.push(writer.add('dense', f32(1)))
    await Promise.all(adding)
  })
  const file = openSync(path)
  t.deepEqual([...file.keys()], ['t0', 't1', 't2', 't3', 't4', 'dense'])
  t.deepEqual((await file.verify()).failures, [])
  file.close()
})

for (const options of [{ version: '1.0' }, { version: '0.1' }, { version: '2', canonical: false }]) {
  test(`${options.version}: a stream gets the same bytes a MiB at a time, as fast as it takes them`, async (t) => {
    const add = async (writer) => {
      await writer.addCsr('csr', diagonal(2 ** 20))
      await writer.addCoo('coo', line(2 ** 20))
      await writer.add('dense', f32(1))
    }
    const { stream, chunks, bytes } = collecting((done) => setImmediate(done))
    const writer = await create(stream, options)
    await add(writer)
    await writer.finish()
    t.true(bytes().equals(readFileSync(await written(options, add))))
    const largest = Math.max(...chunks.map((chunk) => chunk.byteLength))
    t.true(largest < 3 * 2 ** 20, String(largest))
  })
}
