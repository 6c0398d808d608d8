// `npm run test:types`: compiles the strict consumer in __test__/types against the committed types, under Node's and a bundler's module
// resolution. A claim that fails is a compile error, and each file of claims counts once for each compiler and resolution. The `js` and `ts`
// blocks of the README and the guides are claims, too: they compile as strict TypeScript. Names of files (`-- tensor.mts docs/guide/open.md`)
// choose those alone. Uses the newest TypeScript; `--all`, which CI runs, also uses the oldest and two in between, and checks that one
// that is too old says so.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { capture, only, root } from '../../scripts/command.mjs'
import { TYPES } from '../../scripts/entries.mjs'
import { blocksOf, packagesOf, pages } from '../helpers/guides.mjs'
import { turns } from '../helpers/turns.mjs'

const require = createRequire(import.meta.url)
const tooOld = 'typescript-5.3'
const refusal = 'ztensor-needs-typescript-5.4-or-newer.d.ts'
const newest = 'typescript-7'
const all = process.argv.includes('--all')
const compilers = all ? ['typescript-5.4', 'typescript-5.7', 'typescript', newest] : [newest]
const projects = ['tsconfig.json', 'tsconfig.bundler.json']
const guideCompilers = all ? ['typescript-5.4', 'typescript', newest] : [newest]

// The consumer is outside the sources: next to index.ts a compiler would read that file instead of the published types.
const consumer = join(root, 'build/consumer')
/** An empty folder with the package installed. */
function prepare(folder) {
  const installed = join(folder, 'node_modules/ztensor')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(installed, { recursive: true })
  for (const name of ['package.json', ...TYPES, refusal]) cpSync(join(root, name), join(installed, name))
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
}
prepare(consumer)
cpSync(join(root, '__test__/types'), consumer, { recursive: true })

const claims = readdirSync(consumer).filter((name) => /\.[mc]ts$/.test(name))
const chosen = only([...claims, ...pages], [], ['--all'])
const files = chosen.filter((name) => !pages.includes(name))
for (const name of claims) if (!files.includes(name)) rmSync(join(consumer, name))
let passed = 0
let failed = 0

function tsc(compiler, args, cwd = consumer) {
  const manifest = require.resolve(`${compiler}/package.json`)
  const { version } = require(manifest)
  const script = join(dirname(manifest), 'lib/tsc.js')
  return { version, done: capture(process.execPath, [script, '--pretty', 'false', ...args], { cwd }) }
}

async function compile(compiler, project) {
  const { version, done } = tsc(compiler, ['--project', project])
  const { status, output } = await done
  const broken = files.filter((name) => new RegExp(`^${name.replace('.', '\\.')}\\(`, 'm').test(output))
  // An error elsewhere is one in the types themselves, or the compiler did not run: then no claim has been checked.
  const elsewhere = output
    .split('\n')
    .some((line) => /: error TS\d+|^error TS\d+/.test(line) && !broken.some((name) => line.startsWith(name)))
  const wrong = elsewhere || (status !== 0 && broken.length === 0) ? files : broken
  passed += files.length - wrong.length
  failed += wrong.length
  console.log(`${wrong.length === 0 ? 'ok    ' : 'FAILED'} TypeScript ${version}, ${project}`)
  if (wrong.length > 0) console.log(output)
}

/** An import of the package is an error that says what to do, under each module resolution of a compiler that is too old. */
async function refuses(compiler, resolution) {
  const { version, done } = tsc(compiler, ['--noEmit', '--skipLibCheck', ...resolution, files[0]])
  const { output } = await done
  const isRefused = output.includes(`${refusal}' is not a module`)
  if (isRefused) passed += 1
  else failed += 1
  console.log(`${isRefused ? 'ok    ' : 'FAILED'} TypeScript ${version} is rejected, ${resolution.join(' ')}`)
  if (!isRefused) console.log(output)
}

const resolutions = [
  ['nodenext', 'nodenext'],
  ['esnext', 'bundler'],
  ['commonjs', 'node'],
]
for (const [module, moduleResolution] of all && files.length > 0 ? resolutions : [])
  await refuses(tooOld, ['--module', module, '--moduleResolution', moduleResolution])

/**
 * Writes each program of the chosen pages to a file in one folder, with a configuration for strict TypeScript. Packages that are not
 * installed have the types of __test__/types/guides/packages.d.ts, or any. Returns the name of the page and the number of the block by file.
 */
function writeGuides(folder) {
  prepare(folder)
  const types = readFileSync(join(root, '__test__/types/guides/packages.d.ts'), 'utf8')
  writeFileSync(join(folder, 'packages.d.ts'), types)
  const programs = new Map()
  const others = new Set()
  for (const page of pages.filter((name) => chosen.includes(name))) {
    for (const { number, language, text } of blocksOf(page)) {
      if (language !== 'js' && language !== 'ts') continue
      const file = `${page.replaceAll(/[/.]/g, '-')}-${number}.mts`
      programs.set(file, `${page}, block ${number}`)
      for (const name of packagesOf(text)) if (!types.includes(`module '${name}'`)) others.add(name)
      writeFileSync(join(folder, file), `${text}\nexport {}\n`)
    }
  }
  writeFileSync(join(folder, 'others.d.ts'), [...others].map((name) => `declare module '${name}'\n`).join(''))
  const options = {
    target: 'ES2022',
    lib: ['ES2023', 'ESNext.Disposable', 'DOM'],
    types: ['node'],
    module: 'nodenext',
    moduleResolution: 'nodenext',
    strict: true,
    skipLibCheck: true,
    noEmit: true,
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: options }))
  return programs
}

/** Compiles all programs of the guides. Each one counts once for each compiler. */
async function compileGuides(compiler, folder, programs) {
  const { version, done } = tsc(compiler, ['--project', '.'], folder)
  const { status, output } = await done
  const lines = output.split('\n').filter((line) => /: error TS\d+|^error TS\d+/.test(line))
  const broken = new Set(lines.map((line) => programs.get(line.split('(')[0])))
  // An error elsewhere means that nothing was checked.
  const wrong = broken.has(undefined) || (status !== 0 && broken.size === 0) ? programs.size : broken.size
  passed += programs.size - wrong
  failed += wrong
  console.log(`${wrong === 0 ? 'ok    ' : 'FAILED'} TypeScript ${version}, ${programs.size} programs of the guides`)
  for (const name of broken) if (name !== undefined) console.log(`  ${name}`)
  if (wrong > 0) console.log(output)
}

const inTurn = turns(availableParallelism())
const runs = []
if (files.length > 0)
  for (const compiler of compilers) for (const project of projects) runs.push(inTurn(() => compile(compiler, project)))
const guides = join(root, 'build/guides')
const programs = writeGuides(guides)
if (programs.size > 0)
  for (const compiler of guideCompilers) runs.push(inTurn(() => compileGuides(compiler, guides, programs)))
await Promise.all(runs)

console.log(`type tests: ${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
