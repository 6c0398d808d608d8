// Compares Arrow files, streams and tensors that pyarrow writes now, with new values, with what pyarrow reads.
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { environment, succeed } from './peers.mjs'

const SEED = 20240229
const ROWS = 10007

/** Returns [{ what, error }] for every file. The error is undefined if each way of reading returns what pyarrow reads. */
export async function compareArrow({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-arrow'), python, ['pyarrow==26.0.1', 'numpy==2.4.6'])
  const folder = join(build, 'arrow')
  await succeed(own, [join(fixtures, 'arrow-files.py'), folder, SEED, ROWS].map(String))
  return compareFiles(folder, Object.entries(expectedIn(folder)), differences)
}
