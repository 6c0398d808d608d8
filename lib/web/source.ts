// The sources of a browser: files, Blobs, handles, URLs, memory, the caller's code, and lists of these.
import { invalid, registerThrown } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import { type ByteSource, isByteSource } from '../read/byte-source.js'
import { wrongType } from '../values/arguments.js'
import { openUrl } from './http.js'
import { native } from './module.js'
import { blobSource, type FileSource, type FolderSource, type HttpOptions, shown, type Tree } from './tree.js'

/** One file. */
type OneSource = Blob | FileSystemFileHandle | URL | string | ByteSource | Uint8Array | ArrayBuffer

/**
 * A File or Blob; the handle of a file, or of a folder with a sharded model; a URL; the bytes of a file; a `ByteSource`; or a list of these,
 * which is opened as one file. If a list contains an index (`model.safetensors.index.json`), the index is opened, and finds its files in
 * the list.
 */
export type WebSource = OneSource | FileSystemDirectoryHandle | readonly OneSource[]

const EXPECTED = 'a File, a Blob, a handle, a URL, a Uint8Array, an ArrayBuffer, a ByteSource or a list of these'

const INDEX = /\.index\.json$/

/** Wraps an exception of the caller's code, or of the browser. */
function thrown(what: string, error: unknown): Error {
  const message = `${what} failed: ${messageOf(error)}`
  return native({ code: 'ZT_IO', message, thrown: registerThrown(error) })
}

const ofBlob = (blob: Blob): FileSource => blobSource(blob, (error) => thrown('reading the file', error))

function ofBytes(bytes: Uint8Array): FileSource {
  const { byteLength } = bytes
  return {
    byteLength,
    async read(offset, length) {
      if (bytes.byteLength < byteLength) {
        const message =
          'the buffer that the file was opened from was detached or shrunk: keep it until the file is closed'
        throw native({ code: 'ZT_CLOSED', message })
      }
      return bytes.subarray(offset, offset + length)
    },
  }
}

function ofByteSource(source: ByteSource): FileSource {
  return {
    byteLength: source.byteLength,
    async read(offset, length, signal) {
      let bytes: unknown
      try {
        bytes = await source.read(offset, length, { signal })
        if (!(bytes instanceof Uint8Array)) throw wrongType('the return value of read()', 'a Uint8Array', bytes)
      } catch (error) {
        throw thrown('read() of the source', error)
      }
      if (bytes.byteLength === length) return bytes
      const message = `read(${offset}, ${length}) of the source returned ${bytes.byteLength} bytes instead of ${length}`
      throw native({ code: 'ZT_IO', message, offset })
    },
  }
}

/** A file that can be opened, and those that it refers to, by their names relative to its folder. */
interface Known {
  readonly name: string
  open(signal: AbortSignal): Promise<FileSource | undefined>
  sibling?(name: string, signal: AbortSignal): Promise<FileSource | undefined>
}

function isHandle(value: unknown): value is FileSystemHandle {
  return typeof value === 'object' && value !== null && 'kind' in value && 'isSameEntry' in value
}

function remote(url: string, http: HttpOptions): Known {
  // A query may be a signature, and is for this file alone.
  return {
    name: shown(url),
    async open(signal) {
      const file = await openUrl(url, http, signal)
      if (file !== undefined) return file
      throw native({ code: 'ZT_NOT_FOUND', message: `${shown(url)}: there is no such file: check the URL` })
    },
    sibling: (name, signal) => openUrl(new URL(encodeURI(name), url).href, http, signal),
  }
}

function known(name: string, source: unknown, http: HttpOptions): Known {
  if (source instanceof Blob) {
    const file = ofBlob(source)
    return { name: nameOf(source), open: async () => file }
  }
  if (isHandle(source) && source.kind === 'file') {
    const handle = source as FileSystemFileHandle
    return {
      name: handle.name,
      open: async () =>
        ofBlob(
          await handle.getFile().catch((error) => {
            throw thrown('opening the file', error)
          }),
        ),
    }
  }
  if (source instanceof URL || typeof source === 'string') {
    const base = globalThis.location?.href
    if (!URL.canParse(String(source), base)) throw invalid(TypeError, `${name} must be a URL, got '${source}'`)
    return remote(new URL(source, base).href, http)
  }
  const bytes = source instanceof ArrayBuffer ? new Uint8Array(source) : source
  if (bytes instanceof Uint8Array) {
    const file = ofBytes(bytes)
    return { name: 'source', open: async () => file }
  }
  if (isByteSource(source)) {
    const file = ofByteSource(source)
    const sibling = async (name: string) => {
      let found: ByteSource | undefined
      try {
        found = await source.sibling?.(name)
      } catch (error) {
        throw thrown('sibling() of the source', error)
      }
      return found && ofByteSource(found)
    }
    return { name: source.name ?? 'source', open: async () => file, sibling }
  }
  throw wrongType(name, EXPECTED, source)
}

/** The name of a file. That of a Blob is unknown. */
const nameOf = (blob: Blob): string => ('name' in blob && typeof blob.name === 'string' ? blob.name : 'source')

/** The files of a source, by name. */
export async function treeOf(source: unknown, http: HttpOptions): Promise<Tree> {
  if (Array.isArray(source)) return listOf(source, http)
  if (isHandle(source) && source.kind === 'directory') return folderOf(source as FileSystemDirectoryHandle)
  const one = known('source', source, http)
  const folder = one.name.slice(0, one.name.lastIndexOf('/') + 1)
  return {
    roots: [one.name],
    find: async (name, signal) =>
      name === one.name ? one.open(signal) : one.sibling?.(name.slice(folder.length), signal),
  }
}

function listOf(source: readonly unknown[], http: HttpOptions): Tree {
  if (source.length === 0) throw invalid(RangeError, 'source must have at least one file, got an empty list')
  const all = new Map<string, Known>()
  for (const [at, one] of source.entries()) {
    const file = known(`source[${at}]`, one, http)
    // Bytes and Blobs have no names, and files of different folders may have the same.
    const name = all.has(file.name) || file.name === 'source' ? `${at}/${file.name}` : file.name
    all.set(name, file)
  }
  const names = [...all.keys()]
  const index = names.filter((name) => INDEX.test(name))
  return {
    roots: index.length === 1 ? index : names,
    async find(name, signal) {
      return all.get(name)?.open(signal)
    },
  }
}

/** A folder. The module selects its files, as it does on disk. */
function folderOf(root: FileSystemDirectoryHandle): Tree {
  const find = async (name: string): Promise<FileSource | FolderSource | undefined> => {
    if (name === root.name) return listed(root)
    const parts = name.slice(root.name === '' ? 0 : root.name.length + 1).split('/')
    const last = parts.pop() as string
    let folder = root
    for (const part of parts) folder = await folder.getDirectoryHandle(part)
    try {
      return ofBlob(await (await folder.getFileHandle(last)).getFile())
    } catch (error) {
      if (isDom(error, 'TypeMismatchError')) return listed(await folder.getDirectoryHandle(last))
      throw error
    }
  }
  return {
    roots: [root.name],
    find: (name) =>
      find(name).catch((error) => {
        if (isDom(error, 'NotFoundError') || isDom(error, 'TypeMismatchError')) return undefined
        throw thrown(`reading the folder '${root.name}'`, error)
      }),
  }
}

async function listed(folder: FileSystemDirectoryHandle): Promise<FolderSource> {
  const names: string[] = []
  for await (const name of folder.keys()) names.push(name)
  return { names }
}

const isDom = (error: unknown, name: string): boolean => error instanceof DOMException && error.name === name
