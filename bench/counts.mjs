// `npm run bench -- --counts`: counts the instructions of the paths in crates/handover/examples/counts.rs with valgrind, and compares them
// with bench/counts.json. Instructions do not depend on what else the machine does, so 3 % more is a change of the code or of the
// compiler. `--write` records new counts: commit them with the change that explains them.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture, isInstalled, root } from '../scripts/command.mjs'

const MAX_CHANGE = 0.03
const recorded = join(root, 'bench/counts.json')
const folder = join(root, 'build/bench/counts')
const program = join(root, 'target/release/examples/counts')
// One core: how work is divided would change the counts. /dev/null: the profile is not kept.
const valgrind = ['-c', '0', 'valgrind', '--tool=cachegrind', '--cache-sim=no', '--cachegrind-out-file=/dev/null']

/** The instructions of a run that repeats a path `times` times. */
async function instructions(path, times) {
  const { status, stderr } = await capture('taskset', [...valgrind, program, path, folder, String(times)])
  const [, count] = /I +refs: +([\d,]+)/.exec(stderr) ?? []
  if (status !== 0 || count === undefined) throw new Error(`valgrind failed for '${path}':\n${stderr}`)
  return Number(count.replaceAll(',', ''))
}

/** Compares all paths, or records them. Returns whether none takes more than MAX_CHANGE more, or less, than recorded. */
export async function counts({ record }) {
  for (const tool of ['valgrind', 'taskset', 'cargo'])
    if (!isInstalled(tool)) throw new Error(`${tool} is not installed: instructions cannot be counted without it`)
  const cargo = ['build', '--quiet', '--profile', 'bench', '-p', 'ztensor-handover', '--example', 'counts']
  execFileSync('cargo', cargo, { cwd: root, stdio: 'inherit' })
  execFileSync(program, ['prepare', folder], { stdio: 'inherit' })
  const paths = execFileSync(program, { encoding: 'utf8' }).trim().split('\n')
  const before = JSON.parse(readFileSync(recorded, 'utf8'))
  const now = {}
  let [passed, failed] = [0, 0]
  for (const path of paths) {
    const [once, twice] = await Promise.all([instructions(path, 1), instructions(path, 2)])
    now[path] = twice - once
    const change = now[path] / (before[path] ?? Number.NaN) - 1
    const isSame = Math.abs(change) <= MAX_CHANGE
    if (isSame || record) passed += 1
    else failed += 1
    const percent = before[path] === undefined ? 'new' : `${change < 0 ? '' : '+'}${(change * 100).toFixed(2)} %`
    console.log(
      `${isSame || record ? '      ' : 'FAILED'} ${path.padEnd(40)} ${String(now[path]).padStart(12)} ${percent.padStart(9)}`,
    )
  }
  if (record) writeFileSync(recorded, `${JSON.stringify(now, null, 2)}\n`)
  else if (failed > 0)
    console.log('If the change is meant: npm run bench -- --counts --write, and commit bench/counts.json.')
  console.log(`counts: ${passed} passed, ${failed} failed`)
  return failed === 0
}
