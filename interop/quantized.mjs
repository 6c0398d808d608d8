// Compares decoded quantized tensors with the gguf package and the formulas of the profiles: many more blocks than the
// committed vectors have, and other ones.
import { join } from 'node:path'
import { create, openSync } from 'ztensor'
import { differing, quantizedCases } from '../__test__/helpers/quantized.mjs'
import { COMMON, environment, succeed } from './peers.mjs'

const BLOCKS = 512
const SEED = 20240229

/** Returns [{ what, error }] for every case. The error is undefined if each value has the same bits. */
export async function compareQuantized({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-gguf'), python, [...COMMON, 'gguf==0.19.0'])
  const vectors = join(build, 'quantized.bin')
  await succeed(own, [join(fixtures, 'quantized.py'), vectors, BLOCKS, SEED].map(String))
  const cases = quantizedCases(vectors)
  // zTensor 2 registers no names for the ternary types and nvfp4, 1.2 takes any.
  const versionOf = ({ layout }) => (/^gguf\.(tq|nvfp4)/.test(layout) ? '1.2' : '2')
  const files = {}
  for (const version of ['1.2', '2']) {
    const path = join(build, `quantized-${version}.zt`)
    const writer = await create(path, { version, overwrite: true })
    for (const [at, one] of cases.entries()) {
      const { layout, shape, attributes, components } = one
      if (versionOf(one) === version) await writer.addObject(`${at}`, { layout, shape, attributes, components })
    }
    await writer.finish()
    files[version] = openSync(path)
  }
  const results = cases.map((one, at) => {
    const { layout, shape, expected } = one
    const wrong = differing(files[versionOf(one)].tensor(`${at}`).toFloat32(), expected)
    const error = wrong === 0 ? undefined : new Error(`${wrong} of ${expected.length} values are other bits`)
    return { what: `${layout} [${shape}]`, error }
  })
  for (const file of Object.values(files)) file.close()
  return results
}
