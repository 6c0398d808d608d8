// Options of a conversion that would have no effect: a success must not hide that a pattern, or an option, matched nothing.
import { invalid } from '../native/errors.js'
import type { ConversionPlan } from '../native/native.js'
import { missingKey } from '../values/attributes.js'
import type { Casts } from '../values/cast.js'
import { checkGlobs } from '../values/filter.js'
import { type Castable, checkCasts, each } from './casts.js'
import type { ConvertOptions } from './convert-options.js'

/** What is converted. */
export interface Converted {
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
  { casts, chosen, catalog }: Converted,
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
