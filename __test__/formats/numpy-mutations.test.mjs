// NumPy's files, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const paths = (...names) => names.map((name) => fixturePath(`numpy/${name}`))

testDamaged({
  npy: paths('c-order.npy', 'fortran-big.npy', 'version-2.npy', 'version-3.npy', 'structured.npy', 'scalar.npy'),
  'npz, stored': paths('shapes.npz', 'others.npz', 'csr.npz', 'bsr.npz'),
  'npz, deflated': paths('csc-deflated.npz', 'coo-3d.npz', 'coo-deflated.npz'),
  'npz, with data descriptors': paths('pipe-deflated.npz'),
})
