// `npm run types`: rolls the public types of each entry into a file, such as index.d.ts, which is committed so that a change of the
// surface shows in review. `--check` changes nothing and fails with the difference.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateDtsBundle } from 'dts-bundle-generator'
import ts from 'typescript'
import { root } from './command.mjs'
import { ENTRIES } from './entries.mjs'

const banner = (name) =>
  `// The public types of ztensor, rolled up from ${name}.ts by \`npm run types\`. Not edited by hand.\n`

/** What the main entry may export, so that the reference stays readable. */
const MAX_EXPORTS = 95

const bundles = generateDtsBundle(
  ENTRIES.map((name) => ({
    filePath: join(root, `${name}.ts`),
    output: { noBanner: true, exportReferencedTypes: false },
  })),
  { preferredConfigPath: join(root, 'tsconfig.types.json') },
)

// URL, AbortSignal and Symbol.dispose are Node's: since TypeScript 6 a consumer sees them only if it refers to them.
const reference = '/// <reference types="node" />\n'

// The build adds the default export, too (`bundle.mjs`, `build.mjs`).
const all = `
/** All exports of the package, for \`import ztensor from 'ztensor'\`. */
declare const ztensor: typeof import("./index.js");
export default ztensor;
`

/** The statements of a file of types, by the names that they declare; and the names that it exports. */
function declarations(text) {
  const source = ts.createSourceFile('types.d.ts', text, ts.ScriptTarget.Latest, true)
  const exported = new Set()
  const declared = new Map()
  for (const statement of source.statements) {
    if (ts.isExportDeclaration(statement)) {
      for (const { name } of statement.exportClause?.elements ?? []) exported.add(name.text)
      continue
    }
    const names = ts.isVariableStatement(statement)
      ? statement.declarationList.declarations.map(({ name }) => name.text)
      : [statement.name?.text].filter((name) => name !== undefined)
    for (const name of names) declared.set(name, [...(declared.get(name) ?? []), statement])
    if (statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword))
      for (const name of names) exported.add(name)
  }
  return { source, exported, declared }
}

/** The names that a statement mentions. */
function mentioned(statement) {
  const names = new Set()
  const visit = (node) => {
    // The name of a property or a parameter refers to nothing.
    const isOwn = node.parent?.name === node && node.parent !== statement
    if (ts.isIdentifier(node) && !isOwn) names.add(node.text)
    ts.forEachChild(node, visit)
  }
  visit(statement)
  return names
}

/**
 * The types of another entry. What the main entry exports is imported from there, because a class that is declared twice has two types;
 * everything else that the exports need is declared.
 */
function withoutShared(text, shared) {
  const { source, exported, declared } = declarations(text)
  const [kept, imported] = [new Set(), new Set()]
  const left = Array.from(exported)
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (shared.has(name)) imported.add(name)
    else
      for (const statement of declared.get(name) ?? []) {
        if (kept.has(statement)) continue
        kept.add(statement)
        for (const other of mentioned(statement)) if (declared.has(other)) left.push(other)
      }
  }
  const twice = Array.from(exported).filter((name) => shared.has(name))
  if (twice.length > 0) throw new Error(`exported twice: ${twice.join(', ')}`)
  const used = new Set(Array.from(kept).flatMap((statement) => Array.from(mentioned(statement))))
  const isUsed = (statement) =>
    ts.isImportDeclaration(statement) &&
    statement.importClause?.namedBindings?.elements?.some(({ name }) => used.has(name.text))
  const statements = source.statements.filter((statement) => kept.has(statement) || isUsed(statement))
  const own = statements.map((statement) => statement.getFullText().replace(/^\n+/, '').trimEnd())
  const from = `import type { ${Array.from(imported).sort().join(', ')} } from './index.js'`
  return `${reference}\n${from}\n${own.join('\n\n')}\n\nexport {}\n`
}

const [index, ...others] = bundles
const outputs = {
  'index.d.ts': `${banner('index')}\n${index.includes(reference) ? '' : `${reference}\n`}${index}${all}`,
  'index.d.mts': `${banner('index')}\nexport * from './index.js'\nexport { default } from './index.js'\n`,
}
const shared = declarations(index).exported
if (shared.size > MAX_EXPORTS)
  throw new Error(
    `the main entry exports ${shared.size} names, more than ${MAX_EXPORTS}: programs seldom name the types of options`,
  )
for (const [at, text] of others.entries()) {
  const name = ENTRIES[at + 1]
  outputs[`${name}.d.ts`] = `${banner(name)}\n${withoutShared(text, shared)}`
  outputs[`${name}.d.mts`] = `${banner(name)}\nexport * from './${name}.js'\n`
}

function committed(name) {
  try {
    return readFileSync(join(root, name), 'utf8').replaceAll('\r\n', '\n')
  } catch {
    return ''
  }
}

if (process.argv.includes('--check')) {
  const fresh = join(root, 'build/types')
  mkdirSync(fresh, { recursive: true })
  const changed = Object.entries(outputs).filter(([name, text]) => committed(name) !== text)
  for (const [name, text] of changed) {
    writeFileSync(join(fresh, name), text)
    spawnSync('git', ['--no-pager', 'diff', '--no-index', '--', name, join('build/types', name)], {
      cwd: root,
      stdio: 'inherit',
    })
  }
  if (changed.length > 0)
    console.error('The public types differ from what is committed: run `npm run types` and commit.')
  console.log(`types: ${Object.keys(outputs).length - changed.length} passed, ${changed.length} failed`)
  process.exitCode = changed.length > 0 ? 1 : 0
} else {
  for (const [name, text] of Object.entries(outputs)) writeFileSync(join(root, name), text)
}
