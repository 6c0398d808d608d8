// Passes small tensors to the binding through one reused block of bytes: converting a name, a shape and an array for each tensor
// would cost more than the binding's own work. If the runtime supports external buffers, the block is native memory, and the call needs
// no arguments.

import { binding, type NativeWriter } from '../native/native.js'
import { arrayKind, ofTypedArrays } from '../native/realm.js'
import { BIG_ENDIAN, fileBytes } from '../values/byte-order.js'
import type { DTypeInfo } from '../values/dtype.js'

// The layout of the block, as in src/write/packet.rs: numbers, the shape as float64, the name in UTF-8, the elements.
const NUMBERS = 6
const SHAPE = 24
const MAX_DIMENSIONS = 13
const NAME = 128
const LONGEST_NAME = 896
const ELEMENTS = 1024
const LARGEST = 4096
/** The index of the writer's number. */
const WRITER = 4

/** The arrays that are copied as they are: in the byte order of a file. */
const kinds = [
  Float64Array,
  Float32Array,
  BigInt64Array,
  BigUint64Array,
  Int32Array,
  Uint32Array,
  Int16Array,
  Uint16Array,
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
].filter((Kind) => !BIG_ENDIAN || Kind.BYTES_PER_ELEMENT === 1)

// The built-in getter, which own properties cannot override: a wrong array kind would convert the elements.
const lengthOf = ofTypedArrays('byteLength')
const encoder = new TextEncoder()

class Block {
  /** Whether the block is native memory. */
  readonly shared: boolean
  readonly bytes: Uint8Array
  readonly numbers: Uint32Array
  readonly #shape: Float64Array
  readonly #name: Uint8Array
  /** Views of the elements' area, one for each kind of array. */
  readonly #areas: Map<unknown, { set(array: ArrayLike<unknown>): void }>

  constructor() {
    const memory = binding.packetBlock()
    this.shared = memory !== null
    const buffer = memory ?? new ArrayBuffer(ELEMENTS + LARGEST)
    this.bytes = new Uint8Array(buffer)
    this.numbers = new Uint32Array(buffer, 0, NUMBERS)
    this.#shape = new Float64Array(buffer, SHAPE, MAX_DIMENSIONS)
    this.#name = new Uint8Array(buffer, NAME, LONGEST_NAME)
    this.#areas = new Map(
      kinds.map((Kind) => [Kind.name, new Kind(buffer, ELEMENTS, LARGEST / Kind.BYTES_PER_ELEMENT)]),
    )
  }

  /** Writes a tensor into the block. Returns false if its name or shape is too long, and the bytes if there are too many elements. */
  put(name: string, shape: readonly number[], dtype: DTypeInfo, data: ArrayBufferView): boolean | Uint8Array {
    const named = this.#putName(name)
    if (named < 0 || shape.length > MAX_DIMENSIONS) return false
    for (let dim = 0; dim < shape.length; dim++) this.#shape[dim] = shape[dim] as number
    const bytes = this.#putElements(data)
    const { numbers } = this
    numbers[0] = named
    numbers[1] = shape.length
    numbers[2] = dtype.code
    numbers[3] = Math.max(bytes, 0)
    return bytes < 0 ? fileBytes(data) : true
  }

  #putName(name: string): number {
    const { length } = name
    if (length > LONGEST_NAME) return -1
    for (let at = 0; at < length; at++) {
      const code = name.charCodeAt(at)
      if (code > 0x7f) {
        const { read, written } = encoder.encodeInto(name, this.#name)
        return read === length ? written : -1
      }
      this.#name[at] = code
    }
    return length
  }

  /** Does not access `data.buffer`: V8 would allocate one for each small array. */
  #putElements(data: ArrayBufferView): number {
    const area = this.#areas.get(arrayKind(data))
    if (area !== undefined) {
      const byteLength = lengthOf.call(data) as number
      if (byteLength > LARGEST) return -1
      // set() throws for a detached array, even if it is empty.
      if (byteLength > 0) area.set(data as ArrayBufferView & ArrayLike<unknown>)
      return byteLength
    }
    const bytes = fileBytes(data)
    if (bytes.byteLength > LARGEST) return -1
    this.bytes.set(bytes, ELEMENTS)
    return bytes.byteLength
  }
}

let block: Block | undefined

/** Passes the small tensors of one writer to the binding. */
export class Packets {
  readonly #native: NativeWriter
  /** Identifies the writer to the binding. */
  #number = 0

  constructor(native: NativeWriter) {
    this.#native = native
  }

  /**
   * Adds a dense tensor. Returns the number of pending bytes, or undefined if its name or shape is too long for the block.
   */
  add(name: string, shape: readonly number[], dtype: DTypeInfo, data: ArrayBufferView): number | undefined {
    block ??= new Block()
    const packed = block.put(name, shape, dtype, data)
    if (packed === false) return undefined
    if (packed !== true) return this.#native.addSmall(block.bytes, packed)
    if (!block.shared) return this.#native.addSmall(block.bytes, undefined)
    block.numbers[WRITER] = this.#number
    const pending = binding.addPacket()
    if (pending >= 0) return pending
    this.#number = this.#native.receive()
    block.numbers[WRITER] = this.#number
    return binding.addPacket()
  }
}
