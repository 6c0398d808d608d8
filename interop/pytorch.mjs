// What torch saves, made anew by the package itself.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { environment, succeed } from './peers.mjs'

// Without what it asks for beside: 3 GB of CUDA, which `cuda_stubs.py` stands in for.
const REQUIREMENTS = [
  '--no-deps',
  'torch==2.4.1',
  'numpy==2.4.6',
  'filelock',
  'fsspec',
  'jinja2',
  'markupsafe',
  'mpmath',
  'networkx',
  'sympy',
  'typing_extensions',
]

/** [{ what, error }] of every file, the error undefined where all of it is as torch has it, by every way of reading. */
export async function comparePytorch({ build, python, fixtures, interop }) {
  const directory = join(build, 'venv-torch')
  const own = await environment(directory, python, REQUIREMENTS)
  const version = readdirSync(join(directory, 'lib')).find((name) => name.startsWith('python'))
  const libraries = join(directory, 'lib', version, 'site-packages/torch/lib')
  const stubs = join(build, 'cuda-stubs')
  await succeed(own, [join(interop, 'cuda_stubs.py'), libraries, stubs])
  const folder = join(build, 'pytorch')
  await succeed('env', [`LD_LIBRARY_PATH=${stubs}`, own, join(fixtures, 'pytorch.py'), folder])
  return compareFiles(folder, Object.entries(expectedIn(folder)), differences)
}
