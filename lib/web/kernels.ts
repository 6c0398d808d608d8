// Operations on arrays of JavaScript, in an instance of the module that is only for them: they are synchronous.
import type { SlicePlan } from '../native/binding.js'
import { Message, Reply } from './message.js'
import { Instance, native, type Operation, type Wasm } from './module.js'

let instance: Instance | undefined
let source: Wasm | undefined
let isRenewing = false

/** Bytes of one call after which the instance is replaced, because memory of WebAssembly never shrinks. */
const LARGE = 16 * 2 ** 20

/** Makes the operations available, by a module that is loaded. Called before a file is opened or created. */
export async function prepareKernels(wasm?: Wasm): Promise<void> {
  if (instance !== undefined) return
  source = wasm
  instance = await Instance.create(wasm)
}

async function renew(): Promise<void> {
  if (isRenewing) return
  isRenewing = true
  try {
    const fresh = await Instance.create(source)
    instance?.close()
    instance = fresh
  } catch {
    // There is no memory for a second one. The next large call tries again.
  } finally {
    isRenewing = false
  }
}

function call(operation: Operation, message: Message): Uint8Array<ArrayBuffer> {
  if (instance === undefined)
    throw native({ code: 'ZT_INTERNAL', message: 'the WebAssembly module is not loaded: await init() first' })
  const reply = instance.call(operation, message)
  if (reply instanceof Uint8Array) {
    if (message.byteLength + reply.byteLength > LARGE) void renew()
    return reply
  }
  throw native({ code: 'ZT_INTERNAL', message: 'an operation on arrays read a file' })
}

/** Elements that are widened at once, so that little memory is needed. */
const WIDENED = 2 ** 20

const numberOf = (bytes: Uint8Array): number => new Reply(bytes).number()

type Sparse = readonly [shape: readonly number[], codes: readonly number[], ...arrays: Uint8Array[]]

/** A sparse tensor, and the lengths of the arrays of the result. */
function sparse(lengths: readonly number[], [shape, codes, ...arrays]: Sparse): Message {
  const message = new Message()
    .numbers(shape)
    .number(...codes)
    .numbers(lengths)
  for (const array of arrays) message.bytes(array)
  return message
}

export const kernels = {
  toFloat32(code: number, input: Uint8Array, output: Uint8Array): void {
    const elements = output.byteLength / 4
    const bytes = input.byteLength / elements
    for (let at = 0; at < elements; at += WIDENED) {
      const end = Math.min(at + WIDENED, elements)
      const part = input.subarray(at * bytes, Math.ceil(end * bytes))
      output.set(call('toFloat32', new Message().number(code, (end - at) * 4).bytes(part)), at * 4)
    }
  },

  castElements(from: number, to: number, first: number, input: Uint8Array, output: Uint8Array): void {
    output.set(call('castElements', new Message().number(from, to, first, output.byteLength).bytes(input)))
  },

  planSlice(shape: readonly number[], ranges: number[], bits: number): SlicePlan {
    const reply = new Reply(call('planSlice', new Message().numbers(shape).numbers(ranges).number(bits)))
    return { shape: [...reply.numbers()], byteLength: reply.number(), start: reply.number() }
  },

  packSlice(shape: readonly number[], ranges: number[], bits: number, input: Uint8Array, output: Uint8Array): void {
    const message = new Message().numbers(shape).numbers(ranges).number(bits, output.byteLength).bytes(input)
    output.set(call('packSlice', message))
  },

  shardRanges(shape: readonly number[], dim: number, rank: number, worldSize: number): number[] {
    const message = new Message().numbers(shape).numbers([dim, rank, worldSize])
    return [...new Reply(call('shardRanges', message)).numbers()]
  },

  checkCsr(...[shape, codes, values, indices, indptr, strict]: [...Csr, boolean]): void {
    call('checkCsr', sparse([strict ? 1 : 0], [shape, codes, values, indices, indptr]))
  },

  csrToDense(...[shape, codes, values, indices, indptr, output]: [...Csr, Uint8Array]): void {
    output.set(call('csrToDense', sparse([output.byteLength], [shape, codes, values, indices, indptr])))
  },

  csrCoordsDtype(...csr: Csr): number {
    return numberOf(call('csrCoordsDtype', sparse([], csr)))
  },

  csrToCoords(...[shape, codes, values, indices, indptr, output]: [...Csr, Uint8Array]): void {
    output.set(call('csrToCoords', sparse([output.byteLength], [shape, codes, values, indices, indptr])))
  },

  checkCoo(...[shape, codes, values, coords, strictly]: [...Coo, boolean]): void {
    call('checkCoo', sparse([strictly ? 1 : 0], [shape, codes, values, coords]))
  },

  cooToDense(...[shape, codes, values, coords, output]: [...Coo, Uint8Array]): void {
    output.set(call('cooToDense', sparse([output.byteLength], [shape, codes, values, coords])))
  },

  cooIndptrDtype(...coo: Coo): number {
    return numberOf(call('cooIndptrDtype', sparse([], coo)))
  },

  cooToCsr(...[shape, codes, values, coords, outputs]: [...Coo, [Uint8Array, Uint8Array, Uint8Array]]): void {
    const lengths = outputs.map(({ byteLength }) => byteLength)
    const reply = new Reply(call('cooToCsr', sparse(lengths, [shape, codes, values, coords])))
    for (const output of outputs) output.set(reply.bytes())
  },
}

type Csr = [
  shape: readonly number[],
  codes: readonly number[],
  values: Uint8Array,
  indices: Uint8Array,
  indptr: Uint8Array,
]
type Coo = [shape: readonly number[], codes: readonly number[], values: Uint8Array, coords: Uint8Array]
