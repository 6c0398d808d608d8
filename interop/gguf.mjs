// Compares files that the gguf package writes now, with new values: every type, value by value, in every way of reading.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { editMetadata, open } from 'ztensor'
import { decoded } from '../__test__/helpers/gguf-files.mjs'
import { differing } from '../__test__/helpers/quantized.mjs'
import { capture } from '../scripts/command.mjs'
import { compareReadings } from './files.mjs'
import { COMMON, environment, succeed } from './peers.mjs'

const ROWS = 64
const SEED = 20240229

/** Returns [{ what, error }] for every type and file. The error is undefined if each value has the same bits. */
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
  return [...results, ...read, ...(await compareEdited(own, folder))]
}

const UINT32 = 4
const STRING = 8
const ARRAY = 9

/** Edits the package's files, and compares what the package reads before and after. */
async function compareEdited(python, folder) {
  const results = []
  for (const name of ['types', 'plain', 'plain-big-endian', 'aligned-4096'])
    for (const inPlace of [false, true]) {
      const what = `${name}, edited ${inPlace ? 'in place' : 'on a copy'}`
      const [before, path] = [join(folder, `${name}.gguf`), join(folder, `${name}-edited.gguf`)]
      copyFileSync(before, path)
      const file = await open(path)
      const [first, second] = file.keys()
      file.close()
      const set = { 'general.name': 'x'.repeat(20_000), gone: 1 }
      await editMetadata(path, { set, inPlace, ...(second === undefined ? {} : { drop: [second] }) })
      const typed = { type: 'uint32', value: [1, 2 ** 32 - 1] }
      const edit = { set: { 'general.name': 'edited', typed }, remove: ['gone'], rename: { [first]: 'renamed' } }
      await editMetadata(path, { ...edit, inPlace })
      const script = fileURLToPath(new URL('gguf_peer.py', import.meta.url))
      const { status, output } = await capture(python, [script, before, path])
      if (status !== 0) {
        results.push({ what, error: new Error(output) })
        continue
      }
      const [old, { fields, tensors }] = JSON.parse(output)
      delete fields['ztensor.padding']
      const expected = {
        fields: {
          ...old.fields,
          'general.name': [[STRING], 'edited'],
          typed: [[ARRAY, UINT32], '[1, 4294967295]'],
        },
        tensors: old.tensors
          .filter(([tensor]) => tensor !== second)
          .map(([tensor, ...rest]) => [tensor === first ? 'renamed' : tensor, ...rest]),
      }
      const [want, got] = [expected, { fields, tensors }].map((one) =>
        JSON.stringify([Object.entries(one.fields).sort(), one.tensors]),
      )
      results.push({ what, error: want === got ? undefined : new Error(`expected ${want}, read ${got}`) })
    }
  return results
}
