// A folder in which the package is installed from the registry, as a user does, and checks of it.
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, readFileSync, realpathSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { capture, npm, root } from '../../../scripts/command.mjs'

export const fixtures = `${join(root, '__test__/fixtures')}/`
export const fixture = join(fixtures, 'zt12-dtypes.zt')

/** A PATH with Node, npm and a shell, without Rust. */
export function pathWithoutRust(folder) {
  const entries = process.env.PATH.split(delimiter).filter((entry) => entry !== '')
  if (process.platform === 'win32') {
    const hasRust = (entry) =>
      ['cargo.exe', 'rustc.exe'].some((name) => statSync(join(entry, name), { throwIfNoEntry: false }))
    return entries.filter((entry) => !hasRust(entry)).join(delimiter)
  }
  mkdirSync(folder)
  const find = (name) =>
    entries.map((entry) => join(entry, name)).find((path) => statSync(path, { throwIfNoEntry: false }))
  for (const name of ['npm', 'npx', 'sh', 'dirname', 'uname', 'sed', 'cat'])
    if (find(name) !== undefined) symlinkSync(realpathSync(find(name)), join(folder, name))
  symlinkSync(process.execPath, join(folder, 'node'))
  return folder
}

/** An empty application in `folder`, where programs run with `env`. */
export function createConsumer(folder, env) {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "name": "consumer", "private": true }\n')
  for (const name of ['smoke.mjs', 'values.mjs', 'bytes.mjs', 'emulator.mjs'])
    copyFileSync(join(root, '__test__/helpers', name), join(folder, name))
  const options = { cwd: folder, env: { ...env, ZTENSOR_FIXTURES: fixtures } }
  const run = (program, args) => capture(program, args, options)
  async function succeed(program, args) {
    const result = await run(program, args)
    assert.equal(result.status, 0, `${program} ${args.join(' ')} ended with ${result.status}:\n${result.output}`)
    return result
  }
  return {
    folder,
    run,
    succeed,
    npm: (...args) => succeed(...npm(args)),
    /** Runs the smoke tests with a Node, as a command line. Returns how many passed. */
    async smoke(...node) {
      const [program, ...args] = node.length > 0 ? node : [process.execPath]
      const { output } = await succeed(program, [...args, 'smoke.mjs'])
      const [, passed] = /smoke: (\d+) passed, 0 failed/.exec(output) ?? assert.fail(output)
      return Number(passed)
    },
    /** The values of all fixtures, as this Node reads them. */
    async values(node = process.execPath) {
      const { stdout } = await succeed(node, ['values.mjs'])
      return JSON.parse(stdout)
    },
    /** The message of the error with which the package fails to load. */
    async failure() {
      const { status, stdout, output } = await run(process.execPath, [
        ...['-e', `try { require('ztensor') } catch (error) { console.log(error.code + ' ' + error.message) }`],
      ])
      assert.equal(status, 0, output)
      assert.match(stdout, /^ZT_NO_BINARY /, output)
      return stdout
    },
  }
}

/** The digest of each tensor's data by the fixture's sidecar. */
export function expectedDigests() {
  const sidecar = JSON.parse(readFileSync(`${fixture}.json`, 'utf8'))
  return Object.fromEntries(sidecar.tensors.map(({ name, components }) => [name, components.data.sha256]))
}
