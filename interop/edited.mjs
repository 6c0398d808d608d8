// Edits our files and those of the peers, for the peers to read.
import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { append, compact, editMetadata } from 'ztensor'

/** The peers' files to edit, and the peers that read the result. */
const VECTORS = [
  ['zt100-dtypes.zt', '1.0'],
  ['zt101-shapes.zt', '1.0'],
  ['zt101-zstd.zt', '1.0'],
  ['zt111-shapes.zt', '1.2'],
  ['zt12-dtypes.zt', '1.2'],
  ['zt12-crc32c.zt', '1.2'],
]

const WAYS = [
  { way: 'clone', inPlace: false },
  { way: 'in-place', inPlace: true },
  { way: 'compacted', inPlace: true, compacted: true },
]

/**
 * Adds the tensors to the file at `path`, renames its first one and removes its last one. Returns the tensors of the edited file, which
 * had `expected` before.
 */
async function edit(path, expected, added, { inPlace, compacted = false }, stored) {
  const editor = await append(path, { inPlace, ...stored })
  const [first, ...rest] = expected
  const last = rest.pop()
  await editor.rename(first.name, 'renamed by us')
  await editor.setMetadata({ edited: 'by us' })
  await editor.setTensorAttributes('renamed by us', { note: [1, 'two'] })
  await editor.remove(last.name)
  for (const { add } of added) await add(editor)
  await editor.finish()
  if (compacted) await compact(path)
  return [{ ...first, name: 'renamed by us' }, ...rest, ...added.map(({ expected }) => expected)]
}

/**
 * Edits the vectors and our own files. `make(format, path)` writes one of our files and returns its tensors, `addTo(format)`
 * returns the tensors to add. Resolves with the rows for ours.json.
 */
export async function writeEdited(directory, fixtures, { make, addTo }) {
  const files = []
  for (const { way, ...how } of WAYS) {
    for (const stored of [{}, { digest: 'sha256', compression: { minSavings: 0 } }]) {
      const suffix = `${way}${stored.digest === undefined ? '' : '-stored'}`
      for (const format of ['1.0', '1.2']) {
        const file = `${format}-dense-edited-${suffix}.zt`
        const expected = await make(format, join(directory, file))
        files.push({ file, format, tensors: await edit(join(directory, file), expected, addTo(format), how, stored) })
      }
      for (const [vector, format] of VECTORS) {
        const file = `edited-${suffix}-${vector}`
        copyFileSync(join(fixtures, vector), join(directory, file))
        const { tensors } = JSON.parse(readFileSync(join(fixtures, `${vector}.json`), 'utf8'))
        const tensorsAfter = await edit(join(directory, file), tensors, addTo(format), how, stored)
        files.push({ file, format, tensors: tensorsAfter })
      }
    }
  }
  for (const inPlace of [false, true]) files.push(await editHeader(directory, make, inPlace))
  return files
}

/** Edits the header of a safetensors file: to a longer one, and then to one that fits. */
async function editHeader(directory, make, inPlace) {
  const file = `safetensors-dense-edited-${inPlace ? 'in-place' : 'copy'}.safetensors`
  const path = join(directory, file)
  const [first, second, ...rest] = await make('safetensors', path)
  await editMetadata(path, { set: { made: 'x'.repeat(10_000), gone: 'soon' }, drop: [second.name], inPlace })
  await editMetadata(path, { set: { made: 'by us' }, remove: ['gone'], rename: { [first.name]: 'renamed' }, inPlace })
  return { file, format: 'safetensors', tensors: [{ ...first, name: 'renamed' }, ...rest] }
}
