// The path has the complete old file or the complete edited one; in place, every error restores the old one.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, copyFileSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { append, compact, create, openSync, ZTensorError } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { rounds } from '../helpers/campaign.mjs'
import { edited, MODES } from '../helpers/editing.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { noise, scratchFolder, streamed, written } from '../helpers/sample-files.mjs'

const OLD = Int32Array.from({ length: 50_000 }, (_, i) => i)

/** A folder with a file in it, and its expected state after a failed edit. */
async function oldFile(options = {}) {
  const { folder, names, path } = scratchFolder()
  await written(options, (writer) => writer.add('old', OLD), path('a'))
  const bytes = readFileSync(path('a'))
  const untouched = (t, where) => {
    t.deepEqual(names(), ['a'], where)
    t.true(readFileSync(path('a')).equals(bytes), where)
  }
  return { folder, names, path: path('a'), other: path('b'), bytes, untouched }
}

for (const { mode, inPlace } of MODES) {
  for (const [how, give] of Object.entries({
    'abort()': (editor) => editor.abort(),
    disposing: (editor) => editor[Symbol.asyncDispose](),
    'a stream that ends early': (editor) =>
      rejectionOf(() => streamed(editor.stream('s', { dtype: 'int8', shape: [9] }), [new Uint8Array(8)])),
    'an array that is taken away': async (editor) => {
      const array = new Float32Array(3 * 2 ** 20)
      const added = rejectionOf(() => editor.add('x', array))
      structuredClone(array.buffer, { transfer: [array.buffer] })
      await added
    },
  })) {
    test(`${mode}: ${how} restores the old file, and ends the edit`, async (t) => {
      const { path, untouched } = await oldFile()
      for (const size of [10, 30 * 2 ** 20]) {
        const editor = await append(path, { inPlace })
        await editor.rename('old', 'new')
        await editor.add('large', noise(size, 1))
        await give(editor)
        untouched(t, `${how}, ${size}`)
        t.is((await rejectionOf(() => editor.add('y', OLD)))?.code, 'ZT_CLOSED')
        t.is((await rejectionOf(() => editor.finish()))?.code, 'ZT_CLOSED')
        await editor.abort()
        untouched(t, how)
      }
      await edited(path, (editor) => editor.add('works', OLD), { inPlace })
    })
  }

  test(`${mode}: a rejected tensor does not end the edit`, async (t) => {
    const { path } = await oldFile()
    const add = async (editor) => {
      t.is((await rejectionOf(() => editor.add('old', OLD)))?.code, 'ZT_BAD_INDEX')
      t.is((await rejectionOf(() => editor.add('x', { shape: [2], data: OLD })))?.code, 'ZT_BAD_SHAPE')
      await editor.add('x', OLD)
    }
    await edited(path, add, { inPlace })
    const file = openSync(path)
    t.deepEqual([...file.keys()], ['old', 'x'])
    file.close()
  })

  test(`${mode}: a signal ends the edit at any step`, async (t) => {
    const { path, untouched } = await oldFile()
    const stop = new AbortController()
    const editor = await append(path, { inPlace, signal: stop.signal })
    await editor.add('large', noise(20 * 2 ** 20, 1))
    const late = rejectionOf(() => editor.add('larger', noise(2 ** 20, 1)))
    const reason = new Error('enough')
    stop.abort(reason)
    const results = [late, rejectionOf(() => editor.rename('old', 'x')), rejectionOf(() => editor.finish())]
    const [adding, ...rest] = await Promise.all(results)
    t.true(adding === undefined || adding === reason)
    for (const error of rest) t.is(error, reason)
    await editor.abort()
    untouched(t)
    t.is(await rejectionOf(() => append(path, { inPlace, signal: stop.signal })), reason)
    const after = new AbortController()
    await edited(path, (again) => again.add('x', OLD), { inPlace, signal: after.signal })
    const bytes = readFileSync(path)
    after.abort()
    t.true(readFileSync(path).equals(bytes))
  })

  // Windows does not let a mapped file be replaced.
  const posixTest = process.platform === 'win32' && !inPlace ? test.skip : test
  posixTest(`${mode}: a reader that has mapped the old file keeps its values`, async (t) => {
    const { path } = await oldFile()
    const file = openSync(path)
    const { data } = file.tensor('old')
    for (let round = 0; round < 3; round++) {
      await edited(path, (editor) => editor.add(`${round}`, noise(100_000, round)), { inPlace })
      const failed = await append(path, { inPlace })
      await failed.add('x', noise(10 * 2 ** 20, 1))
      await failed.abort()
    }
    await edited(path, (editor) => editor.remove('old'), { inPlace })
    t.deepEqual([...data], [...OLD])
    t.deepEqual([...(await file.tensor('old').load())], [...OLD])
    t.true((await file.verify()).ok)
    file.close()
    const now = openSync(path)
    t.deepEqual([...now.keys()], ['0', '1', '2'])
    now.close()
  })

  test(`${mode}: rejects the second of two concurrent edits, and loses nothing of either`, async (t) => {
    const { path, names } = await oldFile()
    const first = await append(path, { inPlace })
    if (process.platform !== 'win32') {
      for (const other of [true, false]) {
        const error = await rejectionOf(() => append(path, { inPlace: other }))
        t.true(error instanceof ZTensorError)
        t.is(error.code, 'ZT_IO')
        t.true(error.message.includes('being edited'))
      }
      t.is((await rejectionOf(() => compact(path)))?.code, 'ZT_IO')
    }
    await first.add('first', OLD)
    await first.finish()
    await edited(path, (second) => second.add('second', OLD), { inPlace })
    const file = openSync(path)
    t.deepEqual([...file.keys()], ['old', 'first', 'second'])
    file.close()
    t.deepEqual(names(), ['a'])
  })

  if (process.platform !== 'win32')
    test(`${mode}: many edits that wait for the same file run one after the other`, async (t) => {
      const { path, names } = await oldFile()
      const all = Array.from({ length: 8 }, (_, i) => `t${i}`)
      await Promise.all(
        all.map(async (name) => {
          for (;;) {
            const error = await rejectionOf(() => edited(path, (editor) => editor.add(name, OLD), { inPlace }))
            if (error === undefined) return
            t.is(error.code, 'ZT_IO')
          }
        }),
      )
      const file = openSync(path)
      t.deepEqual([...file.keys()].sort(), ['old', ...all])
      t.true((await file.verify()).ok)
      file.close()
      t.deepEqual(names(), ['a'])
    })

  for (const [what, change] of Object.entries({
    'appended to by another process': ({ path }) => appendFileSync(path, 'theirs'),
    replaced: ({ path, other }) => {
      copyFileSync(path, other)
      renameSync(other, path)
    },
    'overwritten by a writer': async ({ path }) => {
      await written({ overwrite: true }, (writer) => writer.add('theirs', OLD), path)
    },
  })) {
    // There, an open file cannot be replaced, and others cannot write a file during an edit in place.
    if (process.platform === 'win32' && (inPlace || what !== 'appended to by another process')) continue
    test(`${mode}: does not lose a file that was ${what} meanwhile`, async (t) => {
      const old = await oldFile()
      const editor = await append(old.path, { inPlace })
      await editor.add('ours', OLD)
      await change(old)
      const theirs = readFileSync(old.path)
      const error = await rejectionOf(() => editor.finish())
      t.true(error instanceof ZTensorError)
      t.is(error.code, 'ZT_IO')
      t.true(readFileSync(old.path).equals(theirs))
      t.deepEqual(old.names(), ['a'])
    })
  }
}

