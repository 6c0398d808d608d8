// A temporary shortage of a resource fails the call that needs it, and no later call.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { zt10 } from '../corpus/zt.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { scratchFile } from '../helpers/scratch.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const hasLimits = process.platform === 'linux' && spawnSync('prlimit', ['--version']).error === undefined
// The limit of threads does not apply to root.
const USER = process.getuid?.() || 65534
const x = { dtype: 'uint8', shape: [4], format: 'dense', components: { data: { bytes: Buffer.from('abcd') } } }

const BYTES = zt10({ x })

/** Runs a module with `bytes` of a file and `limit(resource, max)`, and returns its output and its exit status. */
async function child(source, user = USER) {
  const program = `
    import { once } from 'node:events'
    import { truncateSync } from 'node:fs'
    import { Writable } from 'node:stream'
    import { convert, open, openSync } from 'ztensor'
    process.setuid(${user})
    const bytes = Buffer.from('${BYTES.toString('base64')}', 'base64')
    const limit = async (resource, most) => {
      process.send('--' + resource + '=' + most + ':')
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
  running.on('message', (limit) => {
    const { status } = spawnSync('prlimit', ['--pid', String(running.pid), limit], { uid: user })
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
  test('asynchronous calls work as soon as threads are available', async (t) => {
    const ended = await child(`
      const x = (await open(bytes)).tensor('x')
      await limit('nproc', 0)
      console.log(await codeOf(x.load()))
      await limit('nproc', 10000)
      console.log((await x.load()).join())`)
    ends(t, ended, ['ZT_LIMIT', '97,98,99,100'])
  })

  test('a copy into a stream without a free thread fails with an error, leaves nothing running, and works later', async (t) => {
    const ended = await child(`
      const copy = () => {
        let length = 0
        const target = new Writable({ write: (chunk, _, done) => done(null, (length += chunk.length)) })
        target.on('error', () => {})
        return convert(bytes, target).then(() => length > 4)
      }
      await copy()
      await limit('nproc', 0)
      console.log(await codeOf(copy()))
      await limit('nproc', 10000)
      console.log(await copy())`)
    ends(t, ended, ['ZT_LIMIT', 'true'])
  })

  if (canMap(1)) {
    test('a lost mapping is reported even if the first alias could not open a descriptor', async (t) => {
      const paths = JSON.stringify([scratchFile(BYTES), scratchFile(BYTES)])
      const ended = await child(
        `
        const [first, second] = ${paths}
        let tell
        const loss = new Promise((resolve) => (tell = resolve))
        const files = [openSync(first), openSync(second, { onMappingLost: tell })]
        await limit('nofile', 0)
        console.log(files[0].tensor('x').data.join())
        await limit('nofile', 1000)
        const { data } = files[1].tensor('x')
        // The report comes from another thread, and nothing waits for it.
        const waiting = setTimeout(() => {}, 60_000)
        truncateSync(second, 0)
        console.log(data[0], (await loss).code)
        clearTimeout(waiting)`,
        process.getuid(),
      )
      ends(t, ended, ['97,98,99,100', '0 ZT_MAPPING_LOST'])
    })
  }
} else {
  test.skip('needs limits of a process that can be changed', () => {})
}
