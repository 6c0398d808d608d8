import { existsSync } from 'node:fs'
import { types } from 'node:util'
import { invalid, publicError, rethrowNative, ZTensorError } from '../native/errors.js'
import { type JobOptions, run, unlessAborted, unopened } from '../native/job.js'
import { stage } from '../native/memory.js'
import { binding, type NativeControl, type OpenRequest, type RemoteRequest } from '../native/native.js'
import { isPlainObject, urlText } from '../native/realm.js'
import {
  filePath,
  optional,
  readOptions,
  validateBoolean,
  validateFunction,
  validateText,
  wrongType,
} from '../values/arguments.js'
import { pathOfUrl } from '../values/file-url.js'
import type { Format } from '../values/format-table.js'
import { type ByteSource, isByteSource, openBytes } from './byte-source.js'
import { TensorFile } from './file.js'
import { LIMITS, openRequest } from './open-request.js'
import { openUrls, type RemoteOptions, remoteRequest, remoteUrl } from './remote.js'
import { checkMemory, checkSame, type SharedFile, sharedFrom } from './share.js'
import type { Origin } from './store.js'
import { jobOptions, type VerifyOptions, type VerifyResult } from './verify.js'

/**
 * A path or file: URL of a tensor file, of the index of a sharded checkpoint (`model.safetensors.index.json`) or of a
 * folder with one; a list of paths of tensor files, opened as one; a file that is in memory already; or, in calls that give a
 * promise, a file that code of yours reads.
 */
export type Source = string | URL | readonly (string | URL)[] | Uint8Array | ArrayBuffer | SharedFile | ByteSource

/** Where the file of a shard is; undefined for the place where it is by convention. */
export type ShardResolver = (name: string) => string | URL | undefined | Promise<string | URL | undefined>

/** How to open a file. The limits bound what a hostile one may make us do. */
export interface OpenOptions {
  /** The container, where its bytes are not to tell. */
  format?: Format | undefined
  /**
   * Where the files are that an index names: beside it by default. A function gives the path of each by its name (a
   * promise of it only in `open`). Nothing is beside a file in memory: the function gives all of its files, and the file itself is
   * copied. `'none'` looks for none of them: of the index of a safetensors checkpoint only the
   * names of its tensors are known then, all with the layout `unread` and without a dtype.
   */
  shards?: 'none' | ShardResolver | undefined
  /**
   * Whether raw data that an index names (of ONNX, OpenVINO, TensorFlow, Paddle) may be a link out of its folder: false by default, since
   * the bytes of any file would be taken for elements. Files that say themselves what they are (safetensors, GGUF, zTensor, PyTorch,
   * HDF5) may always be links, as DVC, git-annex and Bazel lay them out.
   */
  followLinks?: boolean | undefined
  /**
   * How the bytes come into memory. `mmap`: the file is mapped. `read`: it never is, so that `data` is always a copy
   * and no page fault can hang on a lost connection. `direct`: it is mapped, and `load()` reads past the page cache
   * where the system can do that. `auto`, the default: `read` on NFS, SMB, FUSE, 9p and the like, `mmap` elsewhere, and
   * `direct` for what is loaded of a file that is larger than the memory and not in the page cache.
   */
  io?: 'auto' | 'mmap' | 'read' | 'direct' | undefined
  /** How files of other machines are read: of `https:`, `http:`, `hf:`, `s3:`, `gs:` and `az:` URLs. */
  remote?: RemoteOptions | undefined
  /** Check every digest and data rule before the file is handed out. */
  verify?: boolean | undefined
  /** Bytes of the index: 1 GiB for zTensor, 100 MB for safetensors by default. */
  maxIndexBytes?: number | undefined
  /**
   * Bytes that one component may decode to: 16 GiB by default. Elements that a file repeats (stride 0, `expand()` in PyTorch) come to
   * at most 16 times the file unless this is set.
   */
  maxDecodedBytes?: number | undefined
  /** Dimensions of a tensor: 64 by default. */
  maxRank?: number | undefined
  /** Attribute values in the index, nested ones included: 16,777,216 by default. */
  maxAttributeValues?: number | undefined
  /**
   * Called once, on the event loop, where somebody truncated the file while it was mapped and a view was read there:
   * what was lost reads as zeros, and every further call throws the same ZT_MAPPING_LOST. Without it that error is
   * thrown on the event loop, as an uncaught one, unless a call has thrown it before.
   */
  onMappingLost?: ((error: ZTensorError) => void) | undefined
}

