// Messages to the module, and its replies: numbers of 8 bytes, little-endian, and byte strings with their length before them, filled up to
// 8 bytes. crates/web has the other side.

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

const filled = (length: number): number => Math.ceil(length / 8) * 8

/** A message that is being made. */
export class Message {
  readonly #items: (number | Uint8Array)[] = []
  /** Bytes of the message. */
  byteLength = 0

  number(...numbers: number[]): this {
    for (const number of numbers) this.#items.push(number)
    this.byteLength += numbers.length * 8
    return this
  }

  flag(flag: boolean): this {
    return this.number(flag ? 1 : 0)
  }

  /** A number, or -1 for none. */
  maybe(number: number | null | undefined): this {
    return this.number(number ?? -1)
  }

  numbers(numbers: ArrayLike<number>): this {
    this.number(numbers.length)
    for (let at = 0; at < numbers.length; at++) this.#items.push(numbers[at] as number)
    this.byteLength += numbers.length * 8
    return this
  }

  /** Numbers, or a count of -1 for none. */
  maybeNumbers(numbers: ArrayLike<number> | null | undefined): this {
    return numbers === undefined || numbers === null ? this.number(-1) : this.numbers(numbers)
  }

  bytes(bytes: Uint8Array): this {
    this.number(bytes.byteLength)
    this.#items.push(bytes)
    this.byteLength += filled(bytes.byteLength)
    return this
  }

  text(text: string): this {
    return this.bytes(encoder.encode(text))
  }

  texts(texts: readonly string[]): this {
    this.number(texts.length)
    for (const text of texts) this.text(text)
    return this
  }

  /** Writes the message into memory. It can be written again. */
  write(memory: ArrayBuffer, at: number): void {
    const view = new DataView(memory, at, this.byteLength)
    let to = 0
    for (const item of this.#items) {
      if (typeof item === 'number') {
        view.setFloat64(to, item, true)
        to += 8
      } else {
        new Uint8Array(memory, at + to, item.byteLength).set(item)
        to += filled(item.byteLength)
      }
    }
  }
}

/** Reads a reply. Its arrays are views of the copy that it keeps. */
export class Reply {
  readonly #buffer: ArrayBuffer
  readonly #view: DataView
  #at = 0

  /** Copies the bytes, which the next call overwrites. */
  constructor(bytes: Uint8Array) {
    this.#buffer = bytes.slice().buffer as ArrayBuffer
    this.#view = new DataView(this.#buffer)
  }

  /** Whether all of it was read. */
  get isAtEnd(): boolean {
    return this.#at >= this.#buffer.byteLength
  }

  number(): number {
    const number = this.#view.getFloat64(this.#at, true)
    this.#at += 8
    return number
  }

  flag(): boolean {
    return this.number() !== 0
  }

  bytes(): Uint8Array<ArrayBuffer> {
    const length = this.number()
    const bytes = new Uint8Array(this.#buffer, this.#at, length)
    this.#at += filled(length)
    return bytes
  }

  text(): string {
    return decoder.decode(this.bytes())
  }

  numbers(): Float64Array {
    const count = this.number()
    const numbers = new Float64Array(this.#buffer, this.#at, count)
    this.#at += count * 8
    return numbers
  }

  /** 32-bit numbers. */
  smalls(): Uint32Array {
    const count = this.number()
    const numbers = new Uint32Array(this.#buffer, this.#at, count)
    this.#at += filled(count * 4)
    return numbers
  }

  list<T>(each: () => T): T[] {
    return Array.from({ length: this.number() }, each)
  }

  maybe<T>(each: () => T): T | undefined {
    return this.flag() ? each() : undefined
  }

  maybeText(): string | undefined {
    return this.maybe(() => this.text())
  }

  maybeNumber(): number | undefined {
    return this.maybe(() => this.number())
  }
}
