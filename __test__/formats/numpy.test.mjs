// NumPy's own files, and SciPy's: everything that stands in them, in every way.
import { join } from 'node:path'
import test from 'ava'
import { openSync } from 'ztensor'
import { testExpected } from '../imported.mjs'
import { fixturePath } from '../vectors.mjs'

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
