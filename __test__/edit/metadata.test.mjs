// editMetadata: what it changes, what it keeps, and how it writes: in the file, on a clone or on a copy.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { copyFileSync, linkSync, readdirSync, readFileSync, statSync, symlinkSync, truncateSync } from 'node:fs'
import { watch } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import test from 'ava'
import { append, convert, editMetadata, open, openSync, saveFile } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { rounds } from '../helpers/campaign.mjs'
import { MODES, propertiesAt } from '../helpers/editing.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { gguf } from '../helpers/gguf-writer.mjs'
import { noise, scratchFolder, written } from '../helpers/sample-files.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { traced, traceTest } from '../helpers/strace.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const DATA = { a: noise(100, 1), b: noise(5000, 2), c: noise(64, 3) }
const hash = (bytes) => createHash('sha256').update(bytes).digest('hex')
const METADATA = { title: 'sample', license: 'MIT' }

/** The system calls that edit a file and put it under its name, and few others of Node. */
const EDITING = 'ioctl copy_file_range fallocate pwrite64 ftruncate fchmod fsync rename renameat2 linkat unlink'.split(
  ' ',
)

/** A file of each format with the same tensors and metadata. */
const FORMATS = {
  safetensors: async () => {
    const { path } = scratchFolder()
    await saveFile(path('a.safetensors'), DATA, { metadata: METADATA })
    return path('a.safetensors')
  },
  gguf: async () =>
    scratchFile(
      gguf({
        metadata: Object.entries(METADATA).map(([key, value]) => [key, 'string', value]),
        tensors: Object.entries(DATA).map(([name, data]) => ({ name, shape: [data.length], type: 24, data })),
      }),
      'a.gguf',
    ),
  'zTensor 1.0': () => zt('1.0'),
  'zTensor 1.2': () => zt('1.2'),
  'zTensor 2': () => zt('2'),
}
const zt = (version) =>
  written({ version, metadata: METADATA }, async (writer) => {
    for (const [name, data] of Object.entries(DATA)) await writer.add(name, data)
  })

/** The metadata and the tensors of a file. */
function held(path) {
  const file = openSync(path)
  const tensors = Object.fromEntries([...file.values()].map(({ name, data }) => [name, hash(littleEndian(data))]))
  const { metadata: attributes, warnings } = file
  file.close()
  return { attributes: { ...attributes }, tensors, warnings }
}
const hashes = Object.fromEntries(Object.entries(DATA).map(([name, data]) => [name, hash(data)]))

