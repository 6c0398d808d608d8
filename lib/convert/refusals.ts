// What a conversion leaves out: the errors for what the target cannot represent, and which of them fail it.
import { type ErrorCode, type OptionHint, optionHint, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import type { ConversionPlan, NativeConversion, NativeError } from '../native/native.js'
import { wrongType } from '../values/arguments.js'
import type { AttributeValue } from '../values/attributes.js'
import { namesMatching } from '../values/filter.js'
import type { Writing } from '../values/formats.js'
import { leftOutAttributes, summary } from '../values/summary.js'
import type { ConvertOptions } from './options.js'
import type { Conversion } from './plan.js'

/** Whether a refusal skips its tensor, instead of failing the conversion. Refusals of metadata have no tensor. */
export type Skips = (refused: Pick<ZTensorError, 'tensor'>) => boolean

/** Validates the option `skip`. */
export function skipping(skip: ConvertOptions['skip']): Skips {
  if (skip === undefined || typeof skip === 'boolean') return () => skip === true
  if (typeof skip !== 'string' && !Array.isArray(skip))
    throw wrongType('skip', 'a boolean, a glob or a list of globs', skip)
  const matches = namesMatching(skip)
  return ({ tensor }) => tensor !== undefined && matches(tensor)
}

/** The errors for what the target cannot represent. Each names its tensor, which may then be skipped. */
export async function unsupported(native: NativeConversion, metadata: boolean): Promise<ZTensorError[]> {
  return errorsOf(() => native.refusals(metadata, false))
}

/** The errors for tensors that are written without their attributes. */
export async function withoutAttributes(native: NativeConversion): Promise<ZTensorError[]> {
  const errors = await errorsOf(() => native.refusals(false, true))
  return errors.map((error) => {
    const { code, tensor } = error
    return new ZTensorError(code, leftOutAttributes(error), { tensor })
  })
}

/** All errors of pages of the binding. */
async function errorsOf(next: () => NativeError[] | Promise<NativeError[]>): Promise<ZTensorError[]> {
  const all: ZTensorError[] = []
  // In a worker of a browser, the binding answers later.
  for (let page = await next(); page.length > 0; page = await next()) {
    for (const { code, message, ...where } of page) all.push(new ZTensorError(code as ErrorCode, message, where))
    await nextTurn()
  }
  return all
}

/** Keys that a message lists. */
const LISTED = 10

/** The error that names metadata that `what` cannot store: the first of `count` keys. */
function cannotStore(what: string, keys: readonly AttributeValue[], count: number = keys.length): ZTensorError {
  const names = keys.slice(0, LISTED).map((key) => JSON.stringify(String(key)))
  const more = count > names.length ? `, and ${count - names.length} more` : ''
  const noun = count === 1 ? '1 value' : `${count} values`
  return new ZTensorError('ZT_INVALID_ARG', `${what} cannot store ${noun} of the metadata: ${names.join(', ')}${more}`)
}

/** The errors that name the metadata that the target cannot store. */
export function leftOutErrors({ leftOut }: ConversionPlan, { title }: Writing): readonly ZTensorError[] {
  if (leftOut === undefined) return []
  const { count, first, refused } = leftOut
  const skipped = count > 0 ? [cannotStore(title, first, count)] : []
  if (refused === undefined) return skipped
  const { code, message, ...where } = refused
  return [...skipped, new ZTensorError(code as ErrorCode, message, where)]
}

/** The number of tensors among refusals; that of the file's metadata has none. */
export const tensorsOf = (refused: readonly ZTensorError[]): number =>
  refused.filter(({ tensor }) => tensor !== undefined).length

/** The errors for what the target cannot hold and `skips` leaves out. Throws for the rest, and if no tensor is left. */
export async function refusedOf(
  { native, plan, writing, isTask }: Conversion,
  { copyMetadata = true, strictMetadata = false }: ConvertOptions,
  skips: Skips,
): Promise<readonly ZTensorError[]> {
  const refused = await unsupported(native, copyMetadata && strictMetadata)
  const failed = refused.filter((error) => !skips(error))
  if (failed.length > 0) throw refusal(failed, writing.title)
  if (!isTask && refused.length > 0 && tensorsOf(refused) === plan.tensors) throw nothingLeft(refused)
  return refused
}

/** The errors for what the index shows to be left out: skipped tensors, and everything else. Throws as `refusedOf`. */
export async function leftOutOf(
  conversion: Conversion,
  given: ConvertOptions,
  skips: Skips,
): Promise<{ readonly refused: readonly ZTensorError[]; readonly others: readonly ZTensorError[] }> {
  const { native, plan, writing, leftOut } = conversion
  const refused = await refusedOf(conversion, given, skips)
  const bare = await withoutAttributes(native)
  const metadata = (given.copyMetadata ?? true) ? leftOutErrors(plan, writing) : []
  return { refused, others: [...bare, ...metadata, ...leftOut] }
}

/** The error for tensors that the target cannot represent, with all reasons. */
export function refusal(refusals: readonly ZTensorError[], target: string): ZTensorError {
  const [first] = refusals as [ZTensorError]
  const ways = [
    optionHint('skip', ' (option skip leaves it out)'),
    ...(refusals.some(({ code }) => code === 'ZT_BAD_DTYPE')
      ? [optionHint('cast', ' (option cast converts dtypes)')]
      : []),
  ]
  const message = `${target} cannot represent everything in the source${ways.map(({ text }) => text).join('')}: ${summary(refusals).join('; ')}`
  const { code, tensor, component, rule } = first
  const hints = [...ways, ...hintsOf(refusals)]
  return new ZTensorError(code, message, { tensor, component, rule, hints, cause: refusals })
}

/** The error if `skip` would skip every tensor. */
export function nothingLeft(refused: readonly ZTensorError[]): ZTensorError {
  const { code, tensor, component, rule } = refused[0] as ZTensorError
  const message = `no tensor is left: ${summary(refused).join('; ')}`
  return new ZTensorError(code, message, { tensor, component, rule, hints: hintsOf(refused), cause: refused })
}

/** The hints of errors whose messages are joined, each once. */
function hintsOf(errors: readonly ZTensorError[]): OptionHint[] {
  const all = errors.flatMap(({ hints }) => hints ?? [])
  return [...new Map(all.map((hint) => [hint.text, hint])).values()]
}
