// The properties of a tensor for listings, from the index alone. Nothing here reads data.
import type { AnyTensor, Component, TensorFile } from '../index.js'
import { jsonText } from './json.js'
import { printable, shorten } from './text.js'

/** A tensor, and properties derived from its components. */
export interface Entry {
  tensor: AnyTensor
  components: readonly Component[]
  /** Offset of its first component; undefined if it is stored in the index. */
  offset: number | undefined
  /** Stored size in bytes. */
  storedLength: number
  /** The paths of the files that hold its components; none for a file in memory. */
  files: readonly string[]
  /** The distinct encodings of its components: `raw`, `zstd`, `raw+zstd`. */
  encoding: string
}

export function entry(tensor: AnyTensor): Entry {
  const components = Array.from(tensor.components.values())
  let offset: number | undefined
  let storedLength = 0
  for (const component of components) {
    storedLength += component.storedLength
    if (component.offset !== undefined && (offset === undefined || component.offset < offset)) offset = component.offset
  }
  const [first, ...others] = components
  const same = first !== undefined && others.every((component) => component.encoding === first.encoding)
  const encoding = same
    ? first.encoding
    : Array.from(new Set(components.map((one) => one.encoding)))
        .sort()
        .join('+')
  const files = new Set(components.flatMap(({ path }) => path ?? []))
  return { tensor, components, offset, storedLength, files: Array.from(files), encoding }
}

/** The entries of `file`, in file order, whose names `keep` accepts. */
export function entries(file: TensorFile, keep: (name: string) => boolean = () => true): Entry[] {
  const listed: Entry[] = []
  for (const [name, tensor] of file) if (keep(name)) listed.push(entry(tensor))
  return listed
}

/** Formats a shape: `[50257, 768]`, or `[]` for a scalar. */
export function showShape(shape: readonly number[]): string {
  return `[${shape.join(', ')}]`
}

/** Formats a dtype; `-` if it is unknown. */
export function showDtype(dtype: string | undefined): string {
  return dtype === undefined ? '-' : printable(dtype)
}

/** Formats a digest; `-` if there is none. */
export function showDigest(digest: string | undefined): string {
  return digest === undefined ? '-' : printable(digest)
}

/** Formats the digest of a single component, otherwise the number of components with a digest: `crc32c ×3`, `crc32c ×2 of 3`. */
export function showDigests(components: readonly Component[]): string {
  if (components.length === 1) return showDigest(components[0]?.digest)
  const digests = components.flatMap((component) => component.digest ?? [])
  if (digests.length === 0) return '-'
  const algorithms = Array.from(new Set(digests.map((digest) => digest.split(':', 1)[0] ?? digest)))
  const share = digests.length === components.length ? '' : ` of ${components.length}`
  return `${shorten(printable(algorithms.join('+')), 20)} ×${digests.length}${share}`
}

/** Formats the algorithms of the digests of components: `crc32c`, `-` for none, `crc32c ×2 of 3` if some have none. */
export function showAlgorithms(components: readonly Component[]): string {
  const digests = components.flatMap((component) => component.digest ?? [])
  if (digests.length === 0) return '-'
  const algorithms = Array.from(new Set(digests.map((digest) => digest.split(':', 1)[0] ?? digest)))
  const share = digests.length === components.length ? '' : ` ×${digests.length} of ${components.length}`
  return `${shorten(printable(algorithms.join('+')), 20)}${share}`
}

/** A component in the form of `--json`. */
export function jsonComponent(component: Component): object {
  return {
    role: component.role,
    dtype: component.dtype ?? null,
    byteLength: component.byteLength ?? null,
    storedLength: component.storedLength,
    file: component.path ?? null,
    offset: component.offset ?? null,
    encoding: component.encoding,
    digest: component.digest ?? null,
  }
}

/** A tensor in the form of `--json`. */
export function jsonEntry({ tensor, components, files, offset, storedLength, encoding }: Entry): object {
  return {
    name: tensor.name,
    dtype: tensor.dtype ?? null,
    storageType: tensor.storageType,
    shape: tensor.shape,
    layout: tensor.layout,
    byteLength: tensor.byteLength ?? null,
    storedLength,
    // The file of the first component, to which the offset belongs.
    file: files[0] ?? null,
    offset: offset ?? null,
    encoding,
    digest: components.length === 1 ? (components[0]?.digest ?? null) : null,
    components: components.map(jsonComponent),
  }
}

/** Formats the message of a warning or failure on one line, with the tensor and component if the message does not name them. */
export function showPlaced(where: { tensor?: unknown; component?: unknown }, message: string): string {
  const parts: string[] = []
  if (typeof where.tensor === 'string') parts.push(`tensor ${jsonText(where.tensor)}`)
  if (typeof where.component === 'string') parts.push(`component ${jsonText(where.component)}`)
  const placed = parts.length === 0 || message.startsWith('tensor ') ? message : `${parts.join(', ')}: ${message}`
  return printable(placed)
}
