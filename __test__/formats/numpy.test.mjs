// NumPy's own files, and SciPy's: everything in them, read in every way.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, diff, openSync } from 'ztensor'
import { npy, zip } from '../corpus/numpy.mjs'
import { f32s } from '../corpus/zt.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { canMap, reasonHere } from '../helpers/data-placement.mjs'
import { testExpected } from '../helpers/foreign-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const folder = fixturePath('numpy')

testExpected(folder, {
  same(t, file, name) {
    t.is(file.format, name.slice(-3))
    t.is(file.version, undefined)
  },
  verified(t, { checked, undigested }, name, file) {
    if (name.endsWith('.npz')) t.is(undigested, 0)
    if (name.endsWith('.npz') && file.size > 0) t.true(checked > 0)
  },
})

for (const name of ['coo.npz', 'coo-deflated.npz'])
  test(`${name}: row and column numbers of two members are the coordinates of one matrix`, async (t) => {
    const csr = openSync(join(folder, 'csr.npz'))
    const dense = Array.from(csr.tensor('arr_0').csr().toDense())
    csr.close()
    const path = join(folder, name)
    for (const source of [path, new Uint8Array(readFileSync(path))]) {
      const file = openSync(source)
      const matrix = file.tensor('arr_0')
      t.is(matrix.layout, 'sparse_coo')
      t.deepEqual(Array.from(matrix.coo().toDense()), dense)
      const loaded = await matrix.loadCoo()
      t.is(loaded.coords.length, 2 * loaded.nnz)
      t.deepEqual(Array.from(loaded.toDense()), dense)
      t.deepEqual(Array.from(loaded.toCsr().toDense()), dense)
      t.deepEqual(Array.from(matrix.components.get('coords').data), Array.from(loaded.coords))
      t.is((await matrix.stats()).count, 14)
      const { ok, undigested } = await file.verify()
      t.deepEqual([ok, undigested], [true, 0])
      file.close()
    }
    for (const version of ['1.2', '2']) {
      const target = scratchPath(`coo-${version}.zt`)
      await convert(path, target, { version })
      const written = openSync(target)
      t.deepEqual(Array.from(written.tensor('arr_0').coo().toDense()), dense)
      written.close()
      t.true((await diff(path, target, { values: true })).same)
    }
  })

test('a matrix by coordinates whose members disagree is its arrays', async (t) => {
  const file = openSync(join(folder, 'coo.npz'))
  file.close()
  const text = (word) =>
    npy(`'<U${word.length}'`, '()', Buffer.from([...word].flatMap((letter) => [letter.charCodeAt(0), 0, 0, 0])))
  const ints = (...values) => npy("'<i4'", `(${values.length},)`, littleEndian(Int32Array.from(values)))
  const matrix = (row, col) =>
    zip([
      { name: 'row.npy', data: row },
      { name: 'col.npy', data: col },
      { name: 'format.npy', data: text('coo') },
      { name: 'shape.npy', data: npy("'<i8'", '(2,)', littleEndian(BigInt64Array.of(2n, 3n))) },
      { name: 'data.npy', data: npy("'<f4'", '(2,)', f32s(5, 6)) },
    ])
  const good = openSync(matrix(ints(0, 1), ints(2, 0)))
  t.deepEqual(Array.from(good.tensor('arr_0').coo().toDense()), [0, 0, 5, 6, 0, 0])
  good.close()
  // A trailer behind the rows, which the view passes over.
  const trailed = openSync(matrix(Buffer.concat([ints(0, 1), Buffer.from('more')]), ints(2, 0)))
  t.deepEqual(Array.from(trailed.tensor('arr_0').coo().toDense()), [0, 0, 5, 6, 0, 0])
  trailed.close()
  const short = openSync(matrix(ints(0), ints(2, 0)))
  t.is(short.tensor('arr_0').layout, 'scipy.coo/1')
  short.close()
  const outside = openSync(matrix(ints(0, 2), ints(2, 0)))
  t.is((await outside.verify()).failures[0].code, 'ZT_BAD_SPARSE')
  outside.close()
  const truncated = openSync(matrix(ints(0, 1).subarray(0, -1), ints(2, 0)))
  t.deepEqual([...truncated.keys()].sort(), ['col', 'data', 'format', 'shape'])
  t.true(truncated.warnings.some(({ code }) => code === 'ZT_WARN_TRUNCATED'))
  t.false((await truncated.verify()).ok)
  truncated.close()
})

test('stored arrays are aliased where they can be', (t) => {
  const reasons = {
    'c-order.npy': undefined,
    'fortran.npy': 'reordered',
    'fortran-big.npy': 'reordered',
    'big.npy': 'byte-order',
    'scalar.npy': undefined,
  }
  for (const [name, reason] of Object.entries(reasons)) {
    const file = openSync(join(folder, name))
    const { mapped, copyReason, data } = file.tensor('arr_0')
    t.is(mapped, reason === undefined && canMap(data.BYTES_PER_ELEMENT), name)
    t.is(copyReason, reasonHere(reason, data.BYTES_PER_ELEMENT), name)
    file.close()
  }
  const deflated = openSync(join(folder, 'dtypes-deflated.npz'))
  for (const tensor of deflated.values()) t.is(tensor.copyReason, 'encoded', tensor.name)
  deflated.close()
})
