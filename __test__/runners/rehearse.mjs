// `npm run rehearse [-- [--built] [--quick] PLATFORM...]`: a release, up to the registry. Builds the addons of these platforms, packs,
// publishes to a registry on this machine, and installs from there into empty folders, where the package must work without Rust: by npm,
// pnpm, yarn and bun, for every platform, and with broken installations. Addons for other platforms of Linux run under qemu.
//   --built   the existing addons (ztensor.<platform>.node): of this machine by default
//   --quick   unoptimized addons, whose size is not checked
// Without platforms: this machine's, and on Linux the one for musl. `all` names all that this machine can run.
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { capture, root } from '../../scripts/command.mjs'
import { describe, installMachine, runnable, rustFor } from '../../scripts/machines.mjs'
import { binaryOf, hostPlatform } from '../../scripts/platform.mjs'
import { platformPackages } from '../../scripts/platform-packages.mjs'
import { createConsumer, pathWithoutRust } from './rehearsal/consumer.mjs'
import { brokenInstallations, otherManagers, selection, usage } from './rehearsal/installations.mjs'
import { checkPackages } from './rehearsal/packages.mjs'
import { installTools, settingsFor, startRegistry } from './rehearsal/registry.mjs'

const { values, positionals } = parseArgs({
  options: { built: { type: 'boolean' }, quick: { type: 'boolean' } },
  allowPositionals: true,
})
const defaults = values.built || hostPlatform !== 'linux-x64-gnu' ? [hostPlatform] : [hostPlatform, 'linux-x64-musl']
const names = positionals.includes('all') ? runnable : positionals.length > 0 ? positionals : defaults
const platforms = names.map((name) => {
  const found = platformPackages.find(({ platform, target }) => [platform, target].includes(name))
  if (found === undefined || !runnable.includes(found.platform))
    throw new Error(`${name} cannot be rehearsed on this machine: choose from ${runnable.join(', ')}`)
  return found
})

let passed = 0
let failed = 0
/** Runs one check and prints its result. */
async function check(claim, prove) {
  const started = performance.now()
  try {
    const detail = await prove()
    passed += 1
    const seconds = Math.round((performance.now() - started) / 1000)
    console.log(
      `ok     ${claim}${typeof detail === 'string' ? ` (${detail})` : ''}${seconds > 1 ? `, ${seconds} s` : ''}`,
    )
  } catch (error) {
    failed += 1
    console.log(`FAILED ${claim}\n${error.message}\n`)
  }
}

async function succeed(program, args, options) {
  const { status, output } = await capture(program, args, options)
  assert.equal(status, 0, `${program} ${args.join(' ')} ended with ${status}:\n${output}`)
  return output
}

const work = realpathSync(mkdtempSync(join(tmpdir(), 'ztensor-rehearsal-')))
process.on('exit', () => rmSync(work, { recursive: true, force: true }))
const addons = join(root, 'build/rehearsal/addons')
rmSync(addons, { recursive: true, force: true })
mkdirSync(addons, { recursive: true })

/** An unoptimized addon is small enough to publish if it has no debug information. */
const QUICK = { CARGO_PROFILE_DEV_STRIP: 'symbols', CARGO_PROFILE_DEV_DEBUG: 'none' }
/** The platforms whose addon is not a release build. */
const quick = new Set()
/** Builds the addon of a platform, or copies the existing one, into `addons`. */
async function buildAddon({ platform, target }) {
  const built = join(root, binaryOf(platform))
  const isBuilt = values.built && existsSync(built)
  // An addon for another platform may be from an earlier quick rehearsal.
  if (values.quick && !(isBuilt && platform === hostPlatform)) quick.add(platform)
  if (!isBuilt) {
    const zig = platform.startsWith('linux-') ? ['--zig'] : []
    const { env, args } = rustFor(target)
    const profile = values.quick ? '--debug' : '--release'
    const build = ['scripts/build.mjs', profile, '--addon', ...zig, '--target', target, ...args]
    await succeed(process.execPath, build, {
      env: { ...process.env, ...env, ...(values.quick ? QUICK : {}) },
      echo: true,
    })
  }
  copyFileSync(built, join(addons, binaryOf(platform)))
}

