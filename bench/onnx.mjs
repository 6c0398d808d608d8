// The rows of ONNX: one file of 1.9 GB, compared with the onnx package (`npm run interop` sets it up).
import { execFileSync } from 'node:child_process'
import { closeSync, existsSync, openSync as openFile, writeSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { open } from 'ztensor'
import { bytes, int, node, tensor, varint } from '../__test__/helpers/onnx-writer.mjs'
import { warm } from './inputs.mjs'
import { byPeer } from './peers.mjs'
import { measure } from './timing.mjs'

const ONNX = 'onnx 1.23'
const STATE = 'warm, written in pieces'
const TENSORS = 300
const NODES = 1000
const child = fileURLToPath(new URL('resident.mjs', import.meta.url))
const resident = (...options) => Number(execFileSync(process.execPath, [child, ...options], { encoding: 'utf8' }))

/** A model of so many tensors of `width` float32 each, and some nodes, in one file. */
function model(path, width) {
  const data = Buffer.alloc(width * 4)
  for (let at = 0, seed = 7; at < data.length; at++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    data[at] = seed >>> 24
  }
  const nodes = Array.from({ length: NODES }, (_, at) =>
    bytes(1, node({ type: 'MatMul', name: `/layers.${at}/MatMul`, outputs: [`/layers.${at}/MatMul_output_0`] })),
  )
  const heads = Array.from({ length: TENSORS }, (_, at) => {
    const own = tensor({ name: `model.layers.${at}.weight`, dims: [width] })
    const head = Buffer.concat([...own, varint(9 * 8 + 2), varint(data.length)])
    return Buffer.concat([varint(5 * 8 + 2), varint(head.length + data.length), head])
  })
  const length = [...nodes, ...heads].reduce((sum, part) => sum + part.length, TENSORS * data.length)
  const file = openFile(path, 'w')
  writeSync(file, Buffer.concat([int(1, 8), varint(7 * 8 + 2), varint(length), ...nodes]))
  for (const head of heads) {
    writeSync(file, head)
    writeSync(file, data)
  }
  writeSync(file, bytes(8, [int(2, 17)]))
  closeSync(file)
}

async function list(path) {
  const file = await open(path)
  let seen = 0
  for (const one of file.values()) seen += one.name.length + one.shape.length
  file.close()
  return seen
}

export async function* onnxRows({ inputs, rounds, quick }) {
  const path = inputs.path('large.onnx')
  if (!existsSync(path)) model(path, quick ? 10_000 : 1_580_000)
  warm(path)
  const { ours } = await measure(rounds, { ours: () => list(path) })
  const theirs = byPeer(ONNX, 'list', path, 3)
  yield {
    work: `ONNX of ${quick ? '12 MB' : '1.9 GB'}, ${TENSORS} tensors, ${NODES} nodes: open and list`,
    state: STATE,
    ours,
    peers: theirs === undefined ? {} : { [ONNX]: theirs },
    reach: '50 × as fast as onnx',
    target: theirs === undefined ? undefined : theirs / 50,
  }
  yield {
    work: '… resident memory of open(), MiB',
    state: STATE,
    ours: (resident(path) - resident()) / 2 ** 20,
    peers: {},
    reach: '32 MiB',
    target: 32,
  }
}
