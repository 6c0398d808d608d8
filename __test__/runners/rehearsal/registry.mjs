// A local registry like npm's: verdaccio, without any other registry behind it. It and the package managers come from npm into
// build/rehearsal/tools.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { capture, npm, root } from '../../../scripts/command.mjs'

/** verdaccio 6.10 needs Node 22. */
const TOOLS = {
  verdaccio: '6.8.0',
  pnpm: '10.34.9',
  '@yarnpkg/cli-dist': '4.18.1',
  bun: '1.4.5',
  '@electron/asar': '3.4.1',
}
/** verdaccio requires a tag of it that no longer exists. */
const OVERRIDES = { 'node-fetch': '2.7.0' }
const tools = join(root, 'build/rehearsal/tools')

/** Installs the tools. */
export async function installTools() {
  mkdirSync(tools, { recursive: true })
  const manifest = JSON.stringify({ private: true, dependencies: TOOLS, overrides: OVERRIDES })
  writeFileSync(join(tools, 'package.json'), manifest)
  const [program, args] = npm(['install', '--prefer-offline', '--no-audit', '--no-fund'])
  const { status, output } = await capture(program, args, { cwd: tools })
  assert.equal(status, 0, output)
}

/** The path of a file of a tool. */
export const tool = (...path) => join(tools, 'node_modules', ...path)

async function freePort() {
  const server = createServer()
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Starts an empty registry with its files in `folder`. Resolves `{ url, storage, log(), close() }`. */
export async function startRegistry(folder) {
  mkdirSync(folder, { recursive: true })
  const storage = join(folder, 'storage')
  const config = {
    storage,
    auth: { htpasswd: { file: join(folder, 'htpasswd') } },
    uplinks: {},
    packages: { '**': { access: '$all', publish: '$all' } },
    max_body_size: '50mb',
    log: { type: 'stdout', format: 'json', level: 'http' },
  }
  // JSON is YAML.
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify(config))
  const port = await freePort()
  const args = [
    tool('verdaccio/bin/verdaccio'),
    '--config',
    join(folder, 'config.yaml'),
    '--listen',
    `127.0.0.1:${port}`,
  ]
  const server = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  process.on('exit', () => server.kill())
  let output = ''
  const listens = new Promise((resolve, reject) => {
    for (const stream of [server.stdout, server.stderr])
      stream.setEncoding('utf8').on('data', (text) => {
        output += text
        if (output.includes(`127.0.0.1:${port}`)) resolve()
      })
    server.on('exit', (status) => reject(new Error(`verdaccio ended with ${status}:\n${output}`)))
  })
  await listens
  return { url: `http://127.0.0.1:${port}/`, storage, log: () => output, close: () => server.kill() }
}

/** The settings of npm, pnpm, yarn and bun for a registry, without those of the user and of `npm run`. */
export function settingsFor(url, home) {
  mkdirSync(home, { recursive: true })
  const env = { ...process.env }
  for (const name of Object.keys(env)) if (/^(npm_|INIT_CWD|NODE_PATH|CI$)/i.test(name)) delete env[name]
  const npmrc = join(home, '.npmrc')
  writeFileSync(npmrc, `registry=${url}\n//${new URL(url).host}/:_authToken=rehearsal\naudit=false\nfund=false\n`)
  return {
    ...env,
    HOME: home,
    USERPROFILE: home,
    npm_config_userconfig: npmrc,
    npm_config_cache: join(home, 'npm'),
    npm_config_update_notifier: 'false',
    BUN_INSTALL_CACHE_DIR: join(home, 'bun'),
    YARN_NPM_REGISTRY_SERVER: url,
    YARN_UNSAFE_HTTP_WHITELIST: '127.0.0.1',
    YARN_NPM_MINIMAL_AGE_GATE: '0',
    YARN_ENABLE_TELEMETRY: '0',
    YARN_GLOBAL_FOLDER: join(home, 'yarn'),
  }
}

/** The packages that are installed in a folder of npm. */
export function installedIn(folder) {
  const { packages } = JSON.parse(readFileSync(join(folder, 'node_modules/.package-lock.json'), 'utf8'))
  return Object.keys(packages)
    .map((path) => path.replace('node_modules/', ''))
    .sort()
}
