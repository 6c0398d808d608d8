// After any failure, a path has the complete old file or the complete new one, and no other file remains.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { create, openSync, ZTensorError } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { rounds } from '../helpers/campaign.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { noise, scratchFolder, streamed, WRITE_FORMATS, written } from '../helpers/sample-files.mjs'

const OLD = Int32Array.of(1, 2, 3)
const NEW = Int32Array.of(4, 5, 6, 7)
const valuesAt = (path) => {
  const file = openSync(path)
  const values = Int32Array.from(file.tensor('0').data)
  file.close()
  return values
}
const put = (options, path, values) => written(options, (writer) => writer.add('0', values), path)

/** A folder with an old file in it, and its expected state after a failed write. */
async function oldFile(options) {
  const { folder, names, path } = scratchFolder()
  await put(options, path('a'), OLD)
  const bytes = readFileSync(path('a'))
  const untouched = (t) => {
    t.deepEqual(names(), ['a'])
    t.true(readFileSync(path('a')).equals(bytes))
  }
  return { folder, names, path: path('a'), untouched }
}

for (const { name: format, options } of WRITE_FORMATS) {
  test(`${format}: the path is empty before finish(), and no other file exists after`, async (t) => {
    const { names, path } = scratchFolder()
    const writer = await create(path('a'), options)
    t.is(writer.path, path('a'))
    await writer.add('0', NEW)
    t.false(existsSync(path('a')))
    await writer.finish()
    t.deepEqual(names(), ['a'])
    t.deepEqual(valuesAt(path('a')), NEW)
  })

  test(`${format}: keeps an existing file without overwrite`, async (t) => {
    const { path, untouched } = await oldFile(options)
    for (const overwrite of [undefined, false]) {
      const error = await rejectionOf(() => create(path, { ...options, overwrite }))
      t.true(error instanceof ZTensorError)
      t.is(error.code, 'ZT_EXISTS')
      t.true(error.message.includes(path))
      untouched(t)
    }
  })

  test(`${format}: keeps a file that appears between create() and finish()`, async (t) => {
    const { names, path } = scratchFolder()
    const writer = await create(path('a'), options)
    await writer.add('0', NEW)
    writeFileSync(path('a'), 'theirs')
    t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_EXISTS')
    t.is(readFileSync(path('a'), 'utf8'), 'theirs')
    t.deepEqual(names(), ['a'])
  })

  test(`${format}: one of two writers of a path wins, with a complete file`, async (t) => {
    const { names, path } = scratchFolder()
    const writers = await Promise.all([create(path('a'), options), create(path('a'), options)])
    await Promise.all(writers.map((writer, i) => writer.add('0', i === 0 ? OLD : NEW)))
    const ends = await Promise.allSettled(writers.map((writer) => writer.finish()))
    const won = ends.findIndex(({ status }) => status === 'fulfilled')
    t.is(ends[1 - won].reason?.code, 'ZT_EXISTS')
    t.deepEqual(valuesAt(path('a')), won === 0 ? OLD : NEW)
    t.deepEqual(names(), ['a'])
  })

  test(`${format}: overwriting keeps the values of a mapped reader`, async (t) => {
    const { path, names } = await oldFile(options)
    const file = openSync(path)
    const { data } = file.tensor('0')
    const overwriting = () => put({ ...options, overwrite: true }, path, NEW)
    if (process.platform === 'win32') {
      const error = await rejectionOf(overwriting)
      t.is(error.code, 'ZT_IO')
      t.regex(error.message, /cannot be replaced.*Close it/)
    } else {
      await overwriting()
      t.deepEqual(valuesAt(path), NEW)
    }
    t.deepEqual([...data], [...OLD])
    t.deepEqual([...(await file.tensor('0').load())], [...OLD])
    t.deepEqual(names(), ['a'])
    file.close()
  })

  for (const [how, give] of Object.entries({
    'abort()': (writer) => writer.abort(),
    disposing: (writer) => writer[Symbol.asyncDispose](),
    'a stream that ends early': (writer) =>
      rejectionOf(() => streamed(writer.stream('1', { dtype: 'int8', shape: [9] }), [new Uint8Array(8)])),
    'a stream that was destroyed': async (writer) => {
      const stream = writer.stream('1', { dtype: 'int8', shape: [9] })
      stream.write(new Uint8Array(4))
      stream.destroy()
      await rejectionOf(() => writer.finish())
    },
  })) {
    test(`${format}: ${how} leaves nothing, and ends the writer`, async (t) => {
      const { path, untouched } = await oldFile(options)
      const writer = await create(path, { ...options, overwrite: true })
      await writer.add('0', NEW)
      await give(writer)
      untouched(t)
      for (const call of [
        () => writer.add('1', NEW),
        () =>
          writer.addObject('1', { layout: 'dense', shape: [4], components: { data: { dtype: 'int32', data: NEW } } }),
        () => streamed(writer.stream('1', { dtype: 'int8', shape: [1] }), [new Uint8Array(1)]),
        () => writer.finish(),
      ]) {
        t.is((await rejectionOf(call))?.code, 'ZT_CLOSED')
      }
      await writer.abort()
      await writer[Symbol.asyncDispose]()
      untouched(t)
    })
  }

  test(`${format}: after finish() the writer has ended, and disposing it has no effect`, async (t) => {
    const { path, names } = await oldFile(options)
    const writer = await create(path, { ...options, overwrite: true })
    await writer.add('0', NEW)
    await writer.finish()
    t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_CLOSED')
    t.is((await rejectionOf(() => writer.add('1', NEW)))?.code, 'ZT_CLOSED')
    await writer.abort()
    await writer[Symbol.asyncDispose]()
    t.deepEqual(valuesAt(path), NEW)
    t.deepEqual(names(), ['a'])
  })

  test(`${format}: failing to create a file is ZT_IO with its cause`, async (t) => {
    const { folder, path, names } = scratchFolder()
    writeFileSync(path('file'), '')
    for (const [code, target] of [
      ['ENOENT', join(folder, 'missing', 'a')],
      // Windows does not say which part of a path is missing.
      [process.platform === 'win32' ? 'ENOENT' : 'ENOTDIR', join(folder, 'file', 'a')],
    ]) {
      const error = await rejectionOf(() => create(target, options))
      t.true(error instanceof ZTensorError)
      t.is(error.code, 'ZT_IO')
      t.is(error.cause?.code, code)
      t.is(error.cause?.path, target)
    }
    t.deepEqual(names(), ['file'])
  })

  test(`${format}: does not replace a folder`, async (t) => {
    const { path, names } = scratchFolder()
    mkdirSync(path('a'))
    t.is((await rejectionOf(() => put(options, path('a'), NEW)))?.code, 'ZT_EXISTS')
    t.is((await rejectionOf(() => put({ ...options, overwrite: true }, path('a'), NEW)))?.code, 'ZT_IO')
    t.deepEqual(names(), ['a'])
    t.true(lstatSync(path('a')).isDirectory())
  })

  test(`${format}: accepts the longest names of the file system`, async (t) => {
    const { path, names } = scratchFolder()
    const longest = 'n'.repeat(255)
    await put(options, path(longest), NEW)
    t.deepEqual(valuesAt(path(longest)), NEW)
    t.deepEqual(names(), [longest])
  })
}

