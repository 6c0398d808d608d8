// `npm run test:types`: compiles the strict consumer in __test__/types against the committed types, with the oldest, our own
// and the newest TypeScript, under Node's and a bundler's module resolution; one that is too old has to say so. A claim that fails is a compile error, and each
// file of claims counts once for each compiler and resolution. Names of files (`-- tensor.mts`) choose those alone.
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { capture, only, root } from '../../scripts/command.mjs'
import { turns } from '../helpers/turns.mjs'

const require = createRequire(import.meta.url)
const tooOld = 'typescript-5.3'
const refusal = 'ztensor-needs-typescript-5.4-or-newer.d.ts'
const compilers = ['typescript-5.4', 'typescript-5.7', 'typescript', 'typescript-7']
const projects = ['tsconfig.json', 'tsconfig.bundler.json']

// The consumer lives apart from the sources: beside index.ts a compiler would read that, and not what is published.
const consumer = join(root, 'build/consumer')
const installed = join(consumer, 'node_modules/ztensor')
rmSync(consumer, { recursive: true, force: true })
mkdirSync(installed, { recursive: true })
cpSync(join(root, '__test__/types'), consumer, { recursive: true })
for (const name of ['package.json', 'index.d.ts', 'index.d.mts', refusal])
  cpSync(join(root, name), join(installed, name))
writeFileSync(join(consumer, 'package.json'), '{ "private": true }\n')

const claims = readdirSync(consumer).filter((name) => /\.[mc]ts$/.test(name))
const files = only(claims)
for (const name of claims) if (!files.includes(name)) rmSync(join(consumer, name))
let passed = 0
let failed = 0

function tsc(compiler, args) {
  const manifest = require.resolve(`${compiler}/package.json`)
  const { version } = require(manifest)
  const script = join(dirname(manifest), 'lib/tsc.js')
  return { version, done: capture(process.execPath, [script, '--pretty', 'false', ...args], { cwd: consumer }) }
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
  console.log(`${isRefused ? 'ok    ' : 'FAILED'} TypeScript ${version} is refused, ${resolution.join(' ')}`)
  if (!isRefused) console.log(output)
}

for (const [module, moduleResolution] of [
  ['nodenext', 'nodenext'],
  ['esnext', 'bundler'],
  ['commonjs', 'node'],
])
  await refuses(tooOld, ['--module', module, '--moduleResolution', moduleResolution])
const inTurn = turns(availableParallelism())
await Promise.all(compilers.flatMap((compiler) => projects.map((project) => inTurn(() => compile(compiler, project)))))

console.log(`type tests: ${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
