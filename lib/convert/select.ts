// The tensors that a conversion selects, and their new names.
import { invalid, rethrowNative } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { everything, TURN } from '../read/batches.js'
import type { Catalog } from '../read/catalog.js'
import { TensorFile } from '../read/file.js'
import { checkGlobs, tensorFilter } from '../values/filter.js'
import { NewNames } from '../values/rename.js'
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
