import { type EditMetadataOptions, type EditMetadataResult, editMetadata, type TypedValue } from 'ztensor'

export async function edit(path: string | URL, signal: AbortSignal): Promise<number> {
  const typed: TypedValue = { type: 'uint32', value: [1, 2n] }
  const options: EditMetadataOptions = {
    set: { 'general.name': 'a', list: [1, 'b', null], typed, count: { type: 'int8', value: 1 } },
    remove: ['general.url'],
    rename: { 'a.*': 'b.*' },
    drop: ['c', '!d*'],
    inPlace: true,
    signal,
    onProgress: ({ bytes, totalBytes }) => bytes / totalBytes,
    maxIndexBytes: 1,
  }
  const { byteLength, method }: EditMetadataResult = await editMetadata(path, options)
  await editMetadata(path)
  await editMetadata(path, { remove: 'a', rename: (name) => `x.${name}`, drop: 'b', set: undefined })
  const known: 'unchanged' | 'in-place' | 'inserted' | 'cloned' | 'copied' = method
  return known.length + byteLength
}

// @ts-expect-error no such type
const _none: TypedValue = { type: 'complex64', value: 1 }
// @ts-expect-error no such option
editMetadata('x', { overwrite: true })
// @ts-expect-error a name is text
editMetadata('x', { rename: () => 5 })
// @ts-expect-error undefined does not remove a key
editMetadata('x', { set: { a: undefined } })
