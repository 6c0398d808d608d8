// `npm run watch -- WORDS`: on each change of the TypeScript or the tests, builds the wrapper and runs the test files whose paths contain
// one of the words. The addon must be built.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { watch } from 'node:fs'
import { join } from 'node:path'
import { root } from './command.mjs'

/** Editors save a file in several steps. */
const SETTLE_MS = 100
const words = process.argv.slice(2)
const steps = [['scripts/build.mjs', '--wrapper']]
if (words.length > 0) steps.push(['scripts/test.mjs', '--built', ...words])

async function run() {
  for (const step of steps) {
    const [status] = await once(spawn(process.execPath, step, { cwd: root, stdio: 'inherit' }), 'close')
    if (status !== 0) break
  }
  console.log('waiting for changes')
}

let changed = true
let running = false
/** Runs until nothing has changed during a run. */
async function start() {
  if (running) return
  running = true
  while (changed) {
    changed = false
    await run()
  }
  running = false
}

let timer
for (const path of ['index.ts', 'lib', 'cli', 'view', '__test__'])
  watch(join(root, path), { recursive: true }, () => {
    changed = true
    clearTimeout(timer)
    timer = setTimeout(start, SETTLE_MS)
  })
await start()
