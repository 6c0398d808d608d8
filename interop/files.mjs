// Files that a peer wrote now, each with the peer's record of it.
import { join } from 'node:path'
import { open } from 'ztensor'
import { readings } from '../__test__/helpers/readings.mjs'

/** Returns [{ what, error }] for each file. The error is undefined if every way of reading, and verify, gives the same. */
export async function compareReadings(folder, names) {
  return compareFiles(
    folder,
    names.map((name) => [name, []]),
    () => [],
  )
}

/**
 * Like `compareReadings`, and the error also contains the result of `differences(file, expected)`.
 */
export async function compareFiles(folder, entries, differences) {
  const results = []
  for (const [what, expected] of entries) {
    const file = await open(join(folder, what))
    const wrong = [...(await differences(file, expected)), ...(await readings(file)).wrong]
    const { failures } = await file.verify()
    wrong.push(...failures.map(({ message }) => message))
    file.close()
    results.push({ what, error: wrong.length > 0 ? new Error(wrong.join('; ')) : undefined })
  }
  return results
}
