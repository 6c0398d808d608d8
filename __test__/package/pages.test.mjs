// The pages: their figures are those that the benchmarks wrote into bench/RESULTS.md, overviews link to all pages, and summaries stay short.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { RESULTS, writeInto } from '../../bench/report.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const root = new URL('../../', import.meta.url)
const read = (page) => readFileSync(new URL(page, root), 'utf8')
const results = readFileSync(RESULTS, 'utf8')

/** The cells of the tables of a group, without padding. */
function cellsOf(group) {
  const [, text] = results.match(new RegExp(`<!-- figures of ${group} -->([\\s\\S]*?)<!-- end of ${group} -->`)) ?? []
  return new Set(text?.match(/^\|.*\|$/gm)?.flatMap((row) => row.split('|').map((cell) => cell.trim())))
}

/** The group of figures that the command in the last cell of a row measures. */
function groupOf(command) {
  const [, group, program] =
    /^`(?:npm run bench -- )?--only ([a-z]+)`$|^`node bench\/([a-z-]+)\.mjs/.exec(command) ?? []
  return group ?? program
}

/** The rows of a page whose last cell is a command of the bench. */
const rowsOf = (page) =>
  read(page)
    .match(/^\|.*\|$/gm)
    .map((row) => row.split('|').slice(1, -1).map((cell) => cell.trim())) // biome-ignore format: one chain
    .filter((cells) => groupOf(cells.at(-1)) !== undefined)

for (const page of ['README.md', 'docs/performance.md']) {
  test(`${page}: every figure is in bench/RESULTS.md, in the table that its command writes`, (t) => {
    const rows = rowsOf(page)
    t.true(rows.length > 5)
    for (const [work, ...cells] of rows) {
      const known = cellsOf(groupOf(cells.pop()))
      const figures = cells.flatMap((cell) => cell.match(/(?<![\w.])[\d.]*\d(?= \(|$)/g) ?? [])
      t.true(figures.length > 0, work)
      for (const figure of figures) t.true(known.has(figure), `${work}: ${figure}`)
    }
  })
}

test('figures replace those of their group, and a new group gets a section', (t) => {
  const path = scratchPath('results.md')
  writeFileSync(path, 'before\n\n<!-- figures of a -->\n\n1\n\n<!-- end of a -->\n\nafter\n')
  writeInto(path, 'a', '2')
  writeInto(path, 'new', '3')
  t.is(
    readFileSync(path, 'utf8'),
    `before\n\n<!-- figures of a -->\n\n2\n\n<!-- end of a -->\n\nafter\n
## New\n\n<!-- figures of new -->\n\n3\n\n<!-- end of new -->\n`,
  )
  writeFileSync(path, '<!-- end of a --> <!-- figures of a -->')
  t.throws(() => writeInto(path, 'a', '2'), { message: /must contain the marks/ })
})

for (const [overview, folder] of [
  ['README.md', 'docs/guide/'],
  ['docs/formats.md', 'docs/formats/'],
]) {
  test(`${overview} links to each page of ${folder}`, (t) => {
    const text = read(overview)
    const from = folder.slice(overview.lastIndexOf('/') + 1)
    for (const name of readdirSync(new URL(folder, root))) t.true(text.includes(`](${from}${name})`), name)
  })
}

for (const [page, lines] of [
  ['README.md', 150],
  ['docs/reliability.md', 130],
]) {
  test(`${page} has at most ${lines} lines`, (t) => {
    t.true(read(page).trimEnd().split('\n').length <= lines)
  })
}
