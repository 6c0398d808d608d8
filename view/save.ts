// Buttons that copy the rows of a table or save them as CSV.
import { useState } from 'preact/hooks'
import { csvCell } from '../cli/csv.js'
import type { GridColumn } from './grid.js'
import { html, type VNode } from './html.js'
import { visible } from './words.js'

type Cell = string | number

/** The values of a row. NaN stands for a missing number. */
const valuesOf = <T>(columns: readonly GridColumn<T>[], row: T): (Cell | undefined)[] =>
  columns.map(({ text, sort }) => {
    const value = (text ?? sort)?.(row)
    return typeof value === 'number' && Number.isNaN(value) ? undefined : value
  })

/** A cell that is pasted into a spreadsheet: no tabs, no line breaks. */
const pasted = (value: Cell | undefined): string => (typeof value === 'string' ? visible(value) : String(value ?? ''))

/** Copies text. The clipboard of a page without a secure context is that of a selected text. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  if (!done) throw new Error('the browser permits no copy')
}

/** Offers a text as a file. */
function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  URL.revokeObjectURL(url)
}

/** `rows` returns the rows in the order that the table shows. */
export function Save<T>(props: { name: string; columns: readonly GridColumn<T>[]; rows: () => ArrayLike<T> }): VNode {
  const [status, setStatus] = useState('')
  const columns = props.columns.filter(({ text, sort }) => text !== undefined || sort !== undefined)
  const table = (cell: (value: Cell | undefined) => string, separator: string): string => {
    const titles = columns.map(({ title }) => title)
    const lines = [titles, ...Array.from(props.rows(), (row) => valuesOf(columns, row))]
    return lines.map((values) => `${values.map(cell).join(separator)}\n`).join('')
  }
  const press = async () => {
    try {
      await copy(table(pasted, '\t'))
      setStatus('Copied.')
    } catch (error) {
      setStatus(`Not copied: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  return html`<p class="save">
    <button type="button" class="link" title="Copy the rows for a spreadsheet" onClick=${press}>Copy</button>
    <button type="button" class="link" title="Save the rows as a file of comma-separated values" onClick=${() => download(`${props.name}.csv`, table(csvCell, ','))}>CSV</button>
    <span role="status">${status}</span>
  </p>`
}
