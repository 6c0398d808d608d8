// What h5py and Keras write, made anew by the packages themselves.
import { join } from 'node:path'
import { open } from 'ztensor'
import { readings } from '../__test__/every-way.mjs'
import { differences, expectedIn } from '../__test__/expected-files.mjs'
import { COMMON, environment, succeed } from './peers.mjs'

/** [{ what, error }] of every file, the error undefined where all of it is as h5py reads it, by every way of reading. */
export async function compareHdf5(build, python, script) {
  const own = await environment(join(build, 'venv-hdf5'), python, [
    ...COMMON,
    'h5py==3.16.0',
    'keras==3.15.1',
    'jax==0.10.2',
  ])
  const folder = join(build, 'hdf5')
  await succeed(own, [script, folder, '--large'])
  const results = []
  for (const [name, tensors] of Object.entries(expectedIn(folder))) {
    const file = await open(join(folder, name))
    const wrong = [...differences(file, tensors), ...(await readings(file)).wrong]
    file.close()
    results.push({ what: name, error: wrong.length > 0 ? new Error(wrong.join('; ')) : undefined })
  }
  return results
}