for (const [format, make] of Object.entries(FORMATS))
  for (const { mode, inPlace } of MODES) {
    test(`${format}, ${mode}: sets, removes, renames and drops`, async (t) => {
      const path = await make()
      const bytes = readFileSync(path)
      const same = await editMetadata(path, { set: { title: 'sample' }, inPlace })
      t.deepEqual(same, { byteLength: bytes.length, method: 'unchanged' })
      t.true(readFileSync(path).equals(bytes))

      const set = { title: 'x'.repeat(9000), 'new key': 'é"\n' }
      const edit = { set, remove: 'license', rename: { a: 'b', b: 'a' }, drop: ['c'], inPlace }
      const { byteLength, method } = await editMetadata(path, edit)
      t.is(byteLength, statSync(path).size)
      if (!inPlace) t.true(['cloned', 'copied'].includes(method), method)
      else if (format.startsWith('zTensor')) t.is(method, 'in-place')
      t.deepEqual(held(path), { attributes: set, tensors: { a: hashes.b, b: hashes.a }, warnings: [] })

      // It fits in the existing header.
      const shorter = await editMetadata(path, { set: { title: 'short' }, inPlace })
      if (inPlace) t.is(shorter.method, 'in-place')
      t.deepEqual(held(path).attributes, { ...set, title: 'short' })
      const longer = await editMetadata(path, { set: { title: 'y'.repeat(9000) }, inPlace })
      if (inPlace) t.is(longer.method, 'in-place')
      t.deepEqual(held(path), {
        attributes: { ...set, title: 'y'.repeat(9000) },
        tensors: { a: hashes.b, b: hashes.a },
        warnings: [],
      })
    })

    test(`${format}, ${mode}: accepts patterns, functions and globs`, async (t) => {
      const path = await make()
      await editMetadata(path, { rename: { '*': 'model.*' }, inPlace })
      t.deepEqual(Object.keys(held(path).tensors), ['model.a', 'model.b', 'model.c'])
      await editMetadata(path, { rename: (name) => name.replace('model', 'm'), drop: ['*.c', 'model.a'], inPlace })
      t.deepEqual(held(path).tensors, { 'm.b': hashes.b })
      await editMetadata(path, { drop: '!x', inPlace })
      t.deepEqual(held(path), { attributes: METADATA, tensors: {}, warnings: [] })
    })

    test(`${format}, ${mode}: rejects invalid changes, and keeps the file`, async (t) => {
      const path = await make()
      const bytes = readFileSync(path)
      for (const [edit, code, message] of [
        [{ remove: ['nothing'] }, 'ZT_NOT_FOUND', '"title"'],
        [{ set: { title: 'x' }, remove: ['licens'] }, 'ZT_NOT_FOUND', '"license"'],
        [{ rename: { d: 'e' } }, 'ZT_NOT_FOUND', 'no such tensor'],
        [{ rename: { 'd*': 'e*' } }, 'ZT_INVALID_ARG', 'matches no tensor'],
        [{ rename: { a: 'b' } }, 'ZT_BAD_INDEX', 'name already'],
        [{ rename: () => 'same' }, 'ZT_BAD_INDEX', 'name already'],
        [{ drop: ['d'] }, 'ZT_NOT_FOUND', 'no such tensor'],
        [{ drop: ['a', 'd*'] }, 'ZT_INVALID_ARG', "drop: 'd*' matches no tensor"],
        [{ drop: ['a'], rename: { a: 'd' } }, 'ZT_INVALID_ARG', 'both renamed and dropped'],
        [{ set: { title: 'x' }, remove: ['title'] }, 'ZT_INVALID_ARG', 'changed twice'],
        [{ set: { title: 'x' }, maxIndexBytes: 8 }, 'ZT_LIMIT', 'maxIndexBytes'],
      ]) {
        const error = await rejectionOf(() => editMetadata(path, { ...edit, inPlace }))
        t.is(error?.code, code, error?.message)
        t.true(error.message.includes(message), error.message)
        t.true(readFileSync(path).equals(bytes), message)
      }
    })
  }

test('GGUF: values keep their type, get the default, or the requested one', async (t) => {
  const path = scratchFile(
    gguf({
      metadata: [
        ['count', 'u32', 1],
        ['ratio', 'f32', 1],
        ['ids', 'array', ['u16', [1, 2]]],
      ],
      tensors: [{ name: 'a' }],
    }),
    'types.gguf',
  )
  const typeOf = (key) => {
    const bytes = readFileSync(path)
    const at = bytes.indexOf(key) + key.length
    const type = bytes.readUInt32LE(at)
    return type === 9 ? [bytes.readUInt32LE(at + 4)] : type
  }
  const set = {
    count: 7,
    ratio: 2,
    ids: [65535],
    int32: -1,
    uint32: 2 ** 31,
    int64: 2 ** 53 - 1,
    uint64: 2n ** 64n - 1n,
    float: 0.5,
    flag: true,
    text: 'é',
    words: ['a', 'b'],
    mixed: [1, 0.5],
    typed: { type: 'uint8', value: 255 },
    empty: { type: 'string', value: [] },
  }
  await editMetadata(path, { set })
  const file = openSync(path)
  t.deepEqual({ ...file.metadata }, { ...set, typed: 255, empty: [] })
  file.close()
  const types = Object.keys(set).map((key) => [key, typeOf(key)])
  t.deepEqual(Object.fromEntries(types), {
    count: 4,
    ratio: 6,
    ids: [2],
    int32: 5,
    uint32: 4,
    int64: 11,
    uint64: 10,
    float: 6,
    flag: 7,
    text: 8,
    words: [8],
    mixed: [6],
    typed: 0,
    empty: [8],
  })
  for (const [value, message] of [
    [[], 'an empty array has no type'],
    [[[1]], 'do not nest'],
    [[1, 'a'], 'one type'],
    [null, 'GGUF has text'],
    [{ a: 1 }, 'GGUF has text'],
    [2n ** 64n, 'GGUF has text'],
    [{ type: 'uint8', value: 256 }, 'does not fit the type uint8'],
  ]) {
    const error = await rejectionOf(() => editMetadata(path, { set: { value } }))
    t.is(error?.code, 'ZT_INVALID_ARG', message)
    t.true(error instanceof RangeError || error instanceof TypeError)
    t.true(error.message.includes(message), error.message)
  }
})

