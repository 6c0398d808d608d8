// The data of a report, as JSON in the page. It is stored in columns, because a file may have 100,000 tensors. `view/` imports these
// types.
import type { ModelSummary } from '../values/model.js'

/** A number for each row: a constant, a list, or a list of differences to the previous row. */
export type Column =
  | { readonly all: number }
  | { readonly list: readonly number[] }
  | { readonly delta: readonly number[] }

/** A measured number; null for NaN and infinities, which JSON cannot represent, and for missing values. */
export type Measured = number | null

/** A value of metadata: its key and the value as text. Long values are truncated. */
export interface MetadataRow {
  readonly key: string
  readonly value: string
}

/** The properties of the file. */
export interface FileFacts {
  /** The file name without folders, the URL without its query, or a placeholder for a file in memory. */
  readonly name: string
  /** The title of the page, if it is not the name of the file. */
  readonly title?: string
  readonly format: string
  readonly version: string | null
  readonly generator: string | null
  readonly byteLength: number
  /** Number of elements of all tensors; as text beyond 2^53. */
  readonly parameters: number | string
  readonly files: readonly { readonly name: string; readonly byteLength: number }[]
  /** What the metadata says of a model, in formats that describe models. */
  readonly model?: ModelSummary
  readonly metadata: readonly MetadataRow[]
  /** Number of keys of the metadata that are not listed. */
  readonly moreMetadata: number
  /** The `config.json` next to the weights, by its keys, in their order. */
  readonly config?: readonly MetadataRow[]
  readonly warnings: readonly { readonly code: string; readonly message: string; readonly tensor?: string }[]
  readonly moreWarnings: number
  /** The filter of the report: its globs, none for a function, and the number of all tensors of the file. */
  readonly filter?: { readonly globs: readonly string[]; readonly tensors: number }
}

/** The tensors of the report, in the order of the file. Everything else refers to them by their positions here. dtype, shape and layout are indices into the tables of the report. */
export interface TensorColumns {
  readonly names: readonly string[]
  readonly dtype: Column
  readonly shape: Column
  readonly layout: Column
  /** Decoded size in bytes. */
  readonly bytes: Column
}

/** The components of the tensors, in the order of the tensors. */
export interface PartColumns {
  readonly tensor: Column
  readonly role: Column
  readonly file: Column
  /** Offset in its file; -1 if it is stored in the index. */
  readonly offset: Column
  /** Stored size in bytes. */
  readonly stored: Column
  readonly encoding: Column
  /** The algorithm of the digest. */
  readonly digest: Column
  /** Why `data` is a copy; the empty string if it aliases the file. */
  readonly reason: Column
}

/** Statistics of one tensor. Each histogram count is one byte: 0 for none, otherwise its logarithm scaled to 1 to 255. */
export interface TensorNumbers {
  readonly count: number
  readonly nan: number
  readonly positiveInfinite: number
  readonly negativeInfinite: number
  readonly zeros: number
  readonly min: Measured
  readonly max: Measured
  readonly mean: Measured
  readonly std: Measured
  /** The counts between `min` and `max`, in base64, and the largest of them. */
  readonly histogram?: { readonly bins: string; readonly maxCount: number }
}

/** Statistics, or the error code and message if there are none. */
export type TensorFound = TensorNumbers | { readonly code: string; readonly message: string }

/** Statistics of all tensors in columns: records would take four times the space. */
export interface FoundColumns {
  readonly count: Column
  readonly nan: Column
  readonly positiveInfinite: Column
  readonly negativeInfinite: Column
  readonly zeros: Column
  readonly min: readonly Measured[]
  readonly max: readonly Measured[]
  readonly mean: readonly Measured[]
  readonly std: readonly Measured[]
  /** The bins of each tensor (null without values) and the largest counts; missing if there are too many tensors. */
  readonly histograms?: { readonly bins: readonly (string | null)[]; readonly maxCount: Column }
  /** The tensors without statistics, with their errors. */
  readonly failed: readonly (readonly [tensor: number, code: string, message: string])[]
}

/** A tensor of both files whose values, dtype, shape or layout differ. */
export interface ChangedTensor {
  /** Its position among the tensors of the report. */
  readonly tensor: number
  /** The properties in the other file, if they differ. */
  readonly dtype?: string
  readonly shape?: readonly number[]
  readonly layout?: string
  /** The comparison of the values; missing if they cannot be compared as numbers. */
  readonly values?: {
    readonly elements: number
    readonly differing: number
    readonly maxAbsolute: Measured
    readonly maxRelative: Measured
    readonly unmatchedNaN: number
  }
  /** Sums over the elements that are finite on both sides; missing for sparse and complex tensors. */
  readonly sums?: {
    readonly cosine: Measured
    /** ‖a - b‖². */
    readonly differenceSquared: number
    /** ‖b‖² of the other file. */
    readonly otherSquared: number
    /** A histogram of the differences by binary exponent: `counts[n]` are from 2^(first + n) to twice that. */
    readonly exponents: { readonly first: number; readonly counts: readonly number[] }
  }
}

/** The differences from another file. */
export interface DiffFacts {
  readonly against: string
  readonly format: string
  readonly tensors: number
  /** Positions of the tensors that the other file does not have. */
  readonly added: readonly number[]
  /** Tensors that only the other file has. */
  readonly removed: readonly {
    readonly name: string
    readonly dtype: string | null
    readonly shape: readonly number[]
  }[]
  readonly changed: readonly ChangedTensor[]
  readonly unchanged: number
  /** Keys of the metadata whose values differ. The value of a side that has none is null. */
  readonly metadata: readonly { readonly key: string; readonly before: string | null; readonly after: string | null }[]
  /** Number of keys that differ and are not listed. */
  readonly moreMetadata: number
}

/** The data of a report. */
export interface ReportData {
  readonly ztensor: 1
  /** Whether a server provides further statistics and slices. */
  readonly live: boolean
  readonly file: FileFacts
  readonly dtypes: readonly string[]
  readonly shapes: readonly (readonly number[])[]
  readonly layouts: readonly string[]
  readonly roles: readonly string[]
  readonly encodings: readonly string[]
  readonly digests: readonly string[]
  readonly reasons: readonly string[]
  readonly tensors: TensorColumns
  readonly parts: PartColumns
  /** The statistics; missing if the values were not read. */
  readonly found?: FoundColumns
  readonly diff?: DiffFacts
}

/** The cells of a heat map. */
export interface SliceFound {
  /** Number of rows and columns of cells. */
  readonly rows: number
  readonly columns: number
  /** float32 values in base64, in row-major order. */
  readonly values: string
  /** The steps between sampled rows and columns of the slice. */
  readonly steps: readonly [row: number, column: number]
  /** Number of rows and columns of the slice. */
  readonly of: readonly [rows: number, columns: number]
}
