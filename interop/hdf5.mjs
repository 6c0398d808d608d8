// Compares files that h5py and Keras write now, and damaged files that h5py reads.
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { compareMutations } from './hdf5-mutations.mjs'
import { COMMON, environment, succeed } from './peers.mjs'

/** Returns [{ what, error }] for every file. The error is undefined if each way of reading returns what h5py reads. */
export async function compareHdf5({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-hdf5'), python, [
    ...COMMON,
    'h5py==3.16.0',
    'keras==3.15.1',
    'jax==0.10.2',
  ])
  const folder = join(build, 'hdf5')
  await succeed(own, [join(fixtures, 'hdf5-files.py'), folder, '--large'])
  const whole = await compareFiles(folder, Object.entries(expectedIn(folder)), differences)
  return [...whole, ...(await compareMutations(own, fixtures, build))]
}