test('safetensors: values other than text become JSON, as in a conversion', async (t) => {
  const path = await FORMATS.safetensors()
  const set = { number: 5, list: [1, 'a', null], big: 2n ** 60n, typed: { type: 'uint8', value: 1 }, map: { a: true } }
  await editMetadata(path, { set })
  const expected = { number: '5', list: '[1,"a",null]', big: String(2n ** 60n), typed: '1', map: '{"a":true}' }
  t.deepEqual(held(path).attributes, { ...METADATA, ...expected })
  for (const value of [Number.NaN, Uint8Array.of(1)]) {
    const error = await rejectionOf(() => editMetadata(path, { set: { value } }))
    t.is(error?.code, 'ZT_INVALID_ARG')
    t.true(error.message.includes('text only'), error.message)
  }
})

test('GGUF: does not list or convert the padding key', async (t) => {
  const path = await FORMATS.gguf()
  await editMetadata(path, { set: { title: 'x'.repeat(100) } })
  t.true(readFileSync(path).includes('ztensor.padding'))
  t.deepEqual(Object.keys(held(path).attributes), ['title', 'license'])
  const { path: other } = scratchFolder()
  await convert(path, other('b.zt'))
  t.deepEqual(Object.keys(held(other('b.zt')).attributes), ['title', 'license'])
  await editMetadata(path, { remove: ['title', 'license'] })
  t.deepEqual(held(path).attributes, {})
})

test('keeps everything else in files of other tools', async (t) => {
  for (const name of ['plain.gguf', 'plain-big-endian.gguf', 'aligned-4096.gguf', 'types.gguf'])
    for (const { inPlace } of MODES) {
      const path = scratchFile(readFileSync(fixturePath(`gguf/${name}`)), name)
      const before = propertiesAt(path)
      await editMetadata(path, { set: { 'general.description': 'x'.repeat(10_000) }, inPlace })
      const after = propertiesAt(path)
      const attributes = { ...before.attributes, 'general.description': 'x'.repeat(10_000) }
      t.deepEqual({ ...after, attributes: { ...after.attributes } }, { ...before, attributes }, name)
    }
  for (const name of ['st-dtypes.safetensors', 'st-metadata.safetensors', 'st-empty-tensors.safetensors'])
    for (const { inPlace } of MODES) {
      const path = scratchFile(readFileSync(fixturePath(name)), name)
      const before = propertiesAt(path)
      await editMetadata(path, { set: { note: 'x'.repeat(10_000) }, inPlace })
      const after = propertiesAt(path)
      const attributes = { ...before.attributes, note: 'x'.repeat(10_000) }
      t.deepEqual({ ...after, attributes: { ...after.attributes } }, { ...before, attributes }, name)
    }
})

