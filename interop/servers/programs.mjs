// Real servers of files and objects, installed in the build folder if the machine lacks them. `NotRun` reports a missing server.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { capture, npm } from '../../scripts/command.mjs'

/** The error of a server that this machine cannot run: not a failure of the checks. */
export class NotRun extends Error {}

/** The output of a program, or `NotRun` if it fails. `wanted` names what is missing without it. */
async function succeed(wanted, program, args, options) {
  const { status, output } = await capture(program, args, options)
  if (status === 0) return output
  const lines = output.trim().split('\n')
  const reason = (lines.findLast((line) => /^E: |error (?!A complete log)/.test(line)) ?? lines.at(-1)).slice(0, 300)
  throw new NotRun(`${wanted} cannot be installed here: ${program} ended with ${status}: ${reason}`)
}

/** The path of a Go program. */
export const installedGo = (build, name, version) =>
  join(build, 'go', `${name}@${version}`, process.platform === 'win32' ? `${name}.exe` : name)

/** A program of a Go module, at a pinned version. */
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

/** The folder of an npm package at a pinned version, with its dependencies. */
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

/** The path of nginx, if it is installed or was extracted before. */
export async function installedNginx(build) {
  for (const program of ['nginx', '/usr/sbin/nginx', join(build, 'nginx/usr/sbin/nginx')]) {
    if ((await capture(program, ['-v'])).status === 0) return program
  }
  return undefined
}

/** nginx as installed, or extracted from Debian's package without installing it. */
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

/** A free port of this machine. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** Starts a server and waits until it responds at a URL. Resolves with a function that stops it. */
export async function started(program, args, url, options = {}) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => {
      output = (output + text).slice(-2000)
    })
  let ended
  const exited = once(child, 'close').then(
    () => {
      ended = `${program} ended early: ${output}`
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
      throw new Error(`${program} did not answer at ${url}: ${output}`)
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
