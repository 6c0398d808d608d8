// Totals of a file and what its metadata says of the model, from the index alone.
import type { AttributeObject, AttributeValue } from '../values/attributes.js'
import { MODELS } from '../values/format-names.js'
import type { ModelInfo } from '../values/formats.js'
import type { ModelSummary } from '../values/model.js'
import { storageTypeOf } from '../values/storage-type.js'
import type { Catalog } from './catalog.js'
import type { TensorFile } from './file.js'

/** The tensors of one storage type. */
export interface StorageTypeSummary {
  /** Number of tensors. */
  readonly tensors: number
  /** Number of elements. */
  readonly parameters: number
  /** Size in bytes, decoded: the sum of `byteLength` of the tensors. */
  readonly byteLength: number
  /** The share of all parameters, from 0 to 1. */
  readonly share: number
  /** Average bits of an element; undefined if there are no elements. */
  readonly bitsPerWeight?: number | undefined
}

/** A file in numbers, from its index and metadata: `file.summary()`, and the beginning of `ztensor info --json`. */
export interface FileSummary {
  readonly path?: string | undefined
  readonly format: TensorFile['format']
  readonly version?: string | undefined
  readonly generator?: string | undefined
  /** Size in bytes of all files. */
  readonly byteLength: number
  /** Number of files. */
  readonly files: number
  /** Number of tensors. */
  readonly tensors: number
  /** Number of elements. Beyond 2^53 it is approximate. */
  readonly parameters: number
  /** Average bits of an element, without compression; undefined if there are no elements. */
  readonly bitsPerWeight?: number | undefined
  /** The tensors by storage type, that of most bytes first. */
  readonly storageTypes: Readonly<Record<string, StorageTypeSummary>>
  /** The model of a file whose format describes models: GGUF. */
  readonly model?: ModelSummary | undefined
}

/** Average bits of an element, rounded to two decimals. */
export function bitsPerWeight(byteLength: number, parameters: number): number | undefined {
  return parameters === 0 ? undefined : Math.round((800 * byteLength) / parameters) / 100
}

interface Total {
  tensors: number
  parameters: number
  byteLength: number
}

/** Adds up the tensors of these ordinals by storage type, in the order of their first tensors. */
function totalsOf(catalog: Catalog, ordinals: Iterable<number>): Map<string, Total> {
  const totals = new Map<string, Total>()
  for (const ordinal of ordinals) {
    const type = storageTypeOf(catalog.layout(ordinal), catalog.dtype(ordinal)?.name)
    let total = totals.get(type)
    if (total === undefined) {
      total = { tensors: 0, parameters: 0, byteLength: 0 }
      totals.set(type, total)
    }
    total.tensors += 1
    total.parameters += catalog.elements(ordinal)
    total.byteLength += catalog.byteLength(ordinal)
  }
  return totals
}

/** Text of an attribute, unless it is empty. */
const textOf = (value: AttributeValue | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/** A count of an attribute. Larger ones than 2^53 describe no model. */
const countOf = (value: AttributeValue | undefined): number | undefined =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined

function modelOf(info: ModelInfo, metadata: AttributeObject, has: (name: string) => boolean): ModelSummary {
  const value = (key: string): AttributeValue | undefined => metadata[key]
  const architecture = textOf(value(info.architecture))
  const ofModel = (key: string): AttributeValue | undefined =>
    architecture === undefined ? undefined : value(key.replace('{}', () => architecture))
  const tokens = value(info.tokens)
  const mixture = countOf(value(info.mixture))
  return {
    name: textOf(value(info.name)),
    architecture,
    contextLength: countOf(ofModel(info.contextLength)),
    vocabularySize: countOf(ofModel(info.vocabularySize)) ?? (Array.isArray(tokens) ? tokens.length : undefined),
    mixture: mixture === undefined ? undefined : info.mixtures[mixture],
    hasChatTemplate: textOf(value(info.chatTemplate)) !== undefined,
    tiedEmbeddings: has(info.embeddings) ? !has(info.output) : undefined,
    license: textOf(value(info.license)),
  }
}

/** What the metadata of a file says of its model; undefined in formats that describe no models. `metadata` returns it; lists may have holes. */
export function modelSummary(file: TensorFile, metadata: () => AttributeObject): ModelSummary | undefined {
  const info = MODELS[file.format]
  return info === undefined ? undefined : modelOf(info, metadata(), (name) => file.has(name))
}

/** Summarizes the tensors of a file with these ordinals. For `metadata` see `modelSummary`. */
export function summarize(
  file: TensorFile,
  catalog: Catalog,
  ordinals: Iterable<number>,
  metadata: () => AttributeObject,
): FileSummary {
  const { path, format, version, generator, byteLength, files } = file
  const totals = Array.from(totalsOf(catalog, ordinals))
  const sum = (key: keyof Total): number => totals.reduce((all, [, total]) => all + total[key], 0)
  const parameters = sum('parameters')
  const types = totals
    .sort(([, a], [, b]) => b.byteLength - a.byteLength || b.tensors - a.tensors)
    .map(([type, total]): [string, StorageTypeSummary] => {
      const share = parameters === 0 ? 0 : total.parameters / parameters
      return [type, { ...total, share, bitsPerWeight: bitsPerWeight(total.byteLength, total.parameters) }]
    })
  return {
    path,
    format,
    version,
    generator,
    byteLength,
    files: files.length,
    tensors: sum('tensors'),
    parameters,
    bitsPerWeight: bitsPerWeight(sum('byteLength'), parameters),
    storageTypes: Object.fromEntries(types),
    model: modelSummary(file, metadata),
  }
}
