// `npm run test:mutants`: whether a test fails when the core is changed. The mutants are those of cargo-mutants (`cargo install
// cargo-mutants`): all of the rooms named by --whole (sink, write, source and codec unless said) and every twentieth of the
// others (--every N). All of them are built into one copy of the core, each behind a switch (`mutants/`), so that a mutant costs
// a run of the tests that reach it and no build. The Rust tests judge first, then the ava files, until one fails.
//   --whole a,b     the modules of crates/core/src of which every mutant is tried
//   --every N       one of N of all the others; 0 for none
//   --rust          the Rust tests alone
//   --jobs N        judges at the same time
// What was judged is kept in build/mutants/verdicts.json: a run that was stopped goes on, a changed tree begins anew.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { root, runOrExit } from './command.mjs'

const { values } = parseArgs({
  options: {
    whole: { type: 'string', default: 'sinks,write,sources,codecs' },
    every: { type: 'string', default: '20' },
    rust: { type: 'boolean', default: false },
    jobs: { type: 'string', default: String(availableParallelism()) },
  },
})
const build = join(root, 'build/mutants')
const tree = join(build, 'tree')
const json = (path) => JSON.parse(readFileSync(path, 'utf8'))

function output(program, args, options = {}) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: tree,
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
    ...options,
  })
  return { status, stdout, stderr }
}

/** The mutants to try. Whether a module is tried whole is told by the first part of its path. */
function sample() {
  if (output('cargo', ['mutants', '--version'], { cwd: root }).status !== 0) {
    console.error('cargo-mutants not found: cargo install cargo-mutants')
    process.exit(1)
  }
  const listed = JSON.parse(
    output('cargo', ['mutants', '--list', '--json', '-p', 'ztensor-core'], { cwd: root }).stdout,
  )
  const whole = new Set(values.whole.split(','))
  const every = Number(values.every)
  const room = ({ file }) => file.replace('crates/core/src/', '').split('/')[0].replace('.rs', '')
  const others = listed.filter((mutant) => !whole.has(room(mutant)))
  const some = new Set(others.filter((_, at) => every > 0 && at % every === 0))
  return listed
    .filter((mutant) => whole.has(room(mutant)) || some.has(mutant))
    .filter(({ genre, name }) => genre !== 'FnValue' || !name.includes('-> impl ')) // one type, so that no switch can choose
    .map(({ file, genre, name, replacement, span }) => ({ file, genre, name, replacement, span }))
}

