// Real servers of files and objects, put under the build folder where they are not installed. What cannot be had is said by `NotRun`.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { capture, npm } from '../../scripts/command.mjs'

/** A server that this machine cannot have: no failure of ours. */
export class NotRun extends Error {}

/** What a program said, or `NotRun` where it failed. `wanted` is what is missing without it. */
async function succeed(wanted, program, args, options) {
  const { status, output } = await capture(program, args, options)
  if (status === 0) return output
  const lines = output.trim().split('\n')
  const reason = (lines.findLast((line) => /^E: |error (?!A complete log)/.test(line)) ?? lines.at(-1)).slice(0, 300)
  throw new NotRun(`${wanted} cannot be installed here: ${program} ended with ${status}: ${reason}`)
}

/** Where a program of Go is, or would be. */
export const installedGo = (build, name, version) =>
  join(build, 'go', `${name}@${version}`, process.platform === 'win32' ? `${name}.exe` : name)

/** A program of a Go module, at a version that is pinned. */
export async function goProgram(build, module, version) {
  const name = module.split('/').at(-1)
  const program = installedGo(build, name, version)
  const folder = dirname(program)
  if (existsSync(program)) return program
  const installed = ['go', '/usr/local/go/bin/go']
  const found = await Promise.all(installed.map(async (go) => (await capture(go, ['version'])).status === 0))
  const go = installed[found.indexOf(true)]
  if (go === undefined) throw new NotRun(`${name} needs Go, which is not on this machine`)
  mkdirSync(folder, { recursive: true })
  await succeed(name, go, ['install', `${module}@${version}`], { env: { ...process.env, GOBIN: folder } })
  return program
}

/** The folder of a package of npm at a version that is pinned, with what it needs. */
export async function npmPackage(build, name, version) {
  const folder = join(build, 'npm', `${name}@${version}`)
  const inside = join(folder, 'node_modules', name)
  if (existsSync(join(folder, 'installed'))) return inside
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
  const args = ['install', '--ignore-scripts', '--omit=optional', ...quiet, `${name}@${version}`]
  await succeed(name, ...npm(args), { cwd: folder })
  writeFileSync(join(folder, 'installed'), '')
  return inside
}

/** nginx where it is installed, or was extracted before. */
export async function installedNginx(build) {
  for (const program of ['nginx', '/usr/sbin/nginx', join(build, 'nginx/usr/sbin/nginx')]) {
    if ((await capture(program, ['-v'])).status === 0) return program
  }
  return undefined
}

/** nginx as it is installed, or extracted from Debian's package of it, which installs nothing. */
export async function nginxProgram(build) {
  const installed = await installedNginx(build)
  if (installed !== undefined) return installed
  const folder = join(build, 'nginx')
  mkdirSync(folder, { recursive: true })
  const download = 'apt-get download -q nginx'
  const shell = `${download} || { apt-get update -q && ${download}; } && dpkg-deb -x nginx_*.deb .`
  await succeed('nginx', 'bash', ['-c', shell], { cwd: folder })
  for (const name of readdirSync(folder)) if (name.endsWith('.deb')) rmSync(join(folder, name))
  const extracted = await installedNginx(build)
  if (extracted === undefined) throw new NotRun('the nginx of Debian does not start here')
  return extracted
}

/** A port of this machine that nobody has. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** Starts a server and waits until it answers at a URL. Resolves with a function that ends it. */
export async function started(program, args, url, options = {}) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => {
      said = (said + text).slice(-2000)
    })
  let ended
  const exited = once(child, 'close').then(
    () => {
      ended = `${program} ended early: ${said}`
    },
    (error) => {
      ended = `${program}: ${error.message}`
    },
  )
  for (let tries = 0; ; tries++) {
    if (ended !== undefined) throw new Error(ended)
    const answered = await fetch(url).then(
      (response) => response.arrayBuffer().then(() => true),
      () => false,
    )
    if (answered) break
    if (tries === 300) {
      child.kill('SIGKILL')
      throw new Error(`${program} did not answer at ${url}: ${said}`)
    }
    await sleep(100)
  }
  return async () => {
    child.kill('SIGTERM')
    await Promise.race([exited, sleep(3000, undefined, { ref: false })])
    child.kill('SIGKILL')
    await exited
  }
}
