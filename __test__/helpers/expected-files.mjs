// The files by fixtures/numpy-files.py and pytorch.py, and their descriptions in expected.json.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fingerprint } from './bytes.mjs'

/** { name: { tensor: { dtype, shape, … } } } of every file of a folder, the tensors in their order. */
export const expectedIn = (folder) => JSON.parse(readFileSync(join(folder, 'expected.json'), 'utf8')).files

/** The differences between an open file and its description. */
export function differences(file, tensors) {
  const wrong = []
  const is = (found, expected, what) => {
    if (JSON.stringify(found) !== JSON.stringify(expected))
      wrong.push(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`)
  }
  is([...file.keys()], Object.keys(tensors), 'names')
  for (const [name, expected] of Object.entries(tensors)) {
    const { dtype, shape, layout = 'dense', components = { data: expected } } = expected
    const tensor = file.tensor(name)
    is(tensor.dtype, dtype ?? undefined, `dtype of ${name}`)
    is(tensor.shape, shape, `shape of ${name}`)
    is(tensor.layout, layout, `layout of ${name}`)
    is([...tensor.components.keys()].sort(), Object.keys(components).sort(), `components of ${name}`)
    for (const [role, part] of Object.entries(components)) {
      const found = tensor.components.get(role)
      is(found.dtype, part.dtype ?? undefined, `dtype of ${role} of ${name}`)
      const { sha256, nbytes } = part
      if (sha256 !== undefined) is(fingerprint(found.data), { nbytes, sha256 }, `bytes of ${role} of ${name}`)
    }
  }
  return wrong
}
