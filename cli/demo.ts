// `ztensor demo`: writes small example files, those that the guides use.
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { convert, create, saveFile } from '../index.js'
import { painter } from './color.js'
import { makeFolders, openRegular, writeFile } from './output-file.js'
import { showBytes } from './quantity.js'
import { printLines } from './stdout.js'
import { printable } from './text.js'

const [VOCABULARY, CONTEXT, WIDTH, BLOCKS] = [256, 64, 64, 2]
const SHARD_BYTES = 200_000

/** Numbers that look random and are the same each time: signed integers of 13 bits from a linear congruential generator. */
function dice(): () => number {
  let state = 20240229
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state >>> 19) - 4096
  }
}

/** The tensors of a character-level GPT with two blocks, untrained. */
function transformer() {
  const roll = dice()
  // A sum of four uniform integers is close to a normal distribution, here with a standard deviation of 0.036.
  const weights = (dtype: 'float32' | 'float16' | 'bfloat16', ...shape: number[]) => {
    const length = shape.reduce((product, extent) => product * extent, 1)
    const data = Float32Array.from({ length }, () => (roll() + roll() + roll() + roll()) / 131072)
    return { dtype, shape, data }
  }
  const norm = (name: string) => ({
    [`${name}.weight`]: new Float32Array(WIDTH).fill(1),
    [`${name}.bias`]: new Float32Array(WIDTH),
  })
  const mask = Uint8Array.from({ length: CONTEXT * CONTEXT }, (_, at) =>
    Number(at % CONTEXT <= Math.floor(at / CONTEXT)),
  )
  const block = (prefix: string) => ({
    ...norm(`${prefix}.ln_1`),
    ...norm(`${prefix}.ln_2`),
    [`${prefix}.attn.c_attn.weight`]: weights('float16', WIDTH, 3 * WIDTH),
    [`${prefix}.attn.c_attn.bias`]: weights('float16', 3 * WIDTH),
    [`${prefix}.attn.c_proj.weight`]: weights('float16', WIDTH, WIDTH),
    [`${prefix}.attn.c_proj.bias`]: weights('float16', WIDTH),
    [`${prefix}.attn.mask`]: { dtype: 'bool' as const, shape: [CONTEXT, CONTEXT], data: mask },
    [`${prefix}.mlp.c_fc.weight`]: weights('bfloat16', WIDTH, 4 * WIDTH),
    [`${prefix}.mlp.c_fc.bias`]: weights('bfloat16', 4 * WIDTH),
    [`${prefix}.mlp.c_proj.weight`]: weights('bfloat16', 4 * WIDTH, WIDTH),
    [`${prefix}.mlp.c_proj.bias`]: weights('bfloat16', WIDTH),
  })
  const blocks = Array.from({ length: BLOCKS }, (_, at) => block(`transformer.h.${at}`))
  return Object.assign(
    {
      'transformer.wte.weight': weights('float32', VOCABULARY, WIDTH),
      'transformer.wpe.weight': weights('float32', CONTEXT, WIDTH),
      'transformer.position_ids': BigInt64Array.from({ length: CONTEXT }, (_, at) => BigInt(at)),
      ...norm('transformer.ln_f'),
      'lm_head.weight': weights('float32', VOCABULARY, WIDTH),
    },
    ...blocks,
  )
}

/** A graph in compressed rows, in which each of 16 nodes has two neighbors, and a dense vector. */
async function writeSparse(path: string): Promise<void> {
  const nodes = 16
  const neighbors = Array.from({ length: nodes }, (_, at) =>
    [(at + 1) % nodes, (at + nodes - 1) % nodes].sort((a, b) => a - b),
  )
  const writer = await create(path)
  await writer.addCsr('graph', {
    shape: [nodes, nodes],
    values: Float32Array.from({ length: 2 * nodes }, (_, at) => (at + 1) / 32),
    indices: BigUint64Array.from(neighbors.flat(), BigInt),
    indptr: BigUint64Array.from({ length: nodes + 1 }, (_, at) => BigInt(2 * at)),
  })
  await writer.add(
    'bias',
    Float32Array.from({ length: nodes }, (_, at) => at / 16),
  )
  await writer.finish()
}

/** A matrix in blocks of GGUF's type q8_0, each of which has a float16 scale and 32 integers, and a dense vector. */
async function writeQuantized(path: string): Promise<void> {
  const roll = dice()
  const [rows, columns, elements, blockBytes] = [64, 256, 32, 34]
  const data = Buffer.alloc((rows * columns * blockBytes) / elements)
  for (let at = 0; at < data.length; at += blockBytes) {
    data.writeUInt16LE(0x1000, at) // 2 ** -11 as float16
    for (let byte = 2; byte < blockBytes; byte++) data.writeInt8(roll() >> 6, at + byte)
  }
  const writer = await create(path, { version: '2' })
  await writer.addObject('blk.0.ffn_down.weight', {
    layout: 'gguf.q8_0/1',
    shape: [rows, columns],
    attributes: { elems_per_block: elements, block_bytes: blockBytes },
    components: { data: { dtype: 'uint8', data } },
  })
  await writer.add('blk.0.ffn_norm.weight', new Float32Array(columns).fill(1))
  await writer.finish()
}

