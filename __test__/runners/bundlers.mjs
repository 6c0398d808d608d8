// `npm run test:bundlers`: bundles and traces the published package, and runs the output in a folder that has nothing else. The bundlers
// come from npm into build/bundlers. docs/guide/bundlers.md has the same settings as recipes. Needs `npm run build` first.
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { capture, npm, root } from '../../scripts/command.mjs'
import { blocksOf } from '../helpers/guides.mjs'
import { addonPackage, installInto } from './installed-app.mjs'

const TOOLS = {
  '@rollup/plugin-commonjs': '29.0.3',
  '@rollup/plugin-node-resolve': '16.0.3',
  '@vercel/nft': '1.11.5',
  esbuild: '0.28.2',
  rollup: '4.68.7',
  vite: '8.3.8',
  webpack: '5.112.2',
}
const tools = join(root, 'build/bundlers')
const manifest = JSON.stringify({ private: true, dependencies: TOOLS })
mkdirSync(tools, { recursive: true })
writeFileSync(join(tools, 'package.json'), manifest)
const installed = await capture(...npm(['install', '--prefer-offline', '--no-audit', '--no-fund']), { cwd: tools })
assert.equal(installed.status, 0, installed.output)
const require = createRequire(join(tools, 'package.json'))
/** Imports a tool, ES module or CommonJS. */
const tool = async (name) => {
  const found = await import(pathToFileURL(require.resolve(name)))
  return found.default?.default ?? found.default ?? found
}

// An application with the package in its node_modules, as npm puts it there.
const work = realpathSync(mkdtempSync(join(tmpdir(), 'ztensor-bundlers-')))
process.on('exit', () => rmSync(work, { recursive: true, force: true }))
const app = join(work, 'app')
const addon = addonPackage
await installInto(app)
writeFileSync(join(app, 'package.json'), '{ "private": true, "type": "module" }')
const entry = join(app, 'main.mjs')
writeFileSync(
  entry,
  `import { openSync } from 'ztensor'\nconst file = openSync(process.argv[2])\nconsole.log('tensors', file.size)\nfile.close()\n`,
)
const model = join(root, '__test__/fixtures/zt12-dtypes.zt')

let made = 0
/** An empty folder, with some packages of the application. */
function folder(...packages) {
  const path = join(work, `out-${made++}`)
  mkdirSync(path)
  for (const name of packages)
    cpSync(join(app, 'node_modules', name), join(path, 'node_modules', name), { recursive: true })
  return path
}

/** Runs the output outside of the application. */
async function works(script) {
  const { status, output } = await capture(process.execPath, [script, model], { cwd: dirname(script) })
  assert.equal(status, 0, output)
  assert.match(output, /^tensors \d+$/m)
}

const EXTERNAL = /^@ztensor\//
/** The blocks of the guide in a language. */
const recipes = (language) => blocksOf('docs/guide/bundlers.md').filter((block) => block.language === language)
const REQUIRE = `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);`

async function rolled(options, output) {
  const { rollup } = await import(pathToFileURL(require.resolve('rollup')))
  const warnings = []
  const bundle = await rollup({ input: entry, onwarn: (warning) => warnings.push(warning.message), ...options })
  await bundle.write(output)
  return warnings
}

async function packed(options) {
  const webpack = await tool('webpack')
  const stats = await new Promise((resolve, reject) => {
    webpack({ context: app, entry, mode: 'production', target: 'node', ...options }, (error, stats) =>
      error ? reject(error) : resolve(stats),
    )
  })
  return stats.toJson({ all: false, errors: true, warnings: true })
}

