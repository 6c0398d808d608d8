import { setMaxListeners } from 'node:events'
import type { Loaded } from './file.js'
import type { JobOptions } from './job.js'
import type { AnyTensor } from './tensor.js'

async function loadOne(tensor: AnyTensor, signal: AbortSignal): Promise<Loaded> {
  if (tensor.layout === 'sparse_csr') return tensor.loadCsr({ signal })
  if (tensor.layout === 'sparse_coo') return tensor.loadCoo({ signal })
  if (tensor.layout === 'dense' && tensor.dtype !== undefined) return tensor.load({ signal })
  const loaded = new Map()
  for (const [role, component] of tensor.components) loaded.set(role, await component.load({ signal }))
  return loaded
}

/** Loads tensors, at most `concurrency` at once. The first failure, or the caller's signal, ends the others. */
export async function loadAll(
  tensors: readonly AnyTensor[],
  concurrency: number,
  { onProgress, signal }: JobOptions,
): Promise<Map<string, Loaded>> {
  signal?.throwIfAborted()
  const loaded = new Map<string, Loaded>()
  // The keys first, so that the result is in the order asked for, whichever load ends first.
  for (const tensor of tensors) loaded.set(tensor.name, new Map())
  const totalBytes = tensors.reduce((total, tensor) => total + tensor.byteLength, 0)
  const stop = new AbortController()
  setMaxListeners(0, stop.signal) // each load listens
  const abort = () => stop.abort(signal?.reason)
  signal?.addEventListener('abort', abort, { once: true })
  let bytes = 0
  let done = 0
  const queue = tensors.values()
  const worker = async () => {
    for (const tensor of queue) {
      loaded.set(tensor.name, await loadOne(tensor, stop.signal))
      bytes += tensor.byteLength
      done += 1
      onProgress?.({ bytes, totalBytes, tensors: done, totalTensors: tensors.length })
    }
  }
  try {
    const workers = Array.from({ length: Math.min(concurrency, tensors.length) }, async () => {
      try {
        await worker()
      } catch (error) {
        stop.abort(error)
        throw error
      }
    })
    await Promise.allSettled(workers)
    await Promise.all(workers)
    return loaded
  } finally {
    signal?.removeEventListener('abort', abort)
  }
}
