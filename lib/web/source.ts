// The sources of a browser: files, Blobs, handles, URLs, memory, the caller's code, and lists of these.
import { invalid, registerThrown } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import { type ByteSource, isByteSource, type KnownSource, knownSource } from '../read/byte-source.js'
import { wrongType } from '../values/arguments.js'
import { FORMATS } from '../values/format-table.js'
import { openUrl } from './http.js'
import { native } from './module.js'
import { blobSource, changed, type FileSource, type FolderSource, type HttpOptions, shown, type Tree } from './tree.js'

/** One file. */
type OneSource = Blob | FileSystemFileHandle | URL | string | ByteSource | Uint8Array | ArrayBuffer

/**
 * A File or Blob; the handle of a file, or of a folder with a sharded model; a URL; the bytes of a file; a `ByteSource`; or a list of these,
 * which is opened as one file. If a list has one index (`model.safetensors.index.json`), or files of one model and its data (`model.onnx` and
 * `model.onnx_data`), that is opened, and finds its files in the list.
 */
export type WebSource = OneSource | FileSystemDirectoryHandle | FileList | readonly OneSource[]

const EXPECTED = 'a File, a Blob, a handle, a URL, a Uint8Array, an ArrayBuffer, a ByteSource or a list of these'

const INDEX = /\.index\.json$/

/** Wraps an exception of the caller's code, or of the browser. */
function thrown(what: string, error: unknown, hint = ''): Error {
  const message = `${what} failed: ${messageOf(error)}${hint}`
  return native({ code: 'ZT_IO', message, thrown: registerThrown(error) })
}

const ofBlob = (blob: Blob): FileSource =>
  blobSource(blob, (error) => thrown('reading the file', error, changed(error)))

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

/** Copies what a source has read: it may use the same memory for its next read. */
function copied(bytes: unknown): Uint8Array {
  if (!(bytes instanceof Uint8Array)) throw wrongType('the return value of read()', 'a Uint8Array', bytes)
  return new Uint8Array(bytes)
}

function ofByteSource({ source, byteLength }: KnownSource): FileSource {
  return {
    byteLength,
    async read(offset, length, signal) {
      let bytes: Uint8Array
      try {
        const given = source.read(offset, length, { signal })
        bytes = given instanceof Uint8Array ? copied(given) : copied(await given)
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
    sibling: (name, signal) =>
      openUrl(new URL(name.split('/').map(encodeURIComponent).join('/'), url).href, http, signal),
  }
}

/** What browsers fetch. The pages of some apps and extensions have a scheme of their own. */
const FETCHED = ['http:', 'https:', 'blob:', 'data:', globalThis.location?.protocol]

function checkScheme(name: string, { protocol }: URL): void {
  if (FETCHED.includes(protocol)) return
  const instead = protocol === 'hf:' ? 'use https://huggingface.co/<repo>/resolve/main/<file>' : 'such URLs need Node'
  throw invalid(TypeError, `${name} must be a URL with http: or https:, got one with ${protocol}; ${instead}`)
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
    const url = new URL(source, base)
    checkScheme(name, url)
    return remote(url.href, http)
  }
  const bytes = source instanceof ArrayBuffer ? new Uint8Array(source) : source
  if (bytes instanceof Uint8Array) {
    const file = ofBytes(bytes)
    return { name: 'source', open: async () => file }
  }
  if (isByteSource(source)) {
    const root = knownSource(name, source)
    const file = ofByteSource(root)
    const sibling = async (name: string) => {
      try {
        const found = await source.sibling?.(name)
        if (found === undefined) return undefined
        return ofByteSource(knownSource(`the return value of sibling(${JSON.stringify(name)})`, found))
      } catch (error) {
        throw thrown('sibling() of the source', error)
      }
    }
    return { name: root.name ?? 'source', open: async () => file, sibling }
  }
  throw wrongType(name, EXPECTED, source)
}

/** The name of a file, with its path if the user chose a folder. That of a Blob is unknown. */
const nameOf = (blob: Blob & Partial<File>): string => blob.webkitRelativePath || (blob.name ?? 'source')

/** The files of a source, by name. Each is found once: later work on the same source reads the same version of it. */
export function treeOf(source: unknown, http: HttpOptions): Tree {
  const { roots, find } = anyTree(source, http)
  const found = new Map<string, FileSource | FolderSource | undefined>()
  return {
    roots,
    async find(name, signal) {
      const one = found.has(name) ? undefined : await find(name, signal)
      if (!found.has(name)) found.set(name, one)
      return found.get(name)
    },
  }
}

function anyTree(source: unknown, http: HttpOptions): Tree {
  if (Array.isArray(source) || isFileList(source)) return listOf(Array.from(source), http)
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
    let name = file.name
    for (let number = at; name === 'source' || all.has(name); number++) name = `${number}/${file.name}`
    all.set(name, file)
  }
  return {
    roots: rootsOf(Array.from(all.keys())),
    async find(name, signal) {
      return all.get(name)?.open(signal)
    },
  }
}

/** Models whose data is in other files: ONNX, OpenVINO, TensorFlow. */
const DATA_APART = /\.(onnx|xml|index)$/

/** The files of a list that are opened: its index, or its only model if the others may be its data. That finds them by their names. */
function rootsOf(names: readonly string[]): readonly string[] {
  const indexes = names.filter((name) => INDEX.test(name))
  if (indexes.length === 1) return indexes
  // Files of PyTorch have the extension bin, and so have the data of ONNX and OpenVINO.
  const isModel = (name: string) =>
    FORMATS.some(({ endings }) => endings.some((ending) => ending !== 'bin' && name.endsWith(`.${ending}`)))
  const models = names.filter(isModel)
  const isNamed = (name: string) => !/^\d+\/source$/.test(name)
  return models.length === 1 && DATA_APART.test(models[0] as string) && names.every(isNamed) ? models : names
}

const isFileList = (source: unknown): source is ArrayLike<File> =>
  typeof FileList !== 'undefined' && source instanceof FileList

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
