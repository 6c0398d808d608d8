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

const matrix = scratchPath('matrix.zt')
test.before(async () => {
  const writer = await create(matrix)
  for (const [at, name] of ['blk.0.ffn_up.weight', 'blk.0.ffn_down.weight', 'output.weight'].entries()) {
    const data = Float32Array.from(noise(2 << 20, at), (byte) => byte - 128)
    await writer.add(name, data, { shape: [4096, 512] })
  }
  await writer.finish()
})

const metadata = { 'general.architecture': 'llama' }
// `needs`: what a stream gets only after all of it was written to a temporary file.
for (const [name, options, source = large, needs = 'nothing'] of [
  ['safetensors', { format: 'safetensors' }],
  ['safetensors, cast', { format: 'safetensors', cast: { uint8: 'float32' } }],
  ['BTF', { format: 'btf' }, matrix],
  ['npy', { format: 'npy', filter: ({ name }) => name === 'x' }],
  ['GGUF', { format: 'gguf', checkpoint: false, cast: { float32: 'float16' } }, matrix],
  ['GGUF, quantized', { format: 'gguf', metadata, quantize: 'q8_0' }, matrix],
  ['npz', { format: 'npz' }, large, 'data'],
  ['compressed npz', { format: 'npz', compression: true }, large, 'data'],
  ['canonical zTensor 2', { version: '2' }, large, 'data'],
]) {
  test.serial(`${name}: a stream gets the bytes of a file, in order if nothing depends on the data`, async (t) => {
    const path = scratchPath('converted')
    const whole = await convert(source, path, options)
    const before = spools()
    for (const given of [source, readFileSync(source)]) {
      const temporary = new Set()
      const { stream, bytes } = collecting((done) => {
        for (const one of spools()) temporary.add(one)
        setImmediate(done)
      })
      t.deepEqual(await convert(given, stream, options), whole)
      t.true(stream.writableFinished)
      t.true(bytes().equals(readFileSync(path)))
      t.is(temporary.size - before.length, needs === 'data' ? 1 : 0, 'temporary files')
    }
    t.deepEqual(spools(), before)
  })

  if (needs === 'nothing') {
    test.serial(`${name}: a slow reader holds the conversion back, at any size`, async (t) => {
      let waiting
      const stream = new Writable({ highWaterMark: 1000, write: (_chunk, _encoding, done) => (waiting = done) })
      const stop = new AbortController()
      const converting = convert(source, stream, { ...options, signal: stop.signal })
      let ended = false
      converting.catch(() => {}).finally(() => (ended = true))
      let most = 0
      for (let chunk = 0; chunk < 3; chunk++) {
        while (waiting === undefined && !ended) await new Promise(setImmediate)
        t.false(ended, 'it waits for its reader')
        for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
        most = Math.max(most, stream.writableLength)
        const next = waiting
        waiting = undefined
        next()
      }
      t.true(most <= 8 << 20, `${most} bytes wait`)
      stop.abort(new Error('enough'))
      await t.throwsAsync(converting, { message: 'enough' })
      t.true(stream.destroyed)
    })

    test.serial(`${name}: a stream that fails in the middle ends the conversion`, async (t) => {
      let left = 2
      const cause = new Error('no paper')
      const stream = new Writable({ write: (_chunk, _encoding, done) => done(--left === 0 ? cause : undefined) })
      const error = await t.throwsAsync(convert(source, stream, options), { instanceOf: ZTensorError, code: 'ZT_IO' })
      t.is(error.cause, cause)
      t.true(stream.destroyed)
    })
  }
}

test('a set of files is refused for a stream, with its reason', async (t) => {
  const refused = { code: 'ZT_INVALID_ARG', message: /^a model in several files cannot be written to a stream/ }
  for (const format of ['safetensors', 'gguf']) {
    const options = { format, maxShardBytes: 1 << 20, metadata }
    const { stream } = sink()
    await t.throwsAsync(convert(matrix, stream, format === 'gguf' ? options : { ...options, metadata: {} }), refused)
    t.true(stream.writable)
  }
})

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
