// The tests that files of other tools get, which are in fixtures/ with an expected.json.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { differences, expectedIn } from './expected-files.mjs'
import { readings } from './readings.mjs'

/**
 * Of every file of a folder: what stands in it, and that all ways of reading agree. `same(t, file, name)` looks at what a file says
 * of itself, `verified(t, report, name, file)` at what its `verify()` gives.
 */
export function testExpected(folder, { same, verified }) {
  const files = expectedIn(folder)
  test('every file is expected, and every expected file there', (t) => {
    const names = readdirSync(folder).filter((name) => name !== 'expected.json')
    t.deepEqual(names.sort(), Object.keys(files).sort())
  })
  for (const [name, tensors] of Object.entries(files)) {
    const path = join(folder, name)
    test(`${name}: what stands in it`, async (t) => {
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
