// Compares checkpoints and SavedModels that TensorFlow writes now with what TensorFlow reads.
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { environment, succeed } from './peers.mjs'

const REQUIREMENTS = ['tensorflow==2.21.0', 'tf_keras==2.21.0', 'numpy==2.4.6', 'ml_dtypes==0.6.0']

/** Returns [{ what, error }] for every index. The error is undefined if each way of reading returns what TensorFlow reads. */
export async function compareTensorFlow({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-tensorflow'), python, REQUIREMENTS)
  const folder = join(build, 'tensorflow')
  await succeed(own, [join(fixtures, 'tensorflow-files.py'), folder])
  const files = Object.entries(expectedIn(folder)).map(([prefix, { tensors }]) => [`${prefix}.index`, tensors])
  return compareFiles(folder, files, differences)
}
