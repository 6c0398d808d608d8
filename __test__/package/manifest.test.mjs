// The published package: a manifest with the origin and without development settings; a loader that names each platform.
import { readdirSync, readFileSync } from 'node:fs'
import { parseTriple } from '@napi-rs/cli'
import test from 'ava'
import { publishedManifest } from '../../scripts/main-package.mjs'
import { platformPackages } from '../../scripts/platform-packages.mjs'

const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8').replaceAll('\r\n', '\n')
const manifest = JSON.parse(read('package.json'))

test('the loader contains each platform package as a literal, and no other', (t) => {
  const loader = read('lib/native/addon.ts')
  const named = [...loader.matchAll(/require\('(@ztensor\/[\w-]+)'\)/g)].map(([, name]) => name)
  const targets = manifest.napi.targets.map((target) => `@ztensor/${parseTriple(target).platformArchABI}`)
  t.deepEqual(named.sort(), targets.sort())
  for (const name of named) t.true(loader.includes(`case '${name.slice('@ztensor/'.length)}':`), name)
})

test('the manifest names the origin of the package', (t) => {
  t.regex(manifest.homepage, /^https:/)
  t.regex(manifest.bugs, /^https:.*issues$/)
  for (const { title } of [{ title: 'zTensor' }, { title: 'safetensors' }, { title: 'BTF' }]) {
    t.true(manifest.description.includes(title))
  }
})

test('the workflow builds each target, and those of Linux with zig', (t) => {
  const matrix = /\n {2}build:\n[\s\S]*?\n {4}runs-on:/.exec(read('.github/workflows/ci.yml'))[0]
  const rows = [...matrix.matchAll(/- \{ target: ([\w-]+), [^}]*\}/g)]
  t.deepEqual(rows.map(([, target]) => target).sort(), [...manifest.napi.targets].sort())
  for (const [row, target] of rows) t.is(row.includes('options: --zig'), target.includes('-linux-'), target)
})

test('checks the licenses of the builds for each platform', (t) => {
  const [, listed] = /^targets = \[([^\]]*)\]/m.exec(read('deny.toml'))
  t.deepEqual(
    [...listed.matchAll(/"([^"]+)"/g)].map(([, target]) => target),
    manifest.napi.targets,
  )
})

test('the campaigns run every fuzz target', (t) => {
  const campaigns = read('.github/workflows/campaigns.yml')
  const [, listed] = /\btarget:\s*\[([^\]]*)\]/.exec(campaigns)
  const targets = readdirSync(new URL('../../fuzz/fuzz_targets', import.meta.url)).map((name) =>
    name.replace('.rs', ''),
  )
  t.deepEqual(listed.trim().split(/,\s*/).sort(), targets.sort())
  const bins = [...read('fuzz/Cargo.toml').matchAll(/^name = "(\w+)"$/gm)].map(([, name]) => name)
  t.deepEqual(bins.sort(), targets)
})

test('bundlers for browsers get @ztensor/web, and Node the addon', (t) => {
  const { '.': main, './web': web } = publishedManifest().exports
  // The first condition that holds counts.
  t.deepEqual(Object.keys(main), ['types@<5.4', 'node', 'browser', 'default'])
  t.deepEqual(main.node, main.default)
  t.is(main.browser.default, './dist/browser.mjs')
  t.is(web.browser, './dist/browser.mjs')
  const facade = read('dist/browser.mjs')
  t.is(facade, `export * from '@ztensor/web' // If it is missing, run "npm install @ztensor/web@${manifest.version}"\n`)
})

const DEVELOPMENT = ['scripts', 'devDependencies', 'overrides', 'ava', 'napi']

test('publishes no development files', (t) => {
  const published = publishedManifest()
  t.deepEqual(
    DEVELOPMENT.filter((key) => key in published),
    [],
  )
  const known =
    /^(name|version|description|homepage|bugs|license|keywords|sideEffects|repository|type|main|types|typesVersions|bin|exports|files|engines|dependencies|optionalDependencies)$/
  t.deepEqual(
    Object.keys(published).filter((key) => !known.test(key)),
    [],
  )
})

test('the published manifest requires each platform package at exactly its version', (t) => {
  t.is(manifest.optionalDependencies, undefined)
  const expected = manifest.napi.targets.map((target) => [
    `@ztensor/${parseTriple(target).platformArchABI}`,
    manifest.version,
  ])
  t.deepEqual(publishedManifest().optionalDependencies, Object.fromEntries(expected))
})

test('npm/ has a folder for each platform, as `npm run packages` writes it, and no other', (t) => {
  t.deepEqual(
    readdirSync(new URL('../../npm', import.meta.url)).sort(),
    platformPackages.map(({ platform }) => platform).sort(),
  )
  for (const { platform, files } of platformPackages)
    for (const [name, text] of Object.entries(files))
      t.is(read(`npm/${platform}/${name}`), text, `npm/${platform}/${name}`)
})

test('a platform package is limited to its platform, and has no install scripts', (t) => {
  for (const { platform, os, cpu, libc, files } of platformPackages) {
    const made = JSON.parse(files['package.json'])
    t.is(made.name, `@ztensor/${platform}`)
    t.deepEqual([made.os, made.cpu, made.libc], [[os], [cpu], libc && [libc]])
    t.is(libc !== undefined, os === 'linux', platform)
    t.is(made.scripts, undefined)
  }
})

test('package.json, Cargo.toml and every lock file have one version', (t) => {
  const [, version] = /^\[workspace\.package\]\nversion = "(.*)"/m.exec(read('Cargo.toml'))
  t.is(version, manifest.version)
  t.is(JSON.parse(read('packages/web/package.json')).version, manifest.version)
  t.is(JSON.parse(read('package-lock.json')).version, manifest.version)
  t.true(read('Cargo.lock').includes(`name = "ztensor-node"\nversion = "${version}"`))
})
