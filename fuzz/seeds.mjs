// Fills fuzz/corpus/ from the vectors, the committed ones and those of other folders, and from the tables of malformed
// files: with each whole file, and its index alone.
//   node fuzz/seeds.mjs [FOLDER…]
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { constants, deflateRawSync, deflateSync } from 'node:zlib'
import { bytesOf, tables } from '../__test__/corpus/tables.mjs'

const here = dirname(fileURLToPath(import.meta.url))
/** Larger files make a fuzzer slow. */
const MAX_BYTES = 65536

function seed(target, name, bytes) {
  const folder = join(here, 'corpus', target)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, name), bytes)
}

/** `length` bytes from `offset` on, if the file is that long. */
function part(bytes, offset, length) {
  return offset >= 0 && length >= 0 && offset + length <= bytes.length
    ? bytes.subarray(offset, offset + length)
    : undefined
}

const u64 = (bytes, offset) => (part(bytes, offset, 8) === undefined ? -1 : Number(bytes.readBigUInt64LE(offset)))

/** The index of a file below version 2, which ends `footer` bytes before the file does. */
function trailing(bytes, footer) {
  const end = bytes.length - footer
  const length = u64(bytes, end)
  return part(bytes, end - length, length)
}

/** The target for the index of such a file, and its input; none if the index is incomplete. */
function indexOf(bytes, ending) {
  if (ending === '.btf') return ['btf', bytes]
  if (ending === '.safetensors') {
    const header = part(bytes, 8, u64(bytes, 0))
    const data = bytes.length - 8 - (header?.length ?? 0)
    // The target takes the header, then the bytes of data in two.
    const fits = header !== undefined && data < 65536
    return ['safetensors', fits ? Buffer.concat([Buffer.from([data & 255, data >> 8]), header]) : undefined]
  }
  if (/^\.(pt|ckpt|pytorch)$/.test(ending)) return ['pytorch', bytes]
  const magic = bytes.toString('latin1', 0, 8)
  if (magic.startsWith('\x93NUMPY')) return ['npy', bytes]
  if (magic.startsWith('PK')) return ['npz', bytes]
  if (magic === 'ZTEN0001') return ['zt01', trailing(bytes, 8)]
  if (magic === 'ZTEN1000' && bytes.toString('latin1', bytes.length - 8) === magic) return ['zt12', trailing(bytes, 16)]
  if (magic === 'ZTEN1000') return ['zt10', trailing(bytes, 8)]
  const footer = bytes.length - 40
  return ['zt2', part(bytes, u64(bytes, footer), u64(bytes, footer + 8))]
}

/** The first pickle of protocol 2 in a zip archive, up to the next member or its descriptor. */
function firstPickle(bytes) {
  const begin = bytes.indexOf('8002', 'hex')
  const end = bytes.indexOf('PK', begin)
  return bytes.toString('latin1', 0, 2) === 'PK' && begin >= 0 && end > begin ? bytes.subarray(begin, end) : undefined
}

function seedAll(name, bytes, ending) {
  seed('read', name, bytes)
  const pickle = firstPickle(bytes)
  if (pickle !== undefined) seed('pickle', name, pickle)
  const [target, index] = indexOf(bytes, ending)
  if (index !== undefined) seed(target, name, index)
  for (let at = bytes.indexOf('28b52ffd', 'hex'); at >= 0; at = bytes.indexOf('28b52ffd', at + 1, 'hex'))
    seed('zstd', `${name}-${at}`, bytes.subarray(at))
}

const fixtures = join(here, '../__test__/fixtures')
for (const folder of [fixtures, join(fixtures, 'numpy'), join(fixtures, 'pytorch'), ...process.argv.slice(2)])
  for (const name of readdirSync(folder).filter((name) => /\.(zt|safetensors|btf|npy|npz|pt|ckpt)$/.test(name)))
    seedAll(name, readFileSync(join(folder, name)), extname(name))

const ggufs = join(here, '../__test__/fixtures/gguf')
for (const name of readdirSync(ggufs).filter((name) => name.endsWith('.gguf')))
  seed('gguf', name, readFileSync(join(ggufs, name)))

