// `npm run test:types`: compiles the strict consumer in __test__/types against the committed types, with the oldest, our own
// and the newest TypeScript, under Node's and a bundler's module resolution. A claim that fails is a compile error, and each
// file of claims counts once for each compiler and resolution. Names of files (`-- tensor.mts`) choose those alone.
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { capture, only, root } from './command.mjs'

const require = createRequire(import.meta.url)
const compilers = ['typescript-5.4', 'typescript-5.7', 'typescript', 'typescript-7']
const projects = ['tsconfig.json', 'tsconfig.bundler.json']

// The consumer lives apart from the sources: beside index.ts a compiler would read that, and not what is published.
const consumer = join(root, 'build/consumer')
const installed = join(consumer, 'node_modules/ztensor')
rmSync(consumer, { recursive: true, force: true })
mkdirSync(installed, { recursive: true })
cpSync(join(root, '__test__/types'), consumer, { recursive: true })
for (const name of ['package.json', 'index.d.ts', 'index.d.mts']) cpSync(join(root, name), join(installed, name))
writeFileSync(join(consumer, 'package.json'), '{ "private": true }\n')

const claims = readdirSync(consumer).filter((name) => /\.[mc]ts$/.test(name))
const files = only(claims)
for (const name of claims) if (!files.includes(name)) rmSync(join(consumer, name))
let passed = 0
let failed = 0

async function compile(compiler, project) {
  const manifest = require.resolve(`${compiler}/package.json`)
  const { version } = require(manifest)
  const tsc = join(dirname(manifest), 'lib/tsc.js')
  const { status, output } = await capture(process.execPath, [tsc, '--pretty', 'false', '--project', project], {
    cwd: consumer,
  })
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

for (const compiler of compilers) for (const project of projects) await compile(compiler, project)

console.log(`type tests: ${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
