// The files of the corpus that open by their paths, for servers to send.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openSync } from 'ztensor'

const DATA = /\.(zt|safetensors|btf|gguf|onnx|npz|pt|msgpack|tflite|arrow|xml)$/

/** Their paths in the folder. A set has the path of its first file. */
export function goodFixtures(fixtures) {
  const opens = (name) => {
    try {
      openSync(join(fixtures, name)).close()
      return true
    } catch {
      return false
    }
  }
  return readdirSync(fixtures, { recursive: true })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => DATA.test(name) && !/-0000[23]-/.test(name) && opens(name))
}
