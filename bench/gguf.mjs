// The rows of GGUF: beside the gguf package of Python (`npm run interop` sets it up), and @huggingface/gguf where
// `npm install --no-save --prefix build/bench @huggingface/gguf` has put it.
import { closeSync, existsSync, openSync as openFile, writeFileSync, writeSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { open } from 'ztensor'
import { gguf } from '../__test__/gguf-writer.mjs'
import { warm } from './inputs.mjs'
import { byPeer } from './peers.mjs'
import { measure } from './timing.mjs'

const TOKENS = 256_000
const TENSORS = 300
const STATE = 'warm, written in pieces'
/** Rows of 4,096 elements in 2,304 bytes of q4_k: 1 GiB. */
const ROW = 2304
const ROWS = Math.floor(2 ** 30 / ROW)
const PIECE = 4096

function vocabulary(folder) {
  const path = join(folder, 'vocabulary.gguf')
  if (existsSync(path)) return path
  const tokens = Array.from({ length: TOKENS }, (_, at) => `▁token${at}`)
  const metadata = [
    ['general.architecture', 'string', 'llama'],
    ['tokenizer.ggml.tokens', 'array', ['string', tokens]],
    ['tokenizer.ggml.scores', 'array', ['f32', tokens.map((_, at) => -at)]],
    ['tokenizer.ggml.token_type', 'array', ['i32', tokens.map(() => 1)]],
  ]
  const data = Buffer.alloc(4096)
  const tensors = Array.from({ length: TENSORS }, (_, at) => ({ name: `blk.${at}.weight`, shape: [4, 256], data }))
  writeFileSync(path, gguf({ metadata, tensors }))
  return path
}

/** Blocks whose factors are small numbers. */
function quantized(folder) {
  const path = join(folder, 'q4_k.gguf')
  if (existsSync(path)) return path
  const piece = Buffer.alloc(ROW * PIECE)
  for (let at = 0, seed = 7; at < piece.length; at++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    piece[at] = at % 144 < 4 ? [0, 20, 0, 21][at % 144] : seed >>> 24
  }
  const file = openFile(path, 'w')
  // The writer pads what it is given: of no bytes that is nothing, and the rows follow.
  writeSync(file, gguf({ tensors: [{ name: 'w', shape: [ROWS, 4096], type: 12, data: Buffer.alloc(0) }] }))
  for (let row = 0; row < ROWS; row += PIECE) writeSync(file, piece.subarray(0, Math.min(PIECE, ROWS - row) * ROW))
  closeSync(file)
  return path
}

/** @huggingface/gguf's reader; undefined where it is not there. */
async function huggingFace(folder) {
  try {
    const place = createRequire(join(folder, 'index.js')).resolve('@huggingface/gguf')
    return (await import(pathToFileURL(place).href)).gguf
  } catch {
    return undefined
  }
}

async function list(path) {
  const file = await open(path)
  let seen = 0
  for (const tensor of file.values()) seen += tensor.name.length + tensor.shape.length
  file.close()
  return seen
}

export async function* ggufRows({ rounds, folder }) {
  const path = vocabulary(folder)
  warm(path)
  const { ours } = await measure(rounds, { ours: () => list(path) })
  const theirs = await huggingFace(folder)
  const peers = { 'gguf 0.19': byPeer('gguf 0.19', 'list', path, 3) }
  if (theirs !== undefined) {
    const read = async () => (await theirs(path, { allowLocalFile: true })).tensorInfos.length
    Object.assign(peers, await measure(3, { '@huggingface/gguf': read }))
  }
  const held = Object.fromEntries(Object.entries(peers).filter(([, ms]) => ms !== undefined))
  yield {
    work: `GGUF, ${TENSORS} tensors, ${TOKENS} tokens: open and list`,
    state: STATE,
    ours,
    peers: held,
    reach: '3 ms',
    target: 3,
  }

  const all = async () => {
    const file = await open(path)
    const count = file.attributes['tokenizer.ggml.tokens'].length
    file.close()
    return count
  }
  const told = await measure(rounds, { ours: all })
  yield { work: 'the same: all metadata', state: STATE, ours: told.ours, peers: held, reach: '60 ms', target: 60 }

  const blocks = quantized(folder)
  warm(blocks)
  const decoded = await measure(Math.min(rounds, 5), {
    ours: async () => {
      const file = await open(blocks)
      const floats = await file.tensor('w').load({ as: 'float32' })
      file.close()
      return floats.length
    },
  })
  const numpy = byPeer('gguf 0.19', 'dequantize', blocks, 1)
  yield {
    work: '1 GiB of q4_k as float32',
    state: STATE,
    ours: decoded.ours,
    peers: numpy === undefined ? {} : { 'gguf 0.19': numpy },
  }
}
