// HDF5 files and Keras' archives, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const paths = (...names) => names.map((name) => fixturePath(`hdf5/${name}`))

testDamaged({
  'HDF5, superblock 0': paths('small.h5'),
  'HDF5, superblock 3': paths('small-latest.h5', 'fill-latest.h5'),
  Keras: paths('tiny.keras'),
})
