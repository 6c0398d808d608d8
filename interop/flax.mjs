// Compares checkpoints that Flax writes now with what Flax reads.
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { environment, succeed } from './peers.mjs'

const REQUIREMENTS = ['flax==0.12.8', 'jax==0.10.2', 'msgpack==1.2.4', 'numpy==2.4.6', 'ml_dtypes==0.6.0']

/** Returns [{ what, error }] for every file. The error is undefined if each way of reading returns what Flax reads. */
export async function compareFlax({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-flax'), python, REQUIREMENTS)
  const folder = join(build, 'flax')
  await succeed(own, [join(fixtures, 'flax-files.py'), folder])
  return compareFiles(folder, Object.entries(expectedIn(folder)), differences)
}
