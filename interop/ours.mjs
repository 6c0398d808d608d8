// Writes files of every format for the peers to read, and ours.json, which lists their tensors.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { create } from 'ztensor'
import { fingerprint } from '../__test__/helpers/bytes.mjs'
import { sample, WRITE_FORMATS } from '../__test__/helpers/sample-files.mjs'
import { writeEdited } from './edited.mjs'
import { writeZt2 } from './ours-zt2.mjs'

// Whole bytes for elements of any width.
const SHAPES = {
  scalar: [],
  one: [4],
  empty: [0],
  hollow: [4, 0, 2],
  matrix: [3, 8],
  deep: [1, 2, 1, 3, 1, 4],
  large: [129, 68],
}
const NAMES = ['a.b/c', ' ', '層', '\u{1f600}', 'é', '__proto__', 'x'.repeat(300), '"quoted\\"', 'tab\t\x01', '']
const CSR = { shape: [6, 9], indices: [0, 8, 3, 4, 5, 1, 0, 2], indptr: [0, 2, 2, 5, 6, 6, 8] }
const COO = {
  two: { shape: [6, 9], coords: [0, 1, 2, 3, 4, 5, 8, 0, 7, 3, 3, 1], nnz: 6 },
  one: { shape: [50], coords: [3, 9, 49], nnz: 3 },
  three: { shape: [3, 4, 5], coords: [0, 2, 1, 3, 4, 0], nnz: 2 },
  none: { shape: [3, 4], coords: [], nnz: 0 },
}
const u64s = (numbers) => BigUint64Array.from(numbers, BigInt)

/** The expected fields and digests of a tensor, in the form of the peers' records. */
function expected(name, dtype, shape, format, components) {
  const prints = Object.entries(components).map(([role, view]) => [role, fingerprint(view)])
  return { name, dtype, shape, format, components: Object.fromEntries(prints) }
}

/** [{ expected, add }]: each tensor with the call that writes it. */
const kinds = {
  dense: ({ dtypes, name: format }) =>
    dtypes
      .flatMap((dtype) => Object.entries(SHAPES).map(([label, shape]) => ({ dtype, label, shape })))
      .filter(({ dtype, label }) => label !== 'scalar' || !/float[46]/.test(dtype))
      .map(({ dtype, label, shape }, i) => {
        const name = format === 'btf' ? String(i) : `${dtype}.${label}`
        const data = sample(dtype, shape, i, label === 'large' ? 96 : undefined)
        return {
          expected: expected(name, dtype, shape, 'dense', { data }),
          add: (writer) => writer.add(name, { dtype, shape, data }),
        }
      }),
  csr: ({ dtypes }) =>
    dtypes.map((dtype, i) => {
      const { shape } = CSR
      const [indices, indptr] = [u64s(CSR.indices), u64s(CSR.indptr)]
      const values = sample(dtype, [CSR.indices.length], i)
      return {
        expected: expected(`csr.${dtype}`, dtype, shape, 'sparse_csr', { values, indices, indptr }),
        add: (writer) => writer.addCsr(`csr.${dtype}`, { shape, dtype, values, indices, indptr }),
      }
    }),
  coo: ({ dtypes }) =>
    Object.entries(COO).flatMap(([label, { shape, coords: numbers, nnz }]) =>
      dtypes.map((dtype, i) => {
        const name = `coo.${dtype}.${label}`
        const coords = u64s(numbers)
        const values = sample(dtype, [nnz], i)
        return {
          expected: expected(name, dtype, shape, 'sparse_coo', { values, coords }),
          add: (writer) => writer.addCoo(name, { shape, dtype, values, coords }),
        }
      }),
    ),
  names: () =>
    NAMES.map((name, i) => {
      const data = Int16Array.of(i, 1, 2)
      return {
        expected: expected(name, 'int16', [3], 'dense', { data }),
        add: (writer) => writer.add(name, data),
      }
    }),
  none: () => [],
}

const layouts = { safetensors: ['dense', 'names', 'none'] }
const all = Object.keys(kinds)
const STORED = [false, 'crc32c', 'sha256'].flatMap((digest) =>
  [false, {}, { level: 19 }, { frameSize: 4096, minSavings: 0 }].map((compression) => ({ digest, compression })),
)
const storedAs = ({ digest, compression }) =>
  [digest || 'no digest', compression && `zstd ${compression.level ?? ''}${compression.frameSize ? 'frames' : ''}`]
    .filter(Boolean)
    .join(' ')
    .trim()
    .replaceAll(' ', '-')

/** How to create the files to edit, and the tensors to add to them. */
const editing = {
  make: async (version, path) => {
    const format = WRITE_FORMATS.find(({ name }) => name === version)
    const writer = await create(path, format.options)
    const tensors = kinds.dense(format)
    for (const { add } of tensors) await add(writer)
    await writer.finish()
    return tensors.map(({ expected }) => expected)
  },
  addTo: (version) => {
    const format = WRITE_FORMATS.find(({ name }) => name === version)
    // The dtypes of 1.0, which every version supports.
    const { dtypes } = WRITE_FORMATS.find(({ name }) => name === '1.0')
    return [...kinds.names(), ...kinds.csr({ ...format, dtypes }), ...kinds.coo({ ...format, dtypes })]
  },
}

/** Writes all files into the directory, and edits of them and of the vectors. BTF has no peer; its reader is among the tests. */
export async function writeOurs(directory, fixtures) {
  const files = []
  for (const format of WRITE_FORMATS.filter(({ name }) => name !== 'btf')) {
    for (const kind of layouts[format.name] ?? all) {
      const variants = format.zt ? STORED : [undefined]
      for (const stored of variants) {
        const ending = format.zt ? 'zt' : 'safetensors'
        const file = `${format.name}-${kind}${stored === undefined ? '' : `-${storedAs(stored)}`}.${ending}`
        const writer = await create(join(directory, file), {
          ...format.options,
          ...stored,
          ...(format.name === '0.1' ? {} : { metadata: { made: 'by us' } }),
        })
        const tensors = kinds[kind](format)
        for (const { add } of tensors) await add(writer)
        await writer.finish()
        files.push({ file, format: format.name, tensors: tensors.map(({ expected }) => expected) })
      }
    }
  }
  files.push(...(await writeEdited(directory, fixtures, editing)), ...(await writeZt2(directory, kinds)))
  writeFileSync(join(directory, 'ours.json'), JSON.stringify({ files }))
}
