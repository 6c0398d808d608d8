import { channels, publish, timed } from '../native/channels.js'
import { invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { type JobOptions, run, unlessAborted, unopened } from '../native/job.js'
import { stage } from '../native/memory.js'
import { binding, type NativeControl, type OpenRequest } from '../native/native.js'
import { optional, readOptions, validateBoolean, validateFunction, wrongType } from '../values/arguments.js'
import type { Format } from '../values/format-table.js'
import { type RemoteAccess, type RemoteOptions, remoteRequest, remoteUrl } from '../values/remote.js'
import { openBytes } from './byte-source.js'
import { withinCall } from './calls.js'
import { TensorFile } from './file.js'
import { LIMITS, openRequest } from './open-request.js'
import { openUrls } from './remote.js'
import { checkMemory, checkSame, type SharedFile } from './share.js'
import { openError, type ParsedSource, parseSource, type Source, validateShardPath } from './source.js'
import type { Origin } from './store.js'
import { jobOptions, type VerifyOptions, type VerifyResult } from './verify.js'

/** Returns the path of a shard by its name; undefined for the default path, next to the index. */
export type ShardResolver = (name: string) => string | URL | undefined | Promise<string | URL | undefined>

/** How to open a file. The limits bound the work that a hostile file can cause. */
export interface OpenOptions {
  /** The format; detected from the file's bytes by default. */
  format?: Format | undefined
  /**
   * Where to find the files that an index names: in the folder of the index by default. A function returns the path of each file by
   * its name, or in `open` also a promise of it. For an index in memory the function must return all paths, and the index is copied.
   * `'none'` opens the files of a set that are present, with a warning for the others. If none of an index is, its tensors have only
   * names, the layout `unread` and no dtype. External data and the shards of a zTensor 2 root are not opened.
   */
  shards?: 'none' | ShardResolver | undefined
  /**
   * Whether external raw data (of ONNX, OpenVINO, TensorFlow, Paddle) may be a symbolic link to a file outside of the model's folder:
   * false by default, because the bytes of any file would be read as elements. Files with a signature or header (safetensors, GGUF,
   * zTensor, PyTorch, HDF5) may always be links, as DVC, git-annex and Bazel create them. In a conversion of a checkpoint to GGUF, the
   * option is also for its configuration, tokenizer and templates.
   */
  followLinks?: boolean | undefined
  /**
   * The I/O mode. `mmap` maps the file. `read` never maps it: `data` is always a copy, and no page fault can hang on a lost
   * connection. `direct` maps the file, and `load()` bypasses the page cache if the system supports that. `auto`, the default, is
   * `read` on network and FUSE file systems (NFS, SMB, FUSE, 9p) and `mmap` elsewhere; `load()` then bypasses the page cache for a
   * file that is larger than the memory and not cached.
   */
  io?: 'auto' | 'mmap' | 'read' | 'direct' | undefined
  /** How to read remote files: `https:`, `http:`, `hf:`, `s3:`, `gs:` and `az:` URLs. */
  remote?: RemoteOptions | undefined
  /** Check every digest and data rule before `open` resolves. */
  verify?: boolean | undefined
  /** Maximum size of the index in bytes: by default 1 GiB for zTensor, 100 MB for safetensors; docs/limits.md lists the other formats. */
  maxIndexBytes?: number | undefined
  /**
   * Maximum decoded size of one component in bytes: 16 GiB by default. Unless this is set, repeated elements (stride 0, `expand()` in
   * PyTorch) may take at most 16 times the size of the file.
   */
  maxDecodedBytes?: number | undefined
  /** Maximum number of dimensions of a tensor: 64 by default. */
  maxRank?: number | undefined
  /** Maximum number of attribute values in the index, including nested values: 16,777,216 by default. */
  maxAttributeValues?: number | undefined
  /**
   * Called once, on the event loop, after the mapped file was truncated and a view was read past its new end. The lost bytes read
   * as zeros, and every further call throws the same ZT_MAPPING_LOST. Without this callback the error becomes an uncaught exception,
   * unless a call has thrown it before.
   */
  onMappingLost?: ((error: ZTensorError) => void) | undefined
}

interface Read {
  request: OpenRequest
  remote: RemoteAccess
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

/** The error of a synchronous call that would have to wait for asynchronous I/O. */
function notLocal(what: string): ZTensorError {
  return new ZTensorError('ZT_NOT_LOCAL', `openSync() cannot open ${what}: use await open() instead`)
}

function openPathSync(from: Origin & { path: string }, { request, resolver }: Read): TensorFile {
  const { path } = from
  if (resolver !== undefined) {
    const names = naming(path, () => binding.shardNamesSync(path, request))
    const paths = names.map((name) => resolver(name))
    resolved(request, names, paths)
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
    const names = await namingAsync(path, signal, (control) => binding.shardNames(path, request, control))
    resolved(request, names, await unlessAborted(Promise.all(names.map((name) => resolver(name))), signal))
  }
  const native = await namingAsync(path, signal, (control) => binding.openPath(path, request, control))
  return TensorFile.make(native, from)
}

/** Runs `call`, and adds the path to its errors. */
function naming<T>(path: string, call: () => T): T {
  try {
    return call()
  } catch (thrown) {
    throw openError(thrown, path)
  }
}

/** Runs `call` off the event loop, and adds the path to its errors. */
async function namingAsync<T>(
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

/** Adds the paths that a resolver returned to the request. */
function resolved(request: OpenRequest, names: string[], paths: unknown[]): void {
  const known = names.flatMap((name, at) => {
    const path = paths[at]
    return path === undefined
      ? []
      : [[name, validateShardPath(`the return value of shards(${JSON.stringify(name)})`, path)] as const]
  })
  request.shardNames = known.map(([name]) => name)
  request.shardPaths = known.map(([, path]) => path)
}

/** The distinct names of the lists. */
const unique = (names: readonly string[][]): string[] => [...new Set(names.flat())]

function openPathsSync(
  { paths, ...from }: Origin & { paths: readonly string[] },
  { request, resolver }: Read,
): TensorFile {
  if (resolver !== undefined) {
    const names = unique(paths.map((path) => naming(path, () => binding.shardNamesSync(path, request))))
    const found = names.map((name) => resolver(name))
    resolved(request, names, found)
  }
  return TensorFile.make(
    rethrowNative(() => binding.openPathsSync([...paths], request)),
    from,
  )
}

async function openPaths(
  { paths, ...from }: Origin & { paths: readonly string[] },
  { request, resolver }: Read,
  signal?: AbortSignal,
): Promise<TensorFile> {
  if (resolver !== undefined) {
    const wanted: string[][] = []
    for (const path of paths) {
      wanted.push(await namingAsync(path, signal, (control) => binding.shardNames(path, request, control)))
    }
    const names = unique(wanted)
    resolved(request, names, await unlessAborted(Promise.all(names.map((name) => resolver(name))), signal))
  }
  const open = (control: NativeControl) => binding.openPaths([...paths], request, control)
  return TensorFile.make(await run(unopened(), { signal }, open), from)
}

/** Up to this size in bytes, the index of a file in memory is read on this thread, in a few ms at most. */
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

/** The origin of an index in memory: its bytes were copied, so that they are read like those of the other files. */
const withoutMemory = ({ memory: _, ...from }: Origin & { memory: Uint8Array }): Origin => from

function openMemorySync(from: Origin & { memory: Uint8Array }, { request, resolver }: Read): TensorFile {
  if (resolver !== undefined) {
    const set = rethrowNative(() => new binding.MemorySet(from.memory, request))
    const names = rethrowNative(() => set.names(request))
    if (names.length > 0) {
      const paths = names.map((name) => resolver(name))
      resolved(request, names, paths)
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

/** Opens a shared file without I/O if it is still open in this process; otherwise returns undefined. */
function openTicket({ path, ticket, request, memory }: SharedFile, read: Read): TensorFile | undefined {
  const native = rethrowNative(() => binding.openShared(ticket.process, ticket.number))
  if (native === null) return undefined
  const origin = { request, onMappingLost: read.onMappingLost, common: memory }
  const file = TensorFile.make(native, typeof path === 'string' ? { ...origin, path } : origin)
  if (memory !== undefined) orClose(file, () => checkMemory(memory, file.files))
  return file
}

/** How to reopen a shared file: with the options of the first time. */
function reopening({ path, request }: SharedFile, { onMappingLost, verify }: Read) {
  if ([path].flat().some((one) => remoteUrl(one) !== undefined)) {
    const message =
      'the shared file is remote, and no thread of this process has it open: open its URL again (a share contains neither headers nor queries)'
    throw new ZTensorError('ZT_IO', message)
  }
  const read: Read = { request, remote: remoteRequest(undefined), verify, resolver: undefined, onMappingLost }
  return { read, origin: { request, onMappingLost }, target: typeof path === 'string' ? path : [...path] }
}

function openSharedSync(shared: SharedFile, given: Read): TensorFile {
  const open = openTicket(shared, given)
  if (open !== undefined) return open
  const { read, origin, target } = reopening(shared, given)
  if (typeof target === 'string') return same(openPathSync({ ...origin, path: target }, read), shared)
  return same(openPathsSync({ ...origin, paths: target }, read), shared)
}

async function openShared(shared: SharedFile, given: Read, signal?: AbortSignal): Promise<TensorFile> {
  const open = openTicket(shared, given)
  if (open !== undefined) return open
  const { read, origin, target } = reopening(shared, given)
  if (typeof target === 'string') return same(await openPath({ ...origin, path: target }, read, signal), shared)
  return same(await openPaths({ ...origin, paths: target }, read, signal), shared)
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

/** A parsed source, and the origin that the file stores. */
type From = ParsedSource & Origin

/** Parses a source. A path that is not UTF-8 is passed to the binding as bytes. */
function parse(source: unknown, { request, onMappingLost }: Read): From {
  const parsed = parseSource(source)
  if (parsed.kind === 'path' && parsed.encoded !== undefined) request.pathBytes = [...parsed.encoded]
  return { ...parsed, onMappingLost, request }
}

/** Publishes that a source was opened, or the error. */
function publishOpen(from: From, began: number, file: TensorFile | undefined, error?: unknown): void {
  const message = {
    source: file === undefined ? publicName(from) : file.path,
    format: file?.format,
    bytes: file?.byteLength ?? 0,
    milliseconds: performance.now() - began,
    error,
  }
  if (channels.open.hasSubscribers) publish('open', { ...message, tensors: file?.size ?? 0 })
  const isRemote = file === undefined ? from.kind === 'urls' : TensorFile.storeOf(file).isRemote
  if (isRemote && channels.remote.hasSubscribers)
    publish('remote', { ...message, call: 'open', bytes: 0, cached: false })
}

/** The path or URL of a source that could not be opened, without the parts of a URL that may be secret. */
function publicName(from: From): string | undefined {
  if (from.kind === 'path') return from.path
  const [first = '', ...others] = from.kind === 'urls' ? from.urls : []
  if (others.length > 0 || !URL.canParse(first)) return undefined
  const { protocol, host, pathname } = new URL(first)
  return `${protocol}//${host}${pathname}`
}

function openSourceSync(from: From, read: Read): TensorFile {
  const began = timed(channels.open, channels.remote)
  if (began === undefined) return openKindSync(from, read)
  try {
    const file = openKindSync(from, read)
    publishOpen(from, began, file)
    return file
  } catch (error) {
    publishOpen(from, began, undefined, error)
    throw error
  }
}

async function openSource(from: From, read: Read, signal: AbortSignal | undefined): Promise<TensorFile> {
  const began = timed(channels.open, channels.remote)
  if (began === undefined) return openKind(from, read, signal)
  try {
    const file = await openKind(from, read, signal)
    publishOpen(from, began, file)
    return file
  } catch (error) {
    publishOpen(from, began, undefined, error)
    throw error
  }
}

function openKindSync(from: From, read: Read): TensorFile {
  switch (from.kind) {
    case 'path':
      return openPathSync(from, read)
    case 'paths':
      return openPathsSync(from, read)
    case 'memory':
      return openMemorySync(from, read)
    case 'shared':
      return openSharedSync(from.shared, read)
    case 'bytes':
      throw notLocal('a ByteSource')
    case 'urls':
      throw notLocal('a remote file')
  }
}

function openKind(from: From, read: Read, signal: AbortSignal | undefined): Promise<TensorFile> {
  if (read.resolver !== undefined && (from.kind === 'urls' || from.kind === 'bytes'))
    throw invalid(
      TypeError,
      'shards cannot be a function for a URL or a ByteSource: the files that an index names are found in its folder',
    )
  switch (from.kind) {
    case 'path':
      return openPath(from, read, signal)
    case 'paths':
      return openPaths(from, read, signal)
    case 'memory':
      return openMemory(from, read, signal)
    case 'shared':
      return openShared(from.shared, read, signal)
    case 'bytes':
      return openBytes(from.bytes, read.request, from, signal)
    case 'urls':
      return openUrls(from.urls, read.request, read.remote, from, signal)
  }
}

/**
 * Opens a file synchronously: reads and checks its index, but no data, whatever the file's size.
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
  const from = parse(source, read)
  const file = openSourceSync(from, read)
  return read.verify ? TensorFile.verifiedSync(file) : file
}

/**
 * Opens a file off the event loop: reads and checks its index. It reads no data, whatever the file's size, unless `verify` is set.
 * The index of a large file in memory is copied in pieces, so that the event loop is not blocked.
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
  const from = parse(source, read)
  job.signal?.throwIfAborted()
  const file = await openSource(from, read, job.signal)
  try {
    job.signal?.throwIfAborted()
    return read.verify ? TensorFile.verified(file, await file.verify(job)) : file
  } catch (error) {
    file.close()
    throw error
  }
}

/**
 * Opens a source for the duration of `work`. A file that is already open is used as it is, and stays open; options for opening are then
 * errors.
 */
export async function withOpen<T>(
  source: Source | TensorFile,
  options: OpenOptions & { signal?: AbortSignal | undefined },
  work: (file: TensorFile) => Promise<T>,
): Promise<T> {
  if (source instanceof TensorFile) {
    const { signal, ...opening } = options
    for (const [key, value] of Object.entries(opening))
      if (value !== undefined)
        throw invalid(TypeError, `${key} is an option for opening, and the file is already open`, { option: key })
    signal?.throwIfAborted()
    return TensorFile.storeOf(source).calls.hold(() => withinCall(() => work(source)))
  }
  const file = await open(source, options)
  try {
    return await work(file)
  } finally {
    file.close()
  }
}

/**
 * Checks every digest and data rule of a file: of an open one, or of one that it opens and closes. Resolves with all failures.
 *
 * @example
 * const { ok, failures } = await verify('model.zt')
 *
 * @throws ZTensorError every code but ZT_NOT_FOUND, if the file cannot be opened or read; TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
 */
export async function verify(
  source: Source | TensorFile,
  options?: Omit<OpenOptions, 'verify'> & VerifyOptions,
): Promise<VerifyResult> {
  const known = [...UNVERIFIED, 'canonical', 'filter', 'onProgress', 'signal'] as const
  const { canonical, filter, onProgress, ...opening } = readOptions(options, known)
  return withOpen(source, opening, (file) => file.verify({ canonical, filter, onProgress, signal: opening.signal }))
}
