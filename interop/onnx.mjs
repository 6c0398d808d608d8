// Models that the onnx package writes anew, with other values: every type and place, value by value, and by every way of reading.
import { join } from 'node:path'
import { open } from 'ztensor'
import { readings } from '../__test__/every-way.mjs'
import { differences, expectedOf } from '../__test__/onnx-files.mjs'
import { COMMON, environment, succeed } from './peers.mjs'

const COLUMNS = 67
const SEED = 20240229

/** [{ what, error }] of every file, the error undefined where each value has the same bits. */
export async function compareOnnx(build, python, script) {
  const own = await environment(join(build, 'venv-onnx'), python, [...COMMON, 'onnx==1.23.2'])
  const folder = join(build, 'onnx')
  await succeed(own, [script, folder, COLUMNS, SEED].map(String))
  const results = []
  for (const [name, expected] of expectedOf(folder)) {
    const file = await open(join(folder, name))
    const wrong = [...(await differences(file, expected)), ...(await readings(file)).wrong]
    file.close()
    const error = wrong.length > 0 ? new Error(wrong.join('; ')) : undefined
    results.push({ what: `${name}: ${expected.length} tensors`, error })
  }
  return results
}
