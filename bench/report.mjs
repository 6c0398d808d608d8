// The rows as a table of a terminal, and as one of a page.
import { readFileSync, writeFileSync } from 'node:fs'

/** Three digits of a time. */
function figure(value) {
  if (value === undefined) return ''
  if (value >= 100 || value === 0) return value.toFixed(0)
  return value >= 1 ? value.toFixed(1) : value.toFixed(2)
}

/** The fastest peer: its name, its time, and how many times ours it takes. */
function best({ ours, peers }) {
  const [fastest] = Object.entries(peers).toSorted(([, a], [, b]) => a - b)
  if (fastest === undefined) return ['', '', '']
  const [name, ms] = fastest
  return [name, figure(ms), `${figure(ms / ours)}×`]
}

/** What a row took by its goal, where it has one: in the same rounds, where they were measured in turns. */
const share = ({ ours, target, share }) => share ?? (target === undefined || target === 0 ? undefined : ours / target)

/** What took the same work without us: the machine's limit, or the fastest peer. */
const without = ({ limit, peers }) => limit ?? Object.values(peers).toSorted((a, b) => a - b)[0]

const apart = (all) => (all.includes(undefined) ? undefined : Math.max(...all) / Math.min(...all) - 1)

/** Of each work the run that came out worst by what it is to reach, or by itself, with how far apart all were, and others meanwhile. */
export function worst(rows) {
  const by = (row) => share(row) ?? row.ours
  const works = [...new Set(rows.map(({ work }) => work))]
  return works.map((work) => {
    const runs = rows.filter((row) => row.work === work)
    const [row] = runs.toSorted((a, b) => by(b) - by(a))
    return runs.length === 1 ? row : { ...row, spread: apart(runs.map(by)), others: apart(runs.map(without)) }
  })
}

const HEADINGS = [
  'work',
  'ours',
  'best peer',
  'its',
  'ratio',
  'limit',
  'its',
  'to reach',
  'reached',
  'spread',
  'without us',
]

function cells(row) {
  const { work, note, ours, limit, limitIs, reach, target, spread, others } = row
  const reached =
    target === undefined ? '' : (share(row) ?? ours) <= (share(row) === undefined ? target : 1) ? 'yes' : 'no'
  const percent = (part) => (part === undefined || !Number.isFinite(part) ? '' : `${(100 * part).toFixed(0)} %`)
  const told = note === undefined ? work : `${work}: ${note}`
  const bound = limit === undefined ? ['', ''] : [limitIs, figure(limit)]
  return [told, figure(ours), ...best(row), ...bound, reach ?? '', reached, percent(spread), percent(others)]
}

export function table(rows) {
  const lines = [HEADINGS, ...rows.map(cells)]
  const widths = HEADINGS.map((_, column) => Math.max(...lines.map((line) => line[column].length)))
  const text = (column) => column === 0 || column === 2 || column === 5 || column > 6
  const pad = (cell, column) => (text(column) ? cell.padEnd(widths[column]) : cell.padStart(widths[column]))
  return lines.map((line) => line.map(pad).join('  ').trimEnd()).join('\n')
}

function markdown(rows, heading) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  const states = [...new Set(rows.map(({ state }) => state))]
  const numbered = rows.map((row) => [`${cells(row)[0]} (${states.indexOf(row.state) + 1})`, ...cells(row).slice(1)])
  const notes = states.map((state, at) => `(${at + 1}) ${state}.`).join(' ')
  const rule = HEADINGS.map(() => '---')
  return [heading, '', line(HEADINGS), line(rule), ...numbered.map(line), '', notes].join('\n')
}

/** Puts the figures of a group between its marks in a page; what else stands there stays. */
export function writeInto(path, group, rows, heading) {
  const page = readFileSync(path, 'utf8')
  const [begin, end] = [`<!-- figures of ${group} -->`, `<!-- end of ${group} -->`]
  const [start, stop] = [page.indexOf(begin), page.indexOf(end)]
  if (start < 0 || stop < start) throw new Error(`${path} has no place for these figures: ${begin} … ${end}`)
  const text = `${begin}\n\n${markdown(rows, heading)}\n\n`
  writeFileSync(path, page.slice(0, start) + text + page.slice(stop))
}
