// Compares files that numpy and scipy write now, and files of this package that numpy.load reads.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { create } from 'ztensor'
import { fingerprint } from '../__test__/helpers/bytes.mjs'
import { differences, expectedIn } from '../__test__/helpers/expected-files.mjs'
import { DTYPES, noise } from '../__test__/helpers/sample-files.mjs'
import { capture } from '../scripts/command.mjs'
import { compareFiles } from './files.mjs'
import { COMMON, environment, succeed } from './peers.mjs'

const HELD = Object.keys(DTYPES).filter((dtype) => /^(bool|u?int\d+|float(16|32|64)|complex\d+)$/.test(dtype))
const SHAPES = { scalar: [], vector: [5], empty: [0, 3], matrix: [3, 4], deep: [1, 2, 3, 1, 2] }

/** Arrays of a million elements, and of nine, which are deflated in pieces: of few values. */
const LARGE = { million: 1_000_000, nine: 9_000_000 }

/** Every dtype in every shape, and large arrays, deflated. */
async function writeDeflated(path) {
  const written = {}
  const archive = await create(path, { format: 'npz', overwrite: true, compression: { minSavings: 0 } })
  const add = async (name, dtype, shape) => {
    const [Class, bits] = DTYPES[dtype]
    const bytes = Uint8Array.from(noise((shape.reduce((a, b) => a * b, 1) * bits) / 8, 3), (byte) => byte & 1)
    const tensor = { dtype, shape, data: new Class(bytes.buffer) }
    await archive.add(name, tensor)
    written[name] = { dtype, shape, sha256: fingerprint(tensor.data).sha256 }
  }
  for (const dtype of HELD) {
    for (const [what, shape] of Object.entries({ ...SHAPES, rows: [50, 40] }))
      await add(`${dtype} ${what}`, dtype, shape)
  }
  for (const [what, length] of Object.entries(LARGE)) await add(what, 'uint8', [length])
  await archive.finish()
  return written
}

/** Writes every dtype in every shape, in an npz and each in a separate npy, and their contents into written.json. */
async function writeOurs(folder) {
  mkdirSync(folder, { recursive: true })
  const written = { 'ours.npz': {} }
  const archive = await create(join(folder, 'ours.npz'), { format: 'npz', overwrite: true })
  for (const dtype of HELD) {
    for (const [what, shape] of Object.entries(SHAPES)) {
      const [Class, bits] = DTYPES[dtype]
      const bytes = Uint8Array.from(noise((shape.reduce((a, b) => a * b, 1) * bits) / 8, 3))
      if (dtype === 'bool') for (const at of bytes.keys()) bytes[at] &= 1
      const tensor = { dtype, shape, data: new Class(bytes.buffer) }
      const { sha256 } = fingerprint(tensor.data)
      await archive.add(`größe/${dtype} ${what}`, tensor)
      written['ours.npz'][`größe/${dtype} ${what}`] = { dtype, shape, sha256 }
      const alone = await create(join(folder, `${dtype}-${what}.npy`), { format: 'npy', overwrite: true })
      await alone.add('x', tensor)
      await alone.finish()
      written[`${dtype}-${what}.npy`] = { arr_0: { dtype, shape, sha256 } }
    }
  }
  await archive.finish()
  written['deflated.npz'] = await writeDeflated(join(folder, 'deflated.npz'))
  writeFileSync(join(folder, 'written.json'), JSON.stringify(written))
  return Object.keys(written).length
}

/** Returns [{ what, error }]: the errors and wrong values of numpy.load for our files. */
export async function readOurs({ build, python, interop }) {
  const own = await environment(join(build, 'venv-numpy'), python, COMMON)
  const folder = join(build, 'ours-numpy')
  const count = await writeOurs(folder)
  const { status, output } = await capture(own, [join(interop, 'numpy_peer.py'), folder])
  const wrong = status === 0 ? JSON.parse(output) : [output]
  const right = Array.from({ length: count - wrong.length }, () => ({ what: 'reads our files' }))
  return [...right, ...wrong.map((what) => ({ what: 'reads our files', error: new Error(what) }))]
}

/** Returns [{ what, error }] for every file. The error is undefined if each way of reading returns what numpy reads. */
export async function compareNumpy({ build, python, fixtures }) {
  const own = await environment(join(build, 'venv-numpy'), python, COMMON)
  const folder = join(build, 'numpy')
  await succeed(own, [join(fixtures, 'numpy-files.py'), folder])
  return compareFiles(folder, Object.entries(expectedIn(folder)), differences)
}
