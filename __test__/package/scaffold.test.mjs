// `npm run new` finds everything that a format, a codec and an architecture change.
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import test from 'ava'
import { add } from '../../scripts/new.mjs'

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
const OF_CALLS = [
  'crates/core/src/analysis.rs',
  'src/read.rs',
  'lib/read/tensor.ts',
  'lib/native/channels.ts',
  '__test__/calls/arguments-rest.test.mjs',
  '__test__/calls/signals.test.mjs',
  '__test__/calls/progress.test.mjs',
  '__test__/memory/drain.test.mjs',
  '__test__/runners/panic-tests.mjs',
]
const OTHERS = [
  'crates/core/src/codecs.rs',
  'crates/gguf/src/checkpoint.rs',
  'docs/guide/gguf.md',
  'interop/checkpoints.py',
]
const root = new URL('../../', import.meta.url)
const addFormat = (...args) => add(args[0], 'format', ...args.slice(1)).paths

function copied(t) {
  const folder = mkdtempSync(join(tmpdir(), 'ztensor-scaffold-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const path of [...CHANGED, ...OF_CALLS, ...OTHERS, 'lib/values/format-table.ts', 'fuzz/fuzz_targets'])
    cpSync(new URL(path, root), join(folder, path), { recursive: true })
  return folder
}

test('creates the files of a format, and adds it to all files that list formats', (t) => {
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
      'docs/formats',
    ]),
  )
  t.notThrows(() => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')))
  t.throws(() => addFormat(folder, 'scaffolded'), { message: /scaffolded\.rs exists/ })
})

test('writes nothing if a list of formats is not found, or the name cannot be used', (t) => {
  const folder = copied(t)
  for (const [name, message, title] of [
    ...['Toy', '', 'a', 'a-b', '../x', 'x'.repeat(17)].map((name) => [name, /^a format is named like "gguf"/]),
    ...['match', 'type', 'self', 'core'].map((name) => [name, /^\w+ cannot name a module: Rust reserves it/]),
    ...['gguf', 'pth', 'zt'].map((name) => [name, /^\w+ is the name or a file extension of an existing format/]),
    ['zstd', /^fuzz\/fuzz_targets\/zstd\.rs exists/],
    ['scaffolded', /^a title is like "NumPy npy"/, 'a "title"'],
  ])
    t.throws(() => addFormat(folder, name, title), { message }, name)
  rmSync(join(folder, 'README.md'))
  t.throws(() => addFormat(folder, 'scaffolded'), { code: 'ENOENT' })
  t.notRegex(readFileSync(join(folder, 'package.json'), 'utf8'), /scaffolded/)
})

test('creates a call from the core to the wrapper, and adds it to the tables of the tests', (t) => {
  const folder = copied(t)
  const paths = add(folder, 'call', 'scaffolded').paths
  t.deepEqual(paths, [
    ...OF_CALLS,
    'crates/core/src/analysis/scaffolded.rs',
    'src/read/scaffolded.rs',
    'lib/read/scaffolded.ts',
    '__test__/analysis/scaffolded.test.mjs',
  ])
  for (const path of paths) t.regex(readFileSync(join(folder, path), 'utf8'), /scaffolded/, path)
  for (const name of ['Toy', '', 'a-b', 'match'])
    t.throws(() => add(folder, 'call', name), { message: /^a call|^match/ })
})

test('creates a codec with its row', (t) => {
  const folder = copied(t)
  const module = 'crates/core/src/codecs/scaffolded.rs'
  t.deepEqual(add(folder, 'codec', 'scaffolded').paths, ['crates/core/src/codecs.rs', module])
  t.regex(
    readFileSync(join(folder, 'crates/core/src/codecs.rs'), 'utf8'),
    /pub mod scaffolded;[\s\S]*name: "scaffolded"/,
  )
  t.throws(() => add(folder, 'codec', 'scaffolded'), { message: /scaffolded\.rs exists/ })
  for (const name of ['Toy', 'match', ''])
    t.throws(() => add(folder, 'codec', name), { message: /named like|reserves/ })
})

test('creates an architecture with its row, its page and its checkpoint', (t) => {
  const folder = copied(t)
  const { paths } = add(folder, 'architecture', 'scaffolded', 'ScaffoldedForCausalLM')
  const module = 'crates/gguf/src/checkpoint/scaffolded.rs'
  t.deepEqual(paths, [...OTHERS.slice(1), module])
  for (const path of paths) t.regex(readFileSync(join(folder, path), 'utf8'), /scaffolded/i, path)
  for (const names of [['Toy', 'ToyModel'], ['toy', 'toy'], ['toy']])
    t.throws(() => add(folder, 'architecture', ...names), {
      message: /is named as in llama\.cpp|is that of "architectures"/,
    })
})