interface Read {
  request: OpenRequest
  remote: RemoteRequest
  verify: boolean
  resolver: ShardResolver | undefined
  onMappingLost: OpenOptions['onMappingLost']
}

const UNVERIFIED = ['format', 'shards', 'followLinks', 'io', 'onMappingLost', 'remote', ...LIMITS] as const
export const OPEN_OPTIONS = [...UNVERIFIED, 'verify'] as const

function readOpenOptions(read: OpenOptions): Read {
  const { shards } = read
  if (shards !== undefined && shards !== 'none' && typeof shards !== 'function')
    throw wrongType('shards', "'none' or a function", shards)
  const request = { ...openRequest(read), unread: shards === 'none' }
  const { onMappingLost } = read
  optional(onMappingLost, (value) => validateFunction('onMappingLost', value))
  const verify = optional(read.verify, (value) => validateBoolean('verify', value)) ?? false
  const remote = remoteRequest(read.remote)
  return { request, remote, verify, resolver: typeof shards === 'function' ? shards : undefined, onMappingLost }
}

type Place =
  | { urls: readonly string[] }
  | { path: string; encoded?: Buffer }
  | { paths: string[] }
  | { memory: Uint8Array }
  | { shared: SharedFile }
  | { bytes: ByteSource }

function place(source: unknown): Place {
  const remote = Array.isArray(source) ? remoteList(source) : remoteUrl(source)
  if (remote !== undefined) return { urls: [remote].flat() }
  if (typeof source === 'string') return { path: validatePath('source', source) }
  if (Array.isArray(source)) {
    const paths = validateList('source', source)
    return paths.length === 1 ? { path: paths[0] as string } : { paths }
  }
  if (types.isUint8Array(source)) return { memory: source }
  if (types.isAnyArrayBuffer(source)) return { memory: wholeBuffer(source) }
  const url = urlText(source)
  if (url !== undefined) {
    const path = pathOfUrl('source', url)
    return typeof path === 'string' ? { path: validatePath('source', path) } : { path: url, encoded: path }
  }
  const shared = typeof source === 'object' && source !== null ? sharedFrom(source) : undefined
  if (shared !== undefined) return { shared: withPlaces(shared) }
  if (isByteSource(source)) return { bytes: source }
  const error = wrongType('source', 'a path, a file: URL, a list of them, a Uint8Array or an ArrayBuffer', source)
  if (isPlainObject(source)) error.message += '; from another thread, post what share() of the file gives'
  else if (Object.prototype.toString.call(source) === '[object TensorFile]')
    error.message += '; a file that is open has these calls itself, and its path is file.path'
  throw error
}

/** The URLs of a list of them; undefined for a list without. */
function remoteList(source: readonly unknown[]): string[] | undefined {
  const urls = source.map(remoteUrl)
  if (!urls.some((url) => url !== undefined)) return undefined
  if (urls.every((url) => url !== undefined)) return urls
  throw invalid(TypeError, 'source must be a list of paths, or a list of URLs of other machines, not of both')
}

/** The same, and tells the binding of a path that no text can be: the file then goes by its URL. */
function placeOf(source: unknown, { request }: Read): Place {
  const from = place(source)
  if ('encoded' in from && from.encoded !== undefined) request.pathBytes = [...from.encoded]
  return from
}

/** The same, its paths such as a file can have. */
function withPlaces(shared: SharedFile): SharedFile {
  const { path } = shared
  return {
    ...shared,
    path: typeof path === 'string' ? validatePath('source.path', path) : validateList('source.path', path),
  }
}

/** The error of a call that would have this thread wait for somebody else. */
function notLocal(what: string): ZTensorError {
  return new ZTensorError(
    'ZT_NOT_LOCAL',
    `${what} cannot be opened on this thread, which would wait for it: await open()`,
  )
}

