// Which rooms of the core know which: each uses only those that the table in ARCHITECTURE.md allows it, and no two know each
// other both ways. Tests may use any.
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { root } from './command.mjs'

const core = join(root, 'crates/core/src')
const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
const section = page.slice(page.indexOf('## The rooms of the core'), page.indexOf('## Around the core'))

const quoted = (text) => [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name)
const open = new Set(quoted(section.match(/[^.]*are open to all/)?.[0] ?? ''))
const allowed = new Map()
for (const [, room, uses] of section.matchAll(/^\| `(\w+)` \|[^|]*\|([^|]*)\|$/gm)) {
  const names = uses.replace(/\([^)]*\)/g, '').split(',')
  allowed.set(room, new Set(names.map((name) => name.trim()).filter(Boolean)))
}

// The code of a file alone: no comments, no tests.
function code(path) {
  const text = readFileSync(path, 'utf8').replace(/^\s*\/\/.*$/gm, '')
  return text.split(/^#\[cfg\((?:test|all\(test[^\n]*)\)\]\nmod \w+ \{/m)[0]
}

// The rooms that a file uses: named from the root of the crate, or above its own room.
function uses(text, depth) {
  const found = new Set()
  for (const [, name] of text.matchAll(/\bcrate::(\w+)/g)) found.add(name)
  for (const [, names] of text.matchAll(/\bcrate::\{([^;]*)\};/g)) {
    let level = 0
    for (const [token] of names.matchAll(/\w+|[{},]|::/g)) {
      if (token === '{') level += 1
      else if (token === '}') level -= 1
      else if (level === 0 && /^\w/.test(token) && allowed.has(token)) found.add(token)
    }
  }
  for (const [, supers, name] of text.matchAll(/\b((?:super::)+)(\w+)/g)) {
    if (supers.length / 'super::'.length === depth) found.add(name)
  }
  return found
}

const used = new Map([...allowed.keys()].map((room) => [room, new Map()]))
const problems = []
for (const entry of readdirSync(core, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !entry.name.endsWith('.rs')) continue
  const path = join(entry.parentPath ?? entry.path, entry.name)
  const parts = relative(core, path).replace(/\.rs$/, '').split(sep)
  const [room] = parts
  if (room === 'lib' || open.has(room) || parts.at(-1) === 'tests') continue
  if (!used.has(room)) {
    problems.push(`${room} is no room of the table in ARCHITECTURE.md`)
    continue
  }
  for (const name of uses(code(path), parts.length)) {
    if (name === room || !allowed.has(name)) continue
    const files = used.get(room)
    files.set(name, [...(files.get(name) ?? []), relative(root, path)])
  }
}

let checked = 0
for (const [room, others] of used) {
  for (const [other, files] of others) {
    checked += 1
    if (!allowed.get(room).has(other)) problems.push(`${room} may not use ${other}: ${files.join(', ')}`)
    if (room < other && used.get(other).has(room)) {
      problems.push(`${room} and ${other} use each other: ${[...files, ...used.get(other).get(room)].join(', ')}`)
    }
  }
}
for (const [room, others] of allowed) {
  for (const other of others) {
    if (!allowed.has(other)) problems.push(`the table lets ${room} use ${other}, which is no room`)
    else if (room < other && allowed.get(other).has(room))
      problems.push(`the table lets ${room} and ${other} use each other`)
  }
}
if (checked === 0) problems.push('no room uses another: the table or the sources were not found')

for (const problem of problems) console.error(problem)
console.log(`rooms: ${checked} passed, ${problems.length} failed`)
process.exitCode = problems.length > 0 ? 1 : 0
