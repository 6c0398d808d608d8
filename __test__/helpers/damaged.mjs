// The test that every format gets: its files, damaged in each byte and at each length, in a process of their own (mutations.mjs).
// 60 bytes and 60 lengths of each file are tried, 200 where CI is set, all of them with ZTENSOR_MUTATIONS=each, as in `.ci/run`.
// ZTENSOR_MUTATIONS=all tries three flips of a byte, and padding too; another number is the most bytes and lengths of a file.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { turns } from './turns.mjs'

const how = process.env.ZTENSOR_MUTATIONS ?? (process.env.CI ? '200' : '60')
const program = fileURLToPath(new URL('mutations.mjs', import.meta.url))

/** More processes at once than there are processors would only take memory, and run into their time limit. */
const inTurn = turns(availableParallelism())

/** What came of damaging files, in a process of its own. */
async function damage(paths) {
  // A hang ends by a signal, before ava would leave the process behind.
  const child = spawn(process.execPath, ['--expose-gc', program, how, ...paths], {
    timeout: how === 'all' ? 0 : 280_000,
  })
  const [stdout, stderr, [status, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  return { stdout, stderr, status, signal }
}

/** `kinds`: { name: paths of files }, one test for each. */
export function testDamaged(kinds) {
  for (const [kind, paths] of Object.entries(kinds)) {
    test(`${kind}: damaged files are refused, or say what stands in them`, async (t) => {
      const { stdout, stderr, status, signal } = await inTurn(() => damage(paths))
      t.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' })
      const { tried, refused, accepted, strangers, wrong, slowest, grownKiB, largest } = JSON.parse(stdout)
      t.log(
        `${tried} tried, ${refused} refused, ${accepted} accepted, at most ${slowest.toFixed()} ms, ${grownKiB} KiB more`,
      )
      t.deepEqual(strangers, [])
      t.deepEqual(wrong, [])
      t.true(tried > 100 && refused > 0)
      t.is(refused + accepted, tried)
      // Of the processor: that of the machine may be busy.
      t.true(slowest < 1000, `${slowest} ms`)
      t.true(grownKiB <= 64 * 1024 + largest / 1024, `${grownKiB} KiB`)
    })
  }
}
