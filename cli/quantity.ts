// Formats and parses numbers with units.

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']

/** Formats bytes in binary units with one decimal: 147.2 MiB. An unknown size is `?`. */
export function showBytes(bytes: number | bigint | undefined): string {
  if (bytes === undefined) return '?'
  let amount = Number(bytes)
  let unit = 0
  // 1023.95 would round to 1024.0, so it becomes 1.0 of the next unit.
  while (amount >= (unit === 0 ? 1024 : 1023.95) && unit < units.length - 1) {
    amount /= 1024
    unit++
  }
  return `${unit === 0 ? amount : amount.toFixed(1)} ${units[unit]}`
}

const scales: Readonly<Record<string, number>> = { '': 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12 }
const binaryScales: Readonly<Record<string, number>> = { k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 }

/** Parses a size in bytes: `5GB` (5 × 10^9), `2GiB` (2 × 2^30), `500M` or `1000`; undefined for any other text. */
export function parseBytes(text: string): number | undefined {
  const parts = /^(\d+(?:\.\d+)?)\s*(?:([kmgt])(i)?)?b?$/i.exec(text.trim())
  if (parts === null) return undefined
  const [, amount, prefix = '', binary] = parts
  const scale = (binary === undefined ? scales : binaryScales)[prefix.toLowerCase()] as number
  const bytes = Math.floor(Number(amount) * scale)
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined
}

/** Formats a number with thousands separators: 38,597,376. */
export function showCount(amount: number | bigint): string {
  // toLocaleString() would take 12 ms to load its locale data.
  return String(amount).replaceAll(/\B(?=(\d{3})+$)/g, ',')
}

/** Formats a number with a noun: 1 tensor, 148 tensors. */
export function showCounted(amount: number | bigint, noun: string): string {
  return `${showCount(amount)} ${noun}${Number(amount) === 1 ? '' : 's'}`
}

/** Formats a measured number with five digits, or as many as given: 0.019946, -2.1678e+35. NaN is `-`. */
export function showMeasured(value: number, digits = 5): string {
  if (Number.isNaN(value)) return '-'
  if (Number.isFinite(value) && Math.abs(value) >= 1e9) return value.toExponential(digits - 1)
  return String(Number(value.toPrecision(digits)))
}
