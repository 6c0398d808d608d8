// A virtualized table: only visible rows are in the document.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { html, type VNode } from './html.js'
import { showCount } from './words.js'

/** A column: its cells, and its sort key. */
export interface GridColumn<T> {
  readonly key: string
  readonly title: string
  readonly numeric?: boolean
  readonly width: string
  readonly cell: (row: T) => unknown
  /** The sort key. Numbers sort in descending order at first, texts in ascending order. Without a key the column is not sortable. */
  readonly sort?: (row: T) => number | string
}

export interface GridSort {
  readonly key: string
  readonly down: boolean
}

const ROW = 32
const BEYOND = 8
const FREE = 230

/** The sorted rows. NaN is always last. */
function ordered<T>(rows: ArrayLike<T>, by: GridColumn<T> | undefined, down: boolean): ArrayLike<T> {
  const sort = by?.sort
  if (sort === undefined) return rows
  const keys = Array.from({ length: rows.length }, (_, at) => sort(rows[at] as T))
  const order = Uint32Array.from(keys.keys())
  if (by?.numeric) {
    const numbers = Float64Array.from(keys as number[])
    const sign = down ? -1 : 1
    order.sort((a, b) => {
      const [left, right] = [numbers[a] as number, numbers[b] as number]
      if (Number.isNaN(left) || Number.isNaN(right))
        return Number(Number.isNaN(left)) - Number(Number.isNaN(right)) || a - b
      return sign * (left - right) || a - b
    })
  } else {
    const texts = keys as string[]
    const sign = down ? -1 : 1
    order.sort((a, b) => {
      const [left, right] = [texts[a] as string, texts[b] as string]
      return left === right ? a - b : left < right ? -sign : sign
    })
  }
  return Array.from(order, (at) => rows[at] as T)
}

export function Grid<T>(props: {
  label: string
  columns: readonly GridColumn<T>[]
  rows: ArrayLike<T>
  rowKey: (row: T) => string | number
  chosen?: (row: T) => boolean
  initial?: GridSort
  most?: number
}): VNode {
  const { columns, rows } = props
  const [sort, setSort] = useState<GridSort | undefined>(props.initial)
  const [top, setTop] = useState(0)
  const box = useRef<HTMLDivElement>(null)
  const by = columns.find(({ key }) => key === sort?.key)
  const sorted = useMemo(() => ordered(rows, by, sort?.down ?? false), [rows, sort?.key, sort?.down])
  useEffect(() => {
    if (box.current !== null) box.current.scrollTop = 0
    setTop(0)
  }, [rows])
  const height = Math.min(props.most ?? 18, Math.max(1, rows.length)) * ROW
  const first = Math.max(0, Math.floor(top / ROW) - BEYOND)
  const end = Math.min(sorted.length, Math.ceil((top + height) / ROW) + BEYOND)
  const seen = Array.from({ length: Math.max(0, end - first) }, (_, at) => first + at)
  // Columns with fixed widths, and a minimum for the flexible one.
  const least = columns.reduce((sum, { width }) => sum + (Number.parseInt(width, 10) || FREE), 0)
  const press = (column: GridColumn<T>) => {
    const usual = column.numeric === true
    if (sort?.key !== column.key) setSort({ key: column.key, down: usual })
    else if (sort.down === usual) setSort({ key: column.key, down: !usual })
    else setSort(undefined)
  }
  return html`<div
    class="grid"
    ref=${box}
    tabindex="0"
    role="region"
    aria-label=${props.label}
    style=${{ maxHeight: `${height + 40}px` }}
    onScroll=${(event: Event) => setTop((event.currentTarget as HTMLElement).scrollTop)}
  >
    <table aria-rowcount=${rows.length + 1} style=${{ minWidth: `${least}px` }}>
      <colgroup>
        ${columns.map(({ key, width }) => html`<col key=${key} style=${{ width }} />`)}
      </colgroup>
      <thead>
        <tr aria-rowindex="1">
          ${columns.map(
            (column) => html`<th
              key=${column.key}
              scope="col"
              class=${column.numeric ? 'number' : ''}
              aria-sort=${sort?.key !== column.key ? 'none' : sort.down ? 'descending' : 'ascending'}
            >
              ${
                column.sort === undefined
                  ? column.title
                  : html`<button type="button" onClick=${() => press(column)}>
                      ${column.title}<span aria-hidden="true">${sort?.key !== column.key ? '' : sort.down ? ' ↓' : ' ↑'}</span>
                    </button>`
              }
            </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${first > 0 ? html`<tr key="above" aria-hidden="true" style=${{ height: `${first * ROW}px` }}></tr>` : null}
        ${seen.map((at) => {
          const row = sorted[at] as T
          return html`<tr key=${props.rowKey(row)} aria-rowindex=${at + 2} class=${props.chosen?.(row) ? 'chosen' : ''}>
            ${columns.map(
              ({ key, numeric, cell }) => html`<td key=${key} class=${numeric ? 'number' : ''}>${cell(row)}</td>`,
            )}
          </tr>`
        })}
        ${
          end < sorted.length
            ? html`<tr key="below" aria-hidden="true" style=${{ height: `${(sorted.length - end) * ROW}px` }}></tr>`
            : null
        }
      </tbody>
    </table>
    ${rows.length === 0 ? html`<p class="empty">Nothing matches.</p>` : null}
    <span class="hidden" role="status">${showCount(rows.length)} rows</span>
  </div>`
}
