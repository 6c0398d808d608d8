// Numbers with their units, as a person reads them.

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']

/** `bytes` in binary units with one decimal: 147.2 MiB. An unknown size is `?`. */
export function showBytes(bytes: number | bigint | undefined): string {
  if (bytes === undefined) return '?'
  let amount = Number(bytes)
  let unit = 0
  // 1023.95 would round to 1024.0: the next unit up says 1.0.
  while (amount >= (unit === 0 ? 1024 : 1023.95) && unit < units.length - 1) {
    amount /= 1024
    unit++
  }
  return `${unit === 0 ? amount : amount.toFixed(1)} ${units[unit]}`
}

/** `amount` with separators between thousands: 38,597,376. */
export function showCount(amount: number | bigint): string {
  return amount.toLocaleString('en-US')
}

/** `showCount` with its noun: 1 tensor, 148 tensors. */
export function showCounted(amount: number | bigint, noun: string): string {
  return `${showCount(amount)} ${noun}${Number(amount) === 1 ? '' : 's'}`
}

/** A measured number to five digits: 0.019946, -2.1678e+35. NaN is `-`. */
export function showMeasured(value: number): string {
  if (Number.isNaN(value)) return '-'
  if (Number.isFinite(value) && Math.abs(value) >= 1e9) return value.toExponential(4)
  return String(Number(value.toPrecision(5)))
}