/** A llama of one layer that llama.cpp loads, untrained: its tokens are the bytes. Its rows are whole blocks of every type. */
async function writeLlama(path: string): Promise<void> {
  const roll = dice()
  const [width, heads, inner] = [256, 4, 256]
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
  const tokens = ['<unk>', '<s>', '</s>', ...bytes]
  // Of llama.cpp: 2 is unknown, 3 is control, and 6 is a byte.
  const kinds = tokens.map((_, at) => (at === 0 ? 2 : at < 3 ? 3 : 6))
  const count = (value: number) => ({ type: 'uint32' as const, value })
  const metadata = {
    'general.architecture': 'llama',
    'general.name': 'Tiny llama',
    // Mostly float16.
    'general.file_type': count(1),
    'llama.block_count': count(1),
    'llama.context_length': count(128),
    'llama.embedding_length': count(width),
    'llama.feed_forward_length': count(inner),
    'llama.attention.head_count': count(heads),
    'llama.attention.head_count_kv': count(1),
    'llama.attention.layer_norm_rms_epsilon': { type: 'float32' as const, value: 1e-5 },
    'llama.vocab_size': count(tokens.length),
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.scores': { type: 'float32' as const, value: tokens.map(() => 0) },
    'tokenizer.ggml.token_type': { type: 'int32' as const, value: kinds },
    'tokenizer.ggml.bos_token_id': count(1),
    'tokenizer.ggml.eos_token_id': count(2),
    'tokenizer.ggml.unknown_token_id': count(0),
  }
  const writer = await create(path, { metadata })
  const matrix = (name: string, rows: number, columns: number) => {
    const data = Float32Array.from({ length: rows * columns }, () => (roll() + roll()) / 65536)
    return writer.add(name, { dtype: 'float16', shape: [rows, columns], data })
  }
  const norm = (name: string) => writer.add(name, new Float32Array(width).fill(1))
  await matrix('token_embd.weight', tokens.length, width)
  await norm('output_norm.weight')
  await norm('blk.0.attn_norm.weight')
  await matrix('blk.0.attn_q.weight', width, width)
  await matrix('blk.0.attn_k.weight', width / heads, width)
  await matrix('blk.0.attn_v.weight', width / heads, width)
  await matrix('blk.0.attn_output.weight', width, width)
  await norm('blk.0.ffn_norm.weight')
  for (const part of ['gate', 'up']) await matrix(`blk.0.ffn_${part}.weight`, inner, width)
  await matrix('blk.0.ffn_down.weight', width, inner)
  await writer.finish()
}

/** Writes all example files into an empty folder. */
async function writeAll(folder: string): Promise<void> {
  const model = join(folder, 'model.safetensors')
  await saveFile(model, transformer(), {
    metadata: { description: 'A character-level GPT with two blocks, untrained.' },
  })
  await convert(model, join(folder, 'model.zt'))
  await mkdir(join(folder, 'llama'))
  await convert(model, join(folder, 'llama/model.safetensors'), { maxShardBytes: SHARD_BYTES })
  await writeSparse(join(folder, 'sparse.zt'))
  await writeQuantized(join(folder, 'quantized.zt'))
  await writeLlama(join(folder, 'tiny-llama.gguf'))
}

/** The example files by their paths, with `/` between folders. */
async function exampleFiles(): Promise<Map<string, Buffer>> {
  const folder = await mkdtemp(join(tmpdir(), 'ztensor-demo-'))
  try {
    await writeAll(folder)
    const names = (await readdir(folder, { recursive: true })).map((name) => name.replaceAll('\\', '/')).sort()
    const files = new Map<string, Buffer>()
    for (const name of names)
      if ((await stat(join(folder, name))).isFile()) files.set(name, await readFile(join(folder, name)))
    return files
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

type State = 'missing' | 'same' | 'other'

async function stateOf(path: string, bytes: Buffer): Promise<State> {
  await using file = await openRegular(path)
  if (file === undefined) return 'missing'
  return (await file.readFile()).equals(bytes) ? 'same' : 'other'
}

/** Writes the example files into `folder`, unless they would replace other files. Files with the same content stay as they are. */
export async function demo(folder: string, { overwrite = false }: { overwrite?: boolean }): Promise<void> {
  const files = await exampleFiles()
  const states = new Map<string, State>()
  try {
    for (const [name, bytes] of files) states.set(name, await stateOf(join(folder, name), bytes))
    const others = [...states].filter(([, state]) => state === 'other').map(([name]) => join(folder, name))
    if (others.length > 0 && !overwrite) {
      const message = `files with other content exist: ${others.join(', ')}. Name another folder, or replace them with --overwrite`
      throw Object.assign(new Error(message), { code: 'ZT_EXISTS' })
    }
    const paint = painter()
    const lines: string[] = []
    for (const [name, bytes] of files) {
      const path = join(folder, name)
      const state = states.get(name)
      if (state !== 'same') {
        makeFolders(dirname(path))
        await writeFile(path, bytes, state === 'other')
      }
      const done = state === 'same' ? 'unchanged' : 'wrote'
      lines.push(`${paint('green', done.padEnd(9))}  ${printable(path)} (${showBytes(bytes.length)})`)
    }
    const shown = (name: string) => quoted(printable(join(folder, name)))
    lines.push(
      '',
      'Try:',
      `  npx ztensor ls ${shown('model.safetensors')}`,
      `  npx ztensor view ${shown('llama')} --open`,
      `  npx ztensor info ${shown('tiny-llama.gguf')}`,
    )
    await printLines(lines)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ZT_EXISTS') throw error
    throw Object.assign(new Error((error as Error).message), { code: 'ZT_IO' })
  }
}

/** A path as a shell takes it. */
function quoted(path: string): string {
  return /[^\w./\\:-]/.test(path) ? `'${path.replaceAll("'", `'\\''`)}'` : path
}
