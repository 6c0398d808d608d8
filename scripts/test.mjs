// `npm test`: builds, then runs every suite to its end even if one fails, sums them up and names failed tests.
// `npm test -- load remote` runs only the ava files whose paths contain one of these words. `--built` tests what is built.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture, root, runOrExit } from './command.mjs'
import { hostTarget } from './target.mjs'

const node = process.execPath
const ava = join(root, 'node_modules/ava/entrypoints/cli.mjs')
const biome = join(root, 'node_modules/@biomejs/biome/bin/biome')
const words = process.argv.slice(2).filter((word) => word !== '--built')
const isBuilt = process.argv.includes('--built')

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

// ava marks each test that passes, and counts only failures: tests, hooks, uncaught exceptions, unhandled rejections.
function avaCounts(output) {
  const failures = output.matchAll(/^ +(\d+) (?:(?:tests?|hooks?) failed|uncaught exceptions?|unhandled rejections?)/gm)
  return {
    passed: [...output.matchAll(/^ +[✔√] /gm)].length,
    failed: [...failures].reduce((total, [, number]) => total + Number(number), 0),
  }
}

// A linter has one verdict.
const verdict = () => ({ passed: 1, failed: 0 })
const ownCount = (output) => sum(ownCounts, output)
/** Suites that read the sources alone: they run beside the compiler. */
const ofSources = [
  { name: 'format', command: ['cargo', ['fmt', '--all', '--check']], counts: verdict },
  { name: 'biome', command: [node, [biome, 'ci', '--error-on-warnings', '--colors=off']], counts: verdict },
  { name: 'modules', command: [node, ['scripts/modules.mjs']], counts: ownCount },
  // The spelling needs a program that npm does not install: `npm run lint` and CI check it.
  { name: 'words', command: [node, ['scripts/words.mjs', '--phrases']], counts: ownCount },
  {
    name: 'types',
    command: [node, ['__test__/runners/type-tests.mjs', ...(process.env.CI ? ['--all'] : [])]],
    counts: ownCount,
  },
  { name: 'surface', command: [node, ['scripts/rollup-types.mjs', '--check']], counts: ownCount },
]
/**
 * The tests that `build.mjs --tests` has compiled, or in CI the step before, with lints (.ci/run). The same packages, profile and target
 * give the same features, so that cargo compiles nothing again.
 */
function cargoTest(kind) {
  const features = process.env.CI ? ['--features', 'ztensor-node/fault-injection'] : []
  return {
    command: [
      'cargo',
      ['test', '--workspace', kind, '--quiet', '--profile', 'quick', '--target', hostTarget, ...features],
    ],
    env: process.env.CI ? { RUSTC_WORKSPACE_WRAPPER: 'clippy-driver' } : {},
    counts: (output) => sum(cargoCounts, output),
  }
}
const rust = [
  { name: 'rust', ...cargoTest('--tests') },
  { name: 'rust docs', ...cargoTest('--doc') },
]
const javascript = { name: 'javascript', command: [node, [ava]], counts: avaCounts }

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
  if (!isBuilt) runOrExit(node, ['scripts/build.mjs'])
  const files = words.flatMap((word) => [`__test__/**/*${word}*`, `__test__/**/*${word}*/**`])
  const { status, output } = await capture(node, [ava, ...files], { echo: true })
  const { passed, failed } = avaCounts(output)
  console.log(`npm test: ${passed} passed, ${failed} failed`)
  process.exit(status)
}

const rows = []
const failed = []

/** Runs a suite and adds its row. Prints the output as it comes with `echo`, otherwise when the suite ends. */
async function run({ name, command, env, counts }, { echo }) {
  const started = performance.now()
  if (echo) console.log(`\n# ${name}`)
  const { status, output } = await capture(...command, { echo, env: { ...process.env, ...env } })
  const seconds = Math.round((performance.now() - started) / 1000)
  if (!echo) console.log(`\n# ${name}\n${output.trimEnd()}`)
  const { passed, failed: counted } = counts(output)
  // A suite that ended early, or that ran nothing, has failed too.
  const row = { name, passed, failed: status !== 0 || passed === 0 ? Math.max(counted, 1) : counted, seconds }
  rows.push(row)
  if (row.failed === 0) return true
  const names = failures.flatMap((pattern) => Array.from(output.matchAll(pattern), ([, one]) => `${name}: ${one}`))
  failed.push(...new Set(names))
  return false
}

async function runAll(suites, options) {
  let passed = true
  for (const suite of suites) passed = (await run(suite, options)) && passed
  return passed
}

const sources = rustSources()
const skipsRust = havePassed(sources)
async function runRust() {
  if (skipsRust) return console.log('\n# rust\nnot run: nothing changed since these tests passed')
  if (!(await runAll(rust, { echo: true }))) return
  mkdirSync(join(root, 'build'), { recursive: true })
  writeFileSync(passedWith, sources)
}

// CI tests the published build, and has compiled the Rust tests before.
const published = process.platform === 'linux' ? ['--release', '--zig'] : ['--release']
const build = ['scripts/build.mjs', ...(process.env.CI ? published : skipsRust ? [] : ['--tests'])]
const linted = runAll(ofSources, { echo: false })
if (isBuilt || (await run({ name: 'build', command: [node, build], counts: verdict }, { echo: true }))) {
  // One after the other: each uses all cores.
  await runRust()
  await run(javascript, { echo: true })
}
await linted

console.log()
for (const { name, passed, failed, seconds } of rows)
  console.log(`${name.padEnd(12)}${passed} passed, ${failed} failed, ${seconds} s`)
for (const one of failed) console.log(`failed      ${one}`)
const total = (key) => rows.reduce((sum, row) => sum + row[key], 0)
console.log(`npm test: ${total('passed')} passed, ${total('failed')} failed`)
process.exitCode = total('failed') > 0 ? 1 : 0
