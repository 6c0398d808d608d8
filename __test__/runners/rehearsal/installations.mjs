// Complete and broken installations from the registry, on this machine.
import assert from 'node:assert/strict'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { npm, root } from '../../../scripts/command.mjs'
import { binaryOf, hostPlatform, manifest, packageOf } from '../../../scripts/platform.mjs'
import { platformPackages } from '../../../scripts/platform-packages.mjs'
import { expectedDigests, fixture } from './consumer.mjs'
import { installedIn, tool } from './registry.mjs'

const name = packageOf(hostPlatform)
/** The flags with which npm installs for a platform. */
const flags = ({ os, cpu, libc }) => [`--os=${os}`, `--cpu=${cpu}`, ...(libc === undefined ? [] : [`--libc=${libc}`])]
const other = platformPackages.find(({ os }) => os !== process.platform && os !== 'linux')

// One reader for both module systems: prints the sha256 of each tensor.
const REPORT = `
const digest = (data) => createHash('sha256').update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)).digest('hex')
const file = ztensor.openSync(process.argv[2])
console.log(JSON.stringify(Object.fromEntries(Array.from(file, ([name, tensor]) => [name, digest(tensor.data)]))))
file.close()
`
const SCRIPTS = {
  'by-import.mjs': `import { createHash } from 'node:crypto'\nimport * as ztensor from 'ztensor'\n${REPORT}`,
  'by-require.cjs': `const { createHash } = require('node:crypto')\nconst ztensor = require('ztensor')\n${REPORT}`,
  'identity.mjs': `import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import * as imported from 'ztensor'
const required = createRequire(import.meta.url)('ztensor')
assert.deepEqual(Object.keys(imported).sort(), Object.keys(required).sort())
for (const name of Object.keys(required)) assert.equal(imported[name], required[name], name)
const file = imported.openSync(process.argv[2])
assert.ok(file instanceof required.TensorFile)
for (const tensor of file.values()) assert.ok(tensor instanceof required.Tensor)
assert.throws(() => required.openSync('missing.zt'), imported.ZTensorError)
for (const entry of ['ztensor/jobs', 'ztensor/report']) {
  const [one, other] = [await import(entry), createRequire(import.meta.url)(entry)]
  assert.deepEqual(Object.keys(one).sort(), Object.keys(other).sort())
}
file.close()
`,
}

/** The steps of a user after `npm install ztensor`. */
export async function usage(check, consumer) {
  const app = consumer()
  await check('npm installs the package and that of this machine, and no other', async () => {
    await app.npm('install', 'ztensor')
    assert.deepEqual(installedIn(app.folder), [name, 'ztensor'])
  })
  for (const [script, text] of Object.entries(SCRIPTS)) writeFileSync(join(app.folder, script), text)
  const expected = expectedDigests()
  for (const script of ['by-import.mjs', 'by-require.cjs']) {
    await check(`${script} reads the fixture's bytes`, async () => {
      const { stdout } = await app.succeed(process.execPath, [script, fixture])
      assert.deepEqual(JSON.parse(stdout), expected)
    })
  }
  await check('classes and functions exist once under import and require', () =>
    app.succeed(process.execPath, ['identity.mjs', fixture]),
  )
  await check('npx ztensor ls names each tensor', async () => {
    const npx = join(dirname(npm([])[1][0] ?? ''), 'npx-cli.js')
    const [program, args] = process.env.npm_execpath === undefined ? ['npx', []] : [process.execPath, [npx]]
    const { stdout } = await app.succeed(program, [...args, '--no-install', 'ztensor', 'ls', fixture])
    for (const one of Object.keys(expected)) assert.ok(stdout.includes(one), `${one} is missing from:\n${stdout}`)
  })
  await check('a strict consumer compiles against the installed package', async () => {
    cpSync(join(root, '__test__/types'), join(app.folder, 'types'), { recursive: true })
    for (const types of ['@types/node', 'undici-types'])
      cpSync(join(root, 'node_modules', types), join(app.folder, 'node_modules', types), { recursive: true })
    const tsc = createRequire(import.meta.url).resolve('typescript/lib/tsc.js')
    await app.succeed(process.execPath, [tsc, '--project', 'types'])
  })
}

/** pnpm, yarn and bun. */
export async function otherManagers(check, consumer) {
  const smoke = async (app, ...node) => `smoke: ${await app.smoke(...node)} passed`
  await check('pnpm installs it', async () => {
    const app = consumer()
    await app.succeed(process.execPath, [tool('pnpm/bin/pnpm.cjs'), 'add', 'ztensor'])
    return smoke(app)
  })
  const yarn = tool('@yarnpkg/cli-dist/bin/yarn.js')
  for (const [linker, node] of Object.entries({ 'node-modules': [], pnp: [process.execPath, yarn, 'node'] })) {
    await check(`yarn installs it, with the linker ${linker}`, async () => {
      const app = consumer()
      writeFileSync(join(app.folder, 'yarn.lock'), '')
      writeFileSync(
        join(app.folder, '.yarnrc.yml'),
        `nodeLinker: ${linker}\nenableGlobalCache: false\npnpEnableEsmLoader: true\n`,
      )
      await app.succeed(process.execPath, [yarn, 'add', 'ztensor'])
      assert.equal(existsSync(join(app.folder, '.pnp.cjs')), linker === 'pnp')
      return smoke(app, ...node)
    })
  }
  await check('bun installs it', async () => {
    const app = consumer()
    await app.succeed(tool('bun/bin/bun.exe'), ['add', 'ztensor'])
    return smoke(app)
  })
}

