import { publicError, rethrowNative, ZTensorError } from '../native/errors.js'
import { type Counts, type JobOptions, run, type ValidJob, withRates } from '../native/job.js'
import type { NativeOutcome } from '../native/native.js'
import { optional, readOptions, validateAbortSignal, validateFunction } from '../values/arguments.js'
import type { Filter } from '../values/filter.js'
import type { Warning } from '../values/warning.js'
import { checkTotal, everything, inBatches, inBatchesSync } from './batches.js'
import type { Store } from './store.js'
import type { AnyTensor } from './tensor.js'

/** The result of a verification. */
export interface VerifyResult {
  /** Whether nothing failed. */
  readonly ok: boolean
  /** Number of components whose digest was checked. */
  readonly checked: number
  /** Number of components without a digest, or with one of an unknown algorithm. */
  readonly undigested: number
  /** The failures. If there are more than a thousand, the last entry gives the number of the others. */
  readonly failures: readonly ZTensorError[]
  /** The warnings of the file, as in `file.warnings`, or of the tensor. They do not affect `ok`. */
  readonly warnings: readonly Warning[]
}

/** The result without the warnings. */
export type VerifyOutcome = Omit<VerifyResult, 'warnings'>

function result(outcomes: NativeOutcome[]): VerifyOutcome {
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

/** How to verify a file. */
export interface VerifyOptions extends JobOptions {
  /** Also check zTensor 2's canonical form (§6.3): each violation is a ZT_NOT_CANONICAL. */
  canonical?: boolean | undefined
  /** Selects the tensors to check, all by default: a glob, a list of globs (`!` excludes), or a function. Not with `canonical`. */
  filter?: Filter<AnyTensor> | undefined
}

/** Adds the violations of the canonical form to a result. */
export async function withCanonical(store: Store, found: VerifyOutcome, signal?: AbortSignal): Promise<VerifyOutcome> {
  const stage = await store.stageAll(signal)
  const form = result([await run(store, { signal }, (control) => store.native.canonical(control, stage))])
  return { ...found, ok: found.ok && form.ok, failures: [...found.failures, ...form.failures] }
}

/** Validates the options of a long-running call. */
export function jobOptions(options: JobOptions | undefined): ValidJob {
  const { onProgress, signal } = readOptions(options, ['onProgress', 'signal'])
  optional(onProgress, (value) => validateFunction('onProgress', value))
  optional(signal, validateAbortSignal)
  return { onProgress: withRates<Counts>(onProgress), signal }
}

/** Verifies tensors by ordinal. With `whole`, also reports damage of the file that belongs to no tensor. */
export async function verifyTensors(
  store: Store,
  ordinals: Uint32Array,
  options: JobOptions | undefined,
  whole: boolean,
): Promise<VerifyOutcome> {
  const { onProgress, signal } = jobOptions(options)
  store.check(signal)
  await checkTotal(store, ordinals, 'verify', signal)
  const { native } = store
  const bytes = onProgress === undefined ? 0 : rethrowNative(() => native.storedBytes(ordinals))
  const next = (from: number) => native.stageNext(ordinals, from)
  const many = { count: ordinals.length, bytes, next, onProgress, signal }
  const outcomes = await inBatches(store, many, ({ from, end, stage, onProgress }) => {
    const some = ordinals.subarray(from, end)
    return run(store, { onProgress, signal }, (control) => native.verify(some, control, stage))
  })
  // Damage that the index shows is reported once, not once for each batch.
  return result([...outcomes, rethrowNative(() => native.damage(ordinals, whole))])
}

/** Verifies all tensors synchronously, for `openSync({ verify: true })`. */
export function verifySync(store: Store): VerifyOutcome {
  const { native, path } = store
  const all = everything(native.size)
  rethrowNative(() => native.checkTotal(all, 'verify'), path)
  const next = (from: number) => native.stageNext(all, from)
  const outcomes = inBatchesSync(store, all.length, next, ({ from, end, stage }) =>
    rethrowNative(() => native.verifySync(all.subarray(from, end), stage), path),
  )
  return result([...outcomes, rethrowNative(() => native.damage(all, true), path)])
}
