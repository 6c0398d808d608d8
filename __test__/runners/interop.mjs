// `npm run interop`: real peers write files of every dtype, shape, layout and encoding that they support, and we read each value
// back; we write such files, and the peers read each value back; then the reference reader of safetensors reads our corpus of
// malformed files; and real servers send files, which must equal those on disk. `-- 'ztensor 1.2.3'` runs that peer alone,
// `-- --heavy` also runs those with large packages. Needs `npm run build` first, Python 3 (or PYTHON naming one), and a package index
// for pip. The environments and servers stay in build/interop for the next run.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { convert, openSync } from 'ztensor'
import { compareFile } from '../../interop/compare.mjs'
import { imports } from '../../interop/imports.mjs'
import { writeOurs } from '../../interop/ours.mjs'
import { environment, peers, succeed } from '../../interop/peers.mjs'
import { NotRun } from '../../interop/servers/programs.mjs'
import { isInstalled, only, root } from '../../scripts/command.mjs'
import { cases } from '../corpus/cases-safetensors.mjs'
import { bytesOf } from '../corpus/tables.mjs'

const python = process.env.PYTHON ?? 'python3'
const REFERENCE = 'safetensors 0.8.0'
// Heavy ones run only on demand: an argument names one of them, `--heavy` selects all.
const named = (heavy) => imports.filter((one) => (one.heavy ?? false) === heavy).map(({ name }) => name)
const chosen = only([...peers.map(({ name }) => name), ...named(false)], named(true))
// A package may have both: without an argument only the light ones run.
const isChosen = ({ name, heavy }) =>
  chosen.includes(name) && (!heavy || ['--heavy', name].some((word) => process.argv.includes(word)))
const build = join(root, 'build/interop')
const corpus = join(build, 'corpus')
const ours = join(build, 'ours')
const fixtures = join(root, '__test__/fixtures')
const interop = join(root, 'interop')
const readJson = (path) => JSON.parse(readFileSync(path, 'utf8'))
const fresh = (directory) => {
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  return directory
}

let passed = 0
let failed = 0

function count(claim, error) {
  if (error === undefined) {
    passed += 1
    return
  }
  failed += 1
  const lines = String(error.message ?? error)
    .trim()
    .split('\n')
  // The first line of a program that failed is its command.
  if (lines.length > 1 && lines[0].startsWith('Command failed:')) lines.shift()
  // A traceback names its error last.
  const shown = lines.length > 6 ? [lines[0], '…', ...lines.slice(-4)] : lines
  console.log(`failed  ${claim}: ${error.code ?? ''} ${shown.join(' ')}`)
}

/** The failures of a peer, one row for each message. */
function table({ peer, cannot }) {
  if (cannot.length === 0) return
  console.log(`\n${peer} could not:`)
  for (const { what, message } of cannot) {
    const more = what.length > 1 ? ` and ${what.length - 1} more` : ''
    console.log(`  ${`${what[0]}${more}`.padEnd(48)}  ${message.slice(0, 140)}`)
  }
}

/** The results of the peer for our files. A file that it cannot read is a failure, unless the table lists it. */
function countReads(name, reads, cannotRead) {
  for (const { what, cannot, wrong } of reads) {
    if (cannot !== undefined && cannotRead.some((known) => known.test(what))) continue
    const message = wrong === undefined ? cannot : `reads ${wrong}`
    count(`${name} reads our ${what}`, message === undefined ? undefined : new Error(message))
  }
  return reads.filter(({ cannot }) => cannot === undefined).length
}

/** Our canonical file of each form that the peer wrote must equal the peer's, byte for byte. */
async function compareCanonical(name, directory, { file, canonical }) {
  if (canonical === undefined) return
  const again = join(directory, 'again.zt')
  try {
    await convert(join(directory, file), again, { version: '2', overwrite: true })
    const theirs = readFileSync(join(directory, `${file.replace(/-.*$|\.zt$/, '')}.zt`))
    count(`${name}, ${file}, written again`, readFileSync(again).equals(theirs) ? undefined : new Error('other bytes'))
  } catch (error) {
    count(`${name}, ${file}, written again`, error)
  }
}

