// `npm test`: builds, then runs every suite to its end, whatever the ones before it said, and sums them up.
import { join } from 'node:path'
import { capture, root, runOrExit } from './command.mjs'

const node = process.execPath
const ava = join(root, 'node_modules/ava/entrypoints/cli.mjs')

const cargoCounts = /^test result: \w+\. (\d+) passed; (\d+) failed/gm
const ownCounts = /^[\w ]+: (\d+) passed, (\d+) failed$/gm

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

const suites = [
  {
    name: 'rust',
    command: ['cargo', ['test', '--workspace', '--quiet']],
    counts: (output) => sum(cargoCounts, output),
  },
  { name: 'javascript', command: [node, [ava]], counts: avaCounts },
  { name: 'types', command: [node, ['scripts/type-tests.mjs']], counts: (output) => sum(ownCounts, output) },
  {
    name: 'surface',
    command: [node, ['scripts/rollup-types.mjs', '--check']],
    counts: (output) => sum(ownCounts, output),
  },
]

// CI tests what is published.
runOrExit(node, ['scripts/build.mjs', ...(process.env.CI ? ['--release'] : [])])

const rows = []
for (const { name, command, counts } of suites) {
  console.log(`\n# ${name}`)
  const { status, output } = await capture(...command, { echo: true })
  const { passed, failed } = counts(output)
  // A suite that died without a word, or that ran nothing, has failed too.
  rows.push({ name, passed, failed: status !== 0 || passed === 0 ? Math.max(failed, 1) : failed })
}

console.log()
for (const { name, passed, failed } of rows) console.log(`${name.padEnd(12)}${passed} passed, ${failed} failed`)
const total = (key) => rows.reduce((sum, row) => sum + row[key], 0)
console.log(`npm test: ${total('passed')} passed, ${total('failed')} failed`)
process.exitCode = total('failed') > 0 ? 1 : 0
