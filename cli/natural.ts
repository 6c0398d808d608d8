// The natural order of names: numbers by their value, so that layers.2 comes before layers.10.

const isDigit = (code: number): boolean => code >= 48 && code <= 57

/** The end of the digits from `at` on. */
function digitsEnd(text: string, at: number): number {
  let end = at
  while (end < text.length && isDigit(text.charCodeAt(end))) end++
  return end
}

/** The start of a number without its leading zeros. */
function significant(text: string, from: number, end: number): number {
  let at = from
  while (at < end - 1 && text.charCodeAt(at) === 48) at++
  return at
}

/** Compares texts by code unit, not by locale, and the numbers in them by value: the order is the same on every machine. */
export function naturalOrder(a: string, b: string): number {
  let [at, other] = [0, 0]
  while (at < a.length && other < b.length) {
    const [left, right] = [a.charCodeAt(at), b.charCodeAt(other)]
    if (!isDigit(left) || !isDigit(right)) {
      if (left !== right) return left - right
      at++
      other++
      continue
    }
    const [end, otherEnd] = [digitsEnd(a, at), digitsEnd(b, other)]
    const [from, otherFrom] = [significant(a, at, end), significant(b, other, otherEnd)]
    const length = end - from - (otherEnd - otherFrom)
    if (length !== 0) return length
    const [number, otherNumber] = [a.slice(from, end), b.slice(otherFrom, otherEnd)]
    if (number !== otherNumber) return number < otherNumber ? -1 : 1
    at = end
    other = otherEnd
  }
  const rest = a.length - at - (b.length - other)
  // Names that differ only in leading zeros.
  return rest !== 0 ? rest : a < b ? -1 : a > b ? 1 : 0
}
