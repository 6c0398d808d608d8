// What the system lacks for a while fails the call that needs it, and no later one.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { zt10 } from './corpus/zt.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const hasLimits = process.platform === 'linux' && spawnSync('prlimit', ['--version']).error === undefined
// Root has as many threads as it likes.
const USER = process.getuid?.() || 65534
const x = { dtype: 'uint8', shape: [4], format: 'dense', components: { data: { bytes: Buffer.from('abcd') } } }

/** Runs a module that finds `bytes` of a file and `allow(threads)`, and gives what it printed and how it ended. */
async function child(source) {
  const program = `
    import { once } from 'node:events'
    import { Writable } from 'node:stream'
    import { convert, open } from 'ztensor'
    process.setuid(${USER})
    const bytes = Buffer.from('${zt10({ x }).toString('base64')}', 'base64')
    const allow = async (threads) => {
      process.send(threads)
      const [status] = await once(process, 'message')
      if (status !== 0) throw new Error('prlimit: ' + status)
    }
    const codeOf = (promise) => promise.then(() => 'done', (error) => error.code)
    ${source}
    process.disconnect()`
  const { NODE_OPTIONS: _, ...env } = process.env
  const running = spawn(process.execPath, ['--input-type=module', '-e', program], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  running.on('message', (threads) => {
    const asked = ['--pid', String(running.pid), `--nproc=${threads}:`]
    const { status } = spawnSync('prlimit', asked, { uid: USER })
    running.send(status)
  })
  const texts = [running.stdout, running.stderr].map((stream) => stream.setEncoding('utf8').toArray())
  const [status, signal] = await once(running, 'close')
  const [stdout, stderr] = await Promise.all(texts)
  return { status, signal, lines: stdout.join('').trim().split('\n'), stderr: stderr.join('') }
}

const ends = (t, { lines, ...ended }, expected) =>
  t.deepEqual({ lines, ...ended }, { lines: expected, status: 0, signal: null, stderr: '' })

if (hasLimits) {
  test('asynchronous calls work as soon as there are threads', async (t) => {
    const ended = await child(`
      const x = (await open(bytes)).tensor('x')
      await allow(0)
      console.log(await codeOf(x.load()))
      await allow(10000)
      console.log((await x.load()).join())`)
    ends(t, ended, ['ZT_LIMIT', '97,98,99,100'])
  })

  test('a copy into a stream that gets no thread says so, keeps nothing running, and works later', async (t) => {
    const ended = await child(`
      const copy = () => {
        let length = 0
        const target = new Writable({ write: (chunk, _, done) => done(null, (length += chunk.length)) })
        target.on('error', () => {})
        return convert(bytes, target).then(() => length > 4)
      }
      await copy()
      await allow(0)
      console.log(await codeOf(copy()))
      await allow(10000)
      console.log(await copy())`)
    ends(t, ended, ['ZT_LIMIT', 'true'])
  })
}
