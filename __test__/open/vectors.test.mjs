// Every vector, opened from every kind of source, compared with its sidecar value by value.
import test from 'ava'
import { CooTensor, CsrTensor, open, openSync, verify } from 'ztensor'
import { indexNames } from '../corpus/index-names.mjs'
import { arrayBufferOf, fingerprint } from '../helpers/bytes.mjs'
import { vectors } from '../helpers/vectors.mjs'

const FORMATS = { zt: 'zt', safetensors: 'safetensors', btf: 'btf' }
const VERSIONS = {
  'zt0.1': '0.1',
  'zt1.0': '1.0',
  'zt1.1': '1.1.0',
  'zt1.2': '1.2.0',
  zt2: '2',
  safetensors: undefined,
  btf: undefined,
}
const oneOf = (value) => [value].flat()
const only = ({ sha256, nbytes }) => ({ sha256, nbytes })

/** The sidecar's tensors by our names: those of BTF, which have none, are '0', '1', … */
const expectedTensors = (meaning) => meaning.tensors.map((tensor, i) => ({ ...tensor, name: tensor.name ?? String(i) }))

/** Asserts that the components, given by role, are one of the variants that the sidecar allows. */
function areComponents(t, actual, tensor, where) {
  const variants = tensor.components_any ?? [tensor.components]
  const prints = Object.fromEntries(Object.entries(actual).map(([role, view]) => [role, fingerprint(view)]))
  const matches = variants.some(
    (variant) =>
      Object.keys(variant).length === Object.keys(prints).length &&
      Object.entries(variant).every(
        ([role, c]) => prints[role]?.sha256 === c.sha256 && prints[role]?.nbytes === c.nbytes,
      ),
  )
  t.true(matches, `${where}: ${JSON.stringify(prints)} is not in ${JSON.stringify(variants)}`)
}

const csrParts = ({ values, indices, indptr }) => ({ values, indices, indptr })
const cooParts = ({ values, coords }) => ({ values, coords })

function hasParts(t, sparse, tensor, where) {
  const csr = tensor.format === 'sparse_csr'
  t.true(sparse instanceof (csr ? CsrTensor : CooTensor), where)
  t.deepEqual([...sparse.shape], tensor.shape, where)
  t.is(sparse.nnz, tensor.nnz, where)
  t.true(oneOf(tensor.dtype).includes(sparse.dtype), where)
  areComponents(t, csr ? csrParts(sparse) : cooParts(sparse), tensor, where)
}

async function isTensor(t, actual, tensor) {
  const where = tensor.name
  t.is(actual.name, tensor.name)
  t.true(oneOf(tensor.dtype ?? undefined).includes(actual.dtype), `${where}: dtype ${actual.dtype}`)
  t.deepEqual([...actual.shape], tensor.shape, where)
  t.true(oneOf(tensor.format).includes(actual.layout), `${where}: layout ${actual.layout}`)
  t.is(
    actual.size,
    tensor.shape.reduce((a, b) => a * b, 1),
    where,
  )

  const views = [...actual.components].map(([role, component]) => {
    t.is(component.role, role)
    return [role, component.data]
  })
  areComponents(t, Object.fromEntries(views), tensor, `${where}, component.data`)
  const loaded = []
  for (const [role, component] of actual.components) {
    loaded.push([role, await component.load()])
    const stated = tensor.components?.[role]
    if (stated?.dtype !== undefined) t.is(component.dtype, stated.dtype, where)
    if (stated !== undefined && component.byteLength !== undefined) t.is(component.byteLength, stated.nbytes, where)
  }
  areComponents(t, Object.fromEntries(loaded), tensor, `${where}, component.load()`)

  if (actual.layout === 'dense') {
    t.deepEqual(fingerprint(actual.data), only(tensor.components.data), `${where}, data`)
    t.deepEqual(fingerprint(await actual.load()), only(tensor.components.data), `${where}, load()`)
    t.is(actual.byteLength, tensor.components.data.nbytes, where)
  } else if (actual.layout === 'sparse_csr') {
    hasParts(t, actual.csr(), tensor, `${where}, csr()`)
    hasParts(t, await actual.loadCsr(), tensor, `${where}, loadCsr()`)
  } else if (actual.layout === 'sparse_coo') {
    hasParts(t, actual.coo(), tensor, `${where}, coo()`)
    hasParts(t, await actual.loadCoo(), tensor, `${where}, loadCoo()`)
  }
}

