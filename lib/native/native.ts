// The only place that the addon comes from. Its types are private, and the build generates them from src/: see binding.d.ts.
import { constants } from 'node:buffer'
import { loadAddon } from './addon.js'
import type * as Binding from './binding.js'

export type {
  AppendRequest,
  ComponentInfo,
  Control as NativeControl,
  DivisionRequest,
  FlatIndex,
  LinkedFile,
  Loaded as LoadedBatch,
  LoadRequest,
  Memory as NativeMemory,
  NativeComparison,
  NativeError,
  NativeFile,
  NativePlan,
  NativeWarning,
  NativeWriter,
  OpenRequest,
  Outflow as NativeOutflow,
  Question as NativeQuestion,
  RemoteRequest,
  ScriptSource as NativeScript,
  Selected,
  Selection as NativeSelection,
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

/** What is done with tensors whose bytes are added up. */
export type TotalWork = Parameters<Binding.NativeFile['checkTotal']>[1]

export const binding: typeof Binding = loadAddon()

// At the end of a thread Node and Bun call the finalizers of all buffers, those among them whose memory JavaScript moved elsewhere.
// Without transfer() it cannot move any; Deno waits until nobody has the memory.
const { bun, deno } = process.versions as { bun?: string; deno?: string }
const moves = 'transfer' in ArrayBuffer.prototype && deno === undefined
const sealing = moves && bun === undefined
let unsealed = false

/** Has the end of the thread tell the buffers made so far that were moved from those that were not. */
export function seal(): void {
  unsealed = false
  if (sealing) binding.sealBuffers()
}

seal()
if (moves && bun !== undefined) binding.hookBuffers()

/** To be called wherever a buffer was made: they are sealed at the end of the turn, together, since that costs as much as one. */
export function made<B>(buffer: B): B {
  if (sealing && !unsealed) {
    unsealed = true
    queueMicrotask(seal)
  }
  return buffer
}

/** The largest buffer that the runtime makes; it must not be asked for a larger one. */
export const MAX_BUFFER: number = constants.MAX_LENGTH
