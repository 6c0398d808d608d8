// Cells of CSV, for spreadsheets. The report page has a copy of this module.
import { printable } from './text.js'

/** A cell of CSV (RFC 4180): with quotes if it needs them. A text that a spreadsheet would take for a formula begins with an apostrophe. */
export function csvCell(value: unknown): string {
  const shown = typeof value === 'string' ? printable(value) : String(value ?? '')
  const text = typeof value === 'string' && /^[=+\-@]/.test(shown) ? `'${shown}` : shown
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
