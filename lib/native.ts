// The only place that loads the addon. Its types are private; `binding.d.cts` of a build shows the same.
import { constants } from 'node:buffer'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { NativeError } from './errors.js'
import { isError } from './realm.js'

export interface NativeMemory {
  readonly byteLength: number
  take(): ArrayBuffer | null
  free(): void
  copyTo(offset: number, target: Uint8Array): void
}

export interface NativeControl {
  cancel(): void
  progress(): [bytes: number, totalBytes: number, tensors: number, totalTensors: number]
}

export interface NativeOutflow {
  next(): Promise<NativeMemory | null>
  close(): void
}

export interface NativeStage {
  release(): void
}

export interface NativeStageBuilder {
  /** Whether more is to come; null where the memory has become too short. */
  fill(memory: Uint8Array): boolean | null
  finish(): NativeStage
}

/** A stage for some tensors of many: the place behind the last of them, and their stored bytes. */
export interface NativeStageBatch {
  builder: NativeStageBuilder
  end: number
  bytes: number
}

/** The dimension that is divided of each tensor or -1, and `[file, offset, length, …]` of the bytes. */
export interface NativePlan {
  dims: Int32Array
  spans: Float64Array
}

/** What the tensors of a selection come to, and what of them the target cannot hold. */
export interface Selected {
  tensors: number
  bytes: number
  refused: number
  judged: number
  judgedBytes: number
  attributes: boolean
}

/** Tensors of a file that are converted. */
export interface NativeSelection {
  take(ordinals: Uint32Array, names: string[]): void
  look(file: NativeFile, dialect: string, canonical: boolean, control: NativeControl): Promise<Selected>
  stageNext(file: NativeFile, judged: boolean, from: number): NativeStageBatch
  judge(
    file: NativeFile,
    writer: NativeWriter,
    from: number,
    end: number,
    control: NativeControl,
    stage?: NativeStage,
  ): Promise<void>
  refusals(attributes: boolean): NativeError[]
  settle(file: NativeFile, dialect: string, control: NativeControl): Promise<{ tensors: number; bytes: number }>
  copy(
    file: NativeFile,
    writer: NativeWriter,
    from: number,
    end: number,
    control: NativeControl,
    stage?: NativeStage,
    outflow?: NativeOutflow,
  ): Promise<void>
}

export interface FlatIndex {
  names: string
  records: Uint32Array
  numbers: Float64Array
  shapeEnds: Uint32Array
  shapeDims: Float64Array
  /** The file of each tensor's data, where there are several files. */
  files?: Uint32Array
  labels: string[]
}

export interface ComponentInfo {
  role: string
  file: number
  dtype?: number
  byteLength?: number
  storedLength: number
  offset?: number
  encoding: string
  digest?: string
  plainOffset?: number
  copyReason?: string
  strict: boolean
  own: boolean
}

export interface OpenRequest {
  format?: string
  io?: string
  maxIndexBytes?: number
  maxDecodedBytes?: number
  maxRank?: number
  maxAttributeValues?: number
  unread?: boolean
  shardNames?: string[]
  shardPaths?: string[]
}

export interface NativeWarning {
  code: string
  message: string
  tensor?: string
  component?: string
  path?: string
}

export interface NativeOutcome {
  checked: number
  undigested: number
  failed: number
  failures: NativeError[]
}

export interface NativeStats {
  count: number
  nan: number
  positiveInfinite: number
  negativeInfinite: number
  zeros: number
  min: number
  max: number
  mean: number
  std: number
  edges?: number[]
  counts?: number[]
}

export interface NativeComparison {
  elements: number
  identical: boolean
  differing: number
  first?: number
  unmatchedNan: number
  maxAbsolute: number
  maxRelative: number
  error?: NativeError
}

export interface LoadRequest {
  ranges?: number[]
  widen: boolean
}

/** Blocks of memory, and for each tensor its block (-1 of one without bytes) and where in that it begins. */
export interface LoadedBatch {
  blocks: NativeMemory[]
  places: Float64Array
}

/** What is done with tensors whose bytes are added up. */
export type TotalWork = 'load' | 'copy' | 'verify'