test('the first file of a set has the metadata', async (t) => {
  const { path } = scratchFolder()
  const names = [1, 2, 3].map((number) => `split-0000${number}-of-00003.gguf`)
  for (const name of names) copyFileSync(fixturePath(`gguf/${name}`), path(name))
  const before = held(path(names[0]))
  await editMetadata(path(names[0]), { set: { 'general.name': 'edited' } })
  t.deepEqual(held(path(names[2])).attributes, { ...before.attributes, 'general.name': 'edited' })
  t.deepEqual(held(path(names[2])).tensors, before.tensors)
  const [second] = openSync(path(names[1]), { shards: 'none' }).keys()
  await editMetadata(path(names[1]), { rename: { [second]: 'renamed' } })
  t.true(Object.keys(held(path(names[0])).tensors).includes('renamed'))
  for (const [name, edit, message] of [
    [names[1], { set: { a: 'b' } }, 'file 2 of 3 of a set: edit its first file'],
    [names[0], { set: { 'split.count': 2 } }, 'split.* cannot be changed'],
    [names[1], { drop: 'renamed' }, 'convert it'],
  ]) {
    const error = await rejectionOf(() => editMetadata(path(name), edit))
    t.is(error?.code, 'ZT_INVALID_ARG')
    t.true(error.message.includes(message), error.message)
  }
})

test('rejects files of other formats, and other files', async (t) => {
  for (const [path, code] of [
    [fixturePath('btf-dense.btf'), 'ZT_INVALID_ARG'],
    [fixturePath('zt01-dtypes.zt'), 'ZT_UNSUPPORTED_VERSION'],
    [scratchFile(Buffer.alloc(0), 'empty.gguf'), 'ZT_TRUNCATED'],
    [scratchFile(Buffer.from('GGUF'), 'short.gguf'), 'ZT_TRUNCATED'],
    [
      scratchFile(Buffer.from('GGUF\x03\0\0\0\xff\0\0\0\0\0\0\0\xff\0\0\0\0\0\0\0', 'latin1'), 'a.gguf'),
      'ZT_TRUNCATED',
    ],
    [scratchFile(gguf({ version: 4 }), 'four.gguf'), 'ZT_UNSUPPORTED_VERSION'],
    [scratchFile(noise(100, 1), 'noise'), 'ZT_BAD_MAGIC'],
    ['/nowhere/at/all.gguf', 'ZT_IO'],
  ]) {
    const error = await rejectionOf(() => editMetadata(path, { set: { a: 'b' } }))
    t.is(error?.code, code, `${path}: ${error?.message}`)
  }
  const { path } = scratchFolder()
  await saveFile(path('a.npz'), DATA)
  const error = await rejectionOf(() => editMetadata(path('a.npz'), { set: { a: 'b' } }))
  t.is(error?.code, 'ZT_INVALID_ARG')
  t.true(error.message.includes('convert it'), error.message)
})

const posixTest = process.platform === 'win32' ? test.skip : test

