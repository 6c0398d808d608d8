// The casts of a conversion, for the binding.
import { rethrowNative, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { binding, type NativeSelection } from '../native/native.js'
import { TURN } from '../read/batches.js'
import type { Catalog } from '../read/catalog.js'
import { Casts } from '../values/cast.js'
import type { DTypeInfo } from '../values/dtype.js'
import { validateDType } from '../values/elements.js'

/** Tensors that are cast from one dtype to another. */
interface Group {
  readonly from: number
  readonly to: number
  readonly ordinals: number[]
}

function castGroup(selection: NativeSelection, { from, to, ordinals }: Group, catalog: Castable): void {
  const all = (code: number): Uint32Array => new Uint32Array(ordinals.length).fill(code)
  try {
    rethrowNative(() => selection.cast(Uint32Array.from(ordinals), all(from), all(to)))
  } catch (error) {
    if (!(error instanceof ZTensorError)) throw error
    const tensor = catalog.name(ordinals[0] as number)
    throw new ZTensorError(error.code, `tensor ${JSON.stringify(tensor)}: ${error.message}`, { tensor })
  }
}

/** What casts depend on. */
export type Castable = Pick<Catalog, 'size' | 'name' | 'dtype' | 'layout'>

/** Whether casts need the names and dtypes of the tensors. */
export const needsCatalog = (casts: Casts): boolean => casts.pairs === undefined

/**
 * Adds casts that depend on names or on a file's dtypes to a selection. With `checks`, throws RangeError ZT_INVALID_ARG for a pattern that
 * matches no tensor, or that casts none of those that it matches.
 */
export async function castTensors(
  selection: NativeSelection,
  casts: Casts,
  catalog: Castable,
  checks = true,
): Promise<void> {
  const groups = new Map<string, Group>()
  const unmatched = new Set(casts.named)
  const useless = new Set(casts.named.filter(({ isAnyDtype }) => isAnyDtype))
  for (let ordinal = 0; ordinal < catalog.size; ordinal++) {
    if (ordinal % TURN === TURN - 1) await nextTurn()
    const name = catalog.name(ordinal)
    for (const rule of unmatched) if (rule.matchesName(name)) unmatched.delete(rule)
    const from = catalog.dtype(ordinal)
    const isCast = from !== undefined && isNumbers(catalog.layout(ordinal))
    for (const rule of useless) if (isCast && rule.casts(from) && rule.matchesName(name)) useless.delete(rule)
    const to = castOf(casts, catalog, ordinal)
    if (from === undefined || to === undefined) continue
    const key = `${from.code} ${to.code}`
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { from: from.code, to: to.code, ordinals: [ordinal] })
    else group.ordinals.push(ordinal)
  }
  const [[first], [idle]] = [unmatched, useless]
  if (checks && first !== undefined) throw Casts.unmatched(first.name)
  if (checks && idle !== undefined) throw Casts.useless(idle)
  for (const group of groups.values()) castGroup(selection, group, catalog)
}

/** Whether the elements of a layout have the tensor's dtype. Those of other layouts are not cast. */
const isNumbers = (layout: string): boolean => layout === 'dense' || layout === 'sparse_csr' || layout === 'sparse_coo'

/** The dtype that the elements of a quantized tensor get with the option `dequantize`; undefined if it stays as it is. */
export function dequantizedAs(
  dequantize: string | undefined,
  catalog: Catalog,
  ordinal: number,
): DTypeInfo | undefined {
  const layout = catalog.layout(ordinal)
  if (dequantize === undefined || isNumbers(layout)) return undefined
  return rethrowNative(() => binding.canDequantize(layout)) ? validateDType('dequantize', dequantize) : undefined
}

/** The dtype that a tensor is cast to; undefined if it is not. */
export function castOf(casts: Casts, catalog: Castable, ordinal: number): DTypeInfo | undefined {
  if (casts.isEmpty || !isNumbers(catalog.layout(ordinal))) return undefined
  return casts.target(catalog.name(ordinal), catalog.dtype(ordinal))
}