/** npm chooses the package of each platform. */
export async function selection(check, consumer) {
  for (const one of platformPackages)
    await check(`npm installs ${one.name}, and no other, with ${flags(one).join(' ')}`, async () => {
      const app = consumer()
      await app.npm('install', 'ztensor', ...flags(one))
      assert.deepEqual(installedIn(app.folder), [one.name, 'ztensor'])
    })
  await check('npm installs no binary on a platform without one', async () => {
    const app = consumer()
    await app.npm('install', 'ztensor', '--os=linux', '--cpu=arm', '--libc=musl')
    assert.deepEqual(installedIn(app.folder), ['ztensor'])
  })
}

/** Runs the command of npm that a message names. */
async function follow(app, message, pattern) {
  const [, command] = pattern.exec(message) ?? assert.fail(`no command in:\n${message}`)
  await app.npm(...command.split(' '))
}

const INSTALL = /"npm (install @ztensor\/[^"]+)"/
const binary = (app) => join(app.folder, 'node_modules', name, binaryOf(hostPlatform))

/** Installations without the binary, or with a wrong one: the message names the command that repairs each, and it works. */
export async function brokenInstallations(check, consumer, registry) {
  await check('npm ci with a lock file of another operating system', async () => {
    const app = consumer()
    await app.npm('install', 'ztensor', ...flags(other))
    assert.deepEqual(installedIn(app.folder), [other.name, 'ztensor'])
    rmSync(join(app.folder, 'node_modules'), { recursive: true })
    await app.npm('ci')
    assert.deepEqual(installedIn(app.folder), [name, 'ztensor'])
    await app.smoke()
  })
  await check('--omit=optional: the command in the message installs the binary', async () => {
    const app = consumer()
    await app.npm('install', 'ztensor', '--omit=optional')
    assert.deepEqual(installedIn(app.folder), ['ztensor'])
    const message = await app.failure()
    assert.ok(message.includes('--omit=optional') && message.includes(`${name}@${manifest.version}`), message)
    await follow(app, message, INSTALL)
    await app.smoke()
  })
  await check('node_modules from another machine: the command in the message adds the binary', async () => {
    const app = consumer()
    await app.npm('install', 'ztensor', ...flags(other))
    await follow(app, await app.failure(), /"npm (install --os=[^"]+)"/)
    await app.smoke()
  })
  await check(
    'a web page of a proxy as the binary: the message names the file to delete and the package to install',
    async () => {
      const app = consumer()
      await app.npm('install', 'ztensor')
      writeFileSync(binary(app), '<html>')
      const message = await app.failure()
      const [, damaged] = /delete (\S+) and run/.exec(message) ?? assert.fail(message)
      rmSync(join(app.folder, damaged), { recursive: true })
      await follow(app, message, INSTALL)
      await app.smoke()
    },
  )
  await check('a damaged download is not installed, and can be repeated', async () => {
    const app = consumer()
    const stored = join(registry.storage, name)
    const tarball = join(
      stored,
      readdirSync(stored).find((file) => file.endsWith('.tgz')),
    )
    const whole = readFileSync(tarball)
    writeFileSync(tarball, whole.subarray(0, whole.length / 2))
    const cache = `--cache=${join(app.folder, 'cache')}`
    const { status } = await app.run(...npm(['install', 'ztensor', cache]))
    writeFileSync(tarball, whole)
    assert.ok(!existsSync(binary(app)), 'half a binary was installed')
    if (status === 0) await follow(app, await app.failure(), INSTALL)
    else await app.npm('install', 'ztensor', cache)
    await app.smoke()
    return status === 0 ? 'npm went on without the binary' : 'npm failed'
  })
  await check('an asar archive keeps the binary outside, where it loads', async () => {
    const app = consumer()
    await app.npm('install', 'ztensor')
    const archive = join(app.folder, 'out/app.asar')
    const asar = tool('@electron/asar/bin/asar.js')
    await app.succeed(process.execPath, [asar, 'pack', 'node_modules', archive, '--unpack', '**/*.node'])
    const { stdout } = await app.succeed(process.execPath, [asar, 'list', '--is-pack', archive])
    const packed = stdout
      .trim()
      .split('\n')
      .map((line) => line.replaceAll('\\', '/'))
    const file = `/${name}/${binaryOf(hostPlatform)}`
    assert.ok(
      packed.some((line) => /^unpack *:/.test(line) && line.endsWith(file)),
      stdout,
    )
    assert.ok(
      packed.some((line) => /^pack *:/.test(line) && line.endsWith('/ztensor/dist/index.js')),
      stdout,
    )
    const load = 'process.exitCode = require(process.argv[1]).formats().length > 0 ? 0 : 1'
    await app.succeed(process.execPath, ['-e', load, `${archive}.unpacked${file}`])
  })
}
