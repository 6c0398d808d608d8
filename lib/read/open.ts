import { invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { type JobOptions, run, unlessAborted, unopened } from '../native/job.js'
import { stage } from '../native/memory.js'
import { binding, type NativeControl, type OpenRequest, type RemoteRequest } from '../native/native.js'
import { optional, readOptions, validateBoolean, validateFunction, wrongType } from '../values/arguments.js'
import type { Format } from '../values/format-table.js'
import { openBytes } from './byte-source.js'
import { TensorFile } from './file.js'
import { LIMITS, openRequest } from './open-request.js'
import { openUrls, type RemoteOptions, remoteRequest, remoteUrl } from './remote.js'
import { checkMemory, checkSame, type SharedFile } from './share.js'
import { openError, type ParsedSource, parseSource, type Source, validateShardPath } from './source.js'
import type { Origin } from './store.js'
import { jobOptions, type VerifyOptions, type VerifyResult } from './verify.js'

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

/** The error of a call that would have this thread wait for somebody else. */
function notLocal(what: string): ZTensorError {
  return new ZTensorError(
    'ZT_NOT_LOCAL',
    `${what} cannot be opened on this thread, which would wait for it: await open()`,
  )
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
      : [[name, validateShardPath(`what shards gives for ${JSON.stringify(name)}`, place)] as const]
  })
  request.shardNames = known.map(([name]) => name)
  request.shardPaths = known.map(([, path]) => path)
}

/** Each name once, of the files that several want resolved. */
const unique = (names: readonly string[][]): string[] => [...new Set(names.flat())]

function openPathsSync(
  { paths, ...from }: Origin & { paths: readonly string[] },
  { request, resolver }: Read,
): TensorFile {
  if (resolver !== undefined) {
    const names = unique(paths.map((path) => naming(path, () => binding.shardNamesSync(path, request))))
    const places = names.map((name) => resolver(name))
    resolved(request, names, places)
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
      wanted.push(await namingLater(path, signal, (control) => binding.shardNames(path, request, control)))
    }
    const names = unique(wanted)
    resolved(request, names, await unlessAborted(Promise.all(names.map((name) => resolver(name))), signal))
  }
  const open = (control: NativeControl) => binding.openPaths([...paths], request, control)
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

/** A source with what a file remembers of how it was opened. */
type From = ParsedSource & Origin

/** Parses a source. Passes a path that is not UTF-8 to the binding as bytes. */
function parse(source: unknown, { request, onMappingLost }: Read): From {
  const parsed = parseSource(source)
  if (parsed.kind === 'path' && parsed.encoded !== undefined) request.pathBytes = [...parsed.encoded]
  return { ...parsed, onMappingLost, request }
}

function openSourceSync(from: From, read: Read): TensorFile {
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
      throw notLocal('a source whose bytes your code reads')
    case 'urls':
      throw notLocal('a remote file')
  }
}

function openSource(from: From, read: Read, signal: AbortSignal | undefined): Promise<TensorFile> {
  if (read.resolver !== undefined && (from.kind === 'urls' || from.kind === 'bytes'))
    throw invalid(TypeError, 'shards cannot be a function here: the files that an index names are its siblings')
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
  const from = parse(source, read)
  const file = openSourceSync(from, read)
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
