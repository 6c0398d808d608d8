// Quantization during a conversion.
import { invalid, optionHint } from '../native/errors.js'
import type { ConversionPlan, QuantizeRequest } from '../native/native.js'
import { isPlainObject } from '../native/realm.js'
import { optional, validateBoolean, validateText, wrongType } from '../values/arguments.js'
import type { ConversionOptions, ConvertResult } from './convert-options.js'

/** Validates the option `quantize`. */
function validateQuantize(value: unknown): string | Readonly<Record<string, string>> {
  if (typeof value === 'string') return value
  if (!isPlainObject(value)) throw wrongType('quantize', "a mixture such as 'q4_k_m' or types by patterns", value)
  const rules = Object.entries(value)
  for (const [pattern, type] of rules) validateText(`quantize[${JSON.stringify(pattern)}]`, type)
  if (rules.length === 0) throw invalid(RangeError, 'quantize must have at least one pattern', { option: 'quantize' })
  return value as Readonly<Record<string, string>>
}

/** The request to quantize tensors; undefined if they stay as they are. */
export function quantizeRequest({
  quantize,
  requantize,
  imatrix,
  imatrixName,
}: ConversionOptions): QuantizeRequest | undefined {
  const wanted = optional(quantize, validateQuantize)
  const again = optional(requantize, (value) => validateBoolean('requantize', value)) ?? false
  const matrix = optional(imatrix, (value) => validateText('imatrix', value))
  if (wanted === undefined) {
    const idle = matrix !== undefined ? 'imatrix' : again ? 'requantize' : undefined
    if (idle !== undefined) {
      const hint = optionHint('quantize')
      throw invalid(TypeError, `${idle} has no effect without a quantization${hint.text}`, {
        option: idle,
        hints: [hint],
      })
    }
    return undefined
  }
  const what = typeof wanted === 'string' ? { mixture: wanted, rules: [] } : { rules: Object.entries(wanted).flat() }
  return { ...what, requantize: again, ...(matrix === undefined ? {} : { imatrix: [matrix, imatrixName ?? matrix] }) }
}

/** The part of a conversion's result that says what was quantized. */
export function quantizedResult({ quantized }: ConversionPlan): ConvertResult['quantized'] {
  if (quantized === undefined) return { types: {}, fallbacks: [], unweighted: [] }
  const { types, fallbacks, unweighted } = quantized
  return { types: Object.fromEntries(types.map(({ type, tensors }) => [type, tensors])), fallbacks, unweighted }
}
