import { aFunction, aSignal, optional, options } from './arguments.js'
import { calling, publicError, ZTensorError } from './errors.js'
import { type JobOptions, type Progress, run } from './job.js'
import type { NativeOutcome } from './native.js'
import type { Store } from './store.js'

/** What a verification found. */
export interface VerifyResult {
  /** Whether nothing failed. */
  readonly ok: boolean
  /** Components whose digest was compared. */
  readonly checked: number
  /** Components without a digest, or with one of an algorithm that is not known here. */
  readonly undigested: number
  /** What failed; of very many the first thousand, and a last one that says how many more there are. */
  readonly failures: readonly ZTensorError[]
}

function result(outcomes: NativeOutcome[]): VerifyResult {
  const failures = outcomes.flatMap((outcome) =>
    outcome.failures.map((failure) => publicError(failure) as ZTensorError),
  )
  const sum = (field: 'checked' | 'undigested' | 'failed') =>
    outcomes.reduce((total, outcome) => total + outcome[field], 0)
  const unlisted = sum('failed') - failures.length
  if (unlisted > 0) {
    const code = failures[failures.length - 1]?.code ?? 'ZT_BAD_INDEX'
    failures.push(new ZTensorError(code, `${unlisted} more failures are not listed`))
  }
  return { ok: failures.length === 0, checked: sum('checked'), undigested: sum('undigested'), failures }
}

/** Bytes in flat ranges. */
export function bytesIn(ranges: number[]): number {
  return ranges.reduce((total, number, at) => (at % 2 === 1 ? total + number : total), 0)
}

/** What to verify beyond digests and data rules. */
export interface VerifyOptions extends JobOptions {
  /** Whether the file is in zTensor 2's canonical form as well (§6.3): each rule that it breaks is a ZT_NOT_CANONICAL. */
  canonical?: boolean | undefined
}

/** The rules of the canonical form, beside what was found otherwise. */
export async function withCanonical(store: Store, found: VerifyResult, signal?: AbortSignal): Promise<VerifyResult> {
  const stage = await store.stageAll(signal)
  const form = result([await run(store, { signal }, (control) => store.native.canonical(control, stage))])
  return { ...found, ok: found.ok && form.ok, failures: [...found.failures, ...form.failures] }
}

/** Checks the options that every long call takes. */
export function jobOptions(given: JobOptions | undefined): JobOptions {
  const { onProgress, signal } = options(given, ['onProgress', 'signal'])
  optional(onProgress, (value) => aFunction('onProgress', value))
  optional(signal, aSignal)
  return { onProgress, signal }
}

/** Verifies tensors by their ordinals. Memory of the caller's is staged and verified tensor by tensor. */
export async function verifyTensors(store: Store, ordinals: number[], given?: JobOptions): Promise<VerifyResult> {
  const { onProgress, signal } = jobOptions(given)
  signal?.throwIfAborted()
  store.throwIfClosed()
  if (store.memory === undefined) {
    const all = Uint32Array.from(ordinals)
    const outcome = await run(store, { onProgress, signal }, (control) => store.native.verify(all, control))
    return result([outcome])
  }
  const outcomes: NativeOutcome[] = []
  const bytes = ordinals.map((ordinal) => bytesIn(store.ranges(ordinal)))
  let progress: Progress = {
    bytes: 0,
    totalBytes: bytes.reduce((total, length) => total + length, 0),
    tensors: 0,
    totalTensors: ordinals.length,
  }
  for (const [at, ordinal] of ordinals.entries()) {
    signal?.throwIfAborted()
    store.throwIfClosed()
    const stage = await store.stage(ordinal, undefined, signal)
    const one = Uint32Array.of(ordinal)
    outcomes.push(await run(store, { signal }, (control) => store.native.verify(one, control, stage)))
    progress = { ...progress, bytes: progress.bytes + (bytes[at] as number), tensors: at + 1 }
    onProgress?.(progress)
  }
  return result(outcomes)
}

/** The same on this thread, for `openSync({ verify: true })`. */
export function verifySync(store: Store): VerifyResult {
  const ordinals = Uint32Array.from({ length: store.native.size }, (_, ordinal) => ordinal)
  if (store.memory === undefined) return result([calling(() => store.native.verifySync(ordinals), store.path)])
  const one = (ordinal: number) =>
    calling(() => store.native.verifySync(Uint32Array.of(ordinal), store.stageSync(ordinal)), store.path)
  return result(Array.from(ordinals, one))
}
