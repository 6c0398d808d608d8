// convert() into a Node Writable, and `ztensor convert FILE -`.
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import test from 'ava'
import { convert, create, openSync, ZTensorError } from 'ztensor'
import { ended, start } from '../helpers/command.mjs'
import { collecting, noise } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const sink = () => collecting(setImmediate)
// Its temporary files are those of this process.
for (const name of ['TMPDIR', 'TEMP', 'TMP']) process.env[name] = mkdtempSync(join(tmpdir(), 'ztensor-test-'))
/** The temporary files of streams. */
const spools = () => readdirSync(tmpdir()).filter((name) => name.startsWith('ztensor-stream-'))
test.after.always(() => rmSync(tmpdir(), { recursive: true, force: true }))

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
  ['npy', { format: 'npy', filter: ({ name }) => name === 'y' }],
  ['npz', { format: 'npz', compression: true }],
  ['GGUF', { format: 'gguf', checkpoint: false, filter: ({ name }) => name === 'y' }],
  ['canonical zTensor 2', { version: '2' }],
]) {
  test.serial(
    `${name}: a stream gets the bytes of a file when it is complete, and no temporary file is left`,
    async (t) => {
      const path = scratchPath('converted')
      const whole = await convert(large, path, options)
      const before = spools()
      for (const source of [large, readFileSync(large)]) {
        const { stream, bytes } = sink()
        t.deepEqual(await convert(source, stream, options), whole)
        t.true(stream.writableFinished)
        t.true(bytes().equals(readFileSync(path)))
      }
      t.deepEqual(spools(), before)
    },
  )
}

test.serial(
  'a writer of safetensors fills a stream with its tensors, streams and sparse tensors of other formats',
  async (t) => {
    const before = spools()
    const { stream, bytes } = sink()
    const writer = await create(stream, { format: 'safetensors', metadata: { a: 'b' } })
    await writer.add('x', Float32Array.of(1, 2))
    const large = writer.stream('y', { dtype: 'uint8', shape: [3 << 20] })
    large.end(noise(3 << 20, 1))
    await once(large, 'finish')
    t.is(bytes().length, 0)
    await writer.finish()
    const file = openSync(bytes())
    t.deepEqual([...file.tensor('x').data], [1, 2])
    t.true(Buffer.from(file.tensor('y').data).equals(Buffer.from(noise(3 << 20, 1))))
    t.is(file.metadata.a, 'b')
    file.close()
    t.deepEqual(spools(), before)
  },
)

test.serial(
  'a refusal, an abort and a failing stream leave no temporary file, and a refusal leaves the stream unchanged',
  async (t) => {
    const before = spools()
    const options = { format: 'safetensors' }
    const refused = sink()
    await t.throwsAsync(convert(large, refused.stream, { format: 'gguf', checkpoint: false }), { code: 'ZT_BAD_DTYPE' })
    t.true(refused.stream.writable)
    t.is(refused.stream.listenerCount('error'), 0)
    await t.throwsAsync(convert(large, sink().stream, { ...options, maxShardBytes: 1 << 20 }), {
      code: 'ZT_INVALID_ARG',
      message: /cannot be written to a stream/,
    })
    const aborted = new AbortController()
    const waiting = new Writable({ write: () => aborted.abort(new Error('enough')) })
    await t.throwsAsync(convert(large, waiting, { ...options, signal: aborted.signal }), { message: 'enough' })
    t.true(waiting.destroyed)
    const failing = new Writable({ write: (_chunk, _encoding, done) => done(new Error('no paper')) })
    await t.throwsAsync(convert(large, failing, options), { code: 'ZT_IO', message: /no paper/ })
    const writer = await create(sink().stream, options)
    await writer.add('x', new Float32Array(2))
    await writer.abort()
    t.deepEqual(spools(), before)
  },
)

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

test('the command pipes formats whose index comes first', async (t) => {
  const path = scratchPath('piped.safetensors')
  t.is((await ended(start(['convert', large, path]))).code, 0)
  const { code, stderr, bytes } = await piped(['convert', large, '-', '--format', 'safetensors'])
  t.is(code, 0, stderr)
  t.true(bytes.equals(readFileSync(path)))
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
