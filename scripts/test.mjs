// `npm test`: builds, then runs every suite to its end, whatever the ones before it said, sums them up and names what failed.
// `npm test -- load remote` runs only the ava files whose paths contain one of these words, with --built on what is built.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture, root, runOrExit } from './command.mjs'

const node = process.execPath
const ava = join(root, 'node_modules/ava/entrypoints/cli.mjs')
const biome = join(root, 'node_modules/@biomejs/biome/bin/biome')
const words = process.argv.slice(2).filter((word) => word !== '--built')

const cargoCounts = /^test result: \w+\. (\d+) passed; (\d+) failed/gm
const ownCounts = /^[\w ]+: (\d+) passed, (\d+) failed$/gm
/** Names of failed tests, as cargo and ava list them. */
const failures = [/^---- (.+) stdout ----$/gm, /^ +[✘×] (?:\[fail\]: )?(.+?)(?: \([\d.ms ]+\))?$/gm]

function sum(pattern, output) {
  const counts = { passed: 0, failed: 0 }
  for (const [, passed, failed] of output.matchAll(pattern)) {
    counts.passed += Number(passed)
    counts.failed += Number(failed)
  }
  return counts
}

// ava marks each test that passes, and sums up only what did not: tests, hooks, uncaught exceptions, unhandled rejections.
function avaCounts(output) {
  const failures = output.matchAll(/^ +(\d+) (?:(?:tests?|hooks?) failed|uncaught exceptions?|unhandled rejections?)/gm)
  return {
    passed: [...output.matchAll(/^ +[✔√] /gm)].length,
    failed: [...failures].reduce((total, [, number]) => total + Number(number), 0),
  }
}

// A linter has one verdict.
const verdict = () => ({ passed: 1, failed: 0 })
const suites = [
  { name: 'format', command: ['cargo', ['fmt', '--all', '--check']], counts: verdict },
  { name: 'biome', command: [node, [biome, 'ci', '--error-on-warnings', '--colors=off']], counts: verdict },
  {
    name: 'modules',
    command: [node, ['scripts/modules.mjs']],
    counts: (output) => sum(ownCounts, output),
  },
  {
    name: 'rust',
    command: ['cargo', ['test', '--workspace', '--quiet']],
    counts: (output) => sum(cargoCounts, output),
  },
  { name: 'javascript', command: [node, [ava]], counts: avaCounts },
  { name: 'types', command: [node, ['__test__/runners/type-tests.mjs']], counts: (output) => sum(ownCounts, output) },
  {
    name: 'surface',
    command: [node, ['scripts/rollup-types.mjs', '--check']],
    counts: (output) => sum(ownCounts, output),
  },
]

/** A digest of all that the Rust tests read, and of the compiler's version. */
function rustSources() {
  const hash = createHash('sha256').update(spawnSync('rustc', ['--version', '--verbose']).stdout ?? '')
  for (const name of ['Cargo.toml', 'Cargo.lock']) hash.update(readFileSync(join(root, name)))
  for (const folder of ['crates', 'fuzz/src', '__test__/fixtures']) {
    const files = readdirSync(join(root, folder), { recursive: true, withFileTypes: true }).filter((one) =>
      one.isFile(),
    )
    for (const path of files.map((one) => join(one.parentPath ?? one.path, one.name)).sort())
      hash.update(path).update(readFileSync(path))
  }
  return hash.digest('hex')
}

/** Where the sources are noted with which the Rust tests passed last. */
const passedWith = join(root, 'build/rust-tests-passed')
function havePassed(sources) {
  try {
    return !process.env.CI && readFileSync(passedWith, 'utf8') === sources
  } catch {
    return false
  }
}

if (words.length > 0) {
  if (!process.argv.includes('--built')) runOrExit(node, ['scripts/build.mjs'])
  runOrExit(node, [ava, ...words.flatMap((word) => [`__test__/**/*${word}*`, `__test__/**/*${word}*/**`])])
  process.exit()
}

// CI tests what is published.
const published = process.platform === 'linux' ? ['--release', '--zig'] : ['--release']
runOrExit(node, ['scripts/build.mjs', ...(process.env.CI ? published : [])])

const rows = []
const failed = []
const sources = rustSources()
for (const { name, command, counts } of suites) {
  console.log(`\n# ${name}`)
  if (name === 'rust' && havePassed(sources)) {
    console.log('not run: nothing changed since these tests passed')
    continue
  }
  const started = performance.now()
  const { status, output } = await capture(...command, { echo: true })
  const seconds = Math.round((performance.now() - started) / 1000)
  const { passed, failed: said } = counts(output)
  // A suite that died without a word, or that ran nothing, has failed too.
  const row = { name, passed, failed: status !== 0 || passed === 0 ? Math.max(said, 1) : said, seconds }
  rows.push(row)
  if (row.failed > 0)
    failed.push(
      ...new Set(failures.flatMap((pattern) => Array.from(output.matchAll(pattern), ([, one]) => `${name}: ${one}`))),
    )
  else if (name === 'rust') {
    mkdirSync(join(root, 'build'), { recursive: true })
    writeFileSync(passedWith, sources)
  }
}

console.log()
for (const { name, passed, failed, seconds } of rows)
  console.log(`${name.padEnd(12)}${passed} passed, ${failed} failed, ${seconds} s`)
for (const one of failed) console.log(`failed      ${one}`)
const total = (key) => rows.reduce((sum, row) => sum + row[key], 0)
console.log(`npm test: ${total('passed')} passed, ${total('failed')} failed`)
process.exitCode = total('failed') > 0 ? 1 : 0