const CHECKS = {
  'the programs, lines and configurations of docs/guide/bundlers.md, as pasted': async () => {
    const pasted = join(work, 'pasted')
    cpSync(app, pasted, { recursive: true })
    for (const { text } of recipes('js')) {
      const [, name] = /^\/\/ (\S+)\n/.exec(text)
      writeFileSync(join(pasted, name), text)
    }
    cpSync(join(root, 'examples/model.safetensors'), join(pasted, 'model.safetensors'))
    const script = require.resolve('esbuild/bin/esbuild')
    const lines = recipes('sh').flatMap(({ text }) => text.trim().split(/(?<!\\)\n/))
    const env = { ...process.env, NODE: process.execPath, ESBUILD: script }
    const made = []
    for (const line of lines.filter((one) => one.startsWith('npx esbuild '))) {
      // As in zsh, a glob that matches nothing is an error.
      const shell = `npx() { shift && "$ESBUILD" "$@"; }\n${line}`
      const { status, output } = await capture('bash', ['-O', 'failglob', '-e', '-c', shell], { cwd: pasted, env })
      assert.equal(status, 0, output)
      const [, flag, path] = /--(outfile|outdir)=(\S+)/.exec(line)
      made.push(flag === 'outfile' ? path : `${path}/main.cjs`)
    }
    const { rollup } = await import(pathToFileURL(require.resolve('rollup')))
    const { default: configuration } = await import(pathToFileURL(join(pasted, 'rollup.config.mjs')))
    const bundle = await rollup({ ...configuration, input: join(pasted, configuration.input) })
    await bundle.write({ ...configuration.output, file: join(pasted, configuration.output.file) })
    made.push(configuration.output.file)
    assert.equal(made.length, 5)
    for (const path of made) {
      const { status, output } = await capture(process.execPath, [path], { cwd: pasted })
      assert.equal(status, 0, output)
      assert.equal(output, '32 tensors\n', path)
    }
  },
  '@vercel/nft finds the addon': async () => {
    const { nodeFileTrace } = await import(pathToFileURL(require.resolve('@vercel/nft')))
    const { fileList } = await nodeFileTrace([entry], { base: app })
    assert.ok([...fileList].some((path) => path.startsWith(`node_modules/${addon}/`) && path.endsWith('.node')))
    const out = folder()
    for (const path of fileList) cpSync(join(app, path), join(out, path), { recursive: true })
    await works(join(out, 'main.mjs'))
  },
  'esbuild to CommonJS, the addon in its folder': async () => {
    const { build } = require('esbuild')
    const out = folder(addon)
    const outfile = join(out, 'main.cjs')
    await build({
      entryPoints: [entry],
      bundle: true,
      platform: 'node',
      format: 'cjs',
      external: ['@ztensor/*'],
      outfile,
    })
    await works(outfile)
  },
  'esbuild to CommonJS, the addon copied': async () => {
    const { build } = require('esbuild')
    const out = folder()
    const outfile = join(out, 'main.cjs')
    const loader = { '.node': 'copy' }
    const { errors } = await build({
      entryPoints: [entry],
      bundle: true,
      platform: 'node',
      format: 'cjs',
      loader,
      outfile,
      logLevel: 'error',
    })
    assert.deepEqual(errors, [])
    assert.ok(readdirSync(out).some((name) => name.endsWith('.node')))
    await works(outfile)
  },
  'esbuild to ES modules': async () => {
    const { build } = require('esbuild')
    const out = folder(addon)
    const outfile = join(out, 'main.mjs')
    const banner = { js: REQUIRE }
    await build({
      entryPoints: [entry],
      bundle: true,
      platform: 'node',
      format: 'esm',
      external: ['@ztensor/*'],
      banner,
      outfile,
    })
    await works(outfile)
  },
  'webpack, the addon in its folder': async () => {
    const out = folder(addon)
    const { errors, warnings } = await packed({
      externalsType: 'commonjs',
      externals: [EXTERNAL],
      output: { path: out, filename: 'main.cjs' },
    })
    assert.deepEqual([errors, warnings], [[], []])
    await works(join(out, 'main.cjs'))
  },
  'webpack, the package outside': async () => {
    const out = folder('ztensor', addon)
    const externals = { ztensor: 'commonjs ztensor' }
    const { errors, warnings } = await packed({ externals, output: { path: out, filename: 'main.cjs' } })
    assert.deepEqual([errors, warnings], [[], []])
    await works(join(out, 'main.cjs'))
  },
  'rollup to CommonJS, the addon in its folder': async () => {
    const out = folder(addon)
    const plugins = [(await tool('@rollup/plugin-node-resolve'))(), (await tool('@rollup/plugin-commonjs'))()]
    await rolled({ external: EXTERNAL, plugins }, { file: join(out, 'main.cjs'), format: 'cjs' })
    await works(join(out, 'main.cjs'))
  },
  'rollup to ES modules, the package outside': async () => {
    const out = folder('ztensor', addon)
    const warnings = await rolled({ external: ['ztensor'] }, { file: join(out, 'main.mjs'), format: 'es' })
    assert.deepEqual(warnings, [])
    await works(join(out, 'main.mjs'))
  },
  'Vite for servers': async () => {
    const { build } = await import(pathToFileURL(require.resolve('vite')))
    const out = folder('ztensor', addon)
    await build({ root: app, logLevel: 'error', build: { ssr: entry, outDir: out, emptyOutDir: false } })
    const script = readdirSync(out).find((name) => /\.m?js$/.test(name))
    writeFileSync(join(out, 'package.json'), '{ "type": "module" }')
    await works(join(out, script))
  },
}

let failed = 0
for (const [claim, prove] of Object.entries(CHECKS)) {
  try {
    await prove()
    console.log(`ok     ${claim}`)
  } catch (error) {
    failed += 1
    console.log(`FAILED ${claim}\n${error.stack}\n`)
  }
}
if (!existsSync(model)) throw new Error(`${model} is missing`)
console.log(`bundlers: ${Object.keys(CHECKS).length - failed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
