// The only module that exports the addon. Its types are private; the build generates them from src/ into binding.d.ts.
import { loadAddon } from '#addon'
import { MAX_BUFFER, runtime } from '#host'
import type * as Binding from './binding.js'

export type {
  AppendRequest,
  BeginRequest,
  Begun,
  BlockType,
  ComponentInfo,
  Control as NativeControl,
  ConversionPlan,
  DivisionRequest,
  ExpectedTensors,
  FinishedFile,
  FlatIndex,
  LinkedFile,
  Loaded as LoadedBatch,
  LoadRequest,
  Memory as NativeMemory,
  MetadataRequest,
  NativeComparison,
  NativeConversion,
  NativeError,
  NativeFile,
  NativePlan,
  NativeWarning,
  NativeWriter,
  OpenRequest,
  Outflow as NativeOutflow,
  PartRequest,
  PlannedFile,
  PlanRequest,
  QuantizeRequest,
  Question as NativeQuestion,
  RemoteRequest,
  ScriptSource as NativeScript,
  SparseSpec,
  SparseStep,
  Stage as NativeStage,
  StageBatch as NativeStageBatch,
  StageBuilder as NativeStageBuilder,
  StoreRequest,
  TensorStats as NativeStats,
  Verified as NativeOutcome,
  WriteRequest,
  WriteWarning,
} from './binding.js'

/** What the binding of browsers does in addition. */
export interface FillsMemory {
  /**
   * Loads all elements of a component, or without one a quantized tensor as float32, into the caller's memory, which `output` returns before
   * each write. Resolves to false, and has written nothing, if the elements must be loaded at once.
   */
  loadInto?(
    ordinal: number,
    component: number | undefined,
    widen: boolean,
    output: () => Uint8Array,
    control: Binding.Control,
  ): Promise<boolean>
}

/** The kinds of work whose total size is checked. */
export type TotalWork = Parameters<Binding.NativeFile['checkTotal']>[1]

export const binding: typeof Binding = loadAddon()

// At the end of a thread, Node and Bun call the finalizers of all buffers, including those whose memory JavaScript has transferred.
// Without ArrayBuffer.prototype.transfer() there are none; Deno waits until the memory is unused.
const moves = 'transfer' in ArrayBuffer.prototype
const sealing = moves && runtime === 'node'
let unsealed = false

/** Marks the buffers created so far, so that the end of the thread can recognize transferred ones. */
export function seal(): void {
  unsealed = false
  if (sealing) binding.sealBuffers()
}

seal()
if (moves && runtime === 'bun') binding.hookBuffers()

/** Call this with every new buffer. All buffers of a turn are sealed together at its end, which costs as much as sealing one. */
export function made<B>(buffer: B): B {
  if (sealing && !unsealed) {
    unsealed = true
    queueMicrotask(seal)
  }
  return buffer
}

/** The maximum length of a buffer in this runtime. Do not try to allocate a larger one. */
export { MAX_BUFFER }
