// Formats rows of cells as aligned columns.
import { columns, shortenMiddle } from './text.js'

export interface Column {
  title: string
  align?: 'right'
}

// The maximum column width: other rows are not padded to an extremely long name.
const widest = 60
// Names are not shortened to less than this.
const narrowest = 16
const gap = 2

/**
 * Yields one line per row, the titles first. The last column is not padded. Cells must be printable and uncolored. With `width`, the first
 * column is shortened so that lines fit into that many columns.
 */
export function* table(
  heads: readonly Column[],
  rows: readonly (readonly string[])[],
  title: (text: string) => string,
  width = Number.POSITIVE_INFINITY,
): Generator<string> {
  const widths = heads.map((head) => columns(head.title))
  const sizes = rows.map((row) => row.map(columns))
  for (const row of sizes) {
    for (const [at, size] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, Math.min(size, widest))
  }
  const others = widths.slice(1).reduce((sum, size) => sum + size + gap, 0)
  const limit = Math.max(narrowest, width - others)
  const isShortened = sizes.some(([first = 0]) => first > limit)
  if (isShortened) widths[0] = limit
  const line = (cells: readonly string[], size: readonly number[]): string => {
    let text = ''
    for (const [at, cell] of cells.entries()) {
      const space = ' '.repeat(Math.max(0, (widths[at] ?? 0) - (size[at] ?? 0)))
      if (heads[at]?.align === 'right') text += space + cell
      else text += at === cells.length - 1 ? cell : cell + space
      if (at < cells.length - 1) text += ' '.repeat(gap)
    }
    return text
  }
  const titles = heads.map((head) => head.title)
  yield title(line(titles, titles.map(columns)))
  for (const [at, row] of rows.entries()) {
    const size = sizes[at] ?? []
    const [first = '', ...rest] = row
    if (isShortened && (size[0] ?? 0) > limit) {
      const short = shortenMiddle(first, limit)
      yield line([short, ...rest], [columns(short), ...size.slice(1)])
    } else yield line(row, size)
  }
}

/** The width of lines: that of the terminal. Nothing is shortened in other outputs. */
export function lineWidth(stream: { isTTY?: boolean; columns?: number } = process.stdout): number {
  return stream.isTTY === true ? (stream.columns ?? 80) : Number.POSITIVE_INFINITY
}

/**
 * A column that is left out if all of its cells are alike. `note` describes such a cell, for the note that replaces the column; undefined
 * keeps the column.
 */
export interface OptionalColumn extends Column {
  note?: (cell: string) => string | undefined
}

/** Leaves out columns with a `note` whose cells are all alike. Returns the rest, and the notes. */
export function withoutAlike(
  heads: readonly OptionalColumn[],
  rows: readonly (readonly string[])[],
): { heads: readonly OptionalColumn[]; rows: readonly (readonly string[])[]; notes: string[] } {
  const notes: string[] = []
  const shown = heads.map(({ note }, at) => {
    const first = rows[0]?.[at]
    if (note === undefined || first === undefined || rows.some((row) => row[at] !== first)) return true
    const text = note(first)
    if (text === undefined) return true
    if (text !== '') notes.push(text)
    return false
  })
  const pick = <T>(all: readonly T[]): T[] => all.filter((_, at) => shown[at])
  return { heads: pick(heads), rows: rows.map(pick), notes }
}
