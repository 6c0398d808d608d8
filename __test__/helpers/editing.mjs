// Helpers of the tests of editing: the contents of a file, and edits of it.
import { readFileSync } from 'node:fs'
import { append, openSync } from 'ztensor'
import { littleEndian } from './bytes.mjs'

export const MODES = [
  { mode: 'on a clone', inPlace: false },
  { mode: 'in place', inPlace: true },
]

/** Opens, edits and finishes. */
export async function edited(path, edit, options) {
  const editor = await append(path, options)
  await edit(editor)
  await editor.finish()
  return path
}

/** The stored bytes of a component. */
const stored = (bytes, { offset, storedLength }) => bytes.subarray(offset, offset + storedLength).toString('hex')

/** All properties of a tensor except its offsets. */
export function facts(file, bytes) {
  const tensors = [...file.values()].map((tensor) => ({
    name: tensor.name,
    dtype: tensor.dtype,
    shape: [...tensor.shape],
    layout: tensor.layout,
    attributes: tensor.attributes,
    components: [...tensor.components.values()].map((component) => ({
      role: component.role,
      dtype: component.dtype,
      byteLength: component.byteLength,
      encoding: component.encoding,
      digest: component.digest,
      stored: stored(bytes, component),
    })),
  }))
  const { format, version, generator, metadata: attributes } = file
  return { format, version, generator, attributes, tensors, warnings: file.warnings }
}

/** The properties of the file at a path. */
export function propertiesAt(path, options) {
  const file = openSync(path, options)
  const found = facts(file, readFileSync(path))
  file.close()
  return found
}

/** The values of a tensor of the file at a path. */
export function valuesAt(path, name) {
  const file = openSync(path)
  const bytes = Buffer.from(littleEndian(file.tensor(name).data))
  file.close()
  return bytes
}
