// The messages of the package and the command if the native binary is missing or damaged, or does not exist for the platform.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { binaryOf, hostPlatform, packageOf } from '../../scripts/platform.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const root = new URL('../../', import.meta.url)
const { version } = JSON.parse(readFileSync(new URL('package.json', root)))
const name = packageOf(hostPlatform)

/** The wrapper in an empty folder, as npm leaves it without optional packages. */
function bare() {
  const folder = join(scratchPath('app'), 'ztensor')
  mkdirSync(folder, { recursive: true })
  cpSync(new URL('dist', root), join(folder, 'dist'), { recursive: true })
  return folder
}

const PRINT = `
try {
  require(process.argv[1])
} catch ({ code, message, cause }) {
  console.log(JSON.stringify({ code, message, cause: cause?.code }))
}`

function failureIn(folder, ...options) {
  const { stdout, stderr } = spawnSync(process.execPath, [...options, '-e', PRINT, join(folder, 'dist/index.js')], {
    encoding: 'utf8',
  })
  if (stdout === '') throw new Error(stderr)
  return JSON.parse(stdout)
}

test('names a missing binary, the command that installs it and common reasons', (t) => {
  const { code, message, cause } = failureIn(bare())
  t.is(code, 'ZT_NO_BINARY')
  t.is(cause, 'MODULE_NOT_FOUND')
  const [problem, ...remedies] = message.split('\n')
  t.is(problem, `the native binary of ztensor is missing. Run "npm install ${name}@${version}".`)
  for (const word of ['--omit=optional', 'package-lock.json', `--os=${process.platform}`, 'bundle', 'ztensor/web'])
    t.is(remedies.filter((line) => line.includes(word)).length, 1, word)
})

test('a file that is not a binary does not load, and the message names the package to reinstall', (t) => {
  const folder = bare()
  writeFileSync(join(folder, binaryOf(hostPlatform)), 'a web page of a proxy')
  const { code, message } = failureIn(folder)
  t.is(code, 'ZT_NO_BINARY')
  t.true(message.startsWith(`the native binary of ztensor, ${name}, does not load: `), message)
  t.true(message.includes(`delete node_modules/${name} and run "npm install ${name}@${version}"`), message)
})

test('names a platform without a package', (t) => {
  const folder = bare()
  const preload = join(folder, 'other.cjs')
  writeFileSync(preload, `Object.defineProperty(process, 'arch', { value: 'riscv64' })`)
  const { code, message } = failureIn(folder, '-r', preload)
  t.is(code, 'ZT_NO_BINARY')
  t.regex(
    message,
    /^ztensor has no prebuilt binary for \w+-riscv64.*\n.*npm run build.*\n.*npm install @ztensor\/web@.*ztensor\/web/,
  )
})

test('the command prints the same, and does not call it a bug', (t) => {
  const { status, stderr } = spawnSync(process.execPath, [join(bare(), 'dist/cli.js'), 'ls', 'model.zt'], {
    encoding: 'utf8',
  })
  t.is(status, 2)
  t.true(stderr.includes(`npm install ${name}@${version}`), stderr)
  t.true(stderr.includes('(ZT_NO_BINARY)'), stderr)
  t.notRegex(stderr, /bug|ZT_INTERNAL/)
})

test('names Node without addons, not a damaged file', (t) => {
  const folder = bare()
  cpSync(new URL(binaryOf(hostPlatform), root), join(folder, binaryOf(hostPlatform)))
  const { code, message, cause } = failureIn(folder, '--no-addons')
  t.deepEqual([code, cause], ['ZT_NO_BINARY', 'ERR_DLOPEN_DISABLED'])
  t.regex(message, /--no-addons.*run it without that option\.$/)
  t.notRegex(message, /damaged|older|npm install/)
})
