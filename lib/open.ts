import { existsSync } from 'node:fs'
import { types } from 'node:util'
import { aBoolean, aFunction, aWholeNumber, filePath, oneOf, optional, options, wrongType } from './arguments.js'
import { calling, invalid, publicError, ZTensorError } from './errors.js'
import { type Format, TensorFile } from './file.js'
import type { JobOptions } from './job.js'
import { binding, type OpenRequest } from './native.js'
import type { Origin } from './store.js'
import { jobOptions, type VerifyResult } from './verify.js'

/** A path, a file: URL, or a file that is in memory already. */
export type Source = string | URL | Uint8Array | ArrayBuffer

/** How to open a file. The limits bound what a hostile one may make us do. */
export interface OpenOptions {
  /** The container, where its bytes are not to tell. */
  format?: Format | undefined
  /** Check every digest and data rule before the file is handed out. */
  verify?: boolean | undefined
  /** Bytes of the index: 1 GiB for zTensor, 100 MB for safetensors by default. */
  maxIndexBytes?: number | undefined
  /** Bytes that one component may decode to: 16 GiB by default. */
  maxDecodedBytes?: number | undefined
  /** Dimensions of a tensor: 64 by default. */
  maxRank?: number | undefined
  /** Attribute values in the index, nested ones included: 1,048,576 by default. */
  maxAttributeValues?: number | undefined
  /**
   * Called once, on the event loop, where somebody cut the file short while it was mapped and a view was read there:
   * what was lost reads as zeros, and every further call throws the same ZT_MAPPING_LOST. Without it that error is
   * thrown on the event loop, as an uncaught one, unless a call has thrown it before.
   */
  onMappingLost?: ((error: ZTensorError) => void) | undefined
}

const limits = ['maxIndexBytes', 'maxDecodedBytes', 'maxRank', 'maxAttributeValues'] as const

interface Request {
  request: OpenRequest
  verify: boolean
  onMappingLost: OpenOptions['onMappingLost']
}

function readOptions(given: OpenOptions | undefined): Request {
  const read = options(given, ['format', 'verify', 'onMappingLost', ...limits])
  const request: OpenRequest = {}
  if (read.format !== undefined) request.format = oneOf('format', ['zt', 'safetensors', 'btf'], read.format)
  for (const limit of limits) {
    const value = optional(read[limit], (value) => aWholeNumber(limit, value))
    if (value !== undefined) request[limit] = value
  }
  const { onMappingLost } = read
  optional(onMappingLost, (value) => aFunction('onMappingLost', value))
  return { request, verify: optional(read.verify, (value) => aBoolean('verify', value)) ?? false, onMappingLost }
}

type Place = { path: string } | { memory: Uint8Array }

function place(source: unknown): Place {
  if (typeof source === 'string') return { path: aPath(source) }
  if (source instanceof URL) return { path: aPath(filePath('source', source)) }
  if (types.isUint8Array(source)) return { memory: source }
  if (types.isAnyArrayBuffer(source)) return { memory: wholeBuffer(source) }
  throw wrongType('source', 'a path, a file: URL, a Uint8Array or an ArrayBuffer', source)
}

/** The bytes of a buffer; of a detached one there are none. */
function wholeBuffer(buffer: ArrayBufferLike): Uint8Array {
  try {
    return new Uint8Array(buffer)
  } catch (cause) {
    throw Object.assign(invalid(TypeError, 'source is a detached buffer'), { cause })
  }
}

const ASAR = /\.asar(?=[\\/])/

/** Electron packs an app into an archive, of which only the unpacked twin can be mapped. */
function aPath(path: string): string {
  if (path === '' || path.includes('\0'))
    throw invalid(TypeError, 'source must be a path without null bytes, and not empty')
  if (!ASAR.test(path) || existsSync(path.replace(ASAR, '.asar.unpacked')) === false) return path
  return path.replace(ASAR, '.asar.unpacked')
}

/** Names the file, and what helps where it is packed away. */
function openError(thrown: unknown, path: string): unknown {
  const error = publicError(thrown, path)
  if (!(error instanceof ZTensorError)) return error
  const named = error.message.includes(path) ? error.message : `'${path}': ${error.message}`
  const packed = error.code === 'ZT_IO' && ASAR.test(path)
  const hint =
    ': a file inside an .asar archive cannot be mapped; add it to "asarUnpack" in the packager\'s configuration'
  const { code, tensor, component, offset, rule, cause } = error
  return new ZTensorError(code, packed ? `${named}${hint}` : named, { tensor, component, offset, rule, cause })
}

function openPathSync(from: Origin & { path: string }, request: OpenRequest): TensorFile {
  try {
    return TensorFile.make(binding.openPathSync(from.path, request), from)
  } catch (thrown) {
    throw openError(thrown, from.path)
  }
}

async function openPath(from: Origin & { path: string }, request: OpenRequest): Promise<TensorFile> {
  try {
    return TensorFile.make(await binding.openPath(from.path, request), from)
  } catch (thrown) {
    throw openError(thrown, from.path)
  }
}

function openMemory(from: Origin & { memory: Uint8Array }, request: OpenRequest): TensorFile {
  return TensorFile.make(
    calling(() => binding.openMemory(from.memory, request)),
    from,
  )
}

/**
 * Opens a file on this thread: reads and checks its index. No data is read, whatever the file's size.
 *
 * @throws ZTensorError every code but ZT_NOT_FOUND and ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG
 */
export function openSync(source: Source, options?: OpenOptions): TensorFile {
  const { request, verify, onMappingLost } = readOptions(options)
  const from = { ...place(source), onMappingLost }
  const file = 'path' in from ? openPathSync(from, request) : openMemory(from, request)
  return verify ? TensorFile.verifiedSync(file) : file
}

/**
 * Opens a file off the event loop: reads and checks its index. No data is read, whatever the file's size,
 * unless `verify` asks for it. A file in memory is opened on this thread.
 *
 * @throws ZTensorError every code but ZT_NOT_FOUND and ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
 */
export async function open(source: Source, options?: OpenOptions & JobOptions): Promise<TensorFile> {
  const { request, verify, onMappingLost } = readOptions(options)
  const job = jobOptions(options)
  const from = { ...place(source), onMappingLost }
  job.signal?.throwIfAborted()
  const file = 'path' in from ? await openPath(from, request) : openMemory(from, request)
  try {
    job.signal?.throwIfAborted()
    return verify ? TensorFile.verified(file, await file.verify(job)) : file
  } catch (error) {
    file.close()
    throw error
  }
}

/** Opens a file, checks every digest and data rule, and closes it. */
export async function verify(
  source: Source,
  options?: Omit<OpenOptions, 'verify'> & JobOptions,
): Promise<VerifyResult> {
  const file = await open(source, { ...options, verify: false })
  try {
    return await file.verify(options)
  } finally {
    file.close()
  }
}
