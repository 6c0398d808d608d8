export { type CompareOptions, type Comparison, compare } from './lib/compare/compare.js'
export {
  type ChangedAttribute,
  type DiffOptions,
  type DiffTensor,
  diff,
  type FileDiff,
  type Pair,
  type TensorChange,
} from './lib/compare/diff.js'
export { type ErrorCode, type ErrorDetails, ZTensorError } from './lib/native/errors.js'
export type { JobOptions, Progress } from './lib/native/job.js'
export type { ByteSource } from './lib/read/byte-source.js'
export { Component } from './lib/read/component.js'
export {
  type EvictOptions,
  type LoadFileOptions,
  type PrefetchOptions,
  TensorFile,
} from './lib/read/file.js'
export { type LoadWholeOptions, loadFile } from './lib/read/load-file.js'
export {
  type AnyLoadedTensor,
  type Loaded,
  type LoadedComponent,
  LoadedObject,
  LoadedTensor,
} from './lib/read/loaded.js'
export type { ElementOf, Nested } from './lib/read/nested.js'
export { type OpenOptions, open, openSync, type ShardResolver, type Source, verify } from './lib/read/open.js'
export { type ByteRange, type Placement, Plan, type PlannedTensor, type PlanOptions } from './lib/read/plan.js'
export type { ReadStreamOptions } from './lib/read/read-stream.js'
export type { RemoteOptions, StoreOptions } from './lib/read/remote.js'
export type { SharedFile, ShareOptions } from './lib/read/share.js'
export { Cut, type Range, type Shard } from './lib/read/slice.js'
export { CooTensor, CsrTensor, type ToDenseOptions } from './lib/read/sparse.js'
export type { Histogram, StatsOptions, TensorStats } from './lib/read/stats.js'
export type { CopyReason, FilePart } from './lib/read/store.js'
export {
  type AnyTensor,
  type Float16Elements,
  type Layout,
  type LoadOptions,
  type LoadSparseOptions,
  Tensor,
} from './lib/read/tensor.js'
export type { VerifyOptions, VerifyResult } from './lib/read/verify.js'
export { toFloat32, type WidenOptions } from './lib/read/widen.js'
export {
  type ReportOptions,
  type ReportServer,
  report,
  type ServeReportOptions,
  serveReport,
} from './lib/report/report.js'
export type { ConvertJob, ConvertTask, ConvertTaskOptions, ConvertTaskResult } from './lib/tasks/convert-tasks.js'
export { type FinishConvertOptions, type FinishConvertResult, finishConvert } from './lib/tasks/finish-convert.js'
export type { Job, Task, TaskError, TaskKind, TaskResult, TaskSource } from './lib/tasks/format.js'
export { type PlanConvertOptions, planConvert } from './lib/tasks/plan-convert.js'
export { type RunTaskOptions, runTask } from './lib/tasks/run-task.js'
export type { FarSource, TaskSourceOptions } from './lib/tasks/source.js'
export {
  type FinishStatsResult,
  finishStats,
  type JsonStats,
  type PlanStatsOptions,
  planStats,
  type StatsJob,
  type StatsTask,
  type StatsTaskResult,
} from './lib/tasks/stats-tasks.js'
export {
  type FinishOptions,
  finishVerify,
  type PlanReadingOptions,
  planVerify,
  type VerifyJob,
  type VerifyTask,
  type VerifyTaskResult,
} from './lib/tasks/verify-tasks.js'
export type {
  AttributeChanges,
  AttributeInput,
  AttributeObject,
  Attributes,
  AttributeValue,
  AttributeValueInput,
} from './lib/values/attributes.js'
export type { ArrayOf, DType, DTypeArrays, IndexArray, OwnArrayOf, OwnArrays, TypedArray } from './lib/values/dtype.js'
export type { Format } from './lib/values/format-table.js'
export { globMatcher } from './lib/values/glob.js'
export type { Warning } from './lib/values/warning.js'
export {
  type AppendOptions,
  append,
  type CompactResult,
  compact,
  type IndexLimits,
  TensorEditor,
} from './lib/write/append.js'
export { type ConvertOptions, type ConvertResult, convert } from './lib/write/convert.js'
export type {
  AddDenseOptions,
  AddOptions,
  CooInput,
  CsrInput,
  ObjectInput,
  TensorInput,
} from './lib/write/input.js'
export type { LinkInput } from './lib/write/link.js'
export type { CreateOptions } from './lib/write/options.js'
export { type AnyInput, saveFile, type Tensors } from './lib/write/save-file.js'
export { create, TensorWriter } from './lib/write/writer.js'
