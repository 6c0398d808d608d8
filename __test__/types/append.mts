import type { Writable } from 'node:stream'
import { type AppendOptions, append, compact, create, type TensorEditor, TensorWriter } from 'ztensor'

export async function edit(path: string, options: AppendOptions): Promise<string> {
  await using editor: TensorEditor = await append(path, { ...options, inPlace: true, digest: 'sha256' })
  await editor.add('a', new Float32Array(6), { shape: [2, 3] })
  await editor.add('b', { data: new Float32Array(1) })
  await editor.add('c', { dtype: 'bfloat16', shape: [1], data: new Float32Array(1) })
  await editor.setMetadata({ set: [1, null], gone: undefined })
  await editor.setTensorAttributes('b', new Map([[1, undefined]]))
  await editor.rename('b', 'c')
  const writer: TensorWriter = editor
  await writer.finish()
  return editor.path
}

export async function sizes(path: URL, signal: AbortSignal): Promise<number> {
  const { byteLength, reclaimed } = await compact(path, { signal, maxIndexBytes: 1 })
  return byteLength + reclaimed
}

export async function streamed(stream: Writable): Promise<string | undefined> {
  return (await create(stream, { version: '1.2' })).path
}

// @ts-expect-error a writer is made by create() and append()
new TensorWriter({})
// @ts-expect-error no such option
append('x', { overwrite: true })
