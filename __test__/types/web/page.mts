// A page's program: without types of Node, and with the library of a page alone.
import { open, type TensorFile } from '@ztensor/web'
import { convert, create, saveFile, type WebConvertResult } from '@ztensor/web/convert'
import type { Equal } from '../equal.js'

const file = await open(new Blob([]))
const _path: Equal<typeof file.path, string | undefined> = true
const loaded: Float32Array = await file.tensor('a').load({ as: 'float32' })

// Targets.
const compressed = new CompressionStream('gzip')
const handle = await (await navigator.storage.getDirectory()).getFileHandle('a.zt', { create: true })
await create(compressed.writable)
await create(new TransformStream<Uint8Array, Uint8Array>().writable)
await create(await handle.createWritable())
await create(handle)

// Without a target, the result has the file.
const _converted: Blob = (await convert(file)).blob
const _again: Blob = (await convert(file, undefined, { format: 'safetensors', dryRun: false })).blob
const _saved: Blob = (await saveFile(null, { loaded })).blob
// With one, or if nothing is written, it may not.
const written: WebConvertResult = await convert(file, handle)
// @ts-expect-error
const _written: Blob = written.blob
// @ts-expect-error
const _planned: Blob = (await convert(file, undefined, { dryRun: true })).blob
// @ts-expect-error
const _handle: Blob = (await saveFile(handle, { loaded })).blob
declare const target: FileSystemFileHandle | undefined
await convert(file, target, { dryRun: Boolean(target) })
await saveFile(target, {})

// Disposal.
function end(used: TensorFile): void {
  used[Symbol.dispose]()
}
end(file)
