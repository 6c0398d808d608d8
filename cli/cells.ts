// Single values: how one element of a typed array reads as text and as JSON.
import type { DType, TypedArray } from '../index.js'
import { jsonFloat, jsonInteger } from './json.js'

// float64 and float32 as numpy shows them: at most eight digits (`--json` has every one).
const wideDigits = 8
// Narrower floats: five tell any two float16 apart, and all the others.
const narrowDigits = 5

/** A dtype whose elements `cat` reads widened to float32: float16, bfloat16 and everything smaller. */
export function isNarrowFloat(dtype: DType | undefined): boolean {
  return /^b?float/.test(dtype ?? '') && dtype !== 'float32' && dtype !== 'float64'
}

export function isComplex(dtype: DType | undefined): boolean {
  return dtype === 'complex64' || dtype === 'complex128'
}

function showFloat(value: number, digits: number): string {
  if (Object.is(value, -0)) return '-0'
  if (!Number.isFinite(value) || Number.isSafeInteger(value)) return String(value)
  // With an exponent: 31415926535.9 to eight digits would pass for the integer 31415927000.
  if (Math.abs(value) >= 10 ** digits) return value.toExponential(digits - 1)
  return String(Number(value.toPrecision(digits)))
}

/** The fewest digits that give this float32 back: 0.1, not 0.10000000149011612. */
function showFloat32(value: number): string {
  for (const digits of [6, 7]) {
    if (Math.fround(Number(value.toPrecision(digits))) === value) return showFloat(value, digits)
  }
  return showFloat(value, wideDigits)
}

function showComplex(real: number, imaginary: number, show: (value: number) => string): string {
  const text = show(imaginary)
  return `${show(real)}${text.startsWith('-') ? '' : '+'}${text}j`
}

/** What shows element `index` of `data`, whose floats narrower than float32 have been widened. */
export function cellText(dtype: DType | undefined): (data: TypedArray, index: number) => string {
  const at = (data: TypedArray, index: number): number => Number(data[index])
  switch (dtype) {
    case 'bool':
      return (data, index) => (data[index] === 0 ? 'false' : 'true')
    case 'complex64':
      return (data, index) => showComplex(at(data, 2 * index), at(data, 2 * index + 1), showFloat32)
    case 'complex128':
      return (data, index) =>
        showComplex(at(data, 2 * index), at(data, 2 * index + 1), (value) => showFloat(value, wideDigits))
    case 'float32':
      return (data, index) => showFloat32(at(data, index))
    case 'float64':
      return (data, index) => showFloat(at(data, index), wideDigits)
    default:
      if (isNarrowFloat(dtype)) return (data, index) => showFloat(at(data, index), narrowDigits)
      return (data, index) => String(data[index])
  }
}

// JSON can say -0, JSON.stringify does not.
function jsonNumber(value: number): string {
  return Object.is(value, -0) ? '-0' : JSON.stringify(jsonFloat(value))
}

/** As `cellText`, in JSON: every digit, complex as [real, imaginary], integers past 2^53 and NaN and the infinities as text. */
export function cellJson(dtype: DType | undefined): (data: TypedArray, index: number) => string {
  switch (dtype) {
    case 'bool':
      return (data, index) => (data[index] === 0 ? 'false' : 'true')
    case 'complex64':
    case 'complex128':
      return (data, index) => `[${jsonNumber(Number(data[2 * index]))}, ${jsonNumber(Number(data[2 * index + 1]))}]`
    case 'int64':
    case 'uint64':
      return (data, index) => JSON.stringify(jsonInteger(data[index] as bigint))
    default:
      return (data, index) => jsonNumber(data[index] as number)
  }
}
