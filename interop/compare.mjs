// Reads a peer's file in every way and compares it with the peer's record of what it wrote.
import { deepStrictEqual, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { open, openSync } from 'ztensor'
import { fingerprint } from '../__test__/helpers/bytes.mjs'

const same = (view, expected, where) => {
  const actual = fingerprint(view)
  deepStrictEqual(actual, { nbytes: expected.nbytes, sha256: expected.sha256 }, where)
}

const arraysOf = (tensor, sparse) =>
  tensor.layout === 'sparse_csr'
    ? { values: sparse.values, indices: sparse.indices, indptr: sparse.indptr }
    : { values: sparse.values, coords: sparse.coords }

/** Throws if the tensor differs from the peer's record: its fields, and the bytes of each component in every way of reading. */
async function compareTensor(tensor, expected) {
  deepStrictEqual([...tensor.shape], expected.shape, 'shape')
  deepStrictEqual(tensor.layout, expected.format, 'layout')
  if (expected.dtype !== null) deepStrictEqual(tensor.dtype, expected.dtype, 'dtype')
  if (expected.attributes !== undefined) deepStrictEqual({ ...tensor.attributes }, expected.attributes, 'attributes')
  const roles = Object.keys(expected.components)
  deepStrictEqual([...tensor.components.keys()].sort(), [...roles].sort(), 'components')
  for (const role of roles) {
    same(tensor.components.get(role).data, expected.components[role], `${role}: component.data`)
    same(await tensor.components.get(role).load(), expected.components[role], `${role}: component.load()`)
  }
  if (tensor.layout === 'dense') {
    same(tensor.data, expected.components.data, 'data')
    same(await tensor.load(), expected.components.data, 'load()')
  } else if (expected.nnz !== undefined) {
    const csr = tensor.layout === 'sparse_csr'
    for (const sparse of [csr ? tensor.csr() : tensor.coo(), await (csr ? tensor.loadCsr() : tensor.loadCoo())]) {
      deepStrictEqual(sparse.nnz, expected.nnz, 'nnz')
      for (const [role, view] of Object.entries(arraysOf(tensor, sparse))) same(view, expected.components[role], role)
    }
  }
}

/** Yields `{ what, error }` for each check of one file. The error is undefined if the check passes. */
export async function compareFile(path, expected) {
  const results = []
  const check = async (what, prove) => {
    try {
      await prove()
      results.push({ what })
    } catch (error) {
      results.push({ what, error })
    }
  }
  const ways = [
    ['path', () => open(path)],
    ['bytes', () => openSync(new Uint8Array(readFileSync(path)))],
  ]
  // In memory an index cannot find its shards.
  for (const [how, opening] of path.endsWith('.json') ? ways.slice(0, 1) : ways) {
    let file
    await check(`opens as ${how}`, async () => {
      file = await opening()
    })
    if (file === undefined) continue
    await check(`${how}: the names`, () => {
      deepStrictEqual([...file.keys()].sort(), expected.tensors.map(({ name }) => name).sort())
    })
    await check(`${how}: no warnings`, () =>
      deepStrictEqual(
        file.warnings.filter((w) => w.code !== 'ZT_WARN_UNKNOWN_LAYOUT'),
        [],
      ),
    )
    if (expected.attributes !== undefined) {
      await check(`${how}: attributes`, () => {
        // pairs, since one of the keys is __proto__
        deepStrictEqual(Object.entries(file.metadata).sort(), Object.entries(expected.attributes).sort())
      })
    }
    for (const tensor of expected.tensors) {
      await check(`${how}: ${JSON.stringify(tensor.name).slice(0, 60)}`, () =>
        compareTensor(file.tensor(tensor.name), tensor),
      )
    }
    await check(`${how}: verifies`, async () => {
      const result = await file.verify()
      deepStrictEqual(result.failures, [])
      ok(result.ok)
      if (expected.digests) deepStrictEqual(result.undigested, 0)
    })
    file.close()
  }
  return results
}
