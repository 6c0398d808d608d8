export {
  type AppendOptions,
  append,
  type CompactResult,
  compact,
  type IndexLimits,
  TensorEditor,
} from './lib/append.js'
export type {
  AttributeChanges,
  AttributeInput,
  AttributeObject,
  Attributes,
  AttributeValue,
  AttributeValueInput,
} from './lib/attributes.js'
export type { ByteSource } from './lib/byte-source.js'
export { type CompareOptions, type Comparison, compare } from './lib/compare.js'
export { Component } from './lib/component.js'
export { type ConvertOptions, type ConvertResult, convert } from './lib/convert.js'
export type { ConvertJob, ConvertTask, ConvertTaskOptions, ConvertTaskResult } from './lib/convert-tasks.js'
export { Cut, type Range, type Shard } from './lib/cut.js'
export {
  type ChangedAttribute,
  type DiffOptions,
  type DiffTensor,
  diff,
  type FileDiff,
  type Pair,
  type TensorChange,
} from './lib/diff.js'
export type { ArrayOf, DType, DTypeArrays, IndexArray, OwnArrayOf, OwnArrays, TypedArray } from './lib/dtype.js'
export { type ErrorCode, type ErrorDetails, ZTensorError } from './lib/errors.js'
export {
  type EvictOptions,
  type LoadFileOptions,
  type PrefetchOptions,
  TensorFile,
} from './lib/file.js'
export { type FinishConvertOptions, type FinishConvertResult, finishConvert } from './lib/finish-convert.js'
export type { Format } from './lib/format-table.js'
export { globMatcher } from './lib/glob.js'
export type { JobOptions, Progress } from './lib/job.js'
export type { LinkInput } from './lib/link.js'
export {
  type AnyLoadedTensor,
  type Loaded,
  type LoadedComponent,
  LoadedObject,
  LoadedTensor,
} from './lib/loaded.js'
export { type OpenOptions, open, openSync, type ShardResolver, type Source, verify } from './lib/open.js'
export { type ByteRange, type Placement, Plan, type PlannedTensor, type PlanOptions } from './lib/plan.js'
export { type PlanConvertOptions, planConvert } from './lib/plan-convert.js'
export type { ReadStreamOptions } from './lib/read-stream.js'
export type { RemoteOptions, StoreOptions } from './lib/remote.js'
export { type ReportOptions, type ReportServer, report, type ServeReportOptions, serveReport } from './lib/report.js'
export { type RunTaskOptions, runTask } from './lib/run-task.js'
export type { SharedFile, ShareOptions } from './lib/share.js'
export { CooTensor, CsrTensor, type ToDenseOptions } from './lib/sparse.js'
export type { Histogram, StatsOptions, TensorStats } from './lib/stats.js'
export {
  type FinishStatsResult,
  finishStats,
  type JsonStats,
  type PlanStatsOptions,
  planStats,
  type StatsJob,
  type StatsTask,
  type StatsTaskResult,
} from './lib/stats-tasks.js'
export type { CopyReason, FilePart } from './lib/store.js'
export type { Job, Task, TaskError, TaskKind, TaskResult, TaskSource } from './lib/task-format.js'
export type { FarSource, TaskSourceOptions } from './lib/task-source.js'
export {
  type AnyTensor,
  type Float16Elements,
  type Layout,
  type LoadOptions,
  type LoadSparseOptions,
  Tensor,
} from './lib/tensor.js'
export type { ElementOf, Nested } from './lib/values.js'
export type { VerifyOptions, VerifyResult } from './lib/verify.js'
export {
  type FinishOptions,
  finishVerify,
  type PlanReadingOptions,
  planVerify,
  type VerifyJob,
  type VerifyTask,
  type VerifyTaskResult,
} from './lib/verify-tasks.js'
export type { Warning } from './lib/warning.js'
export { type AnyInput, type LoadWholeOptions, loadFile, saveFile, type Tensors } from './lib/whole-file.js'
export { toFloat32, type WidenOptions } from './lib/widen.js'
export type { CreateOptions } from './lib/write-options.js'
export { create, TensorWriter } from './lib/writer.js'
export type {
  AddDenseOptions,
  AddOptions,
  CooInput,
  CsrInput,
  ObjectInput,
  TensorInput,
} from './lib/writer-input.js'
