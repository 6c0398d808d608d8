// The sources of open(), its rejections, and their messages.
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import test from 'ava'
import { open, openSync, ZTensorError } from 'ztensor'
import { square10, zt10 } from '../corpus/zt.mjs'
import { arrayBufferOf, BIG_ENDIAN_HOST } from '../helpers/bytes.mjs'
import { isCopied } from '../helpers/data-placement.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const BYTES = zt10({ w: square10() })
const both = async (source, options) => [
  thrownBy(() => openSync(source, options).close()),
  await rejectionOf(async () => (await open(source, options)).close()),
]

/** The bytes in a view that begins `lead` bytes into its buffer and ends before that does. */
function viewAt(lead, Buffers = ArrayBuffer) {
  const view = new Uint8Array(new Buffers(lead + BYTES.length + 9), lead, BYTES.length)
  view.set(BYTES)
  return view
}

const SOURCES = {
  'a path': () => scratchFile(BYTES),
  'a relative path': () => relative(process.cwd(), scratchFile(BYTES)),
  'a path of other alphabets': () => scratchFile(BYTES, 'テンソル é \u{1f600}.zt'),
  // Windows has no question marks in names.
  'a path with percent signs': () =>
    scratchFile(BYTES, process.platform === 'win32' ? '100%25 #1.zt' : '100%25 #1?.zt'),
  'a file: URL': () => pathToFileURL(scratchFile(BYTES)),
  'a file: URL with escapes': () => pathToFileURL(scratchFile(BYTES, 'a b%#é.zt')),
  'a Uint8Array': () => new Uint8Array(BYTES),
  'a Buffer': () => Buffer.from(BYTES),
  'a view at an offset of 64': () => viewAt(64),
  'a view at an odd offset': () => viewAt(5),
  'an ArrayBuffer': () => arrayBufferOf(BYTES),
  'a view of a SharedArrayBuffer': () => viewAt(8, SharedArrayBuffer),
  'a view of a resizable ArrayBuffer': () => {
    const view = new Uint8Array(new ArrayBuffer(BYTES.length, { maxByteLength: BYTES.length * 2 }))
    view.set(BYTES)
    return view
  },
}
for (const [what, make] of Object.entries(SOURCES)) {
  test(`${what} opens`, async (t) => {
    for (const opening of [openSync, open]) {
      const file = await opening(make())
      t.is(file.byteLength, BYTES.length)
      t.deepEqual([...file.tensor('w').data], [1, 2, 3, 4])
      t.deepEqual([...(await file.tensor('w').load())], [1, 2, 3, 4])
      t.deepEqual([...file.tensor('w').toFloat32()], [1, 2, 3, 4])
      t.true((await file.verify()).ok)
      file.close()
    }
  })
}

test('data of an aligned source in memory is an alias', (t) => {
  const source = viewAt(64)
  const file = openSync(source)
  const { data } = file.tensor('w')
  if (BIG_ENDIAN_HOST) t.is(file.tensor('w').copyReason, 'byte-order')
  else {
    t.is(data.buffer, source.buffer)
    data[0] = 42
    t.is(new Float32Array(source.buffer, 64 + 64, 1)[0], 42)
  }
  file.close()
  const odd = openSync(viewAt(5))
  isCopied(t, odd.tensor('w'), 'misaligned')
  odd.close()
})

test('reads the index of a source in memory before open() returns', async (t) => {
  for (const opening of [openSync, open]) {
    const source = viewAt(0)
    const file = await opening(source)
    source.fill(0xff, 80)
    t.deepEqual([...file.keys()], ['w'])
    t.deepEqual([...file.tensor('w').data], [1, 2, 3, 4])
    file.close()
  }
})

test('bytes that change while open() reads them never crash it', async (t) => {
  const shared = viewAt(0, SharedArrayBuffer)
  for (let round = 0; round < 50; round++) {
    shared.set(BYTES)
    const opening = open(shared)
    shared.fill(round, 64)
    const outcome = await opening.then(
      (file) => file.close(),
      (error) => error,
    )
    t.true(outcome === undefined || outcome instanceof ZTensorError, String(outcome))
  }
})

test('a path and a URL open the same file, and path is its path', (t) => {
  const path = scratchFile(BYTES)
  const file = openSync(pathToFileURL(path))
  t.is(file.path, path)
  file.close()
})

test('a missing file: ZT_IO, with Node’s error as its cause', async (t) => {
  const path = scratchPath('absent.zt')
  for (const source of [path, pathToFileURL(path)]) {
    for (const error of await both(source)) {
      t.true(error instanceof ZTensorError)
      t.is(error?.code, 'ZT_IO')
      t.true(error?.message.includes('absent.zt'), error?.message)
      t.true(error?.cause instanceof Error)
      t.is(error?.cause.code, 'ENOENT')
      t.is(error?.cause.syscall, 'open')
      t.is(error?.cause.path, path)
      t.is(typeof error?.cause.errno, 'number')
    }
  }
})

