// `npm run new -- format NAME [TITLE]`, `-- call NAME`, `-- codec NAME`, `-- architecture NAME CLASS`: everything that a new one needs, as a
// small example that compiles and passes its tests. Replace its rules by the real ones, file by file. Nothing is written unless everything to change was found.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { root as repository } from './command.mjs'
import { architecture } from './new/architecture.mjs'
import { call } from './new/call.mjs'
import { codec } from './new/codec.mjs'
import { format } from './new/format.mjs'

const KINDS = { format, call, codec, architecture }

/**
 * Adds something of a kind to the repository at `root`. Returns `{ paths, next }`: the paths that it wrote, and what to run next. Throws
 * before it writes if a name cannot be used, or a text to change is not found.
 */
export function add(root, kind, ...names) {
  const { created, changed, next } = KINDS[kind](root, ...names)
  const texts = new Map()
  for (const [path, pattern, replace] of changed) {
    const text = texts.get(path) ?? readFileSync(join(root, path), 'utf8')
    if (!pattern.test(text)) throw new Error(`${path} is not as expected: ${pattern} does not match`)
    texts.set(path, text.replace(pattern, replace))
  }
  for (const [path, content] of Object.entries(created)) {
    if (existsSync(join(root, path))) throw new Error(`${path} exists: choose another name, or remove it`)
    texts.set(path, content)
  }
  for (const [path, content] of texts) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), content)
  }
  return { paths: [...texts.keys()], next }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [kind, ...names] = process.argv.slice(2)
  if (!Object.hasOwn(KINDS, kind ?? '') || names.length === 0) {
    console.error('usage: npm run new -- format NAME [TITLE] | call NAME | codec NAME | architecture NAME CLASS')
    process.exit(1)
  }
  try {
    const { paths, next } = add(repository, kind, ...names)
    for (const path of paths) console.log(path)
    console.log(`\nNext:\n${next}`)
  } catch (error) {
    console.error(error.message)
    process.exit(1)
  }
}
