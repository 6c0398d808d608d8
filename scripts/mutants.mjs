// `npm run test:mutants`: whether a test fails when the core is changed. The mutants are those of cargo-mutants (`cargo install
// cargo-mutants`): all of the rooms named by --whole (sinks, write, sources and codecs unless said) and every twentieth of the
// others (--every N). All of them are built into one copy of the core, each behind a switch (`mutants/`), so that a mutant costs
// a run of the tests that reach it and no build. The Rust tests judge first, then the ava files that fit best, until one fails.
//   --whole a,b     the modules of crates/core/src of which every mutant is tried
//   --every N       one of N of all the others; 0 for none
//   --rust          the Rust tests alone; another run goes on with ava files
//   --ava           the ava files alone, on what the Rust tests judged
//   --files N       ava files that judge a mutant, at most
//   --among TEXT    of the ava files, those with the text in their paths
//   --part P        a random part of the sample, in percent: a larger one holds the smaller one
//   --only TEXT     of these, those with the text in their names
//   --again         survivors are judged by all tests again, not only by new tests and changed ava files
//   --built         no building: the mutants and the code are those that were built last, the tests too but for ava files
//   --figures       no judging: what is known
//   --jobs N        judges at the same time
// Verdicts are kept in build/mutants/verdicts.jsonl until the file that the mutant is in changes: a run that was stopped goes on.
// `mutants/equivalent.json` names mutants that change nothing that anybody can observe, and says why.
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from './command.mjs'
import { avaJudges, byAva, byRust, rustJudges } from './mutants/judges.mjs'
import {
  build,
  buildAddon,
  buildTests,
  builtLast,
  codeOf,
  hash,
  instrument,
  isOfTests,
  json,
  list,
} from './mutants/tree.mjs'

const { values } = parseArgs({
  options: {
    whole: { type: 'string', default: 'sinks,write,sources,codecs' },
    every: { type: 'string', default: '20' },
    rust: { type: 'boolean', default: false },
    ava: { type: 'boolean', default: false },
    files: { type: 'string', default: '8' },
    among: { type: 'string', default: '' },
    part: { type: 'string', default: '100' },
    only: { type: 'string', default: '' },
    again: { type: 'boolean', default: false },
    built: { type: 'boolean', default: false },
    figures: { type: 'boolean', default: false },
    jobs: { type: 'string', default: String(availableParallelism()) },
  },
})
const jobs = Number(values.jobs)

const room = ({ file }) => file.replace('crates/core/src/', '').split('/')[0].replace('.rs', '')

/** The mutants to try, in an order that is random and always the same. */
function sample(listed) {
  const whole = new Set(values.whole.split(','))
  const every = Number(values.every)
  const others = listed.filter((mutant) => !whole.has(room(mutant)))
  const some = new Set(others.filter((_, at) => every > 0 && at % every === 0))
  return listed
    .filter((mutant) => whole.has(room(mutant)) || some.has(mutant))
    .filter(({ genre, change }) => genre !== 'FnValue' || !change.includes('-> impl ')) // one type, so that no switch can choose
    .map((mutant) => ({ ...mutant, order: hash(mutant.name) }))
    .sort((a, b) => (a.order < b.order ? -1 : 1))
    .map((mutant, at) => ({ ...mutant, id: at + 1 }))
}

mkdirSync(build, { recursive: true })
const last = values.built ? builtLast() : undefined
const listed = last?.mutants ?? list()
const code = last === undefined ? codeOf(listed) : new Map(Object.entries(last.code))
const mutants = last?.mutants ?? sample(listed)
const counted = Math.ceil((mutants.length * Number(values.part)) / 100)
const part = mutants.slice(0, counted).filter((mutant) => !isOfTests(mutant))

const kept = join(build, 'verdicts.jsonl')
const verdicts = new Map()
for (const line of existsSync(kept) ? readFileSync(kept, 'utf8').split('\n').filter(Boolean) : []) {
  const { name, of, ...verdict } = JSON.parse(line)
  verdicts.set(`${of} ${name}`, { ...verdict, passed: new Set(verdict.passed) })
}
const keyOf = ({ name, file }) => `${code.get(file)} ${name}`
const open = (mutant) => ['survived', 'not reached', undefined].includes(verdicts.get(keyOf(mutant))?.verdict)

