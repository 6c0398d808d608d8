// Compares models that OpenVINO writes now, with new values, with what OpenVINO reads.
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { environment, succeed } from './peers.mjs'

const SEED = 20240229

/** Returns [{ what, error }] for every model. The error is undefined if each way of reading returns what OpenVINO reads. */
export async function compareOpenVino({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-openvino'), python, ['openvino==2026.4.1', 'numpy==2.4.6'])
  const folder = join(build, 'openvino')
  await succeed(own, [join(fixtures, 'openvino-files.py'), folder, SEED].map(String))
  const files = Object.entries(expectedIn(folder)).map(([name, tensors]) => [`${name}.xml`, tensors])
  return compareFiles(folder, files, differences)
}
