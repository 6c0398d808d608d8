// Formats names and numbers for the page.
import { showBytes, showCount, showMeasured } from '../cli/quantity.js'
import { printable } from '../cli/text.js'

export { showBytes, showCount }

/** Escapes characters that would hide or reorder a name. */
export const visible = printable

/** `[50257, 768]`; `[]` is a scalar. */
export const showShape = (shape: readonly number[]): string => `[${shape.join(', ')}]`

/** Formats a measured number with four digits; `–` if it is missing. */
export function showNumber(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value)
  const size = Math.abs(value)
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2)
  return showMeasured(Number(value.toPrecision(4)))
}

/** Formats a measured number for a column: with four digits, also those that are 0. */
export function showDigits(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  if (value === 0) return '0'
  const size = Math.abs(value)
  return size >= 1e6 || size < 1e-3
    ? value.toExponential(2)
    : value.toPrecision(Math.max(4, Math.ceil(Math.log10(size))))
}

/** Formats a number of standard deviations: with three digits, or those of its whole part. */
export const showScore = (value: number): string =>
  value === 0 ? '0' : value >= 1000 ? showCount(Math.round(value)) : value.toPrecision(3)

/** Formats a large number compactly: 1.24 B. */
export function showLarge(value: number): string {
  for (const [unit, size] of [
    ['T', 1e12],
    ['B', 1e9],
    ['M', 1e6],
  ] as const) {
    if (value >= size) return `${Number((value / size).toPrecision(3))} ${unit}`
  }
  return showCount(value)
}

/** Formats the average number of bits of an element: 4.5. */
export const showBits = (bytes: number, elements: number): string =>
  elements === 0 ? '–' : String(Number(((8 * bytes) / elements).toFixed(2)))

/** Formats a share as a percentage: 12.3 %. */
export function showShare(part: number, whole: number): string {
  if (whole === 0) return '0 %'
  const percent = (100 * part) / whole
  if (percent > 0 && percent < 0.1) return '< 0.1 %'
  return `${percent >= 99.95 ? Math.round(percent) : percent.toFixed(1)} %`
}

export const counted = (amount: number, noun: string): string =>
  `${showCount(amount)} ${noun}${amount === 1 ? '' : 's'}`

/** The end of a path, which is more specific than its beginning. */
export const baseName = (path: string): string => path.split(/[/\\]/).at(-1) || path

/** The name of a file without the folders of its URL. A name of a local file has folders only if they tell two files apart. */
export const fileName = (name: string): string => (/^[a-z]+:\/\//.test(name) ? baseName(name) : name)

/** Formats a ratio as a percentage with three digits. */
export function showPercent(ratio: number): string {
  if (!Number.isFinite(ratio)) return '–'
  const percent = 100 * ratio
  if (percent === 0) return '0 %'
  return `${percent < 0.01 ? percent.toExponential(1) : percent.toPrecision(3)} %`
}

/** Formats a cosine: values near 1 differ only in the last digits. */
export const showCosine = (value: number | null | undefined): string =>
  value === null || value === undefined || Number.isNaN(value) ? '–' : value.toFixed(6)
