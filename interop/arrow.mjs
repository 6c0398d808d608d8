// Arrow files, streams and tensors that pyarrow writes again, with other values, and what it reads in them.
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { environment, succeed } from './peers.mjs'

const SEED = 20240229
const ROWS = 10007

/** [{ what, error }] of every file, the error undefined where all of it is as pyarrow has it, by every way of reading. */
export async function compareArrow({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-arrow'), python, ['pyarrow==26.0.1', 'numpy==2.4.6'])
  const folder = join(build, 'arrow')
  await succeed(own, [join(fixtures, 'arrow-files.py'), folder, SEED, ROWS].map(String))
  return compareFiles(folder, Object.entries(expectedIn(folder)), differences)
}