function isFile(t, file, { name, bytes, meaning }) {
  t.is(file.format, FORMATS[name.slice(name.lastIndexOf('.') + 1)])
  t.is(file.version, VERSIONS[meaning.group])
  t.is(file.byteLength, bytes.length)
  t.is(file.size, meaning.tensors.length)
  if (meaning.metadata !== undefined) {
    t.is(Object.getPrototypeOf(file.metadata), null)
    t.deepEqual(Object.entries(file.metadata), Object.entries(meaning.metadata))
  }
  const names = [...file.keys()]
  t.deepEqual(names, indexNames(name, bytes))
  t.deepEqual(
    [...names].sort(),
    expectedTensors(meaning)
      .map((tensor) => tensor.name)
      .sort(),
  )
}

const SOURCES = {
  path: ({ path }) => path,
  Uint8Array: ({ bytes }) => new Uint8Array(bytes),
  ArrayBuffer: ({ bytes }) => arrayBufferOf(bytes),
  'Uint8Array at an odd offset': ({ bytes }) => atOddOffset(bytes),
}
/** The bytes in the middle of a larger buffer, where no element wider than a byte is aligned. */
function atOddOffset(bytes) {
  const buffer = new Uint8Array(bytes.length + 13)
  buffer.set(bytes, 5)
  return buffer.subarray(5, 5 + bytes.length)
}

for (const one of vectors) {
  for (const [kind, sourceOf] of Object.entries(SOURCES)) {
    for (const [how, opening] of Object.entries({ openSync, open })) {
      test(`${one.name}: ${how} of a ${kind}`, async (t) => {
        const file = await opening(sourceOf(one))
        isFile(t, file, one)
        for (const tensor of expectedTensors(one.meaning)) await isTensor(t, file.tensor(tensor.name), tensor)
        file.close()
      })
    }
  }

  test(`${one.name}: file.load()`, async (t) => {
    const file = await open(one.path)
    const loaded = await file.load()
    t.deepEqual([...loaded.keys()], [...file.keys()])
    for (const tensor of expectedTensors(one.meaning)) {
      const value = loaded.get(tensor.name)
      const { components, data } = value
      if (components !== undefined) {
        const parts = Object.entries(components).map(([role, { data }]) => [role, data])
        areComponents(t, Object.fromEntries(parts), tensor, tensor.name)
      } else if (data !== undefined) t.deepEqual(fingerprint(data), only(tensor.components.data), tensor.name)
      else areComponents(t, value instanceof CsrTensor ? csrParts(value) : cooParts(value), tensor, tensor.name)
    }
    file.close()
  })

  test(`${one.name}: verifies`, async (t) => {
    for (const result of [await verify(one.path), await verify(new Uint8Array(one.bytes))]) {
      t.deepEqual(result.failures, [])
      t.true(result.ok)
    }
    const digests = /crc32c|sha256/.test(one.name)
    const { checked, undigested } = await verify(one.path)
    if (digests) t.is(undigested, 0)
    if (digests) t.is(checked, one.meaning.tensors.length)
    const file = openSync(one.path, { verify: true })
    t.is(file.size, one.meaning.tensors.length)
    file.close()
  })
}

test('every format has vectors', (t) => {
  t.deepEqual([...new Set(vectors.map((v) => v.meaning.group))].sort(), [
    'btf',
    'safetensors',
    'zt0.1',
    'zt1.0',
    'zt1.1',
    'zt1.2',
    'zt2',
  ])
  t.is(vectors.length, 31)
})
