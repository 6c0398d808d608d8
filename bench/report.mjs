// Formats rows as a table for a terminal or a Markdown page.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The page with all figures. */
export const RESULTS = fileURLToPath(new URL('RESULTS.md', import.meta.url))

/** Formats a number with three digits. */
function figure(value) {
  if (value === undefined) return ''
  if (value >= 100 || value === 0) return value.toFixed(0)
  return value >= 1 ? value.toFixed(1) : value.toFixed(2)
}

/** The fastest peer: its name, its time, and its ratio to ours. */
function best({ ours, peers }) {
  const [fastest] = Object.entries(peers).toSorted(([, a], [, b]) => a - b)
  if (fastest === undefined) return ['', '', '']
  const [name, ms] = fastest
  return [name, figure(ms), `${figure(ms / ours)}×`]
}

/** The ratio of a row to its goal, if it has one: measured in the same rounds if possible. */
const share = ({ ours, target, share }) => share ?? (target === undefined || target === 0 ? undefined : ours / target)

/** The reference of a row: the machine's limit, or the fastest peer. */
const reference = ({ limit, peers }) => limit ?? Object.values(peers).toSorted((a, b) => a - b)[0]

const spreadOf = (all) => (all.includes(undefined) ? undefined : Math.max(...all) / Math.min(...all) - 1)

/** The worst run of each work, relative to its goal if it has one, with the spread of all runs and of their references. */
export function worst(rows) {
  const by = (row) => share(row) ?? row.ours
  const works = [...new Set(rows.map(({ work }) => work))]
  return works.map((work) => {
    const runs = rows.filter((row) => row.work === work)
    const [row] = runs.toSorted((a, b) => by(b) - by(a))
    return runs.length === 1 ? row : { ...row, spread: spreadOf(runs.map(by)), others: spreadOf(runs.map(reference)) }
  })
}

const HEADINGS = [
  'work',
  'ztensor',
  'best peer',
  'peer value',
  'ratio',
  'limit',
  'limit value',
  'goal',
  'met',
  'spread',
  'reference spread',
]

function cells(row) {
  const { work, note, ours, limit, limitIs, reach, target, spread, others } = row
  const reached =
    target === undefined ? '' : (share(row) ?? ours) <= (share(row) === undefined ? target : 1) ? 'yes' : 'no'
  const percent = (part) => (part === undefined || !Number.isFinite(part) ? '' : `${(100 * part).toFixed(0)} %`)
  const title = note === undefined ? work : `${work}: ${note}`
  const bound = limit === undefined ? ['', ''] : [limitIs, figure(limit)]
  return [title, figure(ours), ...best(row), ...bound, reach ?? '', reached, percent(spread), percent(others)]
}

export function table(rows) {
  const lines = [HEADINGS, ...rows.map(cells)]
  const widths = HEADINGS.map((_, column) => Math.max(...lines.map((line) => line[column].length)))
  const text = (column) => column === 0 || column === 2 || column === 5 || column > 6
  const pad = (cell, column) => (text(column) ? cell.padEnd(widths[column]) : cell.padStart(widths[column]))
  return lines.map((line) => line.map(pad).join('  ').trimEnd()).join('\n')
}

/** Rows as a Markdown table with a heading, and notes on the state of the files. */
export function markdown(rows, heading) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  const states = [...new Set(rows.map(({ state }) => state))]
  const numbered = rows.map((row) => [`${cells(row)[0]} (${states.indexOf(row.state) + 1})`, ...cells(row).slice(1)])
  const notes = states.map((state, at) => `(${at + 1}) ${state}.`).join(' ')
  const rule = HEADINGS.map(() => '---')
  return [heading, '', line(HEADINGS), line(rule), ...numbered.map(line), '', notes].join('\n')
}

/** Replaces the figures of a group between its marks in a page. A group without marks gets a section at the end. */
export function writeInto(path, group, figures) {
  const page = readFileSync(path, 'utf8')
  const [begin, end] = [`<!-- figures of ${group} -->`, `<!-- end of ${group} -->`]
  const [start, stop] = [page.indexOf(begin), page.indexOf(end)]
  const text = `${begin}\n\n${figures}\n\n`
  if (start < 0 && stop < 0) {
    const title = group.replace(/^./, (letter) => letter.toUpperCase())
    return writeFileSync(path, `${page}\n## ${title}\n\n${text}${end}\n`)
  }
  if (start < 0 || stop < start) throw new Error(`${path} must contain the marks ${begin} … ${end}`)
  writeFileSync(path, page.slice(0, start) + text + page.slice(stop))
}
