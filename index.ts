// The public API, by topic. Reports are in report.ts, jobs for many machines in jobs.ts.

// Open files, load and slice tensors.
export type { ByteSource } from './lib/read/byte-source.js'
export { Component } from './lib/read/component.js'
export { TensorFile } from './lib/read/file.js'
export { loadFile } from './lib/read/load-file.js'
export { type AnyLoadedTensor, type Loaded, LoadedObject, LoadedTensor } from './lib/read/loaded.js'
export type { LoadDType } from './lib/read/narrow.js'
export type { Nested } from './lib/read/nested.js'
export { type OpenOptions, open, openSync, verify } from './lib/read/open.js'
export { type Placement, Plan } from './lib/read/plan.js'
export type { SharedFile } from './lib/read/share.js'
export { type Range, type Shard, TensorSlice } from './lib/read/slice.js'
export type { Source } from './lib/read/source.js'
export { CooTensor, CsrTensor } from './lib/read/sparse.js'
export type { NearestOptions, Neighbor } from './lib/read/nearest.js'
export type { Histogram, StatsOptions, TensorStats } from './lib/read/stats.js'
export type { FilePart } from './lib/read/store.js'
export type { FileSummary } from './lib/read/summary.js'
export {
  type AnyTensor,
  type Layout,
  type LoadOptions,
  Tensor,
} from './lib/read/tensor.js'
export type { VerifyOptions, VerifyResult } from './lib/read/verify.js'
export { toFloat32 } from './lib/read/widen.js'

// Write, append to and edit files.
export { type AppendOptions, append, compact, TensorEditor } from './lib/write/append.js'
export type { ConvertOptions, ConvertPlan, ConvertResult } from './lib/convert/options.js'
export type { EditMetadataOptions, EditMetadataResult, TypedValue } from './lib/write/edit-metadata.js'
export type { AddOptions, CooInput, CsrInput, ObjectInput, TensorInput } from './lib/write/input.js'
export type { CreateOptions } from './lib/write/options.js'
export { create } from './lib/write/create.js'
export { saveFile } from './lib/write/save-file.js'
export type { SaveFileOptions, Tensors } from './lib/write/save-tensors.js'
export { TensorWriter } from './lib/write/writer.js'

// Convert, compare and edit: their code is loaded at the first call.
export { compare, convert, diff, editMetadata } from './lib/lazy.js'

// Results of comparisons.
export type { CompareOptions, Comparison } from './lib/compare/compare.js'
export type { DiffOptions, FileDiff, TensorChange } from './lib/compare/diff.js'

// Values: dtypes, attributes, formats, name patterns.
export type { AttributeChanges, AttributeInput } from './lib/values/attribute-input.js'
export type { Attributes, AttributeValue } from './lib/values/attributes.js'
export type { CastRules } from './lib/values/cast.js'
export type { ArrayOf, DType, OwnArrayOf, TypedArray } from './lib/values/dtype.js'
export type { Filter } from './lib/values/filter.js'
export type { BlockType, Format, Mixture } from './lib/values/format-table.js'
export type { ModelSummary } from './lib/values/model.js'
export type { RemoteOptions, StoreOptions } from './lib/values/remote.js'
export type { Renaming } from './lib/values/rename.js'
export type { Warning } from './lib/values/warning.js'

// Errors, progress and cancellation.
export { type ErrorCode, ZTensorError } from './lib/native/errors.js'
export type { JobOptions, Progress } from './lib/native/job.js'

// Messages of node:diagnostics_channel.
export type { CloseMessage, OpenMessage, ReadMessage, RemoteMessage } from './lib/native/channels.js'
