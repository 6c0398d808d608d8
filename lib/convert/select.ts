// The tensors that a conversion selects, and their new names.
import { invalid, optionHint, rethrowNative, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { everything, TURN } from '../read/batches.js'
import type { Catalog } from '../read/catalog.js'
import { TensorFile } from '../read/file.js'
import { refusePromise, validateText } from '../values/arguments.js'
import { checkGlobs, tensorFilter } from '../values/filter.js'
import { Patterns, type Renaming } from '../values/rename.js'
import type { ConvertOptions } from './options.js'

function* namesOf(catalog: Pick<Catalog, 'size' | 'name'>): Generator<string> {
  for (let ordinal = 0; ordinal < catalog.size; ordinal++) yield catalog.name(ordinal)
}

/** Names that are made before a yield to the event loop. */
const NAMES_PER_TURN = 2000

/** Adds tensors to a conversion, by ordinal. `names` has their new names; it is empty if they keep their names. */
export type Select = (ordinals: Uint32Array, names: string[]) => void

/** Calls `select` with the tensors that `filter` matches, and their new names. */
export async function selectTensors(
  file: TensorFile,
  select: Select,
  { filter: given, rename, signal }: Pick<ConvertOptions, 'filter' | 'rename' | 'signal'>,
): Promise<void> {
  const filter = tensorFilter(given)
  const chosen = filter === undefined ? everything(file.size) : await TensorFile.filtered(file, filter, signal)
  if (typeof given === 'string' || Array.isArray(given))
    checkGlobs('filter', given, namesOf(await TensorFile.ready(file, signal)))
  if (filter !== undefined && chosen.length === 0)
    throw invalid(RangeError, 'filter selects none of the tensors', { option: 'filter' })
  if (rename === undefined) return rethrowNative(() => select(chosen, []))
  const catalog = await TensorFile.ready(file, signal)
  const names = new NewNames(rename)
  for (let from = 0; from < chosen.length; from += TURN) {
    const some = chosen.subarray(from, from + TURN)
    const renamed: string[] = []
    for (const ordinal of some) {
      if (renamed.length % NAMES_PER_TURN === NAMES_PER_TURN - 1) await nextTurn()
      renamed.push(names.of(catalog.name(ordinal)))
    }
    rethrowNative(() => select(some, renamed))
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
