// What is published: a manifest that says where the package comes from and nothing of how it is made; a loader that names each platform.
import { readdirSync, readFileSync } from 'node:fs'
import { parseTriple } from '@napi-rs/cli'
import test from 'ava'

const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const manifest = JSON.parse(read('package.json'))

test('each platform package stands in the loader as a literal, and no other', (t) => {
  const loader = read('lib/native/addon.ts')
  const named = [...loader.matchAll(/require\('(@ztensor\/[\w-]+)'\)/g)].map(([, name]) => name)
  const targets = manifest.napi.targets.map((target) => `@ztensor/${parseTriple(target).platformArchABI}`)
  t.deepEqual(named.sort(), targets.sort())
  for (const name of named) t.true(loader.includes(`case '${name.slice('@ztensor/'.length)}':`), name)
})

test('the manifest says where the package comes from', (t) => {
  t.regex(manifest.homepage, /^https:/)
  t.regex(manifest.bugs, /^https:.*issues$/)
  for (const { title } of [{ title: 'zTensor' }, { title: 'safetensors' }, { title: 'BTF' }]) {
    t.true(manifest.description.includes(title))
  }
})

test('licenses are checked of what is built for each platform', (t) => {
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

const DEVELOPMENT = ['scripts', 'devDependencies', 'overrides', 'ava', 'napi']

test('nothing of our development is published', (t) => {
  const source = read('scripts/main-package.mjs')
  for (const key of DEVELOPMENT) {
    if (key in manifest) t.regex(source, new RegExp(`\\{[^}]*\\b${key}\\b[^}]*\\.\\.\\.published`), key)
  }
  const known =
    /^(name|version|description|homepage|bugs|license|keywords|sideEffects|repository|type|main|types|typesVersions|bin|exports|files|engines|dependencies)$/
  t.deepEqual(
    Object.keys(manifest).filter((key) => !known.test(key) && !DEVELOPMENT.includes(key)),
    [],
  )
})