for (const format of ['safetensors', 'gguf']) {
  posixTest(`${format}: a reader keeps its view, or the edit in place is rejected`, async (t) => {
    const path = await FORMATS[format]()
    const file = openSync(path)
    const { data } = file.tensor('b')
    await editMetadata(path, { set: { title: 'x'.repeat(9000) } })
    t.true(Buffer.from(data).equals(Buffer.from(DATA.b)))
    t.true(Buffer.from(await file.tensor('a').load()).equals(DATA.a))
    file.close()

    const again = openSync(path)
    const view = again.tensor('b').data
    // The data is not moved.
    t.is((await editMetadata(path, { set: { title: 'y'.repeat(8999) }, inPlace: true })).method, 'in-place')
    t.true(Buffer.from(view).equals(DATA.b))
    const bytes = readFileSync(path)
    const edit = { set: { title: 'x'.repeat(90_000) }, inPlace: true }
    if (process.platform === 'linux') {
      const error = await rejectionOf(() => editMetadata(path, edit))
      // A file system that cannot insert blocks copies the file.
      if (error !== undefined) {
        t.is(error.code, 'ZT_IO')
        t.true(error.message.includes('open elsewhere'), error.message)
        t.true(readFileSync(path).equals(bytes))
      }
    }
    t.true(Buffer.from(view).equals(DATA.b))
    again.close()
    await editMetadata(path, edit)
    t.deepEqual(held(path).tensors, hashes)
  })

  posixTest(`${format}: links stay links, and inPlace keeps the inode`, async (t) => {
    const path = await FORMATS[format]()
    const { path: other } = scratchFolder()
    symlinkSync(path, other('link'))
    const before = statSync(path).ino
    await editMetadata(other('link'), { set: { title: 'linked' } })
    t.not(statSync(path).ino, before)
    t.is(held(path).attributes.title, 'linked')
    linkSync(path, `${path}.hard`)
    await editMetadata(path, { set: { title: 'titled' }, inPlace: true })
    t.is(held(`${path}.hard`).attributes.title, 'titled')
  })

  posixTest(`${format}: the second of two concurrent edits is rejected or waits, and nothing is lost`, async (t) => {
    const path = await FORMATS[format]()
    const results = await Promise.all(
      [0, 1, 2, 3, 4, 5].map(async (at) => {
        const edit = { set: { [`key ${at}`]: String(at).repeat(1000) }, inPlace: at % 2 === 0 }
        return [at, await rejectionOf(() => editMetadata(path, edit))]
      }),
    )
    const { attributes, tensors } = held(path)
    t.deepEqual(tensors, hashes)
    for (const [at, error] of results) {
      t.is(attributes[`key ${at}`], error === undefined ? String(at).repeat(1000) : undefined)
      if (error !== undefined) t.is(error.code, 'ZT_IO')
    }
    t.true(results.some(([, error]) => error === undefined))
  })
}

test('rejects an edit of a file during an append', async (t) => {
  if (process.platform === 'win32') return t.pass()
  const path = await FORMATS['zTensor 1.2']()
  const editor = await append(path)
  t.is((await rejectionOf(() => editMetadata(path, { set: { a: 'b' } })))?.code, 'ZT_IO')
  await editor.abort()
  await editMetadata(path, { set: { a: 'b' } })
  t.is(held(path).attributes.a, 'b')
})

test('an aborted edit leaves the file unchanged', async (t) => {
  for (const make of Object.values(FORMATS)) {
    const path = await make()
    const bytes = readFileSync(path)
    const reason = new Error('enough')
    const aborted = rejectionOf(() => editMetadata(path, { set: { a: 'b' }, signal: AbortSignal.abort(reason) }))
    t.is(await aborted, reason)
    t.true(readFileSync(path).equals(bytes))
  }
})