async function runPeer({ name, requirements, script, cannotRead }) {
  const label = name.replace(' ', '-')
  const own = await environment(join(build, `venv-${label}`), python, requirements)
  const directory = fresh(join(build, label))
  await succeed(own, [join(interop, script), directory, fixtures, corpus, ours])
  const expected = readJson(join(directory, 'expected.json'))
  let checks = 0
  for (const file of expected.files) {
    const results = await compareFile(join(directory, file.file), file)
    checks += results.length
    for (const { what, error } of results) count(`${name}, ${file.file}, ${what}`, error)
    await compareCanonical(name, directory, file)
  }
  const read = countReads(name, expected.reads, cannotRead)
  console.log(
    `\n${name}: ${expected.files.length} files, ${checks} checks; ${read} of ${expected.reads.length} readings of our files`,
  )
  table(expected)
}

const corpusFile = (i) => `${String(i).padStart(3, '0')}.safetensors`

function writeCorpus() {
  fresh(corpus)
  cases.forEach((one, i) => {
    writeFileSync(join(corpus, corpusFile(i)), bytesOf(one))
  })
}

/** Compares our result for every file of the corpus with that of the reference reader. The corpus must list each difference. */
function compareVerdicts() {
  const verdicts = new Map(readJson(join(corpus, 'verdicts.json')).map((verdict) => [verdict.file, verdict]))
  console.log(`\nOur corpus of ${cases.length} safetensors files, where the reference reader decides otherwise:`)
  cases.forEach(({ name, code, official, options }, i) => {
    const path = join(corpus, corpusFile(i))
    let ours = 'accepts'
    try {
      openSync(path, options).close()
    } catch (error) {
      ours = `refuses with ${error.code}`
    }
    const expected = code === undefined ? 'accepts' : 'refuses'
    count(`corpus, ${name}`, ours.startsWith(expected) ? undefined : new Error(`we ${ours}`))
    const theirs = verdicts.get(corpusFile(i)).accepts ? 'accepts' : 'refuses'
    if (!ours.startsWith(theirs)) console.log(`  ${name.padEnd(48)}  it ${theirs}, ours ${ours}`)
    count(
      `corpus, ${name}`,
      theirs === (official ?? expected) ? undefined : new Error(`the reference reader ${theirs}`),
    )
  })
}

/** Reads the files that a package writes in an imported format. */
async function runImport({ name, of, compare }) {
  try {
    const results = await compare({ build, python, fixtures, interop })
    for (const { what, error } of results) count(`${name}, ${what}`, error)
    console.log(`\n${name}: ${results.length} ${of}`)
  } catch (error) {
    if (error instanceof NotRun) console.log(`\nnot run: ${name}: ${error.message}`)
    else count(name, error)
  }
}

/** Runs functions on all processors; those of one name, which share an environment, one after the other. */
async function inParallel(works) {
  const waiting = [...new Set(works.map(({ name }) => name))]
  const next = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift())
      for (const { work } of works.filter((one) => one.name === name)) await work()
  }
  await Promise.all(Array.from({ length: availableParallelism() }, next))
}

if (isInstalled(python)) {
  writeCorpus()
  await writeOurs(fresh(ours), fixtures)
  const works = [
    ...peers.map((peer) => ({ name: peer.name, work: () => runPeer(peer).catch((error) => count(peer.name, error)) })),
    ...imports.map((one) => ({ ...one, work: () => runImport(one) })),
  ]
  await inParallel(works.filter(isChosen))
  if (chosen.includes(REFERENCE)) compareVerdicts()
  console.log()
  console.log(`interop: ${passed} passed, ${failed} failed`)
  process.exitCode = failed > 0 ? 1 : 0
} else {
  console.log(
    `interop: 0 passed, 1 failed: ${python} cannot be started, and the peers are Python packages; PYTHON names another`,
  )
  process.exitCode = 1
}
