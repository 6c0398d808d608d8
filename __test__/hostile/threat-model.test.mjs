// docs/threat-model.md names the tests of each attack: all of them exist, and each attack has one.
import { existsSync, readFileSync } from 'node:fs'
import test from 'ava'

const root = new URL('../../', import.meta.url)
const read = (path) => readFileSync(new URL(path, root), 'utf8')
const rows = read('docs/threat-model.md')
  .split('\n')
  .filter((line) => line.startsWith('| '))
  .slice(1)
  .map((line) => line.split('|').slice(1, -1))
const { scripts } = JSON.parse(read('package.json'))

/** Whether a test of a row exists: a test file, a fuzz target or all of them, a file of the core, a script, another tool's command. */
function exists(name) {
  const [, script] = /^npm run (\S+)$/.exec(name) ?? []
  if (script !== undefined) return script in scripts
  const elsewhere = { 'cargo deny check': 'cargo-deny-action@', 'npm audit signatures': 'npm audit signatures' }[name]
  if (elsewhere !== undefined) return read('.github/workflows/ci.yml').includes(elsewhere)
  const paths = [name, `__test__/${name}.test.mjs`, `fuzz/fuzz_targets/${name.replace(/^fuzz /, '')}.rs`]
  return paths.some((path) => existsSync(new URL(path, root)))
}

for (const [attack, answer, triedBy, ...more] of rows) {
  test(`tried: ${attack.trim()}`, (t) => {
    t.deepEqual(more, [])
    t.true(answer.trim().length > 0)
    const names = [...triedBy.matchAll(/`([^`]+)`/g)].map(([, name]) => name)
    t.true(names.length > 0)
    t.deepEqual(
      names.filter((name) => !exists(name)),
      [],
    )
  })
}

test('finds all attacks', (t) => {
  t.true(rows.length > 20)
})