export interface NativeFile {
  readonly format: string
  readonly version: string | null
  readonly generator: string | null
  readonly byteLength: number
  readonly size: number
  attributes(): unknown
  tensorAttributes(ordinal: number): unknown
  warnings(): NativeWarning[]
  index(): FlatIndex
  findAll(names: string): Uint32Array | null
  prepareIndex(control: NativeControl): Promise<void>
  find(name: string): number
  similar(name: string): string[]
  components(ordinal: number): ComponentInfo[]
  alias(file: number, offset: number, length: number): ArrayBuffer | 'runtime' | 'map-failed' | 'io'
  close(aliases: ArrayBuffer[]): void
  decode(ordinal: number, component: number, stage?: NativeStage): NativeMemory
  readInto(file: number, offset: number, target: Uint8Array): void
  cut(ordinal: number, component: number, ranges: number[], stage?: NativeStage): NativeMemory
  load(
    ordinal: number,
    component: number,
    request: LoadRequest,
    control: NativeControl,
    stage?: NativeStage,
  ): Promise<NativeMemory>
  loadBatch(ordinals: Uint32Array, atOnce: number, control: NativeControl, stage?: NativeStage): Promise<LoadedBatch>
  loadSparse(ordinal: number, control: NativeControl, stage?: NativeStage): Promise<NativeMemory[]>
  dequantize(
    ordinal: number,
    ranges: number[] | undefined,
    control: NativeControl,
    stage?: NativeStage,
  ): Promise<NativeMemory>
  dequantizeSync(ordinal: number, stage?: NativeStage): NativeMemory
  verify(ordinals: Uint32Array, control: NativeControl, stage?: NativeStage): Promise<NativeOutcome>
  contentDigest(algorithm: string, control: NativeControl, stage?: NativeStage): Promise<string>
  canonical(control: NativeControl, stage?: NativeStage): Promise<NativeOutcome>
  verifySync(ordinals: Uint32Array, stage?: NativeStage): NativeOutcome
  checkTotal(ordinals: Uint32Array, work: TotalWork): void
  checkTotalAsync(ordinals: Uint32Array, work: TotalWork, control: NativeControl): Promise<void>
  stats(
    ordinal: number,
    request: { bins: number; range?: [number, number] | undefined },
    control: NativeControl,
    stage?: NativeStage,
  ): Promise<NativeStats>
  storedBytes(ordinals: Uint32Array): number
  stage(ordinal: number, component?: number): NativeStageBuilder
  stageAll(): NativeStageBuilder
  stageNext(ordinals: Uint32Array, from: number): NativeStageBatch
  plan(patterns: string[], placements: number[], rank: number, worldSize: number): NativePlan
  files(): { path?: string; name?: string; byteLength: number }[]
  prefetch(ordinals: Uint32Array, inFlight: number | undefined, control: NativeControl): Promise<void>
  evict(ordinals: Uint32Array): void
  lostFile(): string | null
  share(): { process: string; number: number; identity: string }
  shareMemory(): SharedArrayBuffer[] | null
  identity(): string | null
}

/** A file in memory whose index is read off the event loop, with what is staged of it. */
export interface NativeMemoryOpening {
  stage(): NativeStageBuilder
  attempt(stage: NativeStage, control: NativeControl): Promise<NativeFile | null>
}

export interface WriteRequest {
  dialect: string
  alignment: number
  digest?: string
  level?: number
  minSavings: number
  frame: number
  canonical: boolean
  maxShard?: number
  overwrite: boolean
  attributes: unknown
  generator?: string
}

export interface AppendRequest {
  inPlace: boolean
  alignment?: number
  digest?: string
  level?: number
  minSavings: number
  frame: number
  limits: OpenRequest
}

/** A file that is linked, by its identity. */
export interface LinkedFile {
  name: string
  size: number
  digest: string
}

export interface TensorSpec {
  name: string
  shape: readonly number[]
  layout: string
  dtype?: number
  attributes?: unknown
  components: { role: string; dtype?: number; byteLength: number }[]
}

/** What went wrong once a file was under its name. */
export interface WriteWarning {
  readonly code: string
  readonly message: string
}

export interface NativeWriter {
  readonly version: string
  begin(tensor: TensorSpec): void
  receive(): number
  addSmall(block: Uint8Array, elements: Uint8Array | undefined): number
  push(bytes: Uint8Array): number
  pushAsync(bytes: Uint8Array, control: NativeControl): Promise<number>
  take(): NativeMemory
  takeAttributes(file: NativeFile): void
  link(file: NativeFile, ordinal: number, name: string, shard: LinkedFile): void
  end(): void
  rename(name: string, to: string): void
  remove(name: string): void
  changeAttributes(name: string | undefined, set: unknown, unset: unknown): void
  flush(control: NativeControl): Promise<void>
  finish(control: NativeControl): Promise<{ readonly rest: NativeMemory; readonly warnings: readonly WriteWarning[] }>
  abort(): Promise<void>
}

