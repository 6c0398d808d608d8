// Files that a peer wrote again, each with what the peer says of it.
import { join } from 'node:path'
import { open } from 'ztensor'
import { readings } from '../__test__/helpers/readings.mjs'

/** Whether files say the same in every way of reading, verification included: [{ what, error }], the error undefined where they do. */
export async function compareReadings(folder, names) {
  return compareFiles(
    folder,
    names.map((name) => [name, []]),
    () => [],
  )
}

/**
 * The same, and what `differences(file, expected)` finds, of files and what is expected of each.
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
