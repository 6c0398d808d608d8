// The casts of a conversion, and the options of which none may be without effect.
import { invalid } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import type { ConversionPlan, PlanRequest } from '../native/native.js'
import { TURN } from '../read/batches.js'
import type { Catalog } from '../read/catalog.js'
import { missingKey } from '../values/attribute-input.js'
import { Casts, type Idle, type Rule } from '../values/cast.js'
import { type DTypeInfo, dtypeInfo } from '../values/dtype.js'
import { checkGlobs } from '../values/filter.js'
import type { ConvertOptions } from './options.js'

/** What casts depend on. */
export type Castable = Pick<Catalog, 'size' | 'name' | 'dtype' | 'layout'> & {
  /** Which names these are, if they are not those of the source. */
  readonly named?: string | undefined
}

const FLOAT32 = dtypeInfo('float32')

/** Casts of single tensors: parallel lists of ordinals, dtypes and new dtypes. */
export type SingleCasts = Pick<PlanRequest, 'cast' | 'from' | 'to'>

/** Whether casts need the names and dtypes of the tensors. */
export const needsCatalog = (casts: Casts): boolean => casts.pairs === undefined

/** The casts that depend on names or on a file's dtypes. */
export async function singleCasts(casts: Casts, catalog: Castable): Promise<SingleCasts> {
  const [cast, from, to]: [number[], number[], number[]] = [[], [], []]
  for (let ordinal = 0; ordinal < catalog.size; ordinal++) {
    if (ordinal % TURN === TURN - 1) await nextTurn()
    const [own, wanted] = [catalog.dtype(ordinal), castOf(casts, catalog, ordinal)]
    if (own === undefined || wanted === undefined || own === wanted) continue
    cast.push(ordinal)
    from.push(own.code)
    to.push(wanted.code)
  }
  return { cast: Uint32Array.from(cast), from: Uint32Array.from(from), to: Uint32Array.from(to) }
}

/**
 * Throws RangeError ZT_INVALID_ARG for a rule that is used for none of the tensors that are converted. `quantized`: the tensors that `quantize`
 * takes. The option `dtype` is for those that it leaves, which may be none. `float32`: the tensors of a model that stay float32.
 */
async function checkCasts(
  casts: Casts,
  catalog: Castable,
  chosen: readonly Uint32Array[],
  quantized: ReadonlySet<number>,
  float32: ReadonlySet<number>,
): Promise<void> {
  const idle = new Map(casts.rules.map((rule): [Rule, Writable<Idle>] => [rule, { ...NOT_FOUND }]))
  let count = 0
  for (const ordinal of each(chosen)) {
    if (idle.size === 0) return
    if (++count % TURN === 0) await nextTurn()
    const [name, own] = [catalog.name(ordinal), catalog.dtype(ordinal)]
    const layout = catalog.layout(ordinal)
    const dtype = isNumbers(layout) ? own : undefined
    const used = dtype === undefined ? undefined : casts.rule(name, dtype)
    for (const [rule, found] of idle) {
      if (rule.matchesName?.(name) === false) continue
      found.isNamed = true
      if (!isNumbers(layout)) found.layout = layout
      if (dtype === undefined || !rule.matchesDtype(dtype)) continue
      found.isMatched = true
      if (rule !== used) continue
      if (float32.has(ordinal) && rule.to !== FLOAT32) found.fixed ??= name
      else if (quantized.has(ordinal) && rule.option === 'cast') found.isQuantized = true
      else idle.delete(rule)
    }
  }
  const [first] = idle
  if (first !== undefined) throw Casts.idle(...first, catalog.named)
}

/** The ordinals of several lists, in order. */
function* each(chosen: readonly Uint32Array[]): Generator<number> {
  for (const ordinals of chosen) yield* ordinals
}

type Writable<T> = { -readonly [Key in keyof T]: T[Key] }

const NOT_FOUND: Idle = { isNamed: false, isMatched: false, isQuantized: false }

/** Whether the elements of a layout have the tensor's dtype. Those of other layouts are not cast. */
const isNumbers = (layout: string): boolean => layout === 'dense' || layout === 'sparse_csr' || layout === 'sparse_coo'

/** The dtype that a tensor is cast to; undefined if it is not. */
function castOf(casts: Casts, catalog: Castable, ordinal: number): DTypeInfo | undefined {
  if (casts.isEmpty || !isNumbers(catalog.layout(ordinal))) return undefined
  return casts.target(catalog.name(ordinal), catalog.dtype(ordinal))
}

/** What `checkEffects` compares with the options. */
interface Selected {
  readonly casts: Casts
  /** The ordinals of the tensors. */
  readonly chosen: readonly Uint32Array[]
  readonly catalog: () => Promise<Castable>
}

/**
 * Throws for options that would change nothing: `cast`, `dtype` and `skip`, whose patterns match none of the tensors, `dequantize` without a
 * quantized tensor, keys to remove that do not exist, and `checkpoint: false` for a model that is copied.
 */
export async function checkEffects(
  { quantized, float32, dequantizes, missing, isCopy }: ConversionPlan,
  { casts, chosen, catalog }: Selected,
  { checkpoint, dequantize, skip }: ConvertOptions,
): Promise<void> {
  if (checkpoint === false && isCopy) {
    const message = 'checkpoint has no effect here: the source is a model of the same format, and no checkpoint'
    throw invalid(TypeError, message, { option: 'checkpoint' })
  }
  if (!casts.isEmpty) await checkCasts(casts, await catalog(), chosen, new Set(quantized?.ordinals), new Set(float32))
  if (typeof skip === 'string' || Array.isArray(skip)) checkGlobs('skip', skip, namesOf(chosen, await catalog()))
  if (dequantize !== undefined && !dequantizes) {
    const option = 'dequantize'
    throw invalid(RangeError, `${option} has no effect: none of the tensors is quantized, or can be dequantized`, {
      option,
    })
  }
  if (missing !== undefined) throw missingKey(missing)
}

function* namesOf(chosen: readonly Uint32Array[], catalog: Castable): Generator<string> {
  for (const ordinal of each(chosen)) yield catalog.name(ordinal)
}
