// Formats single elements as text and as JSON.
import type { DType, TypedArray } from '../index.js'
import { jsonFloat, jsonInteger } from './json.js'

// float64 and float32 have at most eight digits, as in NumPy (`--json` has all digits).
const wideDigits = 8
// Five digits distinguish all values of float16 and narrower floats.
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
  // With an exponent: 31415926535.9 rounded to eight digits would look like the integer 31415927000.
  if (Math.abs(value) >= 10 ** digits) return value.toExponential(digits - 1)
  return String(Number(value.toPrecision(digits)))
}

/** The shortest text that round-trips to this float32: 0.1, not 0.10000000149011612. */
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

/** Returns a function that formats element `index` of `data`, in which floats narrower than float32 were widened. */
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

// JSON can represent -0, but JSON.stringify writes 0.
function jsonNumber(value: number): string {
  return Object.is(value, -0) ? '-0' : JSON.stringify(jsonFloat(value))
}

/** Like `cellText`, as JSON: all digits, complex as [real, imaginary], and integers beyond 2^53, NaN and infinities as strings. */
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