function note(mutant, verdict) {
  verdicts.set(keyOf(mutant), verdict)
  const line = { name: mutant.name, of: code.get(mutant.file), ...verdict, passed: [...(verdict.passed ?? [])] }
  appendFileSync(kept, `${JSON.stringify(line)}\n`)
}

/** Judges what nothing caught yet. Rust tests judge all mutants before the first ava file judges one. */
async function judgeAll(judge, among, last = false) {
  const queue = among.filter(open)
  let done = 0
  async function work() {
    for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
      const before = verdicts.get(keyOf(mutant))
      const passed = values.again ? new Set() : (before?.passed ?? new Set())
      const { verdict, by } = await judge(mutant, passed)
      const reached = verdict === 'not reached' && before?.verdict === 'survived' ? 'survived' : verdict
      const complete = last || before?.complete === true
      if (open(mutant)) note(mutant, { verdict: reached, by, complete, passed: by === undefined ? passed : undefined })
      done += 1
      if (by === undefined) console.log(`${reached}: ${mutant.name} [line ${mutant.line}]`)
      if (done % 50 === 0) console.log(`${done} judged, ${queue.length} to go`)
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
}

if (!values.figures) {
  console.log(`${mutants.length} mutants`)
  const { skip, built, foreign } = last ?? instrument(mutants)
  const constant = new Set(mutants.map(({ id }) => id))
  const noteOnce = (id, verdict) => {
    if (verdicts.get(keyOf(mutants[id - 1]))?.verdict !== verdict) note(mutants[id - 1], { verdict })
  }
  for (const id of skip) noteOnce(id, 'does not compile')
  for (const id of foreign) noteOnce(id, 'for another system')
  for (const id of [...skip, ...built, ...foreign]) constant.delete(id)
  for (const id of constant) noteOnce(id, 'in a constant')
  const switched = part.filter(({ id, name }) => built.includes(id) && name.includes(values.only))
  const names = mutants.map(({ name }) => name)
  const state = hash([...names].sort().join('\n'))
  if (!values.ava) {
    const rust = await rustJudges(buildTests(), names, state, jobs)
    console.log(`${rust.length} Rust tests`)
    await judgeAll((mutant, passed) => byRust(rust, mutant, passed), switched)
  }
  if (!values.rust) {
    if (last === undefined) buildAddon()
    const ava = await avaJudges(names, state, jobs, values.among)
    console.log(`${ava.length} ava files`)
    const rested = switched.filter((mutant) => verdicts.has(keyOf(mutant)))
    await judgeAll((mutant, passed) => byAva(ava, mutant, passed, Number(values.files)), rested, true)
  }
}

/** A line for each room, and one for all. */
function figures() {
  const known = new Set(json(join(root, 'mutants/equivalent.json')).flatMap(({ mutants }) => mutants))
  for (const name of known) {
    if (!listed.some((mutant) => mutant.name === name)) console.log(`equivalent.json names no mutant: ${name}`)
  }
  const rows = new Map()
  const left = []
  for (const mutant of part) {
    const { verdict, complete = false } = verdicts.get(keyOf(mutant)) ?? { verdict: 'not judged' }
    const equivalent = open(mutant) && known.has(mutant.name)
    if (open(mutant) && !equivalent) left.push(`${verdict}: ${mutant.name} [line ${mutant.line}]`)
    for (const name of [values.whole.split(',').includes(room(mutant)) ? room(mutant) : 'others', 'all']) {
      if (!rows.has(name)) rows.set(name, {})
      const row = rows.get(name)
      const kind = equivalent ? 'equivalent' : open(mutant) && !complete ? 'not judged by ava' : verdict
      row[kind] = (row[kind] ?? 0) + 1
    }
  }
  for (const line of left.sort()) console.log(line)
  for (const [name, row] of rows) {
    const caught = (row.caught ?? 0) + (row['timed out'] ?? 0)
    const untried = (row['not judged'] ?? 0) + (row['not judged by ava'] ?? 0)
    const viable = caught + (row.survived ?? 0) + (row['not reached'] ?? 0) + untried
    const all = viable + (row.equivalent ?? 0)
    const percent = (of) => `${((100 * caught) / of).toFixed(1)} %`
    console.log(`${name}: caught ${percent(viable)} of ${viable}, ${percent(all)} with the equivalent ones`, row)
  }
}
figures()
