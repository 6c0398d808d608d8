// NumPy's own files, and SciPy's: everything in them, read in every way.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, diff, openSync } from 'ztensor'
import { npy, zip } from '../corpus/numpy.mjs'
import { f32s } from '../corpus/zt.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { canMap, expectedReason } from '../helpers/data-placement.mjs'
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
  test(`${name}: row and column numbers in two members become the coordinates of one matrix`, async (t) => {
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

test('coordinates whose members disagree are listed as arrays', async (t) => {
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
  // A trailer after the rows, which the view skips.
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

const word = (text) =>
  npy(`'<U${text.length}'`, '()', Buffer.from([...text].flatMap((letter) => [letter.charCodeAt(0), 0, 0, 0])))
const numbers = (descr, array, shape = `(${array.length},)`) => npy(`'${descr}'`, shape, littleEndian(array))
const doubles = (...values) => numbers('<f8', Float64Array.from(values))
const longs = (values, shape) => numbers('<i8', BigInt64Array.from(values.map(BigInt)), shape)
const npzOf = (members) => zip(Object.entries(members).map(([name, data]) => ({ name: `${name}.npy`, data })))
/** An archive of pydata/sparse. */
const COORDINATES = {
  format: word('coo'),
  shape: longs([2, 2]),
  data: doubles(1, 2),
  coords: longs([0, 1, 1, 0], '(2, 2)'),
}
/** An archive of SciPy. */
const ROWS = {
  format: npy("'|S3'", '()', Buffer.from('csr')),
  shape: longs([2, 2]),
  data: doubles(5, 7),
  indices: longs([1, 0]),
  indptr: longs([0, 1, 2]),
}

for (const [what, members, fill] of [
  ['NaN', COORDINATES, numbers('<f8', Float64Array.of(Number.NaN), '()')],
  ['1', COORDINATES, longs([1], '()')],
  ['NaN, of a matrix by rows', ROWS, numbers('<f8', Float64Array.of(Number.NaN), '()')],
  ['-0', ROWS, numbers('<f8', Float64Array.of(-0), '()')],
  ['an object', COORDINATES, npy("'|O'", '()', Buffer.from('N.'))],
])
  test(`a sparse matrix with the fill value ${what} is listed as arrays, with a warning`, async (t) => {
    const bytes = npzOf({ ...members, fill_value: fill })
    const file = openSync(bytes)
    t.deepEqual([...file.keys()].sort(), [...Object.keys(members), 'fill_value'].sort())
    t.regex(file.warnings[0].message, /a sparse matrix with a fill value other than 0/)
    t.is(file.warnings[0].code, 'ZT_WARN_UNKNOWN_LAYOUT')
    t.deepEqual(
      [...file.tensor('data').data],
      [...openSync(npzOf(members)).tensor('arr_0').components.get('values').data],
    )
    t.true((await file.verify()).ok)
    file.close()
  })

test('a GCXS array of pydata/sparse with two dimensions is a matrix, and others are arrays with a warning', async (t) => {
  const gcxs = (axes, shape = longs([2, 2])) => ({
    ...ROWS,
    format: word('gcxs'),
    shape,
    compressed_axes: longs(axes),
    fill_value: numbers('<f8', Float64Array.of(0), '()'),
  })
  for (const [axes, name, warnings] of [
    [[0], 'arr_0', []],
    [[1], 'arr_0.T', ['ZT_WARN_TRANSPOSED']],
  ]) {
    const file = openSync(npzOf(gcxs(axes)))
    t.deepEqual([...file.keys()], [name])
    t.deepEqual([...file.tensor(name).csr().toDense()], [0, 5, 7, 0])
    const codes = file.warnings.map(({ code }) => code)
    t.deepEqual(codes, warnings)
    file.close()
  }
  for (const members of [gcxs([0, 1]), gcxs([0], longs([2, 1, 2]))]) {
    const file = openSync(npzOf(members))
    t.true(file.has('compressed_axes') && !file.has('arr_0'))
    t.like(file.warnings[0], { code: 'ZT_WARN_UNKNOWN_LAYOUT' })
    t.regex(file.warnings[0].message, /GCXS.*asformat/)
    file.close()
  }
})

test('a sparse matrix with the fill value 0 is one tensor, and nothing else', async (t) => {
  for (const fill of [numbers('<f8', Float64Array.of(0), '()'), longs([0], '()'), npy("'|b1'", '()', Buffer.of(0))]) {
    const file = openSync(npzOf({ ...COORDINATES, fill_value: fill, _is_array: npy("'|b1'", '()', Buffer.of(1)) }))
    t.deepEqual([...file.keys()], ['arr_0'])
    t.deepEqual(file.warnings, [])
    t.deepEqual([...file.tensor('arr_0').coo().toDense()], [0, 1, 2, 0])
    file.close()
  }
})

test('other arrays beside the members of a sparse matrix are separate tensors', async (t) => {
  const others = {
    labels: longs([0, 1, 2]),
    arr_0: doubles(9),
    row: longs([4]),
    coords: doubles(8),
    'folder/x': doubles(3),
  }
  const path = scratchPath('others.npz')
  writeFileSync(path, npzOf({ ...ROWS, ...others }))
  for (const source of [path, new Uint8Array(readFileSync(path))]) {
    const file = openSync(source)
    t.deepEqual([...file.keys()], ['arr_0', 'labels', 'arr_0~2', 'row', 'coords', 'folder/x'])
    t.deepEqual(
      file.warnings.map(({ code, tensor }) => [code, tensor]),
      [['ZT_WARN_RENAMED', 'arr_0~2']],
    )
    t.deepEqual([...file.tensor('arr_0').csr().toDense()], [0, 5, 7, 0])
    t.deepEqual([...file.tensor('labels').data], [0n, 1n, 2n])
    t.deepEqual([...file.tensor('arr_0~2').data], [9])
    t.true((await file.verify()).ok)
    file.close()
  }
  const target = scratchPath('others.zt')
  const result = await convert(path, target)
  t.deepEqual([result.tensors, result.skipped], [6, []])
})

test('a csr array of one dimension is one sparse tensor', async (t) => {
  const vector = { ...ROWS, shape: longs([4]), indices: longs([1, 3]), indptr: longs([0, 2]) }
  const bytes = npzOf({ ...vector, _is_array: npy("'|b1'", '()', Buffer.of(1)) })
  const file = openSync(bytes)
  t.teardown(() => file.close())
  t.deepEqual([[...file.keys()], file.warnings], [['arr_0'], []])
  t.deepEqual(file.tensor('arr_0').shape, [4])
  t.deepEqual([...file.tensor('arr_0').coo().toDense()], [0, 5, 0, 7])
  t.deepEqual([...(await file.tensor('arr_0').loadCoo()).toDense()], [0, 5, 0, 7])
  t.true((await file.verify()).ok)
  for (const indptr of [longs([0, 1]), longs([1, 2]), longs([0, 2, 2]), doubles(0, 2)]) {
    const odd = openSync(npzOf({ ...vector, indptr }))
    t.deepEqual([...odd.keys()].sort(), ['data', 'format', 'indices', 'indptr', 'shape'])
    odd.close()
  }
})

test('aliases stored arrays if possible', (t) => {
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
    t.is(copyReason, expectedReason(reason, data.BYTES_PER_ELEMENT), name)
    file.close()
  }
  const deflated = openSync(join(folder, 'dtypes-deflated.npz'))
  for (const tensor of deflated.values()) t.is(tensor.copyReason, 'encoded', tensor.name)
  deflated.close()
})
