// The mutants of cargo-mutants, all built into one copy of the core, each behind a switch (`mutants/`).
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { root, runOrExit } from '../command.mjs'

export const build = join(root, 'build/mutants')
export const tree = join(build, 'tree')
const target = ['--target-dir', join(build, 'target')]
const sources = join(tree, 'crates/core/src')
// The tests run each of the copy's lines many times, and it is built once.
const env = { ...process.env, CARGO_PROFILE_DEV_OPT_LEVEL: '1' }

export const json = (path) => JSON.parse(readFileSync(path, 'utf8'))
export const hash = (...texts) => texts.reduce((state, text) => state.update(text), createHash('sha256')).digest('hex')

export function output(program, args, options = {}) {
  return spawnSync(program, args, { cwd: tree, env, encoding: 'utf8', maxBuffer: 2 ** 30, ...options })
}

/** A source without its tests, which change no mutant. */
function withoutTests(file) {
  return readFileSync(join(root, file), 'utf8').split(/^#\[cfg\((?:all\()?test\b.*\]\n(?:#.*\n)*mod /m)[0]
}

/** Whether a mutant changes a test: cargo-mutants takes those of one system alone for code. */
export function isOfTests({ file, line }) {
  return line >= withoutTests(file).split('\n').length
}

/** All mutants. `name` holds no line, so that it lasts when other lines of its file change: the text of its line stands for it. */
export function list() {
  if (output('cargo', ['mutants', '--version'], { cwd: root }).status !== 0) {
    console.error('cargo-mutants not found: cargo install cargo-mutants')
    process.exit(1)
  }
  const { stdout } = output('cargo', ['mutants', '--list', '--json', '-p', 'ztensor-core'], { cwd: root })
  const seen = new Map()
  const lines = new Map()
  return JSON.parse(stdout).map(({ file, genre, name, replacement, span }) => {
    if (!lines.has(file)) lines.set(file, readFileSync(join(root, file), 'utf8').split('\n'))
    const { line } = span.start
    const change = name.replace(/^.*?:\d+:\d+: /, '')
    const text = `${file}: ${change} at ${lines.get(file)[line - 1].trim()}`
    const times = (seen.get(text) ?? 0) + 1
    seen.set(text, times)
    return { file, line, genre, replacement, span, change, name: times === 1 ? text : `${text} (${times})` }
  })
}

/** What a verdict depends on apart from the tests: the file that the mutant is in. */
export function codeOf(mutants) {
  return new Map([...new Set(mutants.map(({ file }) => file))].map((file) => [file, hash(withoutTests(file))]))
}

/** Copies what git knows and what is not the same there, so that the switches never reach the checkout. */
function copyTree() {
  const { stdout } = output('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root })
  const files = stdout.split('\0').filter((file) => file !== '' && existsSync(join(root, file)))
  for (const file of files.filter((file) => !file.startsWith('crates/core/src/'))) {
    const [from, to] = [join(root, file), join(tree, file)]
    if (existsSync(to) && readFileSync(from).equals(readFileSync(to))) continue
    mkdirSync(dirname(to), { recursive: true })
    cpSync(from, to, { preserveTimestamps: true })
  }
  const modules = join(tree, 'node_modules')
  if (!existsSync(modules)) symlinkSync(join(root, 'node_modules'), modules, 'junction')
  const core = files.filter((file) => file.startsWith('crates/core/src/') || file.startsWith('mutants/'))
  return hash(...core.flatMap((file) => [file, readFileSync(join(root, file))]))
}

const LIB = join(sources, 'lib.rs')

function buildIn(skip) {
  rmSync(sources, { recursive: true, force: true })
  cpSync(join(root, 'crates/core/src'), sources, { recursive: true })
  writeFileSync(join(tree, 'skip.json'), JSON.stringify(skip))
  runOrExit('cargo', ['run', '--quiet', '--release', '--manifest-path', 'mutants/Cargo.toml', '--', tree])
  cpSync(join(root, 'mutants/switch.rs'), join(sources, 'mutant.rs'))
}

/** Writes the first lines of the copy, which lift the lints that a mutant may break. */
function begin(text, ...denied) {
  const lints = '#![allow(warnings, arithmetic_overflow, unconditional_panic, unconditional_recursion)]'
  const first = [lints, ...denied.map((lint) => `#![deny(${lint})]`)].join('\n')
  writeFileSync(LIB, `${text.replace(/^pub mod/m, `${first}\npub mod`)}\npub mod mutant;\n`)
}

/** The numbers of the switches that an error points at. */
function pointedAt({ spans, children }) {
  const all = [...spans, ...children.flatMap(({ spans }) => spans)]
  const primary = all.filter(({ is_primary }) => is_primary)
  const ids = []
  for (const { text } of primary.length > 0 ? primary : all) {
    for (const { text: line, highlight_end } of text) {
      const at = line.slice(0, highlight_end).lastIndexOf('mutant::on')
      const found = at < 0 ? line.matchAll(/mutant::on\((\d+)\)/g) : [/mutant::on\((\d+)\)/.exec(line.slice(at))]
      ids.push(...[...found].map(([, id]) => Number(id)))
    }
  }
  return ids
}

/** What was built last, with the mutants and the code that they were of. */
export function builtLast() {
  return json(join(build, 'instrumented.json'))
}

/**
 * Builds in all mutants but those that do not compile, which it finds by leaving out whatever the compiler points at. A mutant's
 * number is its place in the list, from 1 on. Returns the numbers of those that do not compile, and of those that are switched.
 * The others are in constants, which the compiler computes, or in code of other systems.
 */
export function instrument(mutants) {
  mkdirSync(tree, { recursive: true })
  const state = hash(copyTree(), JSON.stringify(mutants))
  const done = join(build, 'instrumented.json')
  if (existsSync(done) && json(done).state === state) return json(done)
  rmSync(done, { force: true })
  writeFileSync(join(tree, 'mutants.json'), JSON.stringify(mutants))
  const known = join(build, 'uncompilable.json')
  const names = new Set(existsSync(known) ? json(known) : [])
  const skip = mutants.flatMap(({ name }, at) => (names.has(name) ? [at + 1] : []))
  for (;;) {
    buildIn(skip)
    const lib = readFileSync(LIB, 'utf8')
    begin(lib, 'deprecated')
    const check = ['check', '-p', 'ztensor-core', '--lib', ...target]
    const { stdout } = output('cargo', [...check, '--message-format=json'])
    const errors = stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).message)
      .filter((message) => message?.level === 'error')
    const isUse = ({ code }) => code?.code === 'deprecated'
    const wrong = new Set(errors.filter((error) => !isUse(error)).flatMap(pointedAt))
    const fresh = [...wrong].filter((id) => !skip.includes(id))
    if (fresh.length > 0) {
      skip.push(...fresh)
      console.log(`${fresh.length} mutants do not compile`)
      continue
    }
    begin(lib)
    if (output('cargo', check).status !== 0) {
      console.error(output('cargo', check).stderr.slice(-4000))
      throw new Error('the copy does not compile, and no mutant is to blame')
    }
    writeFileSync(known, JSON.stringify(skip.map((id) => mutants[id - 1].name)))
    const compiled = new Set(errors.filter(isUse).flatMap(pointedAt))
    const built = json(join(tree, 'built.json'))
    const foreign = built.filter((id) => !compiled.has(id))
    const code = Object.fromEntries(codeOf(mutants))
    const outcome = { state, skip, built: built.filter((id) => compiled.has(id)), foreign, code, mutants }
    writeFileSync(done, JSON.stringify(outcome))
    return outcome
  }
}

/** Builds the Rust tests. Returns `{ name, program }` of each of their programs. */
export function buildTests() {
  const test = [
    'test',
    '-p',
    'ztensor-core',
    '-p',
    'ztensor-import',
    '--lib',
    '--tests',
    '--no-run',
    '--message-format=json',
  ]
  const { status, stdout, stderr } = output('cargo', [...test, ...target])
  if (status !== 0) throw new Error(stderr)
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
    .flatMap(({ executable, target }) => (executable ? [{ name: target.name, program: executable }] : []))
}

/** Builds the addon and the wrapper, which the ava files use. */
export function buildAddon() {
  const { status, stdout, stderr } = output(process.execPath, [join(tree, 'scripts/build.mjs'), '--debug', ...target])
  if (status !== 0) throw new Error(`${stdout}${stderr}`)
}
