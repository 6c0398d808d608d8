// What we decode quantized tensors to, beside the gguf package and the formulas of the profiles: many more blocks than the
// committed vectors have, and others.
import { join } from 'node:path'
import { create, openSync } from 'ztensor'
import { differing, quantizedCases } from '../__test__/quantized.mjs'
import { COMMON, environment, succeed } from './peers.mjs'

const BLOCKS = 512
const SEED = 20240229

/** [{ what, error }] of every case, the error undefined where each value has the same bits. */
export async function compareQuantized(build, python, script) {
  const own = await environment(join(build, 'venv-gguf'), python, [...COMMON, 'gguf==0.19.0'])
  const vectors = join(build, 'quantized.bin')
  await succeed(own, [script, vectors, BLOCKS, SEED].map(String))
  const cases = quantizedCases(vectors)
  const path = join(build, 'quantized.zt')
  const writer = await create(path, { version: '2', overwrite: true })
  for (const [at, one] of cases.entries()) await writer.addObject(`${at}`, one)
  await writer.finish()
  const file = openSync(path)
  const results = cases.map(({ layout, shape, expected }, at) => {
    const wrong = differing(file.tensor(`${at}`).toFloat32(), expected)
    const error = wrong === 0 ? undefined : new Error(`${wrong} of ${expected.length} values are other bits`)
    return { what: `${layout} [${shape}]`, error }
  })
  file.close()
  return results
}
