// Quantization during a conversion: the types of tensors, and the metadata that states them.
import { invalid } from '../native/errors.js'
import { run } from '../native/job.js'
import type { ImportanceInfo, NativeSelection } from '../native/native.js'
import { isPlainObject } from '../native/realm.js'
import { TensorFile } from '../read/file.js'
import { optional, validateBoolean, validateText, wrongType } from '../values/arguments.js'
import { type AttributeInput, type AttributeValueInput, freezeChanges } from '../values/attributes.js'
import type { ConvertOptions, ConvertResult } from './convert-options.js'

/** What `quantize` of a conversion chose: its part of the result, and the metadata that states it. */
export interface Quantization {
  readonly result: ConvertResult['quantized']
  readonly metadata: Readonly<Record<string, AttributeValueInput>> | undefined
}

/** The result of a conversion without `quantize`. */
export const NOT_QUANTIZED: ConvertResult['quantized'] = { types: {}, fallbacks: [], unweighted: [] }

/** The version of ggml's block types: the only one since 2023. */
const QUANTIZATION_VERSION = 2

/** Validates the option `quantize`. */
function validateQuantize(value: unknown): string | Readonly<Record<string, string>> {
  if (typeof value === 'string') return value
  if (!isPlainObject(value)) throw wrongType('quantize', "a mixture such as 'q4_k_m' or types by patterns", value)
  const rules = Object.entries(value)
  for (const [pattern, type] of rules) validateText(`quantize[${JSON.stringify(pattern)}]`, type)
  if (rules.length === 0) throw invalid(RangeError, 'quantize must have at least one pattern')
  return value as Readonly<Record<string, string>>
}

/** The longest text that llama-quantize records. */
const LONGEST = 127

/** The key and the value that name the importance matrix of a mixture. */
export const importanceName = (path: string): [key: string, value: string] => [
  'quantize.imatrix.file',
  path.slice(0, LONGEST),
]

/** What llama-quantize records of an importance matrix. */
function importanceMetadata(
  path: string,
  { dataset, entries, chunks }: ImportanceInfo,
): Record<string, AttributeValueInput> {
  const [key, name] = importanceName(path)
  return {
    [key]: name,
    ...(dataset === undefined ? {} : { 'quantize.imatrix.dataset': dataset.slice(0, LONGEST) }),
    'quantize.imatrix.entries_count': { type: 'uint32', value: entries },
    ...(chunks === 0 ? {} : { 'quantize.imatrix.chunks_count': { type: 'uint32', value: chunks } }),
  }
}

/** Chooses the types of tensors to quantize. */
export async function quantizeTensors(
  file: TensorFile,
  selection: NativeSelection,
  { quantize, requantize, imatrix, metadata }: ConvertOptions,
  signal: AbortSignal | undefined,
): Promise<Quantization | undefined> {
  const wanted = optional(quantize, validateQuantize)
  const again = optional(requantize, (value) => validateBoolean('requantize', value)) ?? false
  const matrix = optional(imatrix, (value) => validateText('imatrix', value))
  if (wanted === undefined) return undefined
  const { set, unset } = freezeChanges('metadata', metadata ?? {})
  const mixture = typeof wanted === 'string' ? wanted : undefined
  const rules = typeof wanted === 'string' ? [] : Object.entries(wanted).flat()
  const store = TensorFile.storeOf(file)
  const { fileType, types, fallbacks, unweighted, importance } = await run(store, { signal }, (control) =>
    selection.quantize(store.native, mixture, rules, again, matrix, set, unset, control),
  )
  const uint32 = (value: number): AttributeInput => ({ type: 'uint32', value })
  return {
    result: { types: Object.fromEntries(types.map(({ type, tensors }) => [type, tensors])), fallbacks, unweighted },
    metadata:
      fileType === undefined
        ? undefined
        : {
            'general.quantization_version': uint32(QUANTIZATION_VERSION),
            'general.file_type': uint32(fileType),
            ...(importance === undefined ? {} : importanceMetadata(matrix ?? '', importance)),
          },
  }
}
