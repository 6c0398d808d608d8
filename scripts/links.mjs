// Checks the links between the Markdown pages of the repository: each file exists, and each anchor is a heading of its page. A part of
// `npm run docs`.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import GithubSlugger from 'github-slugger'
import { capture, root } from './command.mjs'

/** The text of a page without its code. */
const prose = (path) => readFileSync(path, 'utf8').replaceAll(/^(```+)[\s\S]*?^\1/gm, '')

/** The anchors that GitHub gives the headings of a page. */
function anchorsOf(path) {
  const slugger = new GithubSlugger()
  const headings = prose(path).matchAll(/^#{1,6} +(.+?) *$/gm)
  // A link in a heading counts as its text.
  return new Set(
    Array.from(headings, ([, text]) =>
      slugger.slug(text.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '')),
    ),
  )
}

const { stdout } = await capture('git', ['ls-files', '*.md'])
const pages = stdout
  .trim()
  .split('\n')
  .map((name) => join(root, name))
const known = new Map()
let checked = 0
const dead = []
for (const page of pages) {
  for (const [, target] of prose(page).matchAll(/\]\(([^()\s]+)\)/g)) {
    if (/^[a-z][a-z0-9+.-]*:/i.test(target)) continue
    checked += 1
    const [path, anchor] = target.split('#')
    const file = path === '' ? page : resolve(dirname(page), path)
    if (!existsSync(file)) dead.push(`${relative(root, page)}: no file ${target}`)
    else if (anchor !== undefined && file.endsWith('.md')) {
      if (!known.has(file)) known.set(file, anchorsOf(file))
      if (!known.get(file).has(anchor)) dead.push(`${relative(root, page)}: no heading ${target}`)
    }
  }
}
if (checked === 0) dead.push('no link was found')
for (const one of dead) console.error(one)
console.log(`links: ${checked - dead.length} passed, ${dead.length} failed`)
process.exitCode = dead.length > 0 ? 1 : 0
