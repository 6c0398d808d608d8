// The options of a conversion, and its result.

import type { ZTensorError } from '../native/errors.js'
import type { JobOptions } from '../native/job.js'
import type { OpenOptions } from '../read/open.js'
import type { AnyTensor } from '../read/tensor.js'
import { validateOneOf } from '../values/arguments.js'
import type { CastRules } from '../values/cast.js'
import type { DType } from '../values/dtype.js'
import type { Filter } from '../values/filter.js'
import type { BlockType, Mixture } from '../values/format-table.js'
import type { Renaming } from '../values/rename.js'
import type { Warning } from '../values/warning.js'
import { CREATE_OPTIONS, type CreateOptions } from '../write/options.js'

/** A type of a rule of `quantize`. */
export type QuantizedType = BlockType | 'f32' | 'f16' | 'bf16'

/** How to convert a file. Its metadata and generator are copied, and `metadata` changes what it names. */
export interface ConvertOptions extends CreateOptions, JobOptions {
  /** `false` copies nothing of the source's metadata: the file has only what `metadata` sets. */
  copyMetadata?: boolean | undefined
  /** `false` copies no attributes of tensors, except parameters of quantized layouts. */
  copyAttributes?: boolean | undefined
  /**
   * Fail if the target cannot store metadata of the source or attributes of its tensors. By default they are left out and listed in
   * `skipped`. Where the target stores only text (safetensors), other plain values become JSON text.
   */
  strictMetadata?: boolean | undefined
  /**
   * Stores the elements of quantized tensors (GGUF block types, TFLite, `zt.quant_group/1`, `zt.mx/1`) as a dense tensor of this dtype.
   * Each element is computed as float32 and rounded once, to nearest, ties to even. An error if no tensor is quantized.
   */
  dequantize?: 'float32' | 'float16' | 'bfloat16' | undefined
  /**
   * Quantizes tensors to ggml's block types, bit for bit as llama.cpp does: the name of a mixture of `llama-quantize` (`'q4_k_m'`,
   * `'q8_0'`, …), or block types by patterns of the new names, of which the first match counts: `{ '*.ffn_down.*': 'q6_k', '*': 'q5_k' }`.
   * Types of rules may also be `f32`, `f16` and `bf16`. A mixture quantizes matrices whose names end in `weight`, as llama.cpp does; a rule
   * all matrices that its pattern matches. Norms, biases and routers stay as they are. A pattern that is used for nothing to quantize is an
   * error, also if earlier patterns match all of its tensors. A tensor whose rows are not whole blocks gets a type with smaller blocks, or float16; `quantized.fallbacks` of the result lists
   * these. A mixture orders the tensors as llama.cpp does. NaN, infinities, and numbers that are too large for the scale of their block are
   * an error (`ZT_BAD_DTYPE`), as they are for `llama-quantize`.
   */
  quantize?: Mixture | (string & {}) | Readonly<Record<string, QuantizedType | (string & {})>> | undefined
  /**
   * The importance matrix that weighs errors while quantizing: the path of a file by `llama-imatrix`, as GGUF or in its older format.
   * `iq1_s` to `iq3_xxs`, and the mixture `q2_k_s`, need one with weights for each tensor, but not for embeddings and the output.
   * `quantized.unweighted` of the result lists the other tensors that it has no weights for.
   */
  imatrix?: string | undefined
  /** Quantize tensors that are quantized already. By default they are an error, because each time loses precision. */
  requantize?: boolean | undefined
  /**
   * GGUF from a checkpoint of the Hugging Face hub: names, shapes, metadata and tokenizer become those of `convert_hf_to_gguf.py`, from
   * `config.json` and the tokenizer's files next to the weights. By default if the target is GGUF, the source is safetensors or PyTorch with
   * such a `config.json`, and `rename` is not given; `skipped` of the result says so if it is. `false` copies the tensors under their own
   * names. Without it, a GGUF file whose metadata would have no `general.architecture` is an error, because llama.cpp reads no such file.
   * `false` is an error for other targets, and for GGUF of a model from GGUF, where there is no checkpoint to convert.
   */
  checkpoint?: boolean | undefined
  /** How to open the source. */
  source?: OpenOptions | undefined
  /**
   * Selects the tensors to convert, all by default: a glob, a list of globs (`!` excludes), or a function. A glob that matches no tensor is
   * an error, and so is a filter that selects none.
   */
  filter?: Filter<AnyTensor> | undefined
  /**
   * New names of tensors: a function, or an object of names and patterns such as `{ 'model.*': 'm.*' }`, in which each `*` stands for what
   * it matched. Two tensors with the same new name are an error. An error for BTF, where tensors have numbers instead of names.
   */
  rename?: Renaming | undefined
  /**
   * Casts all floating-point tensors to this dtype. A rule of `cast` that matches a tensor takes precedence, and so does `quantize`. In GGUF
   * of a model, norms, biases and routers stay float32: llama.cpp computes with no other type of them. An error if there is no tensor to
   * cast; a tensor that has the dtype already counts.
   */
  dtype?: DType | undefined
  /**
   * Casts dense tensors and the values of sparse tensors, by dtype (`{ float32: 'bfloat16' }`), by groups of dtypes (`float*`, `int*`,
   * `uint*`) and by names (`{ 'lm_head.*': 'float32' }`), or a list of rules `{ name, dtype, to }`. The first rule that matches a tensor is
   * used, and a rule that is used for none is an error. A rule with a name and no dtype casts only floats to floats and integers to integers.
   * Names are those of the source, or for a checkpoint that becomes GGUF those that it gets there. Supported are casts between float64,
   * float32, float16, bfloat16, float8_e4m3fn and float8_e5m2, from any dtype that widens to float32 to these, and from integers to wider
   * integers. Values are rounded to nearest, ties to even. Overflow gives infinity, or NaN in float8_e4m3fn. Other dtypes, and components
   * of other layouts, are not changed.
   */
  cast?: CastRules | undefined
  /**
   * Skip tensors that the target format cannot represent, because of their dtype, layout, name or data, instead of failing. Fails if
   * no tensor would be left. A glob or a list of globs skips only tensors whose names match.
   */
  skip?: boolean | string | readonly string[] | undefined
  /**
   * Write nothing, and return as `plan` what would be written. It reads no tensors, so it finds neither damaged data nor values that the
   * target cannot represent, and it does not look at the target.
   */
  dryRun?: boolean | undefined
}

