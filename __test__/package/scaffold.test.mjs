// `npm run new -- format NAME` finds everything that a format changes.
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import test from 'ava'
import { addFormat } from '../../scripts/new.mjs'

const CHANGED = [
  'crates/import/src/lib.rs',
  '__test__/helpers/mutated-files.mjs',
  'fuzz/Cargo.toml',
  'fuzz/seeds.mjs',
  '.github/workflows/campaigns.yml',
  'docs/formats.md',
  'README.md',
  'package.json',
]
const root = new URL('../../', import.meta.url)

function copied(t) {
  const folder = mkdtempSync(join(tmpdir(), 'ztensor-scaffold-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const path of [...CHANGED, 'lib/values/format-table.ts', 'fuzz/fuzz_targets'])
    cpSync(new URL(path, root), join(folder, path), { recursive: true })
  return folder
}

test('a format gets its files, and a mention in all files that list formats', (t) => {
  const folder = copied(t)
  const paths = addFormat(folder, 'scaffolded', 'Scaffolded')
  for (const path of paths) t.regex(readFileSync(join(folder, path), 'utf8'), /scaffold/i, path)
  t.deepEqual(
    paths.filter((path) => CHANGED.includes(path)),
    CHANGED,
  )
  t.deepEqual(
    new Set(paths.filter((path) => !CHANGED.includes(path)).map(dirname)),
    new Set([
      'crates/import/src',
      '__test__/corpus',
      '__test__/formats',
      '__test__/fixtures/scaffolded',
      'fuzz/fuzz_targets',
    ]),
  )
  t.notThrows(() => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')))
  t.throws(() => addFormat(folder, 'scaffolded'), { message: /scaffolded\.rs exists/ })
})

test('nothing is written if a list of formats is not found, or the name cannot be used', (t) => {
  const folder = copied(t)
  for (const [name, message, title] of [
    ...['Toy', '', 'a', 'a-b', '../x', 'x'.repeat(17)].map((name) => [name, /^a format is named like "gguf"/]),
    ...['match', 'type', 'self', 'core'].map((name) => [name, /^\w+ cannot name a module: Rust reserves it/]),
    ...['gguf', 'pth', 'zt'].map((name) => [name, /^\w+ is the name or a file extension of a format/]),
    ['zstd', /^fuzz\/fuzz_targets\/zstd\.rs exists/],
    ['scaffolded', /^a title is like "NumPy npy"/, 'a "title"'],
  ])
    t.throws(() => addFormat(folder, name, title), { message }, name)
  rmSync(join(folder, 'README.md'))
  t.throws(() => addFormat(folder, 'scaffolded'), { code: 'ENOENT' })
  t.notRegex(readFileSync(join(folder, 'package.json'), 'utf8'), /scaffolded/)
})
