// Compares models that the onnx package writes now, with new values: every type and storage, value by value, in every way of reading.
import { join } from 'node:path'
import { differences, expectedOf } from '../__test__/helpers/onnx-files.mjs'
import { compareFiles } from './files.mjs'
import { COMMON, environment, succeed } from './peers.mjs'

const COLUMNS = 67
const SEED = 20240229

/** Returns [{ what, error }] for every file. The error is undefined if each value has the same bits. */
export async function compareOnnx({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-onnx'), python, [...COMMON, 'onnx==1.23.2'])
  const folder = join(build, 'onnx')
  await succeed(own, [join(fixtures, 'onnx-files.py'), folder, COLUMNS, SEED].map(String))
  return compareFiles(folder, expectedOf(folder), differences)
}