function validatePlace(name: string, place: unknown): string {
  const url = urlText(place)
  if (url !== undefined) return validatePath(name, filePath(name, url))
  if (typeof place !== 'string') throw wrongType(name, 'a path or a file: URL', place)
  return validatePath(name, place)
}

function validateList(name: string, source: readonly unknown[]): string[] {
  if (source.length === 0) throw invalid(RangeError, `${name} must name one file or more, got an empty list`)
  return Array.from(source, (one, at) => validatePlace(`${name}[${at}]`, one))
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
function validatePath(name: string, path: string): string {
  if (path === '' || path.includes('\0'))
    throw invalid(TypeError, path === '' ? `${name} must not be empty` : `${name} must not hold null bytes`)
  validateText(name, path)
  if (!ASAR.test(path) || existsSync(path.replace(ASAR, '.asar.unpacked')) === false) return path
  return path.replace(ASAR, '.asar.unpacked')
}

/** Names the file, and what helps where it is packed away. */
export function openError(thrown: unknown, path: string): unknown {
  const error = publicError(thrown, path)
  if (!(error instanceof ZTensorError)) return error
  const named = error.message.includes(path) ? error.message : `'${path}': ${error.message}`
  const packed = error.code === 'ZT_IO' && ASAR.test(path)
  const hint =
    ': a file inside an .asar archive cannot be mapped; add it to "asarUnpack" in the packager\'s configuration'
  const { code, tensor, component, offset, rule, cause } = error
  return new ZTensorError(code, packed ? `${named}${hint}` : named, { tensor, component, offset, rule, cause })
}

function openPathSync(from: Origin & { path: string }, { request, resolver }: Read): TensorFile {
  const { path } = from
  if (resolver !== undefined) {
    const names = naming(path, () => binding.shardNamesSync(path, request))
    const places = names.map((name) => resolver(name))
    resolved(request, names, places)
  }
  return TensorFile.make(
    naming(path, () => binding.openPathSync(path, request)),
    from,
  )
}

async function openPath(
  from: Origin & { path: string },
  { request, resolver }: Read,
  signal?: AbortSignal,
): Promise<TensorFile> {
  const { path } = from
  if (resolver !== undefined) {
    const names = await namingLater(path, signal, (control) => binding.shardNames(path, request, control))
    resolved(request, names, await unlessAborted(Promise.all(names.map((name) => resolver(name))), signal))
  }
  const native = await namingLater(path, signal, (control) => binding.openPath(path, request, control))
  return TensorFile.make(native, from)
}

/** Names the file in what goes wrong. */
function naming<T>(path: string, call: () => T): T {
  try {
    return call()
  } catch (thrown) {
    throw openError(thrown, path)
  }
}

/** The same off the event loop. */
async function namingLater<T>(
  path: string,
  signal: AbortSignal | undefined,
  call: (control: NativeControl) => Promise<T>,
): Promise<T> {
  try {
    return await run(unopened(path), { signal }, call)
  } catch (thrown) {
    signal?.throwIfAborted()
    throw openError(thrown, path)
  }
}

/** Puts what a resolver said into the request. */
function resolved(request: OpenRequest, names: string[], places: unknown[]): void {
  const known = names.flatMap((name, at) => {
    const place = places[at]
    return place === undefined
      ? []
      : [[name, validatePlace(`what shards gives for ${JSON.stringify(name)}`, place)] as const]
  })
  request.shardNames = known.map(([name]) => name)
  request.shardPaths = known.map(([, path]) => path)
}

/** Each name once, of the files that several want resolved. */
const unique = (names: readonly string[][]): string[] => [...new Set(names.flat())]

function openPathsSync({ paths, ...from }: Origin & { paths: string[] }, { request, resolver }: Read): TensorFile {
  if (resolver !== undefined) {
    const names = unique(paths.map((path) => naming(path, () => binding.shardNamesSync(path, request))))
    const places = names.map((name) => resolver(name))
    resolved(request, names, places)
  }
  return TensorFile.make(
    rethrowNative(() => binding.openPathsSync(paths, request)),
    from,
  )
}

async function openPaths(
  { paths, ...from }: Origin & { paths: string[] },
  { request, resolver }: Read,
  signal?: AbortSignal,
): Promise<TensorFile> {
  if (resolver !== undefined) {
    const wanted: string[][] = []
    for (const path of paths) {
      wanted.push(await namingLater(path, signal, (control) => binding.shardNames(path, request, control)))
    }
    const names = unique(wanted)
    resolved(request, names, await unlessAborted(Promise.all(names.map((name) => resolver(name))), signal))
  }
  const open = (control: NativeControl) => binding.openPaths(paths, request, control)
  return TensorFile.make(await run(unopened(), { signal }, open), from)
}

/** Bytes of a file in memory whose index is read on this thread: it takes some ms at most. */
const SMALL = 2 ** 18

async function openMemory(
  from: Origin & { memory: Uint8Array },
  read: Read,
  signal: AbortSignal | undefined,
): Promise<TensorFile> {
  const { memory } = from
  const { request, resolver } = read
  if (resolver !== undefined) {
    const set = rethrowNative(() => new binding.MemorySet(memory, request))
    const names = rethrowNative(() => set.names(request))
    if (names.length > 0) {
      resolved(request, names, await unlessAborted(Promise.all(names.map((name) => resolver(name))), signal))
      const native = await run(unopened(), { signal }, (control) => set.open(request, control))
      return TensorFile.make(native, withoutMemory(from))
    }
  }
  if (memory.byteLength <= SMALL) return openMemorySync(from, { ...read, resolver: undefined })
  const opening = new binding.MemoryOpening(memory.byteLength, read.request)
  for (;;) {
    const part = await stage(
      memory,
      rethrowNative(() => opening.stage()),
      () => signal?.throwIfAborted(),
    )
    const native = await run(unopened(), { signal }, (control) => opening.attempt(part, control))
    part.release()
    if (native !== null) return TensorFile.make(native, from)
  }
}

/** Of a file in memory that names others: its bytes are copied, and read as theirs are. */
const withoutMemory = ({ memory: _, ...from }: Origin & { memory: Uint8Array }): Origin => from

function openMemorySync(from: Origin & { memory: Uint8Array }, { request, resolver }: Read): TensorFile {
  if (resolver !== undefined) {
    const set = rethrowNative(() => new binding.MemorySet(from.memory, request))
    const names = rethrowNative(() => set.names(request))
    if (names.length > 0) {
      const places = names.map((name) => resolver(name))
      resolved(request, names, places)
      return TensorFile.make(
        rethrowNative(() => set.openSync(request)),
        withoutMemory(from),
      )
    }
  }
  return TensorFile.make(
    rethrowNative(() => binding.openMemory(from.memory, request)),
    from,
  )
}

/** A file that was shared, if it is still open in this process. */
function openTicket({ path, ticket, request, memory }: SharedFile, read: Read): TensorFile | undefined {
  const native = rethrowNative(() => binding.openShared(ticket.process, ticket.number))
  if (native === null) return undefined
  const origin = { request, onMappingLost: read.onMappingLost, common: memory }
  const file = TensorFile.make(native, typeof path === 'string' ? { ...origin, path } : origin)
  if (memory !== undefined) orClose(file, () => checkMemory(memory, file.files))
  return file
}

/** How a shared file is opened anew: as it was the first time. */
function again({ path, request }: SharedFile, { onMappingLost, verify }: Read) {
  if ([path].flat().some((one) => remoteUrl(one) !== undefined)) {
    const message =
      'the file that was shared is on another machine, and no thread of this process has it open any more: open its URL again (a share holds neither headers nor queries)'
    throw new ZTensorError('ZT_IO', message)
  }
  const read: Read = { request, remote: remoteRequest(undefined), verify, resolver: undefined, onMappingLost }
  return { read, origin: { request, onMappingLost }, place: typeof path === 'string' ? path : [...path] }
}

function openSharedSync(shared: SharedFile, given: Read): TensorFile {
  const open = openTicket(shared, given)
  if (open !== undefined) return open
  const { read, origin, place } = again(shared, given)
  if (typeof place === 'string') return same(openPathSync({ ...origin, path: place }, read), shared)
  return same(openPathsSync({ ...origin, paths: place }, read), shared)
}

async function openShared(shared: SharedFile, given: Read, signal?: AbortSignal): Promise<TensorFile> {
  const open = openTicket(shared, given)
  if (open !== undefined) return open
  const { read, origin, place } = again(shared, given)
  if (typeof place === 'string') return same(await openPath({ ...origin, path: place }, read, signal), shared)
  return same(await openPaths({ ...origin, paths: place }, read, signal), shared)
}

function same(file: TensorFile, shared: SharedFile): TensorFile {
  orClose(file, () => checkSame(TensorFile.storeOf(file).native, shared))
  return file
}

function orClose(file: TensorFile, check: () => void): void {
  try {
    check()
  } catch (error) {
    file.close()
    throw error
  }
}

/**
 * Opens a file on this thread: reads and checks its index. No data is read, whatever the file's size.
 *
 * @example
 * const file = openSync('model.safetensors')
 * const { data } = file.tensor('wte')
 * file.close()
 *
 * @throws ZTensorError every code but ZT_NOT_FOUND and ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG
 */
export function openSync(source: Source, options?: OpenOptions): TensorFile {
  const read = readOpenOptions(readOptions(options, OPEN_OPTIONS))
  const from = { ...placeOf(source, read), onMappingLost: read.onMappingLost, request: read.request }
  if ('bytes' in from) throw notLocal('a source whose bytes your code reads')
  if ('urls' in from) throw notLocal('a file of another machine')
  const file =
    'path' in from
      ? openPathSync(from, read)
      : 'paths' in from
        ? openPathsSync(from, read)
        : 'shared' in from
          ? openSharedSync(from.shared, read)
          : openMemorySync(from, read)
  return read.verify ? TensorFile.verifiedSync(file) : file
}

/**
 * Opens a file off the event loop: reads and checks its index. No data is read, whatever the file's size,
 * unless `verify` asks for it. Of a large file in memory the index is copied, in pieces between which the event loop gets its turn.
 *
 * @example
 * const file = await open('model.safetensors')
 * for (const [name, { dtype, shape }] of file) console.log(name, dtype, shape)
 * file.close()
 *
 * @throws ZTensorError every code but ZT_NOT_FOUND and ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
 */
export async function open(source: Source, options?: OpenOptions & JobOptions): Promise<TensorFile> {
  const { onProgress, signal, ...opening } = readOptions(options, [...OPEN_OPTIONS, 'onProgress', 'signal'])
  const read = readOpenOptions(opening)
  const job = jobOptions({ onProgress, signal })
  const from = { ...placeOf(source, read), onMappingLost: read.onMappingLost, request: read.request }
  job.signal?.throwIfAborted()
  if (read.resolver !== undefined && ('urls' in from || 'bytes' in from))
    throw invalid(TypeError, 'shards cannot be a function here: the files that an index names are those beside it')
  const file =
    'path' in from
      ? await openPath(from, read, job.signal)
      : 'paths' in from
        ? await openPaths(from, read, job.signal)
        : 'shared' in from
          ? await openShared(from.shared, read, job.signal)
          : 'memory' in from
            ? await openMemory(from, read, job.signal)
            : 'bytes' in from
              ? await openBytes(from.bytes, read.request, from, job.signal)
              : await openUrls(from.urls, read.request, read.remote, from, job.signal)
  try {
    job.signal?.throwIfAborted()
    return read.verify ? TensorFile.verified(file, await file.verify(job)) : file
  } catch (error) {
    file.close()
    throw error
  }
}

/**
 * Opens a file, checks every digest and data rule, and closes it. Resolves with what failed.
 *
 * @example
 * const { ok, failures } = await verify('model.zt')
 *
 * @throws ZTensorError every code but ZT_NOT_FOUND and ZT_CLOSED, of a file that cannot be opened or read; TypeError and RangeError
 * ZT_INVALID_ARG; the signal's reason
 */
export async function verify(
  source: Source,
  options?: Omit<OpenOptions, 'verify'> & VerifyOptions,
): Promise<VerifyResult> {
  const known = [...UNVERIFIED, 'canonical', 'onProgress', 'signal'] as const
  const { canonical, onProgress, ...opening } = readOptions(options, known)
  const file = await open(source, opening)
  try {
    return await file.verify({ canonical, onProgress, signal: opening.signal })
  } finally {
    file.close()
  }
}
