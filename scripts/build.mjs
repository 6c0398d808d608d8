// `npm run build`: the addon (Rust), then the wrapper (TypeScript) and the page of reports into dist/.
//   --debug     an unoptimized addon
//   --release   the addon as it is published, which takes minutes longer to link
//   --zig       compiled and linked by zig, which it installs from PyPI in build/zig: for the oldest glibc (platform.mjs), or for musl
//   --tests     the Rust tests too, in the same call of cargo: what both use compiles once
//   --addon     the addon only; other arguments are passed to `napi build` (--target)
//   --wrapper   the wrapper only, with the existing addon
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bundle } from './bundle.mjs'
import { isInstalled, root, runOrExit } from './command.mjs'
import { ENTRIES } from './entries.mjs'
import { glibcOf, hostPlatform, manifest, packageOf } from './platform.mjs'
import { hostTarget } from './target.mjs'
import { buildView } from './view.mjs'
import { webExports } from './web.mjs'

const require = createRequire(import.meta.url)
const flags = new Set(['--debug', '--release', '--zig', '--tests', '--addon', '--wrapper'])
const given = new Set(process.argv.slice(2).filter((argument) => flags.has(argument)))
const others = process.argv.slice(2).filter((argument) => !flags.has(argument))

// The addon's types, generated from src/. They are committed, so that the wrapper compiles without Rust.
const types = 'lib/native/binding.d.ts'
const readTypes = () => readFileSync(join(root, types), 'utf8').replaceAll('\r\n', '\n')

/** Puts zig and cargo-zigbuild on the PATH, each at one version. */
function zig() {
  const folder = join(root, 'build/zig')
  const packages = ['ziglang==0.17.1', 'cargo-zigbuild==0.24.1']
  const note = join(folder, packages.join(' '))
  if (!existsSync(note)) {
    rmSync(folder, { recursive: true, force: true })
    runOrExit('python3', ['-m', 'pip', 'install', '--quiet', '--target', folder, ...packages])
    writeFileSync(note, '')
  }
  process.env.PATH = `${join(folder, 'bin')}${delimiter}${process.env.PATH}`
  process.env.CARGO_ZIGBUILD_ZIG_PATH = join(folder, 'ziglang/zig')
}

/** The arguments of napi for zig: `-x`, and the oldest glibc at the end of a target of glibc. The target is this machine by default. */
function withZig(args) {
  zig()
  const target = args.includes('--target') ? [] : ['--target', hostTarget]
  return ['-x', ...target, ...args].map((one) => (/-linux-gnu/.test(one) ? `${one}.${glibcOf(one)}` : one))
}

function installedAddon() {
  try {
    return require(`${packageOf(hostPlatform)}/package.json`).version === manifest.version
  } catch {
    return false
  }
}

function buildAddon() {
  if (isInstalled('cargo')) {
    // No loader is generated: lib/native/native.ts is the only one.
    const cli = join(root, 'node_modules/@napi-rs/cli/dist/cli.js')
    const committed = readTypes()
    const forNapi = given.has('--zig') ? withZig(others) : others
    const profile = given.has('--debug') ? [] : given.has('--release') ? ['--release'] : ['--profile', 'quick']
    const tests = given.has('--tests') ? ['--', '--workspace', '--lib', '--tests'] : []
    runOrExit(process.execPath, [
      cli,
      'build',
      '--platform',
      ...profile,
      '--no-js',
      '--dts',
      types,
      ...forNapi,
      ...tests,
    ])
    if (process.env.CI && readTypes() !== committed) {
      console.error(`${types} is not what src/ generates: run \`npm run build\` and commit it`)
      process.exit(1)
    }
  } else if (installedAddon()) {
    console.log(`cargo not found: using the installed ${packageOf(hostPlatform)} ${manifest.version}`)
  } else {
    console.error('cargo not found: install Rust (stable, 1.89 or later) from https://rustup.rs, then run this again')
    process.exit(1)
  }
}

// The facades list the exports of the CommonJS modules at run time, so that both module systems have the same classes.
async function writeFacades(dist) {
  for (const entry of ENTRIES) {
    const names = Object.keys(require(join(dist, `${entry}.js`))).sort()
    const facade = join(dist, `${entry}.mjs`)
    writeFileSync(facade, `export {\n${names.map((name) => `  ${name},\n`).join('')}} from './${entry}.js'\n`)
    await import(pathToFileURL(facade))
  }
}

/**
 * `ztensor/web`, `ztensor/web/convert`, and `ztensor` in bundles for browsers, have the exports of @ztensor/web, which is installed
 * separately.
 */
async function writeWebFacades(dist) {
  const install = `npm install @ztensor/web@${manifest.version}`
  // Bundlers show the line that they cannot resolve.
  writeFileSync(
    join(dist, 'browser.mjs'),
    `export * from '@ztensor/web' // If it is missing, run "${install}"
`,
  )
  for (const [entry, name, file] of [
    ['index', '@ztensor/web', 'web.mjs'],
    ['convert', '@ztensor/web/convert', 'web-convert.mjs'],
  ]) {
    const message = `${name.replace('@ztensor', 'ztensor')} needs the package @ztensor/web: run "${install}"`
    writeFileSync(
      join(dist, file),
      `let web
try {
  web = await import('${name}')
} catch (cause) {
  if (cause?.code !== 'ERR_MODULE_NOT_FOUND') throw cause
  throw Object.assign(new Error(${JSON.stringify(message)}, { cause }), { code: 'ZT_NO_BINARY' })
}
export const {\n${(await webExports(entry)).map((name) => `  ${name},\n`).join('')}} = web
`,
    )
  }
}

async function buildWrapper() {
  const dist = join(root, 'dist')
  rmSync(dist, { recursive: true, force: true })
  const tsc = require.resolve('typescript/lib/tsc.js')
  runOrExit(process.execPath, [tsc, '--project', root])
  runOrExit(process.execPath, [tsc, '--project', join(root, 'view')])
  await bundle(dist)
  await buildView(dist)
  await writeFacades(dist)
  await writeWebFacades(dist)
  chmodSync(join(dist, 'cli.js'), 0o755)
}

if (!given.has('--wrapper')) buildAddon()
if (!given.has('--addon')) await buildWrapper()
