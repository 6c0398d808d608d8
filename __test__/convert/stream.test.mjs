// convert() into a Node Writable, and `ztensor convert FILE -`.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Writable } from 'node:stream'
import test from 'ava'
import { convert, create, ZTensorError } from 'ztensor'
import { ended, fixture, start } from '../helpers/command.mjs'
import { collecting, noise } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const sink = () => collecting(setImmediate)

const large = scratchPath('large.zt')
test.before(async () => {
  const writer = await create(large, { version: '1.2' })
  await writer.add('x', noise(21 << 20, 1).fill(0, 1 << 20, 2 << 20))
  await writer.add('y', Float32Array.of(1, 2, 3))
  await writer.add('z', noise(9 << 20, 2))
  await writer.finish()
})

for (const options of [
  { version: '0.1' },
  { version: '1.0' },
  { version: '1.2', digest: 'sha256' },
  { version: '1.2', compression: { level: 1, minSavings: 0 } },
  { version: '1.2', cast: { float32: 'float64' } },
  { version: '2', canonical: false },
]) {
  test(`${JSON.stringify(options)}: a stream gets the bytes of a file, from a path and from memory`, async (t) => {
    const path = scratchPath('converted.zt')
    const whole = await convert(large, path, options)
    for (const source of [large, readFileSync(large)]) {
      const { stream, bytes } = sink()
      t.deepEqual(await convert(source, stream, options), whole)
      t.true(stream.writableFinished)
      t.true(bytes().equals(readFileSync(path)))
    }
  })
}

test('progress counts the bytes read', async (t) => {
  const seen = []
  await convert(large, sink().stream, { onProgress: (progress) => seen.push(progress) })
  const last = seen.at(-1)
  t.is(last.tensors, 3)
  t.is(last.bytes, last.totalBytes)
})

for (const [name, options] of [
  ['safetensors', { format: 'safetensors' }],
  ['BTF', { format: 'btf', filter: ({ name }) => name === 'y' }],
  ['canonical zTensor 2', { version: '2' }],
]) {
  test(`${name} is rejected, and the stream is unchanged`, async (t) => {
    const { stream, bytes } = sink()
    await t.throwsAsync(convert(large, stream, options), { code: 'ZT_INVALID_ARG', message: /stream/ })
    t.true(stream.writable)
    t.is(bytes().length, 0)
    t.is(stream.listenerCount('error'), 0)
  })
}

test('rejects invalid targets, and overwrite for a stream', async (t) => {
  await t.throwsAsync(convert(large, 7), { instanceOf: TypeError, code: 'ZT_INVALID_ARG' })
  const overwriting = convert(large, sink().stream, { overwrite: true })
  await t.throwsAsync(overwriting, { instanceOf: TypeError, code: 'ZT_INVALID_ARG' })
})

test('a failing stream ends the conversion with its error', async (t) => {
  for (const after of [0, 1]) {
    let left = after
    const cause = new Error('no paper')
    const stream = new Writable({ write: (_chunk, _encoding, done) => done(left-- === 0 ? cause : undefined) })
    const error = await t.throwsAsync(convert(large, stream), { instanceOf: ZTensorError, code: 'ZT_IO' })
    t.is(error.cause, cause)
    t.true(stream.destroyed)
  }
})

test('an abort ends a conversion that waits for its reader, and destroys the stream', async (t) => {
  const stop = new AbortController()
  const stream = new Writable({ write: () => stop.abort(new Error('enough')) })
  await t.throwsAsync(convert(large, stream, { signal: stop.signal }), { message: 'enough' })
  t.true(stream.destroyed)
})

/** Runs the command; its output as bytes. */
async function piped(args) {
  const child = start(args)
  const output = { stdout: [], stderr: [] }
  for (const name of ['stdout', 'stderr']) child[name].on('data', (chunk) => output[name].push(chunk))
  const [code] = await once(child, 'close')
  return { code, stderr: Buffer.concat(output.stderr).toString(), bytes: Buffer.concat(output.stdout) }
}

test('the command writes data to standard output, and messages to standard error', async (t) => {
  const path = scratchPath('by-path.zt')
  const options = ['--version', '1.2', '--compress=1']
  t.is((await ended(start(['convert', large, path, ...options]))).code, 0)
  const { code, stderr, bytes } = await piped(['convert', large, '-', ...options])
  t.is(code, 0, stderr)
  t.true(bytes.equals(readFileSync(path)))
  t.regex(stderr, /^wrote {2}standard output: 3 tensors\nread by: .*\n$/)
  const events = await piped(['convert', large, '-', ...options, '--json'])
  t.true(events.bytes.equals(bytes))
  t.is(JSON.parse(events.stderr.trim().split('\n').at(-1)).event, 'done')
})

test('the command writes nothing if the format cannot be piped', async (t) => {
  const { code, stderr, bytes } = await piped([
    'convert',
    fixture('zt100-dtypes.zt'),
    '-',
    '--format',
    'safetensors',
    '--skip',
  ])
  t.is(code, 2)
  t.regex(stderr, /cannot be written to a stream.*\(ZT_INVALID_ARG\)\n/)
  t.is(bytes.length, 0)
})

if (process.platform !== 'win32') {
  test('the command exits silently if its reader goes away', async (t) => {
    const child = start(['convert', large, '-'])
    child.stdout.once('data', () => child.stdout.destroy())
    const { code, stderr } = await ended(child)
    t.is(code, 141)
    t.is(stderr, '')
  })
}
