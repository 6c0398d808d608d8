// Which modules of the core depend on which: each on those that the table in ARCHITECTURE.md lists for it, and no two on each
// other. Which folders of the addon depend on which: each on those below it in its table. Tests may use any.
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { root } from './command.mjs'

const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
const sectionOf = (title) => page.split(/^## /m).find((text) => text.startsWith(`${title}\n`)) ?? ''
const section = sectionOf('Modules of the core')

const quoted = (text) => [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name)
const open = new Set(quoted(section.match(/[^.]*may be used by all/)?.[0] ?? ''))
const allowed = new Map()
for (const [, module, uses] of section.matchAll(/^\| `(\w+)` \|[^|]*\|([^|]*)\|$/gm)) {
  const names = uses.replace(/\([^)]*\)/g, '').split(',')
  allowed.set(module, new Set(names.map((name) => name.trim()).filter(Boolean)))
}

// The code of a file, without comments and tests.
function code(path) {
  const text = readFileSync(path, 'utf8').replace(/^\s*\/\/.*$/gm, '')
  return text.split(/^#\[cfg\((?:test|all\(test[^\n]*)\)\]\nmod \w+ \{/m)[0]
}

// The modules of `known` that a file uses: named from the root of the crate, or above its own module.
function uses(text, depth, known) {
  const found = new Set()
  for (const [, name] of text.matchAll(/\bcrate::(\w+)/g)) found.add(name)
  for (const [, names] of text.matchAll(/\bcrate::\{([^;]*)\};/g)) {
    let level = 0
    for (const [token] of names.matchAll(/\w+|[{},]|::/g)) {
      if (token === '{') level += 1
      else if (token === '}') level -= 1
      else if (level === 0 && /^\w/.test(token)) found.add(token)
    }
  }
  for (const [, supers, name] of text.matchAll(/\b((?:super::)+)(\w+)/g)) {
    if (supers.length / 'super::'.length === depth) found.add(name)
  }
  return [...found].filter((name) => known.includes(name))
}

const problems = []

// The modules of a crate that each of `modules` uses, with the files that do.
function usedIn(folder, modules, ignored) {
  const used = new Map(modules.map((module) => [module, new Map()]))
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith('.rs')) continue
    const path = join(entry.parentPath ?? entry.path, entry.name)
    const parts = relative(folder, path).replace(/\.rs$/, '').split(sep)
    const [module] = parts
    if (module === 'lib' || ignored.has(module) || parts.at(-1) === 'tests') continue
    if (!used.has(module)) {
      problems.push(`${relative(root, path)} belongs to no row of the table in ARCHITECTURE.md`)
      continue
    }
    for (const name of uses(code(path), parts.length, modules)) {
      if (name === module) continue
      const files = used.get(module)
      files.set(name, [...(files.get(name) ?? []), relative(root, path)])
    }
  }
  return used
}

let checked = 0
const used = usedIn(join(root, 'crates/core/src'), [...allowed.keys()], open)
for (const [module, others] of used) {
  for (const [other, files] of others) {
    checked += 1
    if (!allowed.get(module).has(other)) problems.push(`${module} may not use ${other}: ${files.join(', ')}`)
    if (module < other && used.get(other).has(module)) {
      problems.push(`${module} and ${other} use each other: ${[...files, ...used.get(other).get(module)].join(', ')}`)
    }
  }
}
for (const [module, others] of allowed) {
  for (const other of others) {
    if (!allowed.has(other)) problems.push(`the table lets ${module} use ${other}, which is not a module`)
    else if (module < other && allowed.get(other).has(module))
      problems.push(`the table lets ${module} and ${other} use each other`)
  }
}

// From the highest folder to the lowest.
const folders = [...sectionOf('Folders of the addon').matchAll(/^\| `src\/(\w+)\/` \|/gm)].map(([, folder]) => folder)
for (const [folder, others] of usedIn(join(root, 'src'), folders, new Set())) {
  for (const [other, files] of others) {
    checked += 1
    if (folders.indexOf(other) < folders.indexOf(folder)) {
      problems.push(`src/${folder} may not use src/${other}, which is above it: ${files.join(', ')}`)
    }
  }
}
if (folders.length === 0 || checked === 0) problems.push('the tables or the sources were not found')

for (const problem of problems) console.error(problem)
console.log(`modules: ${checked} passed, ${problems.length} failed`)
process.exitCode = problems.length > 0 ? 1 : 0
