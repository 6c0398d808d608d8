// Adds the result of a training step to a checkpoint: node examples/append.mjs PATH
// The file is replaced after the new one is synced to disk; a reader that has it open keeps the old one.
import { append, open } from 'ztensor'

const path = process.argv[2]
if (path === undefined) throw new Error('usage: node examples/append.mjs PATH (zTensor 1.0 to 2)')

const editor = await append(path)
await editor.add('step', BigInt64Array.of(1000n))
await editor.add('lora.a', { dtype: 'float32', shape: [8, 64], data: new Float32Array(8 * 64) })
await editor.finish() // or abort(): the file stays unchanged

const file = await open(path, { verify: true })
console.log([...file.keys()].join(' '))
file.close()
