// The test for every format: its files, damaged in each byte and at each length, in a child process (mutations.mjs).
// ZTENSOR_MUTATIONS sets how many bytes and lengths of each file are tried: a number, 60 by default and 200 in CI; `each` tries all of them,
// as `.ci/run` does; `all` also tries three flips of a byte, and padding.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { turns } from './turns.mjs'

const how = process.env.ZTENSOR_MUTATIONS ?? (process.env.CI ? '200' : '60')
const program = fileURLToPath(new URL('mutations.mjs', import.meta.url))

/** More processes than processors would only take memory, and exceed their time limit. */
const inTurn = turns(availableParallelism())

/** Damages files in a child process, and returns its result. */
async function damage(paths) {
  // A signal ends a process that hangs, before ava would abandon it.
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
    test(`${kind}: damaged files are rejected, or return their data`, async (t) => {
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
      // CPU time, because the machine may be busy.
      t.true(slowest < 1000, `${slowest} ms`)
      t.true(grownKiB <= 64 * 1024 + largest / 1024, `${grownKiB} KiB`)
    })
  }
}
