// NumPy's own files, and SciPy's: everything that stands in them, in every way.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { readings } from '../every-way.mjs'
import { differences, expectedIn } from '../numpy-files.mjs'

const folder = fileURLToPath(new URL('../fixtures/numpy/', import.meta.url))
const files = expectedIn(folder)

test('every file is expected, and every expected file there', (t) => {
  const names = readdirSync(folder).filter((name) => name !== 'expected.json')
  t.deepEqual(names.sort(), Object.keys(files).sort())
})

for (const [name, tensors] of Object.entries(files)) {
  const path = join(folder, name)
  test(`${name}: what stands in it`, async (t) => {
    for (const source of [path, new Uint8Array(readFileSync(path))]) {
      for (const opening of [open, openSync]) {
        const file = await opening(source)
        t.is(file.format, name.slice(-3))
        t.is(file.version, undefined)
        t.deepEqual(differences(file, tensors), [])
        file.close()
      }
    }
  })

  test(`${name}: all ways of reading agree`, async (t) => {
    const file = openSync(path)
    const { wrong } = await readings(file)
    t.deepEqual(wrong, [])
    const { ok, checked, undigested } = await file.verify()
    t.true(ok)
    if (name.endsWith('.npz')) t.is(undigested, 0)
    if (name.endsWith('.npz') && file.size > 0) t.true(checked > 0)
    file.close()
  })
}

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
    const { mapped, copyReason } = file.tensor('arr_0')
    t.is(mapped, reason === undefined && process.env.ZTENSOR_NO_EXTERNAL !== '1', name)
    if (reason !== undefined) t.is(copyReason, reason, name)
    file.close()
  }
  const deflated = openSync(join(folder, 'dtypes-deflated.npz'))
  for (const tensor of deflated.values()) t.is(tensor.copyReason, 'encoded', tensor.name)
  deflated.close()
})
