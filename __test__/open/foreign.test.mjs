// The error for a file that is not a tensor file names its type and what to do.
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import test from 'ava'
import { open, openSync, ZTensorError } from 'ztensor'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const latin1Bytes = (text) => Buffer.from(text, 'latin1')
const padded = (start, length = 600, fill = 0) => Buffer.concat([latin1Bytes(start), Buffer.alloc(length, fill)])
const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 123\n`
const zip = (...names) => padded(`PK\x03\x04${'\0'.repeat(26)}${names.join('\0'.repeat(40))}`)
const tar = Buffer.alloc(1024)
tar.write('model/')
tar.write('ustar', 257)
const torchTar = Buffer.from(tar)
torchTar.write('sys_info\0')

const KINDS = {
  'a git-lfs pointer': [POINTER, /git-lfs pointer.*git lfs pull/],
  'a response of the hub': ['Entry not found', /Hugging Face hub.*download it again/],
  'a web page': ['<!DOCTYPE html>\n<html><head><title>{{ model }}</title></head></html>', /web page.*resolve/],
  'a web page after white space': ['\n\n <HTML lang="en"><body>no</body></HTML>', /web page/],
  'an answer of S3': ['<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', /XML.*download/],
  'a JSON error': ['{"error":"Repository not found"}', /JSON error.*download/],
  'another JSON': ['{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}', /JSON file/],
  'an index under another name': ['{"metadata":{},"weight_map":{"a":"m.safetensors"}}', /index.*\.json/],
  gzip: [gzipSync(Buffer.alloc(5000, 'a')), /gzip.*gunzip/],
  zstd: [padded('\x28\xb5\x2f\xfd'), /zstd/],
  zip: [zip('a.txt'), /zip archive.*unzip/],
  tar: [tar, /tar archive.*tar -xf/],
  "PyTorch's first format": [torchTar, /PyTorch.*0\.1\.10.*torch\.load/],
  'a program of torch.export': [
    zip('model/archive_format', 'model/models/model.json', '.data/serialization_id'),
    /torch\.export.*state_dict/,
  ],
  'an older program of torch.export': [
    zip('serialized_exported_program.json', 'serialized_state_dict.pt'),
    /torch\.export.*state_dict/,
  ],
  pickle: [latin1Bytes('\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94\x8c\x01a\x94K\x01s.'), /pickle.*trust/],
  Parquet: [padded('PAR1'), /Parquet/],
  'a text': ['This is not a tensor file, but a text with a few more words.', /a text/],
  zeros: [Buffer.alloc(300), /zeros.*fetch the file again/],
}

for (const [what, [content, pattern]] of Object.entries(KINDS)) {
  test(`names ${what}`, async (t) => {
    const bytes = Buffer.from(content)
    const path = scratchFile(bytes, 'model.safetensors')
    for (const error of [
      thrownBy(() => openSync(path)),
      // The format itself rejects an empty header.
      ...(what === 'zeros' ? [] : [thrownBy(() => openSync(path, { format: 'safetensors' }))]),
      await rejectionOf(() => open(path)),
      thrownBy(() => openSync(bytes)),
    ]) {
      t.true(error instanceof ZTensorError)
      t.is(error?.code, 'ZT_BAD_MAGIC')
      t.regex(error.message, pattern)
      t.notRegex(error.message, /maxIndexBytes/)
    }
    t.true(thrownBy(() => openSync(path)).message.includes(path))
  })
}

test('names a file of another format than the given one', (t) => {
  for (const [bytes, title] of [
    [padded('GGUF\x03\0\0\0'), 'GGUF'],
    [padded('\x93NUMPY\x01\0'), 'NumPy npy'],
    [padded('ZTEN1000'), 'zTensor'],
  ]) {
    const error = thrownBy(() => openSync(bytes, { format: 'safetensors' }))
    t.is(error.code, 'ZT_BAD_MAGIC')
    t.true(error.message.includes(`this is ${title}, not safetensors: omit the option format`), error.message)
  }
})

test('files in memory that are read in stages have the same messages', async (t) => {
  const error = await rejectionOf(() => open(Buffer.concat([Buffer.from(POINTER), Buffer.alloc(2 ** 20, ' ')])))
  t.is(error.code, 'ZT_BAD_MAGIC')
  t.regex(error.message, /git-lfs/)
})

test('rejects an empty file and one of a few bytes', (t) => {
  for (const [bytes, pattern] of [
    [[], /empty/],
    [[1, 2, 3], /3 bytes are too few/],
  ]) {
    const error = thrownBy(() => openSync(scratchFile(Buffer.from(bytes), 'a.zt')))
    t.is(error.code, 'ZT_TRUNCATED')
    t.regex(error.message, pattern)
  }
})

test('no message suggests a limit beyond the file size', (t) => {
  const header = Buffer.alloc(8)
  header.writeBigUInt64LE(2n ** 40n)
  const error = thrownBy(() => openSync(Buffer.concat([header, Buffer.from('{"w":\x01\x02')])))
  t.is(error.code, 'ZT_TRUNCATED')
  t.notRegex(error.message, /maxIndexBytes/)
})

test('lists the files of a folder of other files', (t) => {
  const folder = scratchPath('folder')
  mkdirSync(folder)
  t.regex(thrownBy(() => openSync(folder)).message, /empty/)
  writeFileSync(join(folder, 'notes.txt'), '')
  const error = thrownBy(() => openSync(folder))
  t.is(error.code, 'ZT_IO')
  t.regex(error.message, /notes\.txt/)
})

for (const [path, pattern] of [
  ['gopher://bucket/model.zt', /gopher: URLs are not fetched/],
  ['ftp://host/model.safetensors', /ftp: URLs are not fetched/],
  ['file:///models/model.zt', /new URL/],
  ['~/model.zt', /~ is not expanded.*homedir/],
  ['models/*.safetensors', /Patterns are not expanded/],
]) {
  test(`${path} as a text`, async (t) => {
    for (const error of [thrownBy(() => openSync(path)), await rejectionOf(() => open([path, 'other.zt']))]) {
      t.is(error.code, 'ZT_IO')
      t.regex(error.message + (Array.isArray(error.cause) ? error.cause[0].message : ''), pattern)
    }
    const { cause } = thrownBy(() => openSync(path))
    t.is(cause.code, 'ENOENT')
    t.is(cause.path, path)
    t.notRegex(cause.message, pattern)
  })
}

test('opens a file whose name only looks like a pattern', (t) => {
  if (process.platform === 'win32') return t.pass()
  const path = scratchFile(readFileSync(new URL('../fixtures/zt100-dtypes.zt', import.meta.url)), 'a*b?.zt')
  openSync(path).close()
  t.pass()
})

function checkpoint(weightMap, files) {
  const folder = scratchPath('checkpoint')
  mkdirSync(folder)
  const index = join(folder, 'model.safetensors.index.json')
  writeFileSync(index, JSON.stringify({ weight_map: weightMap }))
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes)
  return { folder, index }
}

test('a missing shard names the index that refers to it', (t) => {
  const { folder, index } = checkpoint({ a: 'm-1.safetensors' }, {})
  for (const path of [folder, index]) {
    const error = thrownBy(() => openSync(path))
    t.is(error.code, 'ZT_INCOMPLETE')
    t.regex(error.message, /the index 'model\.safetensors\.index\.json' names a file that cannot be read: ENOENT/)
    t.is(error.cause.code, 'ENOENT')
    t.is(error.cause.path, join(folder, 'm-1.safetensors'))
  }
})

test('names a shard that is a pointer of git-lfs, and lists several problems', (t) => {
  const pointer = checkpoint({ a: 'm-1.safetensors' }, { 'm-1.safetensors': POINTER })
  const error = thrownBy(() => openSync(pointer.folder))
  t.is(error.code, 'ZT_BAD_MAGIC')
  t.regex(
    error.message,
    /the index '.*' names a file that cannot be read: 'm-1\.safetensors': this is a git-lfs pointer/,
  )
  const two = checkpoint({ a: 'm-1.safetensors', b: 'm-2.safetensors' }, { 'm-1.safetensors': POINTER })
  const all = thrownBy(() => openSync(two.folder))
  t.regex(all.message, /do not make up the index 'model\.safetensors\.index\.json': 2 problems/)
  t.deepEqual(
    all.cause.map(({ code }) => code),
    ['ZT_BAD_MAGIC', 'ZT_IO'],
  )
  t.is(all.cause[1].cause.code, 'ENOENT')
})

test('the error of an invalid index names its content', (t) => {
  for (const [text, pattern] of [
    [POINTER, /git-lfs pointer/],
    ['<html></html>', /web page/],
    ['{"architectures":["GPT2"]}', /no "weight_map".*JSON/],
  ]) {
    const error = thrownBy(() => openSync(scratchFile(Buffer.from(text), 'model.safetensors.index.json')))
    t.is(error.code, 'ZT_BAD_INDEX')
    t.regex(error.message, pattern)
  }
})

if (process.platform === 'linux') {
  test('finds names that are not UTF-8 in a folder, and opens them by URL', async (t) => {
    const folder = scratchPath('bytes')
    mkdirSync(folder)
    const model = readFileSync(new URL('../fixtures/zt100-dtypes.zt', import.meta.url))
    writeFileSync(Buffer.concat([Buffer.from(`${folder}/caf`), Buffer.from([0xe9]), Buffer.from('.zt')]), model)
    const error = thrownBy(() => openSync(folder))
    t.is(error.code, 'ZT_IO')
    t.regex(error.message, /1 names in it are not UTF-8: "caf\ufffd\.zt".*file: URL/)
    t.notRegex(error.message, /is empty/)

    const url = new URL(`${pathToFileURL(folder)}/caf%E9.zt`)
    for (const file of [openSync(url), await open(url)]) {
      t.is(file.size, openSync(model).size)
      t.is(file.path, url.href)
      const again = openSync(file.share())
      t.is(again.size, file.size)
      again.close()
      const shared = file.share()
      file.close()
      t.is(openSync(shared).size, openSync(model).size)
    }
    const missing = thrownBy(() => openSync(new URL(`${pathToFileURL(folder)}/caf%E8.zt`)))
    t.is(missing.cause.code, 'ENOENT')
    t.true(missing.message.includes('caf%E8.zt'))
  })
}

test('a link to nothing is missing', (t) => {
  if (process.platform === 'win32') return t.pass()
  const path = scratchPath('link.zt')
  symlinkSync('nowhere', path)
  t.is(thrownBy(() => openSync(path)).cause.code, 'ENOENT')
})
