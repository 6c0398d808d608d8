// What judges a mutant: Rust tests and ava files, of which it is known what they reach and how long they take.
import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, loadavg } from 'node:os'
import { join } from 'node:path'
import { root } from '../command.mjs'
import { build, hash, json, output, tree } from './tree.mjs'

const ava = [join(root, 'node_modules/ava/entrypoints/cli.mjs'), '--fail-fast', '--concurrency', '1']
// A judge that takes longer without a mutant judges none.
const LONGEST = 120_000
// What the long tests try can be cut down, and is.
const SHORT = { ZTENSOR_MUTATIONS: '60', ZTENSOR_CYCLES: '400', PROPTEST_CASES: '32' }

/** How much longer everything takes, since the machine works for others too. */
const crowd = () => Math.max(1, loadavg()[0] / availableParallelism())

/** Runs a program. Resolves its status, null when it took longer than `limit` milliseconds of a machine that is ours alone. */
function run(program, args, env, limit) {
  return new Promise((resolve) => {
    const scratch = join(build, 'scratch', String(Math.random()).slice(2))
    mkdirSync(scratch, { recursive: true })
    const child = spawn(program, args, {
      cwd: tree,
      env: { ...process.env, ...SHORT, TMPDIR: scratch, RUST_BACKTRACE: '0', ...env },
      stdio: 'ignore',
      detached: true,
    })
    const end = () => {
      try {
        process.kill(-child.pid, 'SIGKILL')
      } catch {}
    }
    let over = false
    const cut = () => {
      over = true
      end()
    }
    const timer = setTimeout(cut, limit * crowd())
    child.on('close', (status) => {
      clearTimeout(timer)
      end() // children that it left behind
      rmSync(scratch, { recursive: true, force: true })
      resolve(over ? null : (status ?? 1))
    })
  })
}

/** Runs each judge without a mutant, some at a time. Resolves those that pass, each with what it reached, by the names of the mutants. */
async function calibrated(found, names, jobs, kept) {
  const known = new Map((existsSync(kept) ? json(kept) : []).map((judge) => [judge.id, judge]))
  const queue = [...found]
  const able = []
  async function work() {
    for (let judge = queue.shift(); judge !== undefined; judge = queue.shift()) {
      if (!known.has(judge.id)) {
        const marks = join(build, `reached-${able.length}-${String(Math.random()).slice(2)}`)
        // For tests that become another user, too.
        writeFileSync(marks, '')
        chmodSync(marks, 0o666)
        const started = performance.now()
        const status = await run(judge.program, judge.args, { ZTENSOR_MUTANTS_REACHED: marks }, LONGEST)
        const took = Math.round((performance.now() - started) / crowd())
        if (status !== 0) console.log(`${status === null ? 'too long' : 'fails without a mutant'}: ${judge.name}`)
        const bytes = status === 0 ? readFileSync(marks) : []
        rmSync(marks, { force: true })
        known.set(judge.id, { id: judge.id, took, reached: names.filter((_, at) => bytes[at + 1] === 1) })
        writeFileSync(kept, JSON.stringify([...known.values()]))
      }
      const { took, reached } = known.get(judge.id)
      if (reached.length > 0) able.push({ ...judge, took, reached: new Set(reached), caught: new Map() })
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
  return able
}

/** The Rust tests of these programs. */
export function rustJudges(programs, names, code, jobs) {
  const found = programs.flatMap(({ name: of, program }) =>
    [...output(program, ['--list', '--format', 'terse']).stdout.matchAll(/^(.+): test$/gm)].map(([, test]) => {
      const name = `${of}::${test}`
      return { id: `${name} ${code}`, name, program, args: ['--exact', test], test }
    }),
  )
  return calibrated(found, names, jobs, join(build, 'rust-judges.json'))
}

// Long ones that are about memory, scale or what no mutant is in: the others find sooner what they would find.
const SLOW =
  /__test__\/(hostile\/(reject|mutations|amplified|memory|proportion)|memory\/(?!close|share)|calls\/beside-long-work|open\/large|convert\/large|package\/examples)/

/** The ava files with a text in their paths, but for the slow ones. */
export function avaJudges(names, code, jobs, among) {
  const { stdout } = output('git', ['ls-files', '--cached', '--others', '--exclude-standard', '__test__'], {
    cwd: root,
  })
  const files = stdout
    .split('\n')
    .filter((file) => file.endsWith('.test.mjs') && file.includes(among) && !SLOW.test(file))
  const found = files.map((file) => {
    const content = hash(readFileSync(join(root, file)))
    return {
      id: `${file} ${content} ${code}`,
      name: `${file} ${content}`,
      program: process.execPath,
      args: [...ava, file],
      file,
    }
  })
  return calibrated(found, names, jobs, join(build, 'ava-judges.json'))
}

/** What the tests say of a mutant, as `run` does: what fails once and then passes failed by chance. */
async function judged(program, args, { id }, limit) {
  const env = { ZTENSOR_MUTANT: String(id) }
  const status = await run(program, args, env, limit)
  if (status === 0 || (await run(program, args, env, limit)) !== 0) return status
  console.log(`failed by chance: ${program} ${args.join(' ')}`)
  return 0
}

/** The most fitting judges first: those that reach little else, take little time, and caught others of the same file. */
function fitting(judges, { name, file }) {
  const score = ({ took, reached, caught }) => ((took + 500) * reached.size) / (1 + (caught.get(file) ?? 0))
  return judges.filter(({ reached }) => reached.has(name)).sort((a, b) => score(a) - score(b))
}

function noted(judges, { file }) {
  for (const { caught } of judges) caught.set(file, (caught.get(file) ?? 0) + 1 / judges.length)
}

const total = (judges) => judges.reduce((sum, { took }) => sum + took, 0)

/** Judges a mutant by the Rust tests that did not pass it yet: first the few that fit best, then the others. */
export async function byRust(judges, mutant, passed) {
  const able = fitting(judges, mutant)
  const fresh = able.filter(({ name }) => !passed.has(name))
  for (const part of [fresh.slice(0, 8), fresh.slice(8)]) {
    const programs = new Map()
    for (const judge of part) programs.set(judge.program, [...(programs.get(judge.program) ?? []), judge])
    for (const [program, some] of programs) {
      const tests = some.map(({ test }) => test)
      const status = await judged(program, ['--exact', ...tests], mutant, 20_000 + 5 * total(some))
      if (status !== 0) {
        noted(some, mutant)
        return { verdict: status === null ? 'timed out' : 'caught', by: `${some[0].name.split('::')[0]}: Rust` }
      }
      for (const { name } of some) passed.add(name)
    }
  }
  return { verdict: able.length > 0 ? 'survived' : 'not reached' }
}

/** Judges a mutant by the ava files that fit best, `most` at most, a few in one run of ava. */
export async function byAva(judges, mutant, passed, most) {
  const able = fitting(judges, mutant).slice(0, most)
  const fresh = able.filter(({ name }) => !passed.has(name))
  while (fresh.length > 0) {
    const some = fresh.splice(0, 3)
    const files = some.map(({ file }) => file)
    const status = await judged(process.execPath, [...ava, ...files], mutant, 30_000 + 3 * total(some))
    if (status !== 0) {
      noted(some, mutant)
      return { verdict: status === null ? 'timed out' : 'caught', by: files.join(' ') }
    }
    for (const { name } of some) passed.add(name)
  }
  return { verdict: able.length > 0 ? 'survived' : 'not reached' }
}
