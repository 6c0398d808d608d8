// What a report knows of a file, as it travels into the page: plain JSON, a column a property, since a file may have 100,000 tensors.
// `view/` reads it with these very types.

/** A number for each row: one for all of them, or a list, or a list of differences, each from the row before. */
export type Column =
  | { readonly all: number }
  | { readonly list: readonly number[] }
  | { readonly delta: readonly number[] }

/** A measured number; null where there is none, as of NaN, which JSON lacks, and what no column of numbers can say. */
export type Measured = number | null

/** An attribute: its key and its value as text, truncated where it is long; a list of them where the value is a record. */
export interface AttributeRow {
  readonly key: string
  readonly value: string
}

/** What is said of the file itself. */
export interface FileFacts {
  /** Without its folders, the URL without its query, or a word for a file in memory. */
  readonly name: string
  readonly format: string
  readonly version: string | null
  readonly generator: string | null
  readonly byteLength: number
  /** Elements of all tensors; as text beyond 2^53. */
  readonly parameters: number | string
  readonly files: readonly { readonly name: string; readonly byteLength: number }[]
  readonly attributes: readonly AttributeRow[]
  /** Attributes beyond the most that a report lists. */
  readonly moreAttributes: number
  readonly warnings: readonly { readonly code: string; readonly message: string; readonly tensor?: string }[]
  readonly moreWarnings: number
}

/** The tensors, in the order of the file. dtype, shape and layout count into the tables of the report. */
export interface TensorColumns {
  readonly names: readonly string[]
  readonly dtype: Column
  readonly shape: Column
  readonly layout: Column
  /** Bytes of the elements, decoded. */
  readonly bytes: Column
}

/** The components of the tensors, in the order of the tensors. */
export interface PartColumns {
  readonly tensor: Column
  readonly role: Column
  readonly file: Column
  /** Where it begins in its file; -1 where it stands in the index. */
  readonly offset: Column
  /** Bytes in the file. */
  readonly stored: Column
  readonly encoding: Column
  /** The algorithm of the digest. */
  readonly digest: Column
  /** Why `data` is a copy; the empty text where it aliases the file. */
  readonly reason: Column
}

/** Statistics of one tensor. Of a histogram each count is one byte: 0 for none, otherwise its logarithm from 1 to 255. */
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
  readonly histogram?: { readonly bins: string; readonly most: number }
}

/** Or the code and the message of why there are none. */
export type TensorFound = TensorNumbers | { readonly code: string; readonly message: string }

/** Statistics of all tensors, a column a number, since 100,000 records would be four times as long. */
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
  /** None where the tensors are too many; of each tensor the bins, null where it has no values, and the largest count. */
  readonly histograms?: { readonly bins: readonly (string | null)[]; readonly most: Column }
  /** The tensors without statistics, and why. */
  readonly failed: readonly (readonly [tensor: number, code: string, message: string])[]
}

/** A tensor that both files have, whose values, dtype, shape or layout differ. */
export interface ChangedTensor {
  /** Its number in the file that is shown. */
  readonly tensor: number
  /** What it was in the other file, where that differs. */
  readonly dtype?: string
  readonly shape?: readonly number[]
  readonly layout?: string
  /** How far the values are apart; none where they cannot be compared by number. */
  readonly values?: {
    readonly elements: number
    readonly differing: number
    readonly maxAbsolute: Measured
    readonly maxRelative: Measured
    readonly unmatchedNaN: number
  }
  /** Sums over the elements that are finite on both sides; none of sparse tensors and of those with complex numbers. */
  readonly sums?: {
    readonly cosine: Measured
    /** ‖a - b‖², ‖b‖² of the other file. */
    readonly differenceSquared: number
    readonly otherSquared: number
    /** How many differences lie between 2^(first + n) and twice that, from the first that has any. */
    readonly exponents: { readonly first: number; readonly counts: readonly number[] }
  }
}

/** What differs from another file. */
export interface DiffFacts {
  readonly against: string
  readonly format: string
  readonly tensors: number
  /** Numbers of tensors that the other file does not have. */
  readonly added: readonly number[]
  /** Tensors of the other file alone. */
  readonly removed: readonly {
    readonly name: string
    readonly dtype: string | null
    readonly shape: readonly number[]
  }[]
  readonly changed: readonly ChangedTensor[]
  readonly unchanged: number
}

/** Everything in a report. */
export interface ReportData {
  readonly ztensor: 1
  /** Whether a server answers what else is asked for. */
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
  /** None where the values were not read. */
  readonly found?: FoundColumns
  readonly diff?: DiffFacts
}

/** A part of a tensor as numbers, for a heat map. */
export interface SliceFound {
  /** Rows and columns of the cells. */
  readonly rows: number
  readonly columns: number
  /** float32 in base64, row by row. */
  readonly values: string
  /** Of the elements of the slice: every so many rows and columns there is a cell. */
  readonly steps: readonly [row: number, column: number]
  /** Rows and columns of the slice itself. */
  readonly of: readonly [rows: number, columns: number]
}