// The target takes the changes, then the file.
for (const folder of [ggufs, fixtures])
  for (const name of readdirSync(folder).filter((name) => /\.(gguf|safetensors|zt)$/.test(name)))
    for (const fill of [0, 1, 85])
      seed('edit', `${name}-${fill}`, Buffer.concat([Buffer.alloc(24, fill), readFileSync(join(folder, name))]))

// The target takes the numbers of a folder and of a file in it, then the file.
const tokenizers = join(here, '../crates/gguf/tests/checkpoints/tokenizers')
const FILES = [
  ['tokenizer.json', 0, 1],
  ['vocab.json', 1, 1],
  ['tekken.json', 2, 1],
  ['tokenizer.model', 3, 1],
  ['sentencepiece.bpe.model', 5, 1],
]
for (const name of readdirSync(tokenizers))
  for (const [file, folder, number] of FILES) {
    const path = join(tokenizers, name, file)
    if (existsSync(path))
      seed('checkpoint', `${name}-${file}`, Buffer.concat([Buffer.from([folder, number]), readFileSync(path)]))
  }

const models = join(here, '../__test__/fixtures/onnx')
for (const name of readdirSync(models).filter((name) => name.endsWith('.onnx')))
  seed('onnx', name, readFileSync(join(models, name)))

const checkpoints = join(here, '../__test__/fixtures/tensorflow')
for (const name of readdirSync(checkpoints, { recursive: true }).filter((name) => name.endsWith('.index')))
  seed('tensorflow', name.replaceAll(/[/\\]/g, '-'), readFileSync(join(checkpoints, name)))

for (const format of ['flax', 'paddle'])
  for (const name of readdirSync(join(fixtures, format)).filter((name) => name !== 'expected.json'))
    seed(format, name, readFileSync(join(fixtures, format, name)))

const WHOLE = ['arrow', 'flax', 'gguf', 'hdf5', 'keras', 'onnx', 'openvino', 'paddle', 'tensorflow', 'tflite']
for (const [table, cases] of await tables()) {
  const ending = /btf|safetensors|pytorch/.exec(table)?.[0]
  for (const [at, one] of cases.entries()) {
    const file = Buffer.from(bytesOf(one))
    // A target takes them whole.
    if (WHOLE.includes(table)) {
      if (file.length <= MAX_BYTES) for (const target of ['read', table]) seed(target, `cases-${table}-${at}`, file)
      continue
    }
    // Without a file extension: `manifest` mutates those of `read` that have one, and needs them valid.
    if (file.length <= MAX_BYTES) seedAll(`cases-${table}-${at}`, file, ending && `.${ending}`)
  }
}

// The target takes a byte that says whether the stream is bare, then the stream.
const plain = Buffer.from(Array.from({ length: 3000 }, (_, at) => (at * at) % 251))
for (const strategy of ['Z_DEFAULT_STRATEGY', 'Z_HUFFMAN_ONLY', 'Z_RLE', 'Z_FIXED'])
  for (const level of [0, 1, 9]) {
    const options = { level, strategy: constants[strategy] }
    for (const [kind, pack] of [deflateRawSync, deflateSync].entries())
      seed('deflate', `${strategy}-${level}-${kind}`, Buffer.concat([Buffer.from([kind]), pack(plain, options)]))
  }

const hdf5 = join(here, '../__test__/fixtures/hdf5')
for (const name of readdirSync(hdf5).filter((name) => /\.(h5|keras)$/.test(name))) {
  const bytes = readFileSync(join(hdf5, name))
  if (bytes.length <= MAX_BYTES) seed(name.endsWith('.keras') ? 'keras' : 'hdf5', name, bytes)
}

for (const target of ['arrow', 'openvino', 'tflite']) {
  const folder = join(here, '../__test__/fixtures', target)
  for (const name of readdirSync(folder).filter((name) => /\.(arrow|feather|tflite|xml)$/.test(name)))
    seed(target, name, readFileSync(join(folder, name)))
}