test('rejects an array that is transferred away before its turn', async (t) => {
  const { path, untouched } = await oldFile({})
  for (const length of [10, 3 * 2 ** 20]) {
    const writer = await create(path, { overwrite: true })
    const array = new Float32Array(length)
    // A small one is written within the call if nothing is queued.
    const before = writer.add('before', new Float32Array(2 ** 20))
    const added = rejectionOf(() => writer.add('0', array))
    structuredClone(array.buffer, { transfer: [array.buffer] })
    t.true((await added) instanceof ZTensorError)
    await before
    await rejectionOf(() => writer.finish())
    untouched(t)
  }
})

if (process.platform !== 'win32') {
  test('replaces the target of a link, and keeps the link', async (t) => {
    const { path, names } = scratchFolder()
    await put({}, path('real'), OLD)
    symlinkSync('real', path('link'))
    t.is((await rejectionOf(() => create(path('link'))))?.code, 'ZT_EXISTS')
    await put({ overwrite: true }, path('link'), NEW)
    t.true(lstatSync(path('link')).isSymbolicLink())
    t.deepEqual(valuesAt(path('real')), NEW)
    t.deepEqual(names(), ['link', 'real'])
  })

  const child = (source, args, { before = '' } = {}) =>
    spawn('bash', ['-c', `${before} exec "$0" "$@"`, process.execPath, '--input-type=module', '-e', source, ...args], {
      cwd: new URL('../', import.meta.url),
      stdio: ['ignore', 'pipe', 'inherit'],
    })

  for (const { name: format, options } of WRITE_FORMATS) {
    test(`${format}: a file that grows past the limit is ZT_IO, and keeps the old one`, async (t) => {
      const { path, untouched } = await oldFile(options)
      const source = `
        import { create } from 'ztensor'
        const [path, options] = process.argv.slice(1)
        const writer = await create(path, { ...JSON.parse(options), overwrite: true })
        const codes = []
        for (const call of [() => writer.add('0', new Int32Array(2 ** 22)), () => writer.finish(), () => writer.abort()]) {
          codes.push(await call().then(() => 'done', (error) => [error.code, error.cause?.code]))
        }
        console.log(JSON.stringify(codes))`
      // bash counts in KiB. Without the trap the signal ends the process before the write can fail.
      const limited = child(source, [path, JSON.stringify(options)], { before: "trap '' XFSZ; ulimit -f 4096;" })
      const output = limited.stdout.setEncoding('utf8').toArray()
      const [status] = await once(limited, 'close')
      t.is(status, 0)
      const [added, finished, aborted] = JSON.parse((await output).join(''))
      t.deepEqual(added === 'done' ? finished : added, ['ZT_IO', 'EFBIG'])
      if (added !== 'done') t.is(finished[0], 'ZT_CLOSED')
      t.is(aborted, 'done')
      untouched(t)
    })
  }

  // One file after the other over the same path, each filled with one number, to reveal a mixture.
  const forever = `
    import { create } from 'ztensor'
    const [path, options] = process.argv.slice(1)
    for (let round = 1; ; round++) {
      const writer = await create(path, { ...JSON.parse(options), overwrite: true })
      await writer.add('0', new Int32Array(300000).fill(round))
      await writer.add('1', new Int8Array(round))
      await writer.finish()
      if (round === 1) console.log('begun')
    }`

  test('killed at any moment, a writer leaves the old file or the new one', async (t) => {
    const kills = rounds(120, 24)
    const waits = littleEndian(noise(kills, Date.now() % 1e6))
    t.log(`waits: ${waits.toString('hex')}`)
    for (let round = 0; round < kills; round += 4) {
      await Promise.all(
        [0, 1, 2, 3]
          .map((ahead) => round + ahead)
          .map(async (at) => {
            const { options } = WRITE_FORMATS[at % WRITE_FORMATS.length]
            const { path } = scratchFolder()
            const writing = child(forever, [path('a'), JSON.stringify(options)])
            const ended = once(writing, 'close')
            await once(writing.stdout, 'data')
            // Without waiting, so that the moment of the kill varies.
            const until = performance.now() + waits[at] / 8
            while (performance.now() < until) await new Promise(setImmediate)
            writing.kill('SIGKILL')
            await ended
            const file = openSync(path('a'))
            const { data } = file.tensor('0')
            t.true(data[0] >= 1)
            t.true(data.every((value) => value === data[0]))
            t.is(data.length, 300000)
            t.is(file.tensor('1').data.length, data[0])
            t.true((await file.verify()).ok)
            file.close()
          }),
      )
    }
  })
}
