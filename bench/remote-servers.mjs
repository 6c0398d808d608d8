// Servers on this machine for the rows of remote files: those that are installed, or that `npm run interop` set up.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, openAsBlob, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { configuration } from '../interop/servers/nginx.mjs'
import { freePort, installedGo, installedNginx, started } from '../interop/servers/programs.mjs'
import { presigned } from '../interop/servers/signing.mjs'
import { VERSION } from '../interop/servers/versitygw.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const programs = join(root, 'build/interop')
const EXAMPLE = ['--quiet', '--profile', 'bench', '-p', 'ztensor-remote', '--example']

/** The output of an example of crates/remote; undefined without Rust. */
export function byExample(name, args, env = {}) {
  try {
    execFileSync('cargo', ['build', ...EXAMPLE, name], { cwd: root, stdio: 'ignore' })
  } catch {
    return undefined
  }
  const run = ['run', ...EXAMPLE, name, '--', ...args]
  return JSON.parse(execFileSync('cargo', run, { cwd: root, encoding: 'utf8', env: { ...process.env, ...env } }))
}

/** Starts our example server for one file; undefined without Rust. */
async function ownServer(path) {
  try {
    execFileSync('cargo', ['build', ...EXAMPLE, 'serve'], { cwd: root, stdio: 'ignore' })
  } catch {
    return undefined
  }
  const child = spawn('cargo', ['run', ...EXAMPLE, 'serve', '--', path], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [url] = await once(createInterface(child.stdout), 'line')
  return { what: 'our own server', origin: url.slice(0, url.lastIndexOf('/')), stop: () => child.stdin.end() }
}

/**
 * Serves the files of a folder over HTTP: `{ what, origin, asked, stop }`, where `asked` returns the requests since its last call, each
 * with the `bytes` of its response. Without nginx, this is our own server for one file, without `asked`.
 */
export async function webServer(files, path) {
  const program = await installedNginx(programs)
  if (program === undefined) return ownServer(path)
  const folder = mkdtempSync(join(root, 'build/bench/nginx-'))
  mkdirSync(join(folder, 'temporary'))
  const port = await freePort()
  const log = join(folder, 'asked.log')
  // URLs like those of the hub, for its package.
  const hub = 'location ~ ^/o/r/resolve/main/(.*)$ { rewrite ^/o/r/resolve/main/(.*)$ /$1 last; }'
  const server = `server { listen 127.0.0.1:${port}; root ${files}; ${hub} }`
  writeFileSync(join(folder, 'nginx.conf'), configuration(folder, [server], `${log} asked`))
  const origin = `http://127.0.0.1:${port}`
  const args = ['-p', folder, '-e', join(folder, 'error.log'), '-c', join(folder, 'nginx.conf')]
  const stop = await started(program, args, origin)
  let seen = 0
  const asked = () => {
    const lines = readFileSync(log, 'utf8').trim().split('\n')
    const fresh = lines.slice(seen)
    seen = lines.length
    return fresh.map((line) => JSON.parse(line))
  }
  return {
    what: 'nginx',
    origin,
    asked,
    async stop() {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Serves one object over S3: `{ url, endpoint, keys, stop }`. Undefined without versitygw. */
export async function storeServer(path) {
  const program = installedGo(programs, 'versitygw', VERSION)
  if (!existsSync(program)) return undefined
  const folder = mkdtempSync(join(root, 'build/bench/versitygw-'))
  for (const name of ['objects/models', 'iam']) mkdirSync(join(folder, name), { recursive: true })
  const keys = { accessKeyId: 'reader', secretAccessKey: 'secret', region: 'us-east-1' }
  const port = await freePort()
  const endpoint = `http://127.0.0.1:${port}`
  const args = [
    '--quiet',
    '--port',
    `127.0.0.1:${port}`,
    '--iam-dir',
    join(folder, 'iam'),
    'posix',
    join(folder, 'objects'),
  ]
  const env = { ...process.env, ROOT_ACCESS_KEY: keys.accessKeyId, ROOT_SECRET_KEY: keys.secretAccessKey }
  const stop = await started(program, args, endpoint, { env })
  const ends = async () => {
    await stop()
    rmSync(folder, { recursive: true, force: true })
  }
  // An object that is created in the folder has no entity tag.
  const { status } = await fetch(presigned('PUT', `${endpoint}/models/model.safetensors`, keys), {
    method: 'PUT',
    body: await openAsBlob(path),
  })
  if (status !== 200) {
    await ends()
    throw new Error(`versitygw answers ${status} to a PUT`)
  }
  return { endpoint, keys, stop: ends }
}