const tools = installTools()
tools.catch(() => {})
for (const one of platforms) await buildAddon(one)
const host = platforms.find(({ platform }) => platform === hostPlatform)
// The build of the wrapper loads this machine's addon.
if (host !== undefined && !(values.built && existsSync(join(root, 'dist'))))
  await succeed(process.execPath, ['scripts/build.mjs', '--wrapper'])
if (!existsSync(join(root, 'dist'))) throw new Error('dist/ is missing: run `npm run build`')
// The packages of the other platforms are never loaded.
for (const { platform } of platformPackages)
  if (!platforms.some((one) => one.platform === platform)) writeFileSync(join(addons, binaryOf(platform)), 'a stand-in')
console.log()
await checkPackages(check, platforms, addons, work, { quick })

await tools
const registry = await startRegistry(join(work, 'registry'))
const env = { ...settingsFor(registry.url, join(work, 'home')), PATH: pathWithoutRust(join(work, 'bin')) }
const publish = () => {
  const size = Array.from(quick, (platform) => `--any-size=${platform}`)
  const args = [
    'scripts/publish.mjs',
    addons,
    '--rehearse',
    registry.url,
    ...size,
    ...platforms.map(({ platform }) => platform),
  ]
  return succeed(process.execPath, args, { env: { ...process.env, npm_config_userconfig: env.npm_config_userconfig } })
}
const firstPackages = () => capture(process.execPath, ['scripts/first-packages.mjs', '--registry', registry.url])

await check('before the first release, prints the packages that an owner must publish manually', async () => {
  const { status, output } = await firstPackages()
  assert.equal(status, 1, output)
  for (const { platform } of platformPackages)
    assert.ok(output.includes(`npm publish npm/${platform} --access`), output)
})
await check('all packages are published, after their addons were checked', async () => {
  const output = await publish()
  for (const { name } of platformPackages) assert.ok(output.includes(`+ ${name}@`), output)
  assert.ok(output.includes('+ ztensor@'), output)
})
await check('a second run publishes nothing', async () => {
  const output = await publish()
  assert.equal(output.match(/is already published/g)?.length, platformPackages.length + 1, output)
})
await check('then all first packages exist', async () => {
  const { status, output } = await firstPackages()
  assert.equal(status, 0, output)
})
await check('the PATH of the next checks has no Rust', async () => {
  for (const name of ['cargo', 'rustc']) assert.equal((await capture(name, ['--version'], { env })).status, 127)
})

let made = 0
const consumer = () => createConsumer(join(work, `consumer-${++made}`), env)
let expected
if (host !== undefined) {
  await usage(check, consumer)
  await otherManagers(check, consumer)
  await brokenInstallations(check, consumer, registry)
  const app = consumer()
  await app.npm('install', 'ztensor')
  expected = await app.values()
}
await selection(check, consumer)

for (const { platform, name, os, cpu, libc } of platforms) {
  const app = consumer()
  const system = `--os=${os} --cpu=${cpu}${libc === undefined ? '' : ` --libc=${libc}`}`
  await app.npm('install', 'ztensor', ...system.split(' '))
  let node = process.execPath
  let where = 'this machine'
  try {
    node = installMachine(platform)
    where = describe(platform)
  } catch (error) {
    if (platform !== hostPlatform) throw error
    console.log(`not run: ${name} with an old C library: ${error.message.split('\n')[0]}`)
  }
  await check(`${name} works on ${where}`, async () => {
    const { stdout } = await app.succeed(node, ['-p', 'process.version + " " + process.arch'])
    return `smoke: ${await app.smoke(node)} passed, Node ${stdout.trim()}`
  })
  await check(`${name} returns the values and writes the bytes of ${hostPlatform}`, async () => {
    const found = await app.values(node)
    if (expected === undefined) return 'not compared: this machine is not rehearsed'
    const different = Object.keys(expected).filter(
      (path) => JSON.stringify(found[path]) !== JSON.stringify(expected[path]),
    )
    assert.deepEqual(different, [])
    assert.equal(Object.keys(found).length, Object.keys(expected).length)
    return `${Object.keys(found).length} files`
  })
}

registry.close()
console.log(`\nrehearsal: ${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
