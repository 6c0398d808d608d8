// Mutated files: tensors that both a reference library and this package read have the same values. If one rejects a tensor, it is not
// compared.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { openSync } from 'ztensor'
import { fingerprint } from '../__test__/helpers/bytes.mjs'
import { fixturePath } from '../__test__/helpers/vectors.mjs'
import { capture } from '../scripts/command.mjs'
import { COMMON, environment } from './peers.mjs'

const FILES = 2000
const LARGEST = 300_000

/**
 * For each library: the environment and package, which other checks use too, files of its fixtures, the bytes that its indexes consist
 * of, and approximately where the indexes end.
 */
const LIBRARIES = {
  numpy: {
    venv: 'venv-numpy',
    requirements: [],
    folder: 'numpy',
    files: /\.np[yz]$/,
    letters: "0123456789<>|fiucSUV'( ,)",
    index: 160,
  },
  safetensors: {
    venv: 'venv-safetensors-0.8.0',
    requirements: ['safetensors==0.8.0'],
    folder: '.',
    files: /\.safetensors$/,
    letters: '0123456789,[]{}":FIUB_ ',
    index: 600,
  },
  gguf: {
    venv: 'venv-gguf',
    requirements: ['gguf==0.19.0'],
    folder: 'gguf',
    files: /^(plain|aligned-4096|types)\.gguf$/,
    letters: '\0\x01\x02\x03\x04\x08\x20\x40',
    index: 900,
  },
  onnx: {
    venv: 'venv-onnx',
    requirements: ['onnx==1.23.2'],
    folder: 'onnx',
    files: /^(types-raw|types-typed|graph)\.onnx$/,
    letters: '\0\x01\x02\x08\x0a\x10\x12\x2a\x42\x4a',
    index: 400,
  },
}

/** The same random numbers in each run. */
function numbers(seed) {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

function mutated(bytes, { letters, index }, next) {
  const from = Buffer.from(letters, 'latin1')
  let made = Buffer.from(bytes)
  for (let changes = 1 + next(2); changes > 0; changes -= 1) {
    const near = Math.min(made.length, Math.max(400, index))
    const at = [next(made.length), next(Math.min(near, index)), made.length - 1 - next(near)][next(3)]
    const how = next(4)
    if (how === 0) made[at] ^= 1 << next(8)
    else if (how === 1) made[at] = next(256)
    else if (how === 2) made[at] = from[next(from.length)]
    else made = Buffer.concat([made.subarray(0, at), made.subarray(at + 1)])
  }
  return made
}

/** Reads a file with this package: the shape of each tensor and the digest of its bytes. Undefined if the file is rejected. */
async function read(path) {
  let file
  try {
    file = openSync(path)
  } catch {
    return undefined
  }
  const tensors = {}
  for (const tensor of file.values()) {
    // Elements as in memory. For blocks, which gguf returns encoded, the bytes.
    const blocks = tensor.layout.startsWith('gguf.') ? tensor.components.get('data') : undefined
    if (blocks === undefined && (tensor.dtype === undefined || tensor.layout !== 'dense')) continue
    const loaded = await (blocks ?? tensor).load().catch(() => undefined)
    if (loaded !== undefined) tensors[tensor.name] = { shape: [...tensor.shape], sha256: fingerprint(loaded).sha256 }
  }
  file.close()
  return tensors
}

/** Compares with one library. Returns [{ what, error }]; the error names the difference. */
export const compareMutated =
  (library) =>
  async ({ build, python, interop }) => {
    const { venv, requirements, folder: fixtures, files, ...how } = LIBRARIES[library]
    const own = await environment(join(build, venv), python, [...COMMON, ...requirements])
    const folder = join(build, `mutated-${library}`)
    mkdirSync(folder, { recursive: true })
    const sources = readdirSync(fixturePath(fixtures))
      .filter((name) => files.test(name))
      .map((name) => [extname(name), readFileSync(join(fixturePath(fixtures), name))])
      .filter(([, bytes]) => bytes.length <= LARGEST)
    const [next, found] = [numbers(1), {}]
    for (let nth = 0; nth < FILES; nth += 1) {
      const [ending, bytes] = sources[next(sources.length)]
      const name = `${nth}${ending}`
      writeFileSync(join(folder, name), mutated(bytes, how, next))
      const tensors = await read(join(folder, name))
      if (tensors === undefined) rmSync(join(folder, name))
      else found[name] = tensors
    }
    writeFileSync(join(folder, 'found.json'), JSON.stringify(found))
    const { status, output } = await capture(own, [join(interop, 'mutated_peer.py'), library, folder])
    rmSync(folder, { recursive: true, force: true })
    const wrong = status === 0 ? JSON.parse(output.trim().split('\n').at(-1)) : [output]
    const what = 'mutated files that both read'
    return wrong.length === 0 ? [{ what }] : wrong.map((one) => ({ what, error: new Error(one) }))
  }
