// The command rewrites phrases of the library's messages that name options of JavaScript. Each phrase must be one that a message has.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'

const root = fileURLToPath(new URL('../../', import.meta.url))

function* sources(folder, ending) {
  for (const name of readdirSync(join(root, folder), { recursive: true }))
    if (name.endsWith(ending)) yield readFileSync(join(root, folder, name), 'utf8')
}

/** All text of the sources, as messages have it: continued lines of Rust joined, braces not doubled. */
const text = [
  ...['crates/core/src', 'crates/import/src', 'crates/remote/src'].flatMap((folder) => [...sources(folder, '.rs')]),
  ...sources('lib', '.ts'),
]
  .join('\n')
  .replaceAll(/\\\n\s*/g, '')
  .replaceAll('{{', '{')
  .replaceAll('}}', '}')

const table = readFileSync(join(root, 'cli/failure.ts'), 'utf8')
const phrases = [...table.matchAll(/^ {2}\[\/(.*)\/, /gm)].map(([, pattern]) => pattern)

test('the table is found', (t) => t.true(phrases.length > 5))

for (const pattern of phrases) {
  test(`a message has: ${pattern}`, (t) => t.regex(text, new RegExp(pattern)))
}
