// `npm run pack:check`: packs the main package and the package of this platform as a release does, reads what is in them,
// and installs them into an empty folder on a PATH without Rust, where they must work under import and under require, on the
// command line and in a strict compiler. Needs `npm run build` first.
import assert from 'node:assert/strict'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { capture, npm, root } from '../../scripts/command.mjs'
import { createMainPackage } from '../../scripts/main-package.mjs'
import { binaryOf, hostPlatform, MAX_BYTES, packageOf } from '../../scripts/platform.mjs'
import { addAddon, platformPackages } from '../../scripts/platform-packages.mjs'
import { serveRegistry } from './local-registry.mjs'

const KIB = 1024
// The wrapper is text, far below this; more would mean that something is in it by mistake. The addon holds every format
// and the clients of servers, and is half as large when packed. Debug information makes it ten times that.
const MAIN_LIMIT = 512 * KIB
const PLATFORM_LIMIT = 7 * 1024 * KIB

const require = createRequire(import.meta.url)
const fixture = join(root, '__test__/fixtures/zt12-dtypes.zt')
let passed = 0
let failed = 0

async function check(claim, prove) {
  try {
    await prove()
    passed += 1
    console.log(`ok     ${claim}`)
  } catch (error) {
    failed += 1
    console.log(`FAILED ${claim}\n${error.message}\n`)
  }
}

async function succeed(program, args, options) {
  const result = await capture(program, args, options)
  assert.equal(result.status, 0, `${program} ${args.join(' ')} ended with ${result.status}:\n${result.output}`)
  return result
}

/** Packs a folder into `to`. Returns npm's own report: filename, size, files. */
async function pack(folder, to) {
  const [program, args] = npm(['pack', '--json', '--pack-destination', to])
  const { stdout } = await succeed(program, args, { cwd: folder })
  const [report] = Object.values(JSON.parse(stdout))
  return { ...report, tarball: join(to, report.filename), paths: report.files.map(({ path }) => path).sort() }
}

/** A PATH on which there is Node, npm and a shell, and no Rust. */
function pathWithoutRust(folder) {
  if (process.platform === 'win32') {
    const hasRust = (entry) =>
      ['cargo.exe', 'rustc.exe'].some((name) => statSync(join(entry, name), { throwIfNoEntry: false }))
    return process.env.PATH.split(delimiter)
      .filter((entry) => entry !== '' && !hasRust(entry))
      .join(delimiter)
  }
  mkdirSync(folder)
  const find = (name) =>
    process.env.PATH.split(delimiter)
      .map((entry) => join(entry, name))
      .find((path) => statSync(path, { throwIfNoEntry: false }))
  for (const name of ['npm', 'npx', 'sh']) symlinkSync(realpathSync(find(name)), join(folder, name))
  symlinkSync(process.execPath, join(folder, 'node'))
  return folder
}

const work = realpathSync(mkdtempSync(join(tmpdir(), 'ztensor-pack-')))
process.on('exit', () => rmSync(work, { recursive: true, force: true }))
const consumer = join(work, 'consumer')
mkdirSync(consumer)

const host = platformPackages.find(({ platform }) => platform === hostPlatform)
if (host === undefined) throw new Error(`no package is made for ${hostPlatform}`)
if (!addAddon(host, root)) throw new Error(`${binaryOf(hostPlatform)} is missing: run \`npm run build\``)
const main = await pack(createMainPackage(), work)
const addon = await pack(host.folder, work)
console.log(`${main.filename}: ${Math.ceil(main.size / KIB)} KiB, ${main.paths.length} files`)
console.log(`${addon.filename}: ${Math.ceil(addon.size / KIB)} KiB, ${addon.paths.length} files\n`)

await check('the main package holds the compiled wrapper, its types and its documents, and nothing else', () => {
  const tooOld = 'ztensor-needs-typescript-5.4-or-newer.d.ts'
  const documents = ['CHANGELOG.md', 'LICENSE', 'README.md', 'index.d.mts', 'index.d.ts', 'package.json', tooOld]
  const rest = main.paths.filter((path) => !documents.includes(path))
  assert.deepEqual(
    documents.filter((path) => !main.paths.includes(path)),
    [],
    'missing',
  )
  assert.deepEqual(
    rest.filter((path) => !/^dist\/(index|shared|deferred|cli|command|report-page)\.m?js$/.test(path)),
    [],
    'unexpected',
  )
  for (const path of ['dist/index.js', 'dist/index.mjs', 'dist/cli.js', 'dist/command.js'])
    assert.ok(rest.includes(path), path)
})
await check(`the main package is at most ${MAIN_LIMIT / KIB} KiB`, () => assert.ok(main.size <= MAIN_LIMIT))
await check('the platform package holds the addon, and nothing else', () => {
  assert.deepEqual(addon.paths, ['LICENSE', 'README.md', 'package.json', binaryOf(hostPlatform)])
})
await check(`the addon is at most ${MAX_BYTES / KIB} KiB, packed ${PLATFORM_LIMIT / KIB} KiB`, () => {
  assert.ok(addon.size <= PLATFORM_LIMIT, `packed ${addon.size}`)
  assert.ok(addon.unpackedSize <= MAX_BYTES, `${addon.unpackedSize}`)
})
await check('publint finds nothing', () =>
  succeed(process.execPath, [join(root, 'node_modules/publint/src/cli.js'), '--strict', main.tarball]),
)
await check('the types resolve in every module system (attw)', () =>
  succeed(process.execPath, [
    join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js'),
    '--no-color',
    '--profile',
    'node16',
    main.tarball,
  ]),
)