test('a path below a file: ZT_IO', async (t) => {
  for (const error of await both(`${scratchFile(BYTES)}/inner.zt`)) {
    t.is(error?.code, 'ZT_IO')
    t.true(['ENOTDIR', 'ENOENT'].includes(error?.cause?.code), error?.cause?.code)
  }
})

test('a directory without tensor files: ZT_IO', async (t) => {
  const path = scratchPath('folder')
  mkdirSync(path)
  for (const error of await both(path)) {
    t.is(error?.code, 'ZT_IO')
    t.true(error.message.includes('the folder is empty'), error.message)
  }
})

test('an empty file: ZT_TRUNCATED', async (t) => {
  for (const source of [scratchFile(Buffer.alloc(0)), new Uint8Array(0), new ArrayBuffer(0)]) {
    for (const error of await both(source)) t.is(error?.code, 'ZT_TRUNCATED')
  }
})

if (process.platform !== 'win32') {
  test('a FIFO, and a device: ZT_IO, without waiting for a writer', async (t) => {
    const path = scratchPath('pipe')
    execFileSync('mkfifo', [path])
    for (const source of [path, '/dev/null', '/dev/zero']) {
      for (const error of await both(source)) {
        t.true(error instanceof ZTensorError, source)
        t.is(error?.code, 'ZT_IO', source)
        t.true(error?.message.includes(source), error?.message)
      }
    }
  })
}

const NO_SOURCES = {
  nothing: undefined,
  null: null,
  'a number': 7,
  'a boolean': true,
  'an object': {},
  'an array': [1, 2],
  'a symbol': Symbol('x'),
  'a function': () => {},
  'a Float32Array': new Float32Array(8),
  'a DataView': new DataView(new ArrayBuffer(8)),
  'an empty text': '',
  'a text with a zero byte': 'a\0b',
  'an ftp: URL': new URL('ftp://example.com/a.zt'),
}
for (const [what, source] of Object.entries(NO_SOURCES)) {
  test(`rejects ${what} as a source`, async (t) => {
    for (const error of await both(source)) isArgumentError(t, error, 'source')
  })
}

const NO_OPTIONS = {
  options: [7, 'zt', null, () => {}],
  format: ['zip', 'ZT', '', 7, null, {}],
  verify: [1, 'yes', null, {}],
  maxIndexBytes: [-1, 1.5, Number.NaN, '1', null, {}],
  maxDecodedBytes: [-1, 0.5, Number.NaN, '1', null],
  maxRank: [-1, 2.5, Number.NaN, '1', null],
  maxAttributeValues: [-1, 0.1, Number.NaN, '1', null],
}
for (const [name, values] of Object.entries(NO_OPTIONS)) {
  test(`options: rejects an invalid ${name}`, async (t) => {
    for (const value of values) {
      for (const error of await both(BYTES, name === 'options' ? value : { [name]: value }))
        isArgumentError(t, error, name)
    }
  })
}

test('options: accepts signal and onProgress of open()', async (t) => {
  for (const signal of [{}, 7, 'x', null])
    isArgumentError(t, await rejectionOf(() => open(BYTES, { signal })), 'signal')
  for (const onProgress of [{}, 7, 'x', null])
    isArgumentError(t, await rejectionOf(() => open(BYTES, { onProgress })), 'onProgress')
})

test('options: undefined is the same as absent', (t) => {
  const file = openSync(BYTES, {
    format: undefined,
    verify: undefined,
    maxIndexBytes: undefined,
    maxDecodedBytes: undefined,
    maxRank: undefined,
    maxAttributeValues: undefined,
  })
  t.is(file.size, 1)
  file.close()
  openSync(BYTES, undefined).close()
})

test('options: raises the limits', async (t) => {
  const deep = zt10({ w: square10({ shape: [2, 2, ...Array(80).fill(1)] }) })
  t.is(thrownBy(() => openSync(deep))?.code, 'ZT_LIMIT')
  const file = openSync(deep, { maxRank: 100 })
  t.is(file.tensor('w').shape.length, 82)
  file.close()
  const many = zt10({}, { root: { attributes: { list: Array(20).fill(0) } } })
  t.is(thrownBy(() => openSync(many, { maxAttributeValues: 10 }))?.code, 'ZT_LIMIT')
  openSync(many, { maxAttributeValues: 100 }).close()
})