/** Copies what git knows, so that the switches never reach the checkout. */
function copyTree() {
  rmSync(tree, { recursive: true, force: true })
  const files = output('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root }).stdout
  for (const file of files.split('\0').filter((file) => file !== '' && existsSync(join(root, file)))) {
    mkdirSync(dirname(join(tree, file)), { recursive: true })
    cpSync(join(root, file), join(tree, file))
  }
  const modules = join(tree, 'node_modules')
  if (!existsSync(modules)) symlinkSync(join(root, 'node_modules'), modules, 'junction')
}

const sources = join(tree, 'crates/core/src')
const pristine = join(build, 'pristine')

function buildIn(skip) {
  rmSync(sources, { recursive: true, force: true })
  cpSync(pristine, sources, { recursive: true })
  writeFileSync(join(tree, 'skip.json'), JSON.stringify(skip))
  runOrExit('cargo', ['run', '--quiet', '--release', '--manifest-path', 'mutants/Cargo.toml', '--', tree])
  cpSync(join(root, 'mutants/switch.rs'), join(sources, 'mutant.rs'))
  const lib = readFileSync(join(sources, 'lib.rs'), 'utf8')
  const allowed = '#![allow(warnings, arithmetic_overflow, unconditional_panic, unconditional_recursion)]'
  writeFileSync(join(sources, 'lib.rs'), `${lib.replace(/^pub mod/m, `${allowed}\npub mod`)}\npub mod mutant;\n`)
}

const target = ['--target-dir', join(build, 'target')]

/** Builds all mutants in but those that do not compile, which it finds by leaving out whatever the compiler points at. */
function instrument() {
  const skip = []
  for (;;) {
    buildIn(skip)
    const { status, stdout } = output('cargo', [
      'check',
      '-p',
      'ztensor-core',
      '--lib',
      '--message-format=json',
      ...target,
    ])
    if (status === 0) return { skip, built: json(join(tree, 'built.json')) }
    const wrong = new Set()
    for (const line of stdout.split('\n').filter(Boolean)) {
      const { message } = JSON.parse(line)
      if (message?.level !== 'error') continue
      const spans = [message, ...message.children].flatMap(({ spans }) => spans)
      const told = spans.filter(({ is_primary }) => is_primary)
      for (const { text } of told.length > 0 ? told : spans) {
        const marked = text.map(({ text, highlight_start, highlight_end }) => [
          text,
          text.slice(0, highlight_end).lastIndexOf('mutant::on('),
          highlight_start,
        ])
        for (const [line, at] of marked) {
          if (at >= 0) wrong.add(Number(/\d+/.exec(line.slice(at))[0]))
          else for (const [, id] of line.matchAll(/mutant::on\((\d+)\)/g)) wrong.add(Number(id))
        }
      }
    }
    const fresh = [...wrong].filter((id) => !skip.includes(id))
    if (fresh.length === 0) {
      console.error(output('cargo', ['check', '-p', 'ztensor-core', '--lib', ...target]).stderr.slice(-4000))
      throw new Error('the copy does not compile, and no mutant is to blame')
    }
    skip.push(...fresh)
    console.log(`${fresh.length} mutants do not compile`)
  }
}

/** Runs a program. Resolves its status, null when it took longer than `limit` milliseconds. */
function run(program, args, env, limit) {
  return new Promise((resolve) => {
    const scratch = join(build, 'scratch', String(Math.random()).slice(2))
    mkdirSync(scratch, { recursive: true })
    const child = spawn(program, args, {
      cwd: tree,
      env: { ...process.env, TMPDIR: scratch, RUST_BACKTRACE: '0', ...env },
      stdio: 'ignore',
      detached: true,
    })
    const timer = setTimeout(() => {
      try {
        process.kill(-child.pid, 'SIGKILL')
      } catch {}
    }, limit)
    child.on('close', (status) => {
      clearTimeout(timer)
      try {
        process.kill(-child.pid, 'SIGKILL') // children that it left behind
      } catch {}
      rmSync(scratch, { recursive: true, force: true })
      resolve(status)
    })
  })
}

const ava = join(root, 'node_modules/ava/entrypoints/cli.mjs')

/** Every judge: `{ name, program, args, took, reached }`. One that fails without a mutant is told of and judges nothing. */
async function judges() {
  const found = []
  const built = output('cargo', [
    'test',
    '-p',
    'ztensor-core',
    '--lib',
    '--tests',
    '--no-run',
    '--message-format=json',
    ...target,
  ])
  if (built.status !== 0) throw new Error(built.stderr)
  for (const line of built.stdout.split('\n').filter(Boolean)) {
    const { executable, target: of } = JSON.parse(line)
    if (!executable) continue
    const { stdout } = output(executable, ['--list', '--format', 'terse'])
    for (const [, test] of stdout.matchAll(/^(.+): test$/gm)) {
      found.push({ name: `${of.name}::${test}`, program: executable, args: ['--exact', test], test })
    }
  }
  if (!values.rust) {
    const files = output('git', ['ls-files', '__test__/*.test.mjs', '__test__/**/*.test.mjs'], { cwd: root }).stdout
    for (const file of new Set(files.split('\n').filter(Boolean))) {
      found.push({ name: file, program: process.execPath, args: [ava, '--fail-fast', file] })
    }
  }
  const able = []
  const reachedBy = join(tmpdir(), `ztensor-mutants-${process.pid}`)
  for (const judge of found) {
    rmSync(reachedBy, { force: true })
    const started = performance.now()
    const status = await run(judge.program, judge.args, { ZTENSOR_MUTANTS_REACHED: reachedBy }, 600_000)
    const took = performance.now() - started
    if (status !== 0) console.log(`fails without a mutant, judges nothing: ${judge.name}`)
    else if (existsSync(reachedBy)) able.push({ ...judge, took, reached: readFileSync(reachedBy) })
  }
  rmSync(reachedBy, { force: true })
  return able.sort((a, b) => a.took - b.took)
}

/** The name of what notices a mutant, if anything does. */
async function judge(id, all) {
  const env = { ZTENSOR_MUTANT: String(id) }
  const able = all.filter(({ reached }) => reached[id] === 1)
  if (able.length === 0) return { verdict: 'not reached' }
  const programs = new Map()
  for (const { test, program, took } of able.filter(({ test }) => test !== undefined)) {
    const group = programs.get(program) ?? programs.set(program, { tests: [], took: 0 }).get(program)
    group.tests.push(test)
    group.took += took
  }
  for (const [program, { tests, took }] of programs) {
    const status = await run(program, ['--exact', ...tests], env, 5000 + 5 * took)
    if (status !== 0) return { verdict: status === null ? 'timed out' : 'caught', by: program.split('/').at(-1) }
  }
  for (const { name, program, args, took } of able.filter(({ test }) => test === undefined)) {
    const status = await run(program, args, env, 20_000 + 5 * took)
    if (status !== 0) return { verdict: status === null ? 'timed out' : 'caught', by: name }
  }
  return { verdict: 'survived', tried: able.length }
}

mkdirSync(build, { recursive: true })
const mutants = sample()
const state = createHash('sha256')
copyTree()
for (const file of output('git', ['ls-files', '-z', 'crates', 'src', 'lib'], { cwd: root })
  .stdout.split('\0')
  .filter(Boolean)) {
  state.update(file).update(readFileSync(join(root, file)))
}
const key = state.digest('hex')
const kept = join(build, 'verdicts.json')
const verdicts = existsSync(kept) && json(kept).key === key ? json(kept).verdicts : {}

rmSync(pristine, { recursive: true, force: true })
cpSync(sources, pristine, { recursive: true })
writeFileSync(join(tree, 'mutants.json'), JSON.stringify(mutants))
console.log(`${mutants.length} mutants`)
const { skip, built } = instrument()
runOrExit(process.execPath, [join(tree, 'scripts/build.mjs'), '--debug', ...target])

const all = await judges()
console.log(`${all.length} judges`)
const queue = built.filter((id) => verdicts[mutants[id - 1].name] === undefined)
let done = 0
async function work() {
  for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
    const { name } = mutants[id - 1]
    verdicts[name] = await judge(id, all)
    writeFileSync(kept, JSON.stringify({ key, verdicts }))
    done += 1
    if (verdicts[name].verdict === 'survived' || verdicts[name].verdict === 'not reached') {
      console.log(`${verdicts[name].verdict}: ${name}`)
    }
    if (done % 100 === 0) console.log(`${done} judged, ${queue.length} to go`)
  }
}
await Promise.all(Array.from({ length: Number(values.jobs) }, work))

const tried = built.map((id) => verdicts[mutants[id - 1].name].verdict)
const count = (...kinds) => tried.filter((verdict) => kinds.includes(verdict)).length
const caught = count('caught', 'timed out')
console.log(
  `${mutants.length} mutants: ${skip.length} do not compile, ${mutants.length - skip.length - built.length} stand where the compiler computes`,
)
console.log(
  `${tried.length} tried: ${count('caught')} caught, ${count('timed out')} timed out, ${count('survived')} survived, ${count('not reached')} not reached`,
)
console.log(`${((100 * caught) / tried.length).toFixed(1)} % caught`)
