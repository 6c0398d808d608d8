// A virtualized table: only visible rows are in the document.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { naturalOrder } from '../cli/natural.js'
import { html, type VNode } from './html.js'
import { Choice, useWidth } from './pieces.js'
import { Save } from './save.js'
import { showCount } from './words.js'

/** A column: its cells, and its sort key. */
export interface GridColumn<T> {
  readonly key: string
  readonly title: string
  readonly numeric?: boolean
  /** The width of the longest cell, in characters; undefined for the one flexible column. */
  readonly characters?: number | undefined
  readonly cell: (row: T) => unknown
  /** The sort key. Numbers sort in descending order at first, texts in ascending order. Without a key the column is not sortable. */
  readonly sort?: (row: T) => number | string
  /** The value in a copy of the table, by default the sort key. */
  readonly text?: (row: T) => number | string
  /** Whether the sort keys are names, whose numbers count by their value. */
  readonly natural?: boolean
}

export interface GridSort {
  readonly key: string
  readonly down: boolean
}

const ROW = 32
const BEYOND = 8
/** The width of the flexible column, at least. */
const FREE = 180
/** The padding of a cell. */
const PADDING = 20
/** The width of a scrollbar and the borders, at most. */
const SCROLLBAR = 18
/** The width of a digit in the font of the table, before it is measured. */
const DIGIT = 8.5
/** The number of digits that are measured. */
const PROBE = 20
/** The characters of the longest size, such as 1023.9 KiB. */
export const BYTES_WIDTH = 10

/** The number of characters of the longest text, but at most `max`. */
export function longest(texts: Iterable<string>, max = 40): number {
  let length = 0
  for (const text of texts) length = Math.max(length, text.length)
  return Math.min(max, length)
}

/** The width of a column in pixels: its longest cell, or its title with the arrow of the sort order. */
const widthOf = (
  { characters = 0, title }: { characters?: number | undefined; title: string },
  digit: number,
): number => Math.ceil(Math.max(characters, title.length + 2) * digit) + PADDING

/**
 * Divides columns into pages that fit into a width, so that no number is cut off. The flexible column is on all pages. One page if the
 * width is not known yet.
 */
function pagesOf<T>(columns: readonly GridColumn<T>[], width: number, digit: number): GridColumn<T>[][] {
  const pages: GridColumn<T>[][] = [[]]
  let used = 0
  for (const column of columns) {
    if (column.characters === undefined) continue
    const wide = widthOf(column, digit)
    if (used > 0 && used + wide > width - FREE - SCROLLBAR && width > 0) {
      pages.push([])
      used = 0
    }
    used += wide
    pages.at(-1)?.push(column)
  }
  return pages
}

const titleOf = (page: readonly { title: string }[]): string =>
  page.length < 3 ? page.map(({ title }) => title).join(', ') : `${page[0]?.title} … ${page.at(-1)?.title}`

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
    const compare = by?.natural ? naturalOrder : (left: string, right: string) => (left < right ? -1 : 1)
    order.sort((a, b) => {
      const [left, right] = [texts[a] as string, texts[b] as string]
      return left === right ? a - b : sign * compare(left, right)
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
  /** Whether a row is marked as a problem. */
  marked?: (row: T) => boolean
  initial?: GridSort
  max?: number
  /** The name of the file that the rows are saved as; without it they cannot be saved. */
  save?: string
}): VNode {
  const { rows } = props
  const [frame, width] = useWidth()
  const [digit, setDigit] = useState(DIGIT)
  const [page, setPage] = useState(0)
  const pages = pagesOf(props.columns, width, digit)
  const shown = pages[Math.min(page, pages.length - 1)] as GridColumn<T>[]
  const columns = props.columns.filter((column) => column.characters === undefined || shown.includes(column))
  const [sort, setSort] = useState<GridSort | undefined>(props.initial)
  const [top, setTop] = useState(0)
  const box = useRef<HTMLDivElement>(null)
  const by = props.columns.find(({ key }) => key === sort?.key)
  const sorted = useMemo(() => ordered(rows, by, sort?.down ?? false), [rows, sort?.key, sort?.down])
  useEffect(() => {
    if (box.current !== null) box.current.scrollTop = 0
    setTop(0)
  }, [rows])
  const height = Math.min(props.max ?? 18, Math.max(1, rows.length)) * ROW
  const first = Math.max(0, Math.floor(top / ROW) - BEYOND)
  const end = Math.min(sorted.length, Math.ceil((top + height) / ROW) + BEYOND)
  const seen = Array.from({ length: Math.max(0, end - first) }, (_, at) => first + at)
  const measure = (probe: HTMLElement | null) => {
    if (probe !== null && probe.offsetWidth > 0) setDigit(probe.offsetWidth / PROBE)
  }
  // Columns with fixed widths, and a minimum for the flexible one.
  const min = columns.reduce(
    (sum, column) => sum + (column.characters === undefined ? FREE : widthOf(column, digit)),
    0,
  )
  const press = (column: GridColumn<T>) => {
    const descends = column.numeric === true
    if (sort?.key !== column.key) setSort({ key: column.key, down: descends })
    else if (sort.down === descends) setSort({ key: column.key, down: !descends })
    else setSort(undefined)
  }
  const table = html`<div
    class="grid"
    ref=${box}
    tabindex="0"
    role="region"
    aria-label=${props.label}
    style=${{ maxHeight: `${height + 40}px` }}
    onScroll=${(event: Event) => setTop((event.currentTarget as HTMLElement).scrollTop)}
  >
    <table aria-rowcount=${rows.length + 1} style=${{ minWidth: `${min}px` }}>
      <colgroup>
        ${columns.map((column) => html`<col key=${column.key} style=${{ width: column.characters === undefined ? 'auto' : `${widthOf(column, digit)}px` }} />`)}
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
          return html`<tr key=${props.rowKey(row)} aria-rowindex=${at + 2} class=${`${props.chosen?.(row) ? 'chosen' : ''} ${props.marked?.(row) ? 'marked' : ''}`}>
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
  return html`<div ref=${frame}>
    <span class="probe" aria-hidden="true" ref=${measure} style=${{ width: `${PROBE}ch` }}></span>
    ${
      pages.length === 1
        ? null
        : html`<${Choice}
            label="Columns"
            value=${String(Math.min(page, pages.length - 1))}
            options=${pages.map((one, at) => [String(at), titleOf(one)] as const)}
            onChange=${(at: string) => setPage(Number(at))}
          />`
    }
    ${table}
    ${props.save === undefined || rows.length === 0 ? null : html`<${Save} name=${props.save} columns=${props.columns} rows=${() => sorted} />`}
  </div>`
}