const replaced = process.platform === 'win32' ? test.skip : test
replaced('a clone that is replaced at the last moment is dropped', async (t) => {
  const old = await oldFile()
  const editor = await append(old.path)
  // By then the clone exists.
  await editor.add('ours', noise(20 * 2 ** 20, 1))
  await written({ overwrite: true }, (writer) => writer.add('theirs', OLD), old.path)
  const theirs = readFileSync(old.path)
  t.is((await rejectionOf(() => editor.finish()))?.code, 'ZT_IO')
  t.true(readFileSync(old.path).equals(theirs))
  t.deepEqual(old.names(), ['a'])
})

test('a stopped compaction leaves the file unchanged', async (t) => {
  const { path, untouched } = await oldFile()
  const reason = new Error('enough')
  t.is(await rejectionOf(() => compact(path, { signal: AbortSignal.abort(reason) })), reason)
  untouched(t)
  await edited(path, (editor) => editor.add('x', noise(30 * 2 ** 20, 1)), { inPlace: true })
  await edited(path, (editor) => editor.remove('old'), { inPlace: true })
  const bytes = readFileSync(path)
  // On a busy machine it may finish before it is stopped: then it is tried again.
  let stopped = false
  for (let tries = 0; tries < 50 && !stopped; tries++) {
    writeFileSync(path, bytes)
    const stop = new AbortController()
    const compacting = rejectionOf(() => compact(path, { signal: stop.signal }))
    stop.abort(reason)
    const error = await compacting
    stopped = error === reason
    if (stopped) t.true(readFileSync(path).equals(bytes))
    else t.is(error, undefined)
  }
  t.true(stopped)
  let last
  const { byteLength } = await compact(path, { onProgress: (progress) => (last = progress) })
  t.like(last, { bytes: 30 * 2 ** 20, totalBytes: 30 * 2 ** 20, tensors: 1, totalTensors: 1 })
  t.is(statSync(path).size, byteLength)
})

