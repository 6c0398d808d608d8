// Sharded checkpoints for the tests: files of float32 tensors, and the index that Hugging Face's libraries write.
import { writeFileSync } from 'node:fs'
import { safetensors } from '../corpus/safetensors.mjs'
import { littleEndian } from './bytes.mjs'
import { scratchFolder } from './sample-files.mjs'

/** The bytes of a safetensors file of these tensors: name -> array of numbers. */
export function shard(tensors, metadata = { format: 'pt' }) {
  const header = { __metadata__: metadata }
  let end = 0
  for (const [name, numbers] of Object.entries(tensors)) {
    const start = end
    end += numbers.length * 4
    header[name] = { dtype: 'F32', shape: [numbers.length], data_offsets: [start, end] }
  }
  const data = Float32Array.from(Object.values(tensors).flat())
  // Padded like the reference implementation, so that the data is aligned.
  const text = JSON.stringify(header)
  return safetensors(text.padEnd(Math.ceil(text.length / 8) * 8), littleEndian(data))
}

/** The text of an index, its keys sorted as transformers sorts them. */
export function indexText(map, metadata = {}) {
  const sorted = Object.fromEntries(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)))
  return `${JSON.stringify({ metadata, weight_map: sorted }, null, 2)}\n`
}

/**
 * A folder with the files of `files` (name -> tensors) and their index. `index` overrides the tensors' files in it;
 * undefined there leaves a tensor out of it.
 */
export function checkpoint(files, { index = {}, metadata, name = 'model.safetensors.index.json' } = {}) {
  const made = scratchFolder()
  const map = {}
  let total = 0
  for (const [file, tensors] of Object.entries(files)) {
    writeFileSync(made.path(file), shard(tensors))
    for (const [tensor, numbers] of Object.entries(tensors)) {
      map[tensor] = file
      total += numbers.length * 4
    }
  }
  Object.assign(map, index)
  for (const tensor of Object.keys(map)) if (map[tensor] === undefined) delete map[tensor]
  writeFileSync(made.path(name), indexText(map, metadata ?? { total_size: total }))
  return { ...made, index: made.path(name), total }
}

/** Two files of three tensors. */
export const TWO = {
  'model-00001-of-00002.safetensors': { 'z.first': [1, 2], 'a.second': [3] },
  'model-00002-of-00002.safetensors': { 'b.third': [4, 5, 6] },
}
