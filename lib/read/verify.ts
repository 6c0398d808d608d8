import { publicError, rethrowNative, ZTensorError } from '../native/errors.js'
import { type JobOptions, run } from '../native/job.js'
import type { NativeOutcome } from '../native/native.js'
import { optional, readOptions, validateAbortSignal, validateFunction } from '../values/arguments.js'
import type { Warning } from '../values/warning.js'
import { checkTotal, everything, inBatches, inBatchesSync } from './batches.js'
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
  /** What else a user should know, as `file.warnings` has it; of one tensor its own. None of them makes `ok` false. */
  readonly warnings: readonly Warning[]
}

/** What was found in the data. */
export type Found = Omit<VerifyResult, 'warnings'>

function result(outcomes: NativeOutcome[]): Found {
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

/** What to verify beyond digests and data rules. */
export interface VerifyOptions extends JobOptions {
  /** Whether the file is in zTensor 2's canonical form as well (§6.3): each rule that it breaks is a ZT_NOT_CANONICAL. */
  canonical?: boolean | undefined
}

/** The rules of the canonical form, beside what was found otherwise. */
export async function withCanonical(store: Store, found: Found, signal?: AbortSignal): Promise<Found> {
  const stage = await store.stageAll(signal)
  const form = result([await run(store, { signal }, (control) => store.native.canonical(control, stage))])
  return { ...found, ok: found.ok && form.ok, failures: [...found.failures, ...form.failures] }
}

/** Checks the options that every long call takes. */
export function jobOptions(options: JobOptions | undefined): JobOptions {
  const { onProgress, signal } = readOptions(options, ['onProgress', 'signal'])
  optional(onProgress, (value) => validateFunction('onProgress', value))
  optional(signal, validateAbortSignal)
  return { onProgress, signal }
}

/** Verifies tensors by their ordinals. `whole`: reports the damage of the file itself, too. */
export async function verifyTensors(
  store: Store,
  ordinals: Uint32Array,
  options: JobOptions | undefined,
  whole: boolean,
): Promise<Found> {
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
  // What the index showed is said once, however many batches there are.
  return result([...outcomes, rethrowNative(() => native.damage(ordinals, whole))])
}

/** The same on this thread, for `openSync({ verify: true })`. */
export function verifySync(store: Store): Found {
  const { native, path } = store
  const all = everything(native.size)
  rethrowNative(() => native.checkTotal(all, 'verify'), path)
  const next = (from: number) => native.stageNext(all, from)
  const outcomes = inBatchesSync(store, all.length, next, ({ from, end, stage }) =>
    rethrowNative(() => native.verifySync(all.subarray(from, end), stage), path),
  )
  return result([...outcomes, rethrowNative(() => native.damage(all, true), path)])
}
