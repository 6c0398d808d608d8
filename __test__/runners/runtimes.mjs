// `npm run test:runtimes`: the current build under other runtimes, which come from npm into build/runtimes. Without names all of them:
//   node-20 node-22 node-24 node-26   the whole suite (the smoke suite with --smoke)
//   no-external                       the whole suite without external buffers
//   bun deno                          the smoke suite
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { capture, npm, root } from '../../scripts/command.mjs'

const { values, positionals } = parseArgs({ options: { smoke: { type: 'boolean' } }, allowPositionals: true })
const ava = join(root, 'node_modules/ava/entrypoints/cli.mjs')
const smoke = join(root, '__test__/helpers/smoke.mjs')
const folder = join(root, 'build/runtimes')

/** Installs only a runtime's package. Returns the folder of its modules. Throws npm's output if that fails. */
async function install(name, spec) {
  const target = join(folder, name)
  if (!existsSync(join(target, 'node_modules'))) {
    mkdirSync(target, { recursive: true })
    writeFileSync(join(target, 'package.json'), '{"private":true}')
    const { status, output } = await capture(...npm(['install', '--no-audit', '--no-fund', spec]), { cwd: target })
    if (status !== 0) throw new Error(`npm install ${spec}:\n${output}`)
  }
  return join(target, 'node_modules')
}

const whole = values.smoke ? [smoke] : [ava]
const node = (version) => async () => {
  const modules = await install(`node-${version}`, `node-${process.platform}-${process.arch}@${version}`)
  return [join(modules, `node-${process.platform}-${process.arch}`, 'bin/node'), whole]
}
const runtimes = {
  'node-20': node(20),
  'node-22': node(22),
  'node-24': node(24),
  'node-26': node(26),
  'no-external': async () => [process.execPath, whole, { ZTENSOR_NO_EXTERNAL: '1' }],
  bun: async () => [join(await install('bun', 'bun@1'), '.bin/bun'), [smoke]],
  deno: async () => [join(await install('deno', 'deno@2'), '.bin/deno'), ['run', '-A', smoke]],
}

const names = positionals.length > 0 ? positionals : Object.keys(runtimes)
for (const name of names)
  if (!(name in runtimes)) throw new Error(`no such runtime: ${name}; there are ${Object.keys(runtimes).join(', ')}`)
/** All of them are installed while the first ones run. */
const installing = Object.fromEntries(names.map((name) => [name, runtimes[name]()]))
for (const one of Object.values(installing)) one.catch(() => {})

const rows = []
for (const name of names) {
  console.log(`\n# ${name}`)
  try {
    const [program, args, env] = await installing[name]
    const { status, output } = await capture(program, args, { echo: true, env: { ...process.env, ...env } })
    const passed = [...output.matchAll(/^ *[✔√] /gm)].length
    const failed = [...output.matchAll(/^ *[✘✖×] /gm)].length
    // A runtime that died without output, or that ran no test, has failed too.
    rows.push({ name, passed, failed: status !== 0 || passed === 0 ? Math.max(failed, 1) : failed })
  } catch (error) {
    console.error(error.message)
    rows.push({ name, passed: 0, failed: 1 })
  }
}
console.log()
for (const { name, passed, failed } of rows) console.log(`${name.padEnd(12)}${passed} passed, ${failed} failed`)
const total = (key) => rows.reduce((sum, row) => sum + row[key], 0)
console.log(`runtimes: ${total('passed')} passed, ${total('failed')} failed`)
process.exitCode = total('failed') > 0 ? 1 : 0
