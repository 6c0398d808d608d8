// An unfinished writer: the process gets a warning when it is collected.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import test from 'ava'
import { scratchPath } from '../helpers/scratch.mjs'

/** The warnings of a process that creates writers, drops them and collects them. */
function warned(end) {
  const path = scratchPath('unfinished.zt')
  const program = `import { create } from 'ztensor'
    const warnings = []
    process.on('warning', ({ name, code, message }) => warnings.push({ name, code, message }))
    async function work() {
      const writer = await create(process.argv[1])
      await writer.add('a', Float32Array.of(1))
      ${end}
    }
    await work()
    // Collecting takes any number of turns; a process without a warning prints nothing.
    for (let turn = 0; turn < 200 && warnings.length === 0; turn++) {
      gc()
      await new Promise((resolve) => setImmediate(resolve))
    }
    console.log(JSON.stringify(warnings))`
  const args = ['--expose-gc', '--no-warnings', '--input-type=module', '-e', program, path]
  const { stdout, stderr, status } = spawnSync(process.execPath, args, {
    cwd: new URL('.', import.meta.url),
    encoding: 'utf8',
  })
  return { path, warnings: status === 0 ? JSON.parse(stdout) : stderr }
}

test('a writer that is collected without finish() or abort() warns, and names its file', (t) => {
  const { path, warnings } = warned('')
  t.is(warnings.length, 1)
  t.like(warnings[0], { name: 'ZTensorWarning', code: 'ZT_WARN_UNFINISHED' })
  t.true(warnings[0].message.includes(path))
  t.false(existsSync(path))
})

for (const end of ['await writer.finish()', 'await writer.abort()', 'await writer[Symbol.asyncDispose]()']) {
  test(`${end}: no warning`, (t) => {
    t.deepEqual(warned(end).warnings, [])
  })
}
