import { invalid, publicError, rethrowNative, ZTensorError } from '../native/errors.js'
import { type JobOptions, run, type ValidJob } from '../native/job.js'
import { binding, type NativeComparison } from '../native/native.js'
import { Component } from '../read/component.js'
import type { Store, TensorRef } from '../read/store.js'
import { type AnyTensor, Tensor } from '../read/tensor.js'
import { jobOptions } from '../read/verify.js'
import { optional, readOptions, validateBoolean, wrongType } from '../values/arguments.js'

/** The tolerance: elements are equal if `|a - b| <= atol + rtol * max(|a|, |b|)`. */
export interface CompareOptions extends JobOptions {
  /** Absolute tolerance: 0 by default. */
  atol?: number | undefined
  /** Relative tolerance, relative to the larger magnitude: 0 by default. */
  rtol?: number | undefined
  /** Also compute `relativeChange` and `cosine`, which reads tensors that are not identical twice. */
  norms?: boolean | undefined
}

/** The result of a comparison. */
export interface Comparison {
  /** Whether dtype and elements are bitwise identical. */
  readonly identical: boolean
  /** Whether no element differs by more than the tolerance. NaN equals NaN, and 0 equals -0. */
  readonly equal: boolean
  /** Number of compared elements; for sparse tensors with the same pattern, of stored values. */
  readonly elements: number
  /** Number of elements that differ by more than the tolerance. */
  readonly differing: number
  /** The flat, row-major index of the first of them; undefined if there is none. */
  readonly firstDifference: number | undefined
  /** Number of elements that are NaN on one side only. */
  readonly unmatchedNaN: number
  /** The largest `|a - b|`. */
  readonly maxAbsolute: number
  /** The largest `|a - b| / max(|a|, |b|)`. */
  readonly maxRelative: number
  /**
   * With `norms`: `‖b - a‖ / ‖a‖`, over the elements that are finite on both sides: 0 if nothing differs, Infinity if `a` is zero. A complex
   * number counts as two. Undefined if the squares of the numbers are beyond float64.
   */
  readonly relativeChange?: number | undefined
  /** With `norms`: the cosine of the angle between both as vectors; undefined if one of them is zero, or the squares are beyond float64. 1 if they are identical. */
  readonly cosine?: number | undefined
}

type Side = AnyTensor | Component

function refOf(name: string, side: unknown): TensorRef {
  if (Tensor.is(side)) return Tensor.ref(side)
  if (Component.is(side)) return Component.ref(side)
  throw wrongType(name, 'a Tensor or a Component', side)
}

function validateTolerance(name: string, value: unknown): number {
  if (typeof value !== 'number') throw wrongType(name, 'a number', value)
  if (!(value >= 0)) throw invalid(RangeError, `${name} must be 0 or more, got ${value}`)
  return value
}

function result({ elements, identical, differing, first, ...found }: NativeComparison, norms: boolean): Comparison {
  const vectors = identical ? { relativeChange: 0, cosine: 1 } : found
  return {
    identical,
    equal: differing === 0,
    elements,
    differing,
    firstDifference: first,
    unmatchedNaN: found.unmatchedNan,
    maxAbsolute: found.maxAbsolute,
    maxRelative: found.maxRelative,
    ...(norms ? { relativeChange: vectors.relativeChange, cosine: vectors.cosine } : {}),
  }
}

/** How to compare. */
interface CompareRequest {
  readonly tolerance: readonly [atol: number, rtol: number]
  readonly norms: boolean
}

/** Pairs of tensors of two files to compare in one native call. */
interface Pairs {
  readonly a: Store
  readonly b: Store
  readonly request: CompareRequest
  /** Four numbers for each pair: of each side the ordinals of the tensor and of the component, or -1. */
  readonly refs: number[]
}

/** Compares all pairs. Each result is a comparison or an error. */
async function compareAll(pairs: Pairs, job: ValidJob, stages: Stages = []): Promise<NativeComparison[]> {
  const { a, b, request } = pairs
  const refs = Int32Array.from(pairs.refs)
  return await run([a, b], job, (control) =>
    binding.compare(a.native, b.native, refs, [...request.tolerance], request.norms, control, ...stages),
  )
}

type Stages = Awaited<ReturnType<Store['stage']>>[]

/** Compares all pairs if a side is in memory, in batches of pairs that are staged together. */
async function compareStaged(pairs: Pairs, signal: AbortSignal | undefined): Promise<NativeComparison[]> {
  const { a, b, refs } = pairs
  const count = refs.length / 4
  const sides = ([a, b] as const).map((store, side) => {
    const ordinals = Uint32Array.from({ length: count }, (_, at) => refs[at * 4 + side * 2] as number)
    return { store, next: (from: number) => rethrowNative(() => store.native.stageNext(ordinals, from)) }
  })
  const all: NativeComparison[] = []
  for (let from = 0; from < count; ) {
    a.check(signal)
    b.check(signal)
    const batches = sides.map(({ store, next }) => (store.memory === undefined ? undefined : next(from)))
    const end = Math.min(...batches.map((batch) => batch?.end ?? count))
    const stages: Stages = []
    try {
      for (const [at, { store }] of sides.entries()) {
        const batch = batches[at]
        stages.push(batch && (await store.fill(() => batch.builder, signal)))
      }
      const some = { ...pairs, refs: refs.slice(from * 4, end * 4) }
      for (const found of await compareAll(some, { signal }, stages)) all.push(found)
    } finally {
      for (const stage of stages) stage?.release()
    }
    from = end
  }
  return all
}

