// Compares files that torch writes now with what torch reads.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { environment, succeed } from './peers.mjs'

// Without its other requirements: 3 GB of CUDA, which `cuda_stubs.py` replaces.
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
  'safetensors==0.8.0',
  'sympy',
  'typing_extensions',
]

/** A Python that has torch, and the environment variables that it needs. */
export async function torchOf({ build, python, interop }) {
  const directory = join(build, 'venv-torch')
  const own = await environment(directory, python, REQUIREMENTS)
  const version = readdirSync(join(directory, 'lib')).find((name) => name.startsWith('python'))
  const libraries = join(directory, 'lib', version, 'site-packages/torch/lib')
  const stubs = join(build, 'cuda-stubs')
  await succeed(own, [join(interop, 'cuda_stubs.py'), libraries, stubs])
  return { own, variable: `LD_LIBRARY_PATH=${stubs}` }
}

/** Returns [{ what, error }] for every file. The error is undefined if each way of reading returns what torch reads. */
export async function comparePytorch(given) {
  const { build, fixtures } = given
  const { own, variable } = await torchOf(given)
  const folder = join(build, 'pytorch')
  await succeed('env', [variable, own, join(fixtures, 'pytorch.py'), folder])
  return compareFiles(folder, Object.entries(expectedIn(folder)), differences)
}
