// A thread that runs the built `ztensor` command again and again. Each run has its own arguments, environment, streams and exit code.
import { createRequire } from 'node:module'
import { parentPort } from 'node:worker_threads'

const { main } = createRequire(import.meta.url)('../../dist/command.js')
const environment = { ...process.env }

/** Collects what is written to a stream of the process. Returns its pieces. */
function capture(name) {
  const pieces = []
  process[name].write = (piece, encoding, callback) => {
    pieces.push(Buffer.from(piece, typeof encoding === 'string' ? encoding : undefined))
    const done = typeof encoding === 'function' ? encoding : callback
    if (done !== undefined) process.nextTick(done)
    return true
  }
  return pieces
}

async function run({ args, env }) {
  process.argv = [process.execPath, 'ztensor', ...args]
  for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name]
  Object.assign(process.env, environment, env)
  process.exitCode = undefined
  const [stdout, stderr] = ['stdout', 'stderr'].map(capture)
  const exited = new Promise((resolve) => {
    process.exit = (code = process.exitCode) => resolve(code)
  })
  const code = await Promise.race([main().then(() => process.exitCode), exited])
  for (const signal of ['SIGINT', 'SIGTERM', 'uncaughtException']) process.removeAllListeners(signal)
  process.stdout.removeAllListeners('error')
  const text = (pieces) => Buffer.concat(pieces).toString()
  parentPort.postMessage({ code: Number(code ?? 0), signal: null, stdout: text(stdout), stderr: text(stderr) })
}

parentPort.on('message', run)