/** Pairs that are compared at the end of the current turn of the event loop. */
interface Waiting extends Pairs {
  readonly signal: AbortSignal | undefined
  readonly settle: { resolve: (found: NativeComparison) => void; reject: (error: unknown) => void }[]
}

// A native call costs ten times as much as the comparison of two small tensors.
const TOGETHER = 4096
let waiting: Waiting[] = []

function compareWaiting(): void {
  const batches = waiting
  waiting = []
  for (const batch of batches) {
    const staged = batch.a.memory !== undefined || batch.b.memory !== undefined
    const comparing = staged ? compareStaged(batch, batch.signal) : compareAll(batch, { signal: batch.signal })
    comparing.then(
      (all) => {
        for (const [at, found] of all.entries()) batch.settle[at]?.resolve(found)
      },
      (error) => {
        for (const { reject } of batch.settle) reject(error)
      },
    )
  }
}

/** Compares a pair, in one native call with the other pairs of the same files in this turn. */
function compareTogether(pairs: Pairs, signal: AbortSignal | undefined): Promise<NativeComparison> {
  const { a, b, request, refs } = pairs
  let batch = waiting.at(-1)
  const joins =
    batch !== undefined &&
    [a, b, signal].every((one, at) => one === [batch?.a, batch?.b, batch?.signal][at]) &&
    request.norms === batch.request.norms &&
    request.tolerance.every((distance, at) => distance === batch?.request.tolerance[at]) &&
    batch.settle.length < TOGETHER
  if (batch === undefined || !joins) {
    if (batch === undefined) queueMicrotask(compareWaiting)
    batch = { a, b, request, signal, refs: [], settle: [] }
    waiting.push(batch)
  }
  const { settle } = batch
  batch.refs.push(...refs)
  return new Promise((resolve, reject) => settle.push({ resolve, reject }))
}

async function compareAt(a: TensorRef, b: TensorRef, request: CompareRequest, job: ValidJob): Promise<Comparison> {
  const { onProgress, signal } = job
  const refs = [a, b].flatMap(({ ordinal, component }) => [ordinal, component ?? -1])
  const pairs = { a: a.store, b: b.store, request, refs }
  let found: NativeComparison | undefined
  const inMemory = a.store.memory !== undefined || b.store.memory !== undefined
  const components = a.component !== undefined || b.component !== undefined
  // A batch stages whole tensors, so a component of a file in memory is compared by itself.
  if (onProgress === undefined && !(inMemory && components)) {
    found = await compareTogether(pairs, signal)
  } else {
    const stages = [
      await a.store.stage(a.ordinal, a.component, signal),
      await b.store.stage(b.ordinal, b.component, signal),
    ]
    found = (await compareAll(pairs, job, stages))[0] as NativeComparison
  }
  if (found.error) throw publicError(found.error, a.store.path)
  return result(found, request.norms)
}

/** For a comparison of bits. */
const BITS: CompareRequest = { tolerance: [0, 0], norms: false }

/** Whether two sparse tensors have identical index arrays. */
async function samePattern(a: AnyTensor, b: AnyTensor, job: ValidJob): Promise<boolean> {
  if (a.layout !== b.layout) return false
  for (const [role, component] of a.components) {
    if (role === 'values' || !Component.isOwn(component)) continue
    const other = b.components.get(role)
    if (other === undefined || component.byteLength !== other.byteLength || component.dtype !== other.dtype)
      return false
    const { identical } = await compareAt(Component.ref(component), Component.ref(other), BITS, job)
    if (!identical) return false
  }
  return true
}

const isSparse = (side: Side): side is AnyTensor =>
  Tensor.is(side) && (side.layout === 'sparse_csr' || side.layout === 'sparse_coo')

/** `compare` of lib/lazy.ts. */
export async function compare(a: Side, b: Side, options?: CompareOptions): Promise<Comparison> {
  const refs = [refOf('a', a), refOf('b', b)] as const
  const known = ['atol', 'rtol', 'norms', 'onProgress', 'signal'] as const
  const { atol, rtol, norms, onProgress, signal } = readOptions(options, known)
  const tolerance: CompareRequest['tolerance'] = [
    optional(atol, (value) => validateTolerance('atol', value)) ?? 0,
    optional(rtol, (value) => validateTolerance('rtol', value)) ?? 0,
  ]
  const request = { tolerance, norms: optional(norms, (value) => validateBoolean('norms', value)) ?? false }
  const job = jobOptions({ onProgress, signal })
  signal?.throwIfAborted()
  const [{ store }, { store: other }] = refs
  const trace = store.calls.begin(refs[0].ordinal, true)
  const work = () => compareSides(a, b, refs, request, job)
  return store.calls.during('compare', trace, other === store ? work() : other.calls.hold(work))
}

/** Compares two tensors or components of open files. */
async function compareSides(
  a: Side,
  b: Side,
  refs: readonly [a: TensorRef, b: TensorRef],
  request: CompareRequest,
  job: ValidJob,
): Promise<Comparison> {
  if (Tensor.is(a) && Tensor.is(b)) {
    if (a.shape.length !== b.shape.length || a.shape.some((size, dim) => size !== b.shape[dim])) {
      const message = `the shapes [${a.shape.join(', ')}] and [${b.shape.join(', ')}] differ`
      throw new ZTensorError('ZT_BAD_SHAPE', `tensor ${JSON.stringify(a.name)}: ${message}`, { tensor: a.name })
    }
    if (isSparse(a) && isSparse(b) && (await samePattern(a, b, { signal: job.signal }))) {
      const values = [a, b].map((tensor) => Component.ref(tensor.components.get('values') as Component))
      return compareAt(values[0] as TensorRef, values[1] as TensorRef, request, job)
    }
  }
  return compareAt(refs[0], refs[1], request, job)
}
