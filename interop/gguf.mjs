// Files that the gguf package writes again, with other values: every type, value by value, and by every way of reading.
import { join } from 'node:path'
import { open } from 'ztensor'
import { decoded } from '../__test__/helpers/gguf-files.mjs'
import { differing } from '../__test__/helpers/quantized.mjs'
import { compareReadings } from './files.mjs'
import { COMMON, environment, succeed } from './peers.mjs'

const ROWS = 64
const SEED = 20240229

/** [{ what, error }] of every type and file, the error undefined where each value has the same bits. */
export async function compareGguf({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-gguf'), python, [...COMMON, 'gguf==0.19.0'])
  const folder = join(build, 'gguf')
  await succeed(own, [join(fixtures, 'gguf-files.py'), folder, ROWS, SEED].map(String))
  const file = await open(join(folder, 'types.gguf'))
  const results = []
  for (const { name, type, expected } of decoded(folder)) {
    const wrong = differing(await file.tensor(name).load({ as: 'float32' }), expected)
    const error = wrong === 0 ? undefined : new Error(`${wrong} of ${expected.length} values are other bits`)
    results.push({ what: type, error })
  }
  file.close()
  const names = ['types', 'plain', 'plain-big-endian', 'aligned-4096', 'split-00002-of-00003']
  const read = await compareReadings(
    folder,
    names.map((name) => `${name}.gguf`),
  )
  return [...results, ...read]
}
