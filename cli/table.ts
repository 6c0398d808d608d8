// Formats rows of cells as aligned columns.
import { columns } from './text.js'

export interface Column {
  title: string
  align?: 'right'
}

// The maximum column width: other rows are not padded to an extremely long name.
const widest = 60

/** Yields one line per row, the titles first. The last column is not padded. Cells must be printable and uncolored. */
export function* table(
  heads: readonly Column[],
  rows: readonly (readonly string[])[],
  title: (text: string) => string,
): Generator<string> {
  const widths = heads.map((head) => columns(head.title))
  const sizes = rows.map((row) => row.map(columns))
  for (const row of sizes) {
    for (const [at, size] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, Math.min(size, widest))
  }
  const line = (cells: readonly string[], size: readonly number[]): string => {
    let text = ''
    for (const [at, cell] of cells.entries()) {
      const space = ' '.repeat(Math.max(0, (widths[at] ?? 0) - (size[at] ?? 0)))
      if (heads[at]?.align === 'right') text += space + cell
      else text += at === cells.length - 1 ? cell : cell + space
      if (at < cells.length - 1) text += '  '
    }
    return text
  }
  const titles = heads.map((head) => head.title)
  yield title(line(titles, titles.map(columns)))
  for (const [at, row] of rows.entries()) yield line(row, sizes[at] ?? [])
}
