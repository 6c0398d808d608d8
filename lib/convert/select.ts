// The tensors that a conversion takes, their new names, and the errors for those that the target cannot represent.
import { type ErrorCode, invalid, type OptionHint, optionHint, rethrowNative, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { binding, type NativeError, type NativeSelection } from '../native/native.js'
import { everything, TURN } from '../read/batches.js'
import type { Catalog } from '../read/catalog.js'
import { TensorFile } from '../read/file.js'
import { optional, refusePromise, validateText, wrongType } from '../values/arguments.js'
import type { Casts } from '../values/cast.js'
import { validateDType } from '../values/elements.js'
import { checkGlobs, namesMatching, tensorFilter } from '../values/filter.js'
import { Patterns, type Renaming } from '../values/rename.js'
import { leftOutAttributes, summary } from '../values/summary.js'
import type { ConvertOptions } from './convert-options.js'

/** Whether a refusal skips its tensor, instead of failing the conversion. Refusals of attributes have no tensor. */
export type Skips = (refused: Pick<ZTensorError, 'tensor'>) => boolean

/** Validates the option `skip`. */
export function skipping(skip: ConvertOptions['skip']): Skips {
  if (skip === undefined || typeof skip === 'boolean') return () => skip === true
  if (typeof skip !== 'string' && !Array.isArray(skip))
    throw wrongType('skip', 'a boolean, a glob or a list of globs', skip)
  const matches = namesMatching(skip)
  return ({ tensor }) => tensor !== undefined && matches(tensor)
}

function* namesOf(catalog: Pick<Catalog, 'size' | 'name'>): Generator<string> {
  for (let ordinal = 0; ordinal < catalog.size; ordinal++) yield catalog.name(ordinal)
}

/** Names that are made before a yield to the event loop. */
const NAMES_PER_TURN = 2000

/** Adds tensors to a selection, by ordinal. `names` has their new names; it is empty if they keep their names. */
export type Take = (ordinals: Uint32Array, names: string[]) => void

/** Calls `take` with the tensors that `filter` selects, and their new names. */
export async function choose(
  file: TensorFile,
  take: Take,
  { filter: given, rename, signal }: Pick<ConvertOptions, 'filter' | 'rename' | 'signal'>,
): Promise<void> {
  const filter = tensorFilter(given)
  const chosen = filter === undefined ? everything(file.size) : await TensorFile.filtered(file, filter, signal)
  if (typeof given === 'string' || Array.isArray(given))
    checkGlobs('filter', given, namesOf(await TensorFile.ready(file, signal)))
  if (filter !== undefined && chosen.length === 0)
    throw invalid(RangeError, 'filter selects none of the tensors', { option: 'filter' })
  if (rename === undefined) return rethrowNative(() => take(chosen, []))
  const catalog = await TensorFile.ready(file, signal)
  const names = new NewNames(rename)
  for (let from = 0; from < chosen.length; from += TURN) {
    const some = chosen.subarray(from, from + TURN)
    const renamed: string[] = []
    for (const ordinal of some) {
      if (renamed.length % NAMES_PER_TURN === NAMES_PER_TURN - 1) await nextTurn()
      renamed.push(names.of(catalog.name(ordinal)))
    }
    rethrowNative(() => take(some, renamed))
  }
  names.check()
}

/** Gives tensors new names, and rejects a name that two tensors would get. */
class NewNames {
  readonly #patterns: Patterns | undefined
  readonly #rename: (name: string) => string
  readonly #owners = new Map<string, string>()

  constructor(rename: Renaming) {
    const patterns = typeof rename === 'function' ? undefined : new Patterns(rename)
    this.#patterns = patterns
    this.#rename = typeof rename === 'function' ? rename : (name) => (patterns as Patterns).of(name)
  }

  of(name: string): string {
    const returned: unknown = this.#rename(name)
    refusePromise('rename', returned)
    const renamed = validateText('the return value of rename', returned)
    const owner = this.#owners.get(renamed)
    if (owner !== undefined) {
      const [first, second, both] = [owner, name, renamed].map((one) => JSON.stringify(one))
      const hint = optionHint('rename')
      const message = `the tensors ${first} and ${second} would both be called ${both}${hint.text}`
      throw new ZTensorError('ZT_BAD_INDEX', message, { tensor: name, hints: [hint] })
    }
    this.#owners.set(renamed, name)
    return renamed
  }

  /** Throws for a pattern that matched no selected tensor. */
  check(): void {
    this.#patterns?.checkUsed()
  }
}

/** The errors for what the target cannot represent. Each names its tensor, which may then be skipped. */
export async function refusalsOf(selection: NativeSelection, attributes: boolean): Promise<ZTensorError[]> {
  return errorsOf(() => selection.refusals(attributes, false))
}

/** The errors for tensors that are written without their attributes. */
export async function bareOf(selection: NativeSelection): Promise<ZTensorError[]> {
  const errors = await errorsOf(() => selection.refusals(false, true))
  return errors.map((error) => {
    const { code, tensor } = error
    return new ZTensorError(code, leftOutAttributes(error), { tensor })
  })
}

/** All errors of pages of the binding. */
async function errorsOf(next: () => NativeError[]): Promise<ZTensorError[]> {
  const all: ZTensorError[] = []
  for (let page = next(); page.length > 0; page = next()) {
    for (const { code, message, ...where } of page) all.push(new ZTensorError(code as ErrorCode, message, where))
    await nextTurn()
  }
  return all
}

/** The changes that a selection makes, as the binding takes them. The plan adds the casts that depend on names. */
export function newSelection(
  casts: Casts,
  { attributes, dequantize }: Pick<ConvertOptions, 'attributes' | 'dequantize'>,
  numbered: boolean,
): NativeSelection {
  const dequantized = optional(dequantize, (value) => validateDType('dequantize', value).code)
  return rethrowNative(() => new binding.Selection(casts.pairs ?? [], dequantized, attributes !== false, numbered))
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