/** The options of a conversion, and what only the tasks of a job say. */
export interface ConversionOptions extends ConvertOptions {
  /** The path of the importance matrix that the file records. */
  readonly imatrixName?: string | undefined
}

export const CONVERT_OPTIONS = [
  ...CREATE_OPTIONS,
  'copyMetadata',
  'copyAttributes',
  'strictMetadata',
  'dequantize',
  'checkpoint',
  'quantize',
  'imatrix',
  'requantize',
  'source',
  'filter',
  'rename',
  'cast',
  'dtype',
  'skip',
  'dryRun',
  'onProgress',
] as const

const DEQUANTIZED = ['float32', 'float16', 'bfloat16'] as const

/** Validates the option `dequantize`. */
export function validateDequantize(value: unknown): (typeof DEQUANTIZED)[number] {
  return validateOneOf('dequantize', DEQUANTIZED, value)
}

/** The result of a conversion. */
export interface ConvertResult {
  /** Number of tensors written. */
  readonly tensors: number
  /**
   * The path or URL that opens what was written: the target; of a set of files that of its index, or of its first file. Undefined for a
   * stream, and with `dryRun`. Not enumerable.
   */
  readonly path?: string | undefined
  /**
   * What was left out, with the reasons: metadata and attributes that the target cannot store, and with `skip` the tensors that it cannot represent.
   * The errors of tensors and their attributes have the property `tensor`.
   */
  readonly skipped: readonly ZTensorError[]
  /** Number of tensors that were skipped: 0 without `skip`. */
  readonly skippedTensors: number
  /**
   * With `quantize`, the number of tensors of each type that they were quantized to, without those that stay as they are; the tensors
   * whose rows are not whole blocks of the wanted type; and those for which the importance matrix has no weights.
   */
  readonly quantized: {
    readonly types: Readonly<Record<string, number>>
    readonly fallbacks: readonly { readonly tensor: string; readonly wanted: string; readonly type: string }[]
    readonly unweighted: readonly string[]
  }
  /** The warnings of the source, as in `file.warnings`. */
  readonly warnings: readonly Warning[]
  /** The programs that can read the new file. Python only reads zTensor 1.0 if all metadata is text. */
  readonly readers: readonly string[]
  /** With `dryRun`, what would be written. */
  readonly plan?: ConvertPlan | undefined
}

/** A tensor that would be written. */
export interface PlannedTensor {
  readonly name: string
  /** The dtype of a dense or sparse tensor, the block type of ggml (`q4_k`), or the name of any other layout. */
  readonly storageType: string
  readonly shape: readonly number[]
  /** Size in bytes, before compression. */
  readonly byteLength: number
  /** The number of its file in a set, from 0 on. */
  readonly file: number
}

/** What a conversion would write. */
export interface ConvertPlan {
  /** The tensors, in the order of writing. */
  readonly tensors: readonly PlannedTensor[]
  /** Total size in bytes of the tensors, before compression and without the index. */
  readonly byteLength: number
  /** Number of files with tensors: more than 1 only with `maxShardBytes`. */
  readonly files: number
  /** Number of tensors that the target may not be able to represent, depending on values that were not read. */
  readonly unchecked: number
}
