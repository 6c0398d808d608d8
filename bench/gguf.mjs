// The rows of GGUF: compared with the gguf package of Python (`npm run interop` sets it up), and @huggingface/gguf where
// `npm install --no-save --prefix build/bench @huggingface/gguf` has put it.
import { closeSync, existsSync, openSync as openFile, rmSync, writeFileSync, writeSync } from 'node:fs'
import { convert, open } from 'ztensor'
import { gguf } from '../__test__/helpers/gguf-writer.mjs'
import { warm } from './inputs.mjs'
import { byPeer, npmPeer } from './peers.mjs'
import { measure } from './timing.mjs'

const TOKENS = 256_000
const TENSORS = 300
const STATE = 'warm, written in pieces'
/** 64 tensors of 16 MiB of q4_k: rows of 4,096 elements in 2,304 bytes. */
const [BLOCKS, ROW] = [64, 2304]
const ROWS = Math.floor(2 ** 24 / ROW)

function vocabulary(inputs) {
  const path = inputs.path('vocabulary.gguf')
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
function quantized(path, tensors) {
  if (existsSync(path)) return
  const data = Buffer.alloc(ROW * ROWS)
  for (let at = 0, seed = 7; at < data.length; at++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    data[at] = at % 144 < 4 ? [0, 20, 0, 21][at % 144] : seed >>> 24
  }
  const padded = Math.ceil(data.length / 32) * 32
  const tensor = (_, at) => ({
    name: `w.${at}`,
    shape: [ROWS, 4096],
    type: 12,
    data: Buffer.alloc(0),
    offset: at * padded,
  })
  const file = openFile(path, 'w')
  // The writer pads its input: no bytes need no padding, and the blocks follow.
  writeSync(file, gguf({ tensors: Array.from({ length: tensors }, tensor) }))
  const piece = Buffer.concat([data, Buffer.alloc(padded - data.length)])
  for (let at = 0; at < tensors; at++) writeSync(file, piece)
  closeSync(file)
}

/** Decodes all tensors, one after the other. */
async function dequantize(path, into) {
  const file = await open(path)
  let seen = 0
  for (const tensor of file.values()) seen += (await tensor.load({ as: 'float32', into })).length
  file.close()
  return seen
}

/** The time of writing as many zeros to memory, in ms. */
async function fill(array, times) {
  const write = () => {
    for (let at = 0; at < times; at++) array.fill(0)
  }
  return (await measure(3, { write })).write
}

async function list(path) {
  const file = await open(path)
  let seen = 0
  for (const tensor of file.values()) seen += tensor.name.length + tensor.shape.length
  file.close()
  return seen
}

export async function* ggufRows({ inputs, rounds, quick }) {
  const path = vocabulary(inputs)
  warm(path)
  const { ours } = await measure(rounds, { ours: () => list(path) })
  const huggingFaces = (await npmPeer('@huggingface/gguf'))?.gguf
  const peers = { 'gguf 0.19': byPeer('gguf 0.19', 'list', path, 3) }
  if (huggingFaces !== undefined) {
    const read = async () => (await huggingFaces(path, { allowLocalFile: true })).tensorInfos.length
    Object.assign(peers, await measure(1, { '@huggingface/gguf': read }))
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
    const count = file.metadata['tokenizer.ggml.tokens'].length
    file.close()
    return count
  }
  const metadata = await measure(rounds, { ours: all })
  yield { work: '… all metadata', state: STATE, ours: metadata.ours, peers: held, reach: '60 ms', target: 60 }

  const tensors = quick ? 4 : BLOCKS
  const blocks = inputs.path('q4_k.gguf')
  quantized(blocks, tensors)
  warm(blocks)
  const reused = new Float32Array(ROWS * 4096)
  const decoded = await measure(Math.min(rounds, 5), {
    fresh: () => dequantize(blocks),
    reused: () => dequantize(blocks, reused),
  })
  const theirs = Object.fromEntries(
    Object.entries({
      'gguf 0.19': byPeer('gguf 0.19', 'dequantize', blocks, 1),
      'ggml, 1 thread': byPeer('ggml', 'dequantize', blocks, 3),
    }).filter(([, ms]) => ms !== undefined),
  )
  const target = theirs['gguf 0.19'] === undefined ? undefined : theirs['gguf 0.19'] / 20
  const limits = { limit: await fill(reused, tensors), limitIs: 'zeroing as many bytes, 1 thread' }
  for (const [memory, ours] of [
    ['into new arrays', decoded.fresh],
    ['into one array', decoded.reused],
  ]) {
    yield {
      work: `${tensors / 64} GiB of q4_k as float32: ${tensors} tensors, ${memory}`,
      state: STATE,
      ours,
      peers: theirs,
      ...limits,
      reach: '20 × as fast as gguf',
      target,
    }
  }

  const output = inputs.path('dequantized.safetensors')
  const how = { dequantize: 'bfloat16', overwrite: true }
  const converted = await measure(Math.min(rounds, 5), {
    ours: async () => (await convert(blocks, output, how)).tensors,
  })
  rmSync(output)
  yield {
    work: `${tensors / 64} GiB of q4_k to bfloat16 in safetensors (${((tensors * ROWS * 4096 * 2) / 1e9).toFixed(2)} GB)`,
    state: STATE,
    ours: converted.ours,
    peers: theirs,
    reach: '1 GB/s of output',
    target: (tensors * ROWS * 4096 * 2) / 1e6,
  }
}
