// Compares files that PaddlePaddle writes now with what it reads.
import { join } from 'node:path'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { compareFiles } from './files.mjs'
import { environment, succeed } from './peers.mjs'

/** Returns [{ what, error }] for every file. The error is undefined if each way of reading returns what Paddle reads. */
export async function comparePaddle({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-paddle'), python, ['paddlepaddle==3.3.1', 'numpy==2.4.6'])
  const saved = join(build, 'paddle')
  await succeed(own, [join(fixtures, 'paddle-files.py'), saved])
  const results = []
  for (const folder of [saved, `${saved}-inference`])
    results.push(...(await compareFiles(folder, Object.entries(expectedIn(folder)), differences)))
  return results
}