interface Binding {
  sealBuffers(): void
  hookBuffers(): void
  packetBlock(): ArrayBuffer | null
  addPacket(): number
  createWriter(path: string | undefined, request: WriteRequest, control: NativeControl): Promise<NativeWriter>
  onMappingLost(tell: () => void): void
  losses(): ArrayBuffer | null
  armFaultHandler(): void
  abandonedLosses(): number
  appendWriter(path: string, request: AppendRequest, control: NativeControl): Promise<NativeWriter>
  compactFile(
    path: string,
    limits: OpenRequest,
    control: NativeControl,
  ): Promise<{ readonly before: number; readonly after: number; readonly warnings: readonly WriteWarning[] }>
  takePanic(): string | null
  compare(
    first: NativeFile,
    second: NativeFile,
    places: Int32Array,
    tolerance: number[],
    control: NativeControl,
    firstStage?: NativeStage,
    secondStage?: NativeStage,
  ): Promise<NativeComparison[]>
  widenIndices(dtype: number, bytes: Uint8Array): NativeMemory
  identify(file: NativeFile, name: string, algorithm: string, control: NativeControl): Promise<LinkedFile>
  risingRows(dtype: number, width: number, values: Uint8Array, indices: Uint8Array, indptr: Uint8Array): NativeMemory[]
  packCoo(dialect: string, rank: number, width: number, values: Uint8Array, coords: Uint8Array): NativeMemory
  Control: new () => NativeControl
  Outflow: new () => NativeOutflow
  Selection: new (casts: number[], numbered: boolean) => NativeSelection
  openShared(process: string, number: number): NativeFile | null
  openPathSync(path: string, request: OpenRequest): NativeFile
  openPath(path: string, request: OpenRequest, control: NativeControl): Promise<NativeFile>
  openPathsSync(paths: string[], request: OpenRequest): NativeFile
  openPaths(paths: string[], request: OpenRequest, control: NativeControl): Promise<NativeFile>
  shardNamesSync(path: string, request: OpenRequest): string[]
  shardNames(path: string, request: OpenRequest, control: NativeControl): Promise<string[]>
  openMemory(bytes: Uint8Array, request: OpenRequest): NativeFile
  MemoryOpening: new (byteLength: number, request: OpenRequest) => NativeMemoryOpening
  toFloat32(dtype: number, input: Uint8Array, output: Uint8Array): void
  toFloat32Block(dtype: number, size: number, input: Uint8Array): NativeMemory
  packCutBlock(shape: readonly number[], ranges: number[], bits: number, input: Uint8Array): NativeMemory
  planCut(
    shape: readonly number[],
    ranges: number[],
    bits: number,
  ): { shape: number[]; byteLength: number; start: number }
  packCut(shape: readonly number[], ranges: number[], bits: number, input: Uint8Array, output: Uint8Array): void
  shardRanges(shape: readonly number[], dim: number, rank: number, worldSize: number): number[]
  checkCsr(
    shape: readonly number[],
    codes: readonly number[],
    values: Uint8Array,
    indices: Uint8Array,
    indptr: Uint8Array,
    strict: boolean,
  ): void
  csrToDense(
    shape: readonly number[],
    codes: readonly number[],
    values: Uint8Array,
    indices: Uint8Array,
    indptr: Uint8Array,
    output: Uint8Array,
  ): void
  csrCoordsDtype(
    shape: readonly number[],
    codes: readonly number[],
    values: Uint8Array,
    indices: Uint8Array,
    indptr: Uint8Array,
  ): number
  csrToCoords(
    shape: readonly number[],
    codes: readonly number[],
    values: Uint8Array,
    indices: Uint8Array,
    indptr: Uint8Array,
    output: Uint8Array,
  ): void
  checkCoo(
    shape: readonly number[],
    codes: readonly number[],
    values: Uint8Array,
    coords: Uint8Array,
    strictly: boolean,
  ): void
  cooToDense(
    shape: readonly number[],
    codes: readonly number[],
    values: Uint8Array,
    coords: Uint8Array,
    output: Uint8Array,
  ): void
  cooIndptrDtype(shape: readonly number[], codes: readonly number[], values: Uint8Array, coords: Uint8Array): number
  cooToCsr(
    shape: readonly number[],
    codes: readonly number[],
    values: Uint8Array,
    coords: Uint8Array,
    outputs: [values: Uint8Array, indices: Uint8Array, indptr: Uint8Array],
  ): void
}

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

function load(): Binding {
  const name = platform()
  const places = [join(__dirname, '..', '..', `ztensor.${name}.node`), `@ztensor/${name}`]
  const failures: unknown[] = []
  for (const place of places) {
    try {
      return require(place) as Binding
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

export const binding: Binding = load()

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
