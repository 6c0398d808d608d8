// Files of h5py and Keras: everything that stands in them, in every way.
import { join } from 'node:path'
import test from 'ava'
import { openSync } from 'ztensor'
import { testExpected } from '../imported.mjs'
import { fixturePath } from '../vectors.mjs'

const folder = fixturePath('hdf5')

testExpected(folder, {
  same(t, file, name) {
    t.is(file.format, name.endsWith('.keras') ? 'keras' : 'hdf5')
  },
  verified() {},
})
