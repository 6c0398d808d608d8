// The tests for files of other tools, which are in fixtures/ with an expected.json.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { differences, expectedIn } from './expected-files.mjs'
import { readings } from './readings.mjs'

/**
 * Tests the contents of every file of a folder, and that all ways of reading agree. `same(t, file, name)` checks the properties of
 * the file, `verified(t, report, name, file)` the result of its `verify()`.
 */
export function testExpected(folder, { same, verified }) {
  const files = expectedIn(folder)
  test('every file has a description, and every description a file', (t) => {
    const names = readdirSync(folder).filter((name) => name !== 'expected.json')
    t.deepEqual(names.sort(), Object.keys(files).sort())
  })
  for (const [name, tensors] of Object.entries(files)) {
    const path = join(folder, name)
    test(`${name}: has the described contents`, async (t) => {
      for (const source of [path, new Uint8Array(readFileSync(path))]) {
        for (const opening of [open, openSync]) {
          const file = await opening(source)
          same(t, file, name)
          t.deepEqual(differences(file, tensors), [])
          file.close()
        }
      }
    })

    test(`${name}: all ways of reading agree`, async (t) => {
      const file = openSync(path)
      const { wrong } = await readings(file)
      t.deepEqual(wrong, [])
      const report = await file.verify()
      t.true(report.ok)
      verified(t, report, name, file)
      file.close()
    })
  }
}