if (process.platform !== 'win32') {
  const child = (source, args, { before = '' } = {}) =>
    spawn('bash', ['-c', `${before} exec "$0" "$@"`, process.execPath, '--input-type=module', '-e', source, ...args], {
      cwd: new URL('../', import.meta.url),
      stdio: ['ignore', 'pipe', 'inherit'],
    })

  for (const { mode, inPlace } of MODES) {
    for (const [what, add] of [
      ['an array', "editor.add('x', new Int32Array(2 ** 22).fill(7))"],
      [
        'many arrays',
        '(async () => { for (let i = 0; i < 300; i++) await editor.add(String(i), new Int32Array(2 ** 13)) })()',
      ],
      ['nothing but an attribute', "editor.setMetadata({ long: 'x'.repeat(5e6) })"],
    ]) {
      test(`${mode}: growing past the limit by ${what} is ZT_IO, and keeps the old file`, async (t) => {
        const { path, untouched } = await oldFile()
        const source = `
          import { append } from 'ztensor'
          const [path, inPlace] = process.argv.slice(1)
          const editor = await append(path, { inPlace: inPlace === 'true' })
          const codes = []
          for (const call of [() => ${add}, () => editor.finish(), () => editor.abort()]) {
            codes.push(await call().then(() => 'done', (error) => [error.code, error.cause?.code]))
          }
          console.log(JSON.stringify(codes))`
        // bash counts in KiB. Without the trap the signal ends the process before the write can fail.
        const limited = child(source, [path, String(inPlace)], { before: "trap '' XFSZ; ulimit -f 4096;" })
        const output = limited.stdout.setEncoding('utf8').toArray()
        const [status] = await once(limited, 'close')
        t.is(status, 0)
        const [added, finished, aborted] = JSON.parse((await output).join(''))
        t.deepEqual(added === 'done' ? finished : added, ['ZT_IO', 'EFBIG'])
        if (added !== 'done') t.is(finished[0], 'ZT_CLOSED')
        t.is(aborted, 'done')
        untouched(t)
        await edited(path, (editor) => editor.add('y', OLD), { inPlace })
      })
    }
  }

  test('a compaction past the limit is ZT_IO, and keeps the old file', async (t) => {
    const { path, names } = await oldFile()
    await edited(path, (editor) => editor.add('x', noise(9 * 2 ** 20, 1)))
    await edited(path, (editor) => editor.remove('old'))
    const bytes = readFileSync(path)
    const source = `
      import { compact } from 'ztensor'
      console.log(await compact(process.argv[1]).then(() => 'done', (error) => error.code + ' ' + error.cause?.code))`
    const limited = child(source, [path], { before: "trap '' XFSZ; ulimit -f 4096;" })
    const output = limited.stdout.setEncoding('utf8').toArray()
    await once(limited, 'close')
    t.is((await output).join('').trim(), 'ZT_IO EFBIG')
    t.true(readFileSync(path).equals(bytes))
    t.deepEqual(names(), ['a'])
  })

  // One edit after the other. The content of the file tells how many there were, and each of them writes one number. A dot is
  // written at each step once the first round is done.
  const forever = `
    import { writeSync } from 'node:fs'
    import { append, compact } from 'ztensor'
    const path = process.argv[1]
    for (let round = 1; ; round++) {
      const step = async (promise) => {
        const result = await promise
        if (round > 1) writeSync(1, '.')
        return result
      }
      const editor = await step(append(path))
      await step(editor.setMetadata({ round }))
      if (round > 1) await step(editor.remove('t' + (round - 1)))
      await step(editor.add('t' + round, new Int32Array(100000).fill(round)))
      await step(editor.add('new', new Int8Array(round)))
      await step(editor.finish())
      const again = await step(append(path))
      await step(again.remove('new'))
      await step(again.finish())
      if (round % 4 === 3) await step(compact(path))
    }`

  for (const [version, ROUNDS] of [
    ['1.0', rounds(80, 16)],
    ['2', rounds(60, 16)],
  ])
    test(`${version}: killed at any moment, an edit or a compaction leaves the old file or the new one`, async (t) => {
      const steps = littleEndian(noise(ROUNDS, Date.now() % 1e6))
      t.log(`steps: ${steps.toString('hex')}`)
      const seen = new Set()
      for (let round = 0; round < ROUNDS; round += 4) {
        await Promise.all(
          [0, 1, 2, 3].map(async (at) => {
            const { path } = await oldFile({ version })
            const editing = child(forever, [path])
            const ended = once(editing, 'close')
            // Counted in the edit's own steps, so that it is killed in all of them on a machine of any speed.
            // Spread over the steps, so that some kills are while `new` is in the file.
            let left = 1 + ((round + at) * 32) / ROUNDS + steps[round + at] / 128
            for await (const dots of editing.stdout) {
              left -= dots.length
              if (left > 0) continue
              editing.kill('SIGKILL')
              break
            }
            const [, signal] = await ended
            t.is(signal, 'SIGKILL')
            const file = openSync(path)
            t.true((await file.verify()).ok)
            t.deepEqual([...file.tensor('old').data], [...OLD])
            const { round: last } = file.metadata
            const { data } = file.tensor(`t${last}`)
            t.is(data.length, 100000)
            t.true(data.every((value) => value === last))
            const rest = [...file.keys()].filter((name) => name !== 'old' && name !== `t${last}`)
            t.true(rest.length === 0 || (rest.join() === 'new' && file.tensor('new').data.length === last), rest.join())
            seen.add(rest.length)
            file.close()
            // It can be edited again: no lock outlives its process.
            await edited(path, (editor) => editor.add('after', OLD))
          }),
        )
      }
      t.is(seen.size, 2)
    })
}

test('in place, rejects the file that a kill leaves, and the old file is its beginning', async (t) => {
  const { path, other, bytes } = await oldFile()
  const editor = await append(path, { inPlace: true })
  await editor.add('x', noise(40 * 2 ** 20, 1))
  // The content on disk during the edit.
  const half = readFileSync(path)
  t.true(half.length > bytes.length)
  t.true(half.subarray(0, bytes.length).equals(bytes))
  writeFileSync(other, half)
  t.throws(() => openSync(other), { instanceOf: ZTensorError })
  writeFileSync(other, half.subarray(0, bytes.length))
  openSync(other).close()
  await editor.finish()
  openSync(path).close()
  const writer = await create(other, { overwrite: true })
  await writer.abort()
})
