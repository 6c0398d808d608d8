// Compares TFLite models that the builders of the tflite package write now, with new values.
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { environment, succeed } from './peers.mjs'

const SEED = 20240229

/** Returns [{ what, error }] for every model. The error is undefined if each way of reading returns the values of the builder. */
export async function compareTflite({ build, python, fixtures }) {
  const requirements = ['tflite==2.18.0', 'flatbuffers==25.12.19', 'numpy==2.4.6']
  const own = await environment(join(build, 'venv-tflite'), python, requirements)
  const folder = join(build, 'tflite')
  await succeed(own, [join(fixtures, 'tflite-files.py'), folder, SEED].map(String))
  return compareFiles(folder, Object.entries(expectedIn(folder)), differences)
}
