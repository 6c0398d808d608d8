// Lists the models of a repository of the hub, or of a folder: from the names of files, and on demand from their headers.
import { promises } from 'node:fs'
import { join } from 'node:path'
import { placeOf, urlOf } from '../hub/place.js'
import { revisionOf } from '../hub/revision.js'
import { filesBelow, ioError, snapshotOf } from '../hub/snapshot.js'
import { invalid, ZTensorError } from '../native/errors.js'
import { optional, readOptions, validateAbortSignal, validateBoolean } from '../values/arguments.js'
import { validateFolder } from '../values/folder.js'
import { MODELS } from '../values/format-names.js'
import { FORMATS, type Format } from '../values/format-table.js'
import { MIXTURES } from '../values/formats.js'
import { type RemoteOptions, remoteRequest, remoteUrl } from '../values/remote.js'
import type { TensorFile } from './file.js'
import { open } from './open.js'

/** What to list. */
export interface ListOptions {
  /** Open each model for `tensors`, `parameters`, `architecture` and the mixture that it states: false by default. Reads only indexes. */
  headers?: boolean | undefined
  /** How to access the hub. */
  remote?: RemoteOptions | undefined
  /** Cancels the call, which rejects with `signal.reason`. */
  signal?: AbortSignal | undefined
}

/** A model in a list. */
export interface ListedModel {
  /** The path of its file or index, relative to the repository or folder, with slashes. */
  readonly name: string
  /** The path or URL by which `open` opens it. */
  readonly source: string
  /** The format: by the extension, and with `headers` that of the file. */
  readonly format: TensorFile['format']
  /** Size in bytes of all of its files; undefined if the hub does not list sizes. */
  readonly byteLength: number | undefined
  /** Number of files with tensors. */
  readonly files: number
  /** The mixture of types, as llama.cpp writes it: `'Q4_K_M'`. With `headers` as the file states it, otherwise as its name says. */
  readonly mixture?: string | undefined
  /** Number of tensors, with `headers`. */
  readonly tensors?: number | undefined
  /** Number of elements of all tensors, with `headers`. */
  readonly parameters?: number | undefined
  /** The architecture that the file states, with `headers`: `'llama'`. */
  readonly architecture?: string | undefined
  /** Why the model could not be opened, with `headers`. */
  readonly error?: unknown
}

interface FileEntry {
  readonly path: string
  readonly byteLength: number | undefined
}

/** `model-00001-of-00003.safetensors`: the name of the set, the number, the number of files, and the extension. */
const SHARD = /^(.*)-(\d{5,6})-of-(\d{5,6})(\.[^./]+)$/
/** Models that are opened at once. */
const AT_ONCE = 4

const endingOf = (path: string): string => /\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? ''

/** The format of a file by its extension. */
const formatOf = (path: string): Format | undefined =>
  FORMATS.find(({ endings }) => (endings as readonly string[]).includes(endingOf(path)))?.name as Format | undefined

/** The mixture that a file name contains: `model.Q4_K_M.gguf`. */
function mixtureOf(path: string, format: Format): string | undefined {
  if (MODELS[format] === undefined) return undefined
  const parts = `-${path.slice(path.lastIndexOf('/') + 1).toLowerCase()}`
  const found = MIXTURES.filter((name) => new RegExp(`[-._]${name}(?=[-._])`).test(parts))
  return found.sort((a, b) => b.length - a.length)[0]?.toUpperCase()
}

/** Groups the files of sets. Files that are no models are left out. */
function modelsOf(entries: readonly FileEntry[], sourceOf: (path: string) => string): ListedModel[] {
  const paths = new Set(entries.map(({ path }) => path))
  // The data of OpenVINO is not a file of PyTorch.
  const isData = (path: string): boolean => path.endsWith('.bin') && paths.has(path.replace(/bin$/, 'xml'))
  const sets = new Map<string, FileEntry[]>()
  for (const entry of entries) {
    if (formatOf(entry.path) === undefined || isData(entry.path)) continue
    const [, stem, , count, ending] = SHARD.exec(entry.path) ?? []
    const name = stem === undefined ? entry.path : `${stem}${ending}-of-${count}`
    sets.set(name, [...(sets.get(name) ?? []), entry])
  }
  return [...sets.values()].map((files) => {
    const [{ path: first } = { path: '' }] = files
    const [, stem, , , ending] = SHARD.exec(first) ?? []
    const index = `${stem}${ending}.index.json`
    const name = stem !== undefined && paths.has(index) ? index : first
    const format = formatOf(first) as Format
    const byteLength = files.reduce<number | undefined>(
      (sum, file) => (sum === undefined || file.byteLength === undefined ? undefined : sum + file.byteLength),
      0,
    )
    return { name, source: sourceOf(name), format, byteLength, files: files.length, mixture: mixtureOf(first, format) }
  })
}

/** What the header of a model says. */
async function withHeader(model: ListedModel, { remote, signal }: ListOptions): Promise<ListedModel> {
  let file: TensorFile
  try {
    file = await open(model.source, { ...(remote === undefined ? {} : { remote }), ...(signal && { signal }) })
  } catch (error) {
    signal?.throwIfAborted()
    return { ...model, error }
  }
  try {
    const { tensors, parameters, format, model: summary } = file.summary()
    const { mixture = model.mixture, architecture } = summary ?? {}
    return { ...model, format, mixture, tensors, parameters, architecture }
  } finally {
    file.close()
  }
}

/** The files of a repository of the hub or of a folder, and how to open them. */
async function entriesOf(text: string, options: ListOptions): Promise<ListedModel[]> {
  const remote = remoteRequest(options.remote)
  if (remoteUrl(text) === undefined) {
    const root = snapshotOf(text) ?? text
    const found = await promises.stat(root)
    if (!found.isDirectory()) throw invalid(RangeError, `source must be a folder, but '${text}' is a file`)
    const files = (await filesBelow(root)).filter(({ path }) => !/(^|\/)\./.test(path))
    return modelsOf(files, (path) => join(root, path))
  }
  if (!/^hf:/i.test(text))
    throw invalid(RangeError, 'source must be an hf: URL or a local folder: other servers are not listed')
  const place = await placeOf(text, remote)
  const { commit, files } = await revisionOf(place, remote, options.signal)
  const folder = place.path === '' ? '' : `${place.path}/`
  const below = files.filter(({ path }) => path.startsWith(folder) || path === place.path)
  if (below.length === 0)
    throw new ZTensorError(
      'ZT_NOT_FOUND',
      `'${urlOf(place, commit, place.path)}': the commit has no such file or folder`,
    )
  return modelsOf(below, (path) => urlOf(place, place.revision, path))
}

/** `list` of lib/lazy.ts. */
export async function list(source: string | URL, options?: ListOptions): Promise<ListedModel[]> {
  const read = readOptions(options, ['headers', 'remote', 'signal'])
  const text = remoteUrl(source) ?? validateFolder('source', source)
  const headers = optional(read.headers, (value) => validateBoolean('headers', value)) ?? false
  const signal = optional(read.signal, validateAbortSignal)
  signal?.throwIfAborted()
  const models = await entriesOf(text, read).catch((error) => {
    throw ioError(text, error)
  })
  signal?.throwIfAborted()
  if (!headers) return models
  const queue = models.entries()
  const worker = async (): Promise<void> => {
    for (const [at, model] of queue) models[at] = await withHeader(model, { ...read, signal })
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return models
}
