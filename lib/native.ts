// The only place that loads the addon. Its types are private, and the build generates them from src/: see binding.d.ts.
import { constants } from 'node:buffer'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type * as Binding from './binding.js'
import { isError } from './realm.js'

export type {
  AppendRequest,
  ComponentInfo,
  Control as NativeControl,
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
  Selected,
  Selection as NativeSelection,
  SparseSpec,
  SparseStep,
  Stage as NativeStage,
  StageBatch as NativeStageBatch,
  StageBuilder as NativeStageBuilder,
  TensorStats as NativeStats,
  Verified as NativeOutcome,
  WriteRequest,
  WriteWarning,
} from './binding.js'

/** What is done with tensors whose bytes are added up. */
export type TotalWork = Parameters<Binding.NativeFile['checkTotal']>[1]

/** The name of this machine's platform package, as the build names them. */
function platform(): string {
  const { platform, arch } = process
  if (platform === 'win32') return `win32-${arch}-msvc`
  if (platform !== 'linux') return `${platform}-${arch}`
  if (arch === 'arm') return 'linux-arm-gnueabihf'
  return `linux-${arch}-${isMusl() ? 'musl' : 'gnu'}`
}

/** glibc names its version in Node's report; where there is no report, musl's loader tells. */
function isMusl(): boolean {
  const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined
  if (report?.header !== undefined) return report.header.glibcVersionRuntime === undefined
  try {
    return readdirSync('/lib').some((name) => name.startsWith('ld-musl-'))
  } catch {
    return false
  }
}

function load(): typeof Binding {
  const name = platform()
  const places = [join(__dirname, '..', '..', `ztensor.${name}.node`), `@ztensor/${name}`]
  const failures: unknown[] = []
  for (const place of places) {
    try {
      return require(place) as typeof Binding
    } catch (failure) {
      failures.push(failure)
    }
  }
  // A binary that is there and does not load says more than one that is not there.
  const telling = failures.find((failure) => (failure as { code?: string }).code !== 'MODULE_NOT_FOUND')
  const reason = isError(telling) ? ` It is there but does not load: ${telling.message.split('\n')[0]}.` : ''
  throw new Error(
    `ztensor has no native binary for ${name}: neither ${places[0]} nor the package ${places[1]} can be loaded.${reason} ` +
      `Run "npm install --include=optional ztensor" on this machine; if packages are copied between machines, ` +
      `"npm install --os=${process.platform} --cpu=${process.arch} ztensor". ` +
      `On a platform without a prebuilt binary, build one from the repository with "npm ci && npm run build".`,
    { cause: telling ?? failures[0] },
  )
}

export const binding: typeof Binding = load()

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
