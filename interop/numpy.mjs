// What numpy and scipy write, made anew by the packages themselves.
import { join } from 'node:path'
import { openSync } from 'ztensor'
import { readings } from '../__test__/every-way.mjs'
import { differences, expectedIn } from '../__test__/numpy-files.mjs'
import { COMMON, environment, succeed } from './peers.mjs'

/** [{ what, error }] of every file, the error undefined where all of it is as numpy has it, by every way of reading. */
export async function compareNumpy(build, python, script) {
  const own = await environment(join(build, 'venv-numpy'), python, COMMON)
  const folder = join(build, 'numpy')
  await succeed(own, [script, folder])
  const results = []
  for (const [name, tensors] of Object.entries(expectedIn(folder))) {
    const file = openSync(join(folder, name))
    const wrong = [...differences(file, tensors), ...(await readings(file)).wrong]
    const { failures } = await file.verify()
    wrong.push(...failures.map(({ message }) => message))
    file.close()
    results.push({ what: name, error: wrong.length > 0 ? new Error(wrong.join('; ')) : undefined })
  }
  return results
}
