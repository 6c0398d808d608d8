import { invalid, named, rethrowNative, ZTensorError } from '../native/errors.js'
import { run, unopened } from '../native/job.js'
import { TensorFile } from '../read/file.js'
import { LIMITS, openRequest } from '../read/open-request.js'
import {
  optional,
  readOptions,
  validateAbortSignal,
  validateBoolean,
  validateInteger,
  validateOneOf,
} from '../values/arguments.js'
import type { Format } from '../values/format-table.js'
import { binding, type Control } from './binding.js'
import { prepareKernels } from './kernels.js'
import { reader, type WasmSource } from './module.js'
import { treeOf, type WebSource } from './source.js'
import type { HttpOptions } from './tree.js'
import { WorkerFile } from './worker-file.js'

/** How to load the WebAssembly module. */
export interface InitOptions {
  /**
   * The location of `ztensor.wasm`, its bytes, a response with them, or the compiled module. By default the file next to this module, which
   * bundlers copy.
   */
  readonly wasm?: WasmSource | Promise<WasmSource> | undefined
}

/**
 * Loads the WebAssembly module, once: `open` does so if it was not called. Call it if the module is at another location, or to load it before
 * it is needed.
 *
 * @example await init({ wasm: '/assets/ztensor.wasm' })
 */
export async function init({ wasm }: InitOptions = {}): Promise<void> {
  await reader.load(wasm)
  await prepareKernels()
}

/** How to open a file in a browser. The limits bound the work that a hostile file can cause. */
export interface WebOpenOptions {
  /** The format; detected from the file's bytes by default. */
  readonly format?: Format | undefined
  /** `'none'` opens the files of a set that are present, with a warning for the others. */
  readonly shards?: 'none' | undefined
  /** How to request files at URLs. */
  readonly remote?: HttpOptions | undefined
  /** Check every digest and data rule before `open` resolves. */
  readonly verify?: boolean | undefined
  /** Maximum size of the index in bytes, as in Node. */
  readonly maxIndexBytes?: number | undefined
  /** Maximum decoded size of one component in bytes: 1 GiB by default. */
  readonly maxDecodedBytes?: number | undefined
  /** Maximum number of dimensions of a tensor: 64 by default. */
  readonly maxRank?: number | undefined
  /** Maximum number of attribute values in the index, including nested values: 16,777,216 by default. */
  readonly maxAttributeValues?: number | undefined
  /**
   * Read and decode in a worker of the file, which `close()` ends, so that the page never waits. The index is also read by this thread. False
   * by default.
   */
  readonly worker?: boolean | undefined
  readonly signal?: AbortSignal | undefined
}

/** Validates the option `worker`. */
export function validateWorker(value: unknown): boolean {
  const worker = optional(value, (value) => validateBoolean('worker', value)) ?? false
  if (worker && globalThis.Worker === undefined)
    throw invalid(TypeError, 'worker is for browsers: this runtime has no Worker', { option: 'worker' })
  return worker
}

const OPTIONS = ['format', 'shards', 'remote', 'verify', ...LIMITS, 'worker', 'signal'] as const

/**
 * Opens a file: reads and checks its index. It reads no data, whatever the file's size, unless `verify` is set. The file is like a remote
 * file in Node: `load()` reads tensors, and what would have to wait, such as `data`, throws ZT_NOT_LOCAL.
 *
 * @example
 * const file = await open(input.files[0])
 * for (const [name, { storageType, shape }] of file) console.log(name, storageType, shape)
 *
 * @throws ZTensorError every code but ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
 */
export async function open(source: WebSource, options?: WebOpenOptions): Promise<TensorFile> {
  const read = readOptions(options, OPTIONS)
  const { signal } = read
  optional(signal, validateAbortSignal)
  const shards = optional(read.shards, (value) => validateOneOf('shards', ['none'], value))
  const verify = optional(read.verify, (value) => validateBoolean('verify', value)) ?? false
  const worker = validateWorker(read.worker)
  const remote = readOptions(read.remote, ['headers', 'timeout'], 'remote')
  optional(remote.timeout, (value) => validateInteger('remote.timeout', value, 1))
  const request = { ...openRequest(read), unread: shards === 'none' }
  signal?.throwIfAborted()
  await init()
  const tree = rethrowNative(() => treeOf(source, remote))
  const opener = worker ? WorkerFile : binding.NativeFile
  const native = await run(unopened(), { signal }, (control) =>
    opener.open(tree, request, control as unknown as Control),
  ).catch((error) => {
    const [name] = tree.roots
    throw error instanceof ZTensorError && tree.roots.length === 1 && name !== 'source' && name
      ? named(error, name)
      : error
  })
  const path = /^https?:/.test(tree.roots[0] ?? '') && tree.roots.length === 1 ? { path: tree.roots[0] as string } : {}
  const isFolder = typeof source === 'object' && 'kind' in source && source.kind === 'directory'
  const folder = isFolder ? { folder: tree.roots[0] as string } : {}
  const file = TensorFile.make(native as never, { ...path, ...folder, request, blob: native.blob.bind(native) })
  return verify ? TensorFile.verified(file, await file.verify({ signal })) : file
}
