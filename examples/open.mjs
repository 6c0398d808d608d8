// Looks into a tensor file: node examples/open.mjs [PATH]
import { fileURLToPath } from 'node:url'
import { openSync } from 'ztensor'

const path = process.argv[2] ?? fileURLToPath(new URL('model.safetensors', import.meta.url))
const file = openSync(path) // the index alone is read
console.log(`${file.format} ${file.version ?? ''}: ${file.size} tensors, ${file.byteLength} bytes`)

for (const [name, tensor] of file) console.log(name, tensor.dtype, tensor.shape)

const largest = [...file.values()].sort((a, b) => b.byteLength - a.byteLength)[0]
if (largest?.layout === 'dense') {
  // A typed array over the file itself, unless copyReason says why it is a copy.
  console.log(largest.name, largest.copyReason ?? 'aliases the file', largest.data.subarray(0, 4))
  const { min, max, mean, std } = await largest.stats()
  console.log({ min, max, mean, std })
}
file.close()