if (process.platform === 'linux') {
  /** Bytes that this process has read and written so far. */
  const work = () => {
    const [, read, wrote] = /rchar: (\d+)\nwchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))
    return Number(read) + Number(wrote)
  }

  test.serial('edits a file of 100 GB in place by reading and writing only its header', async (t) => {
    const TOTAL = 100e9
    const header = (n) => {
      const text = JSON.stringify({ w: { dtype: 'U8', shape: [n], data_offsets: [0, n] } })
      const size = Buffer.alloc(8)
      size.writeBigUInt64LE(BigInt(text.length))
      return Buffer.concat([size, Buffer.from(text)])
    }
    for (const [name, head] of [
      ['a.safetensors', header(TOTAL)],
      ['a.gguf', gguf({ tensors: [{ name: 'w', shape: [TOTAL], type: 24, data: Buffer.alloc(0) }] })],
    ]) {
      const path = scratchFile(head, name)
      truncateSync(path, head.length + TOTAL)
      const before = work()
      const { method, byteLength } = await editMetadata(path, { set: { a: 'x'.repeat(5000) }, inPlace: true })
      t.true(work() - before < 2 ** 20, `${name}: ${work() - before}`)
      t.is(byteLength, statSync(path).size)
      t.true(method === 'inserted' || method === 'copied', method)
      t.true(statSync(path).blocks * 512 < 2 ** 20)
      t.is((await editMetadata(path, { set: { a: 'x'.repeat(4999) }, inPlace: true })).method, 'in-place')
      // The holes are not copied.
      await editMetadata(path, { set: { a: 'x'.repeat(50_000) } })
      t.true(work() - before < 2 ** 21, `${name}: ${work() - before}`)
      t.true(statSync(path).blocks * 512 < 2 ** 20)
      const file = await open(path)
      t.deepEqual([...file.tensor('w').shape], [TOTAL])
      t.is(file.metadata.a.length, 50_000)
      file.close()
    }
  })

  // One edit after the other: the file contains their number.
  const forever = `
    import { writeSync } from 'node:fs'
    import { editMetadata } from 'ztensor'
    const path = process.argv[1]
    for (let round = 1; ; round++) {
      await editMetadata(path, { set: { title: String(round).repeat(round % 7000) }, rename: { ['w' + (round - 1)]: 'w' + round } })
      writeSync(1, '.')
    }`

  for (const format of ['safetensors', 'gguf'])
    test(`${format}: killed at any moment, an edit leaves the old file or the new one`, async (t) => {
      const steps = noise(rounds(60, 12), Date.now() % 1e6)
      t.log(`steps: ${Buffer.from(steps).toString('hex')}`)
      for (const step of steps) {
        const path = await FORMATS[format]()
        await editMetadata(path, { rename: { b: 'w0' } })
        const editing = spawn(process.execPath, ['--input-type=module', '-e', forever, path], {
          cwd: new URL('../', import.meta.url),
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        const ended = once(editing, 'close')
        let left = 1 + step / 4
        for await (const dots of editing.stdout) {
          left -= dots.length
          if (left > 0) continue
          editing.kill('SIGKILL')
          break
        }
        const [, signal] = await ended
        t.is(signal, 'SIGKILL')
        const { attributes, tensors } = held(path)
        const [last] = Object.keys(tensors).filter((name) => name.startsWith('w'))
        const round = Number(last.slice(1))
        t.true(round > 0)
        t.deepEqual(tensors, { a: hashes.a, [last]: hashes.b, c: hashes.c })
        t.is(attributes.title, String(round).repeat(round % 7000))
        // It can be edited again: no lock outlives its process.
        await editMetadata(path, { set: { title: 'after' } })
      }
    })

  for (const format of ['safetensors', 'gguf'])
    traceTest(`${format}: killed at any system call, an edit leaves the old file or the new one`, async (t) => {
      t.timeout(300_000)
      const edit = `
        import { editMetadata } from 'ztensor'
        await editMetadata(process.argv[1], { set: { title: 'x'.repeat(9000) } })`
      const killed = {}
      for (const call of EDITING) {
        let ended = false
        for (let when = 1; !ended; when++) {
          t.true(when < 20, call)
          const path = await FORMATS[format]()
          const before = held(path)
          const inject = ['-e', `trace=${call}`, '-e', `inject=${call}:signal=SIGKILL:when=${when}`]
          const { status, signal } = await traced(inject, edit, [path])
          ended = signal === null
          t.is(status ?? signal, ended ? 0 : 'SIGKILL')
          const { attributes, tensors } = held(path)
          const isNew = attributes.title.length === 9000
          if (ended) t.true(isNew)
          else killed[call] = [...(killed[call] ?? []), isNew ? 'new' : 'old']
          t.deepEqual(tensors, before.tensors)
          t.deepEqual(attributes, { ...before.attributes, ...(isNew ? { title: 'x'.repeat(9000) } : {}) })
          await editMetadata(path, { set: { title: 'after' } })
          t.deepEqual(
            readdirSync(dirname(path)).filter((name) => name.includes(basename(path))),
            [basename(path)],
          )
        }
      }
      t.log(JSON.stringify(killed))
      t.true(Object.values(killed).flat().includes('old') && killed.fsync.includes('new'))
    })

  traceTest('in place, inserts blocks before it writes the header, and detects a kill in between', async (t) => {
    for (const format of ['safetensors', 'gguf']) {
      const path = await FORMATS[format]()
      const bytes = readFileSync(path)
      const edit = `
        import { editMetadata } from 'ztensor'
        await editMetadata(process.argv[1], { set: { title: 'x'.repeat(9000) }, inPlace: true })`
      const late = [
        '-f',
        '-qq',
        '-o',
        '/dev/null',
        '-P',
        path,
        '-e',
        'trace=write',
        '-e',
        'inject=write:delay_enter=60s',
      ]
      const stop = new AbortController()
      const changes = watch(path, { signal: stop.signal })
      const node = [process.execPath, '--input-type=module', '-e', edit, path]
      const editing = spawn('strace', [...late, ...node], { cwd: new URL('../', import.meta.url), detached: true })
      const ended = once(editing, 'close')
      ended.then(() => stop.abort())
      try {
        for await (const _ of changes) if (statSync(path).size > bytes.length) break
        process.kill(-editing.pid, 'SIGKILL')
      } catch (error) {
        t.is(error.name, 'AbortError')
      }
      await ended
      const found = readFileSync(path)
      if (found.length === bytes.length || found.includes('x'.repeat(9000))) {
        t.log('the file system cannot insert blocks')
        t.pass()
        continue
      }
      t.is((await rejectionOf(() => open(path)))?.code, 'ZT_BAD_MAGIC')
      t.true(found.subarray(found.length - bytes.length).equals(bytes), 'the old file follows')
      t.true(found.subarray(0, found.length - bytes.length).every((byte) => byte === 0))
    }
  })

  traceTest('in place, a system error restores the file', async (t) => {
    for (const format of ['safetensors', 'gguf'])
      for (const length of [9000, 5]) {
        const path = await FORMATS[format]()
        const bytes = readFileSync(path)
        const edit = `
          import { editMetadata } from 'ztensor'
          const [path, length] = process.argv.slice(1)
          const edit = { set: { title: 'x'.repeat(length) }, inPlace: true }
          console.log(await editMetadata(path, edit).catch((error) => error.code + ' ' + error.cause?.code))`
        const refused = ['-P', path, '-e', 'trace=write,fallocate', '-e', 'inject=write:error=ENOSPC:when=1']
        const { stdout } = await traced(refused, edit, [path, String(length)])
        // A file system that cannot insert blocks writes to another file.
        if (length === 9000 && stdout.includes('copied')) continue
        t.is(stdout.trim(), 'ZT_IO ENOSPC')
        t.true(readFileSync(path).equals(bytes), `${format} ${length}`)
      }
  })
}

test('drop: matches many globs in several turns, and reacts to the signal', async (t) => {
  const names = Array.from({ length: 4000 }, (_, at) => `model.layers.${at}.weight`)
  const add = async (writer) => {
    for (const name of names) await writer.add(name, new Uint8Array(1))
  }
  const target = await written({ format: 'safetensors', overwrite: true }, add, scratchFile('', 'many.safetensors'))
  const globs = Array.from({ length: 300 }, (_, at) => `model.*.${3000 + at}.weight`)
  const controller = new AbortController()
  const editing = editMetadata(target, { drop: globs, signal: controller.signal })
  let turns = 0
  let isDone = false
  const settled = editing.catch((error) => error).finally(() => (isDone = true))
  while (!isDone && turns < 30) {
    await new Promise((done) => setImmediate(done))
    turns++
  }
  // Other work had its turns while the globs were matched.
  t.deepEqual([turns, isDone], [30, false])
  controller.abort(new Error('enough'))
  t.is((await settled).message, 'enough')
  const before = openSync(target)
  t.deepEqual([...before.keys()].sort(), names.toSorted())
  before.close()
  await editMetadata(target, { drop: [...globs, '!*.3001.*'] })
  const after = openSync(target)
  const kept = names.filter((_, at) => at < 3000 || at >= 3300 || at === 3001)
  t.deepEqual([...after.keys()].sort(), kept.sort())
  after.close()
})