const registry = await serveRegistry(
  platformPackages.map((made) => (made === host ? { ...made, tarball: addon.tarball } : made)),
)
const env = { ...process.env, PATH: pathWithoutRust(join(work, 'bin')) }
// What `npm run` says of this repository would make the npm below work here instead of in the consumer.
for (const name of Object.keys(env)) {
  if (/^(npm_(package|lifecycle|command|config_local_prefix)|INIT_CWD|NODE_PATH)/i.test(name)) delete env[name]
}
writeFileSync(join(consumer, '.npmrc'), `@ztensor:registry=${registry.url}\n`)
writeFileSync(join(consumer, 'package.json'), '{ "private": true }\n')
const inConsumer = { cwd: consumer, env }
const run = (script, ...args) => succeed(process.execPath, [join(consumer, script), ...args], inConsumer)

await check('there is no Rust on the PATH of what follows', async () => {
  for (const name of ['cargo', 'rustc']) assert.equal((await capture(name, ['--version'], inConsumer)).status, 127)
})
await check('npm installs both packages, and only the one platform', async () => {
  const [program, args] = npm(['install', '--prefer-offline', '--no-audit', '--no-fund', main.tarball])
  await succeed(program, args, inConsumer)
  const lock = JSON.parse(readFileSync(join(consumer, 'node_modules/.package-lock.json'), 'utf8'))
  const installed = Object.keys(lock.packages).filter((path) => path.includes('@ztensor/'))
  assert.deepEqual(installed, [`node_modules/${packageOf(hostPlatform)}`])
  assert.deepEqual(registry.wrongRequests, [])
})

// One reader for both module systems: prints the sha256 of each component of each tensor.
const report = `
const digest = (data) => createHash('sha256').update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)).digest('hex')
const file = ztensor.openSync(process.argv[2])
const digests = {}
for (const [name, tensor] of file) digests[name] = digest(tensor.data)
console.log(JSON.stringify(digests))
file.close()
`
writeFileSync(
  join(consumer, 'by-import.mjs'),
  `import { createHash } from 'node:crypto'\nimport * as ztensor from 'ztensor'\n${report}`,
)
writeFileSync(
  join(consumer, 'by-require.cjs'),
  `const { createHash } = require('node:crypto')\nconst ztensor = require('ztensor')\n${report}`,
)
writeFileSync(
  join(consumer, 'identity.mjs'),
  `import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import * as imported from 'ztensor'
const required = createRequire(import.meta.url)('ztensor')
assert.deepEqual(Object.keys(imported).sort(), Object.keys(required).sort())
for (const name of Object.keys(required)) assert.equal(imported[name], required[name], name)
const file = imported.openSync(process.argv[2])
assert.ok(file instanceof required.TensorFile)
for (const tensor of file.values()) assert.ok(tensor instanceof required.Tensor)
assert.throws(() => required.openSync('missing.zt'), imported.ZTensorError)
file.close()
`,
)

const sidecar = JSON.parse(readFileSync(`${fixture}.json`, 'utf8'))
const expected = Object.fromEntries(sidecar.tensors.map(({ name, components }) => [name, components.data.sha256]))
for (const script of ['by-import.mjs', 'by-require.cjs']) {
  await check(`${script} reads the fixture's bytes`, async () => {
    const { stdout } = await run(script, fixture)
    assert.deepEqual(JSON.parse(stdout), expected)
  })
}
await check('classes and functions exist once under import and require', () => run('identity.mjs', fixture))
await check('npx ztensor ls names each tensor', async () => {
  const npx = join(dirname(npm([])[1][0] ?? ''), 'npx-cli.js')
  const [program, args] = process.env.npm_execpath === undefined ? ['npx', []] : [process.execPath, [npx]]
  const { stdout } = await succeed(program, [...args, '--no-install', 'ztensor', 'ls', fixture], inConsumer)
  for (const name of Object.keys(expected)) assert.ok(stdout.includes(name), `${name} is missing from:\n${stdout}`)
})
await check('a strict consumer compiles against what is installed', async () => {
  const types = join(consumer, 'types')
  cpSync(join(root, '__test__/types'), types, { recursive: true })
  for (const name of ['@types/node', 'undici-types']) {
    cpSync(join(root, 'node_modules', name), join(consumer, 'node_modules', name), { recursive: true })
  }
  await succeed(process.execPath, [require.resolve('typescript/lib/tsc.js'), '--project', types], inConsumer)
})
await check('without its platform package the wrapper says which one is missing', async () => {
  rmSync(join(consumer, 'node_modules/@ztensor'), { recursive: true })
  const { status, output } = await capture(process.execPath, [join(consumer, 'by-require.cjs'), fixture], inConsumer)
  assert.notEqual(status, 0)
  assert.ok(output.includes(packageOf(hostPlatform)), output)
})

registry.close()
console.log(`\npack checks: ${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
