// Models that OpenVINO writes again, with other values, and what it reads in them.
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { environment, succeed } from './peers.mjs'

const SEED = 20240229

/** [{ what, error }] of every model, the error undefined where all of it is as OpenVINO has it, by every way of reading. */
export async function compareOpenVino({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-openvino'), python, ['openvino==2026.4.1', 'numpy==2.4.6'])
  const folder = join(build, 'openvino')
  await succeed(own, [join(fixtures, 'openvino-files.py'), folder, SEED].map(String))
  const files = Object.entries(expectedIn(folder)).map(([name, tensors]) => [`${name}.xml`, tensors])
  return compareFiles(folder, files, differences)
}
