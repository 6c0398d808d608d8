// Files whose bytes code of the caller's reads.
import { types } from 'node:util'
import { keepThrown, rethrowNative } from '../native/errors.js'
import { run, unopened } from '../native/job.js'
import { binding, type NativeQuestion, type NativeScript, type OpenRequest } from '../native/native.js'
import { messageOf } from '../native/realm.js'
import {
  optional,
  validateFunction,
  validateInteger,
  validateObject,
  validateText,
  wrongType,
} from '../values/arguments.js'
import { TensorFile } from './file.js'
import type { Origin } from './store.js'

/**
 * A file whose bytes your own code reads: from a bucket, a `Blob`, an encrypted file. Its index is read when it is opened, tensors
 * when they are loaded, several ranges at once and neighbors together. There is nothing to alias: `data` throws ZT_NOT_LOCAL,
 * `load()` works.
 *
 * @example
 * const blob = await openAsBlob('model.safetensors')
 * const file = await open({
 *   byteLength: blob.size,
 *   read: async (offset, length) => new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer()),
 * })
 */
export interface ByteSource {
  /** Bytes of the whole file. */
  readonly byteLength: number
  /** The name of the file, such as `model.safetensors.index.json` of an index: messages have it. */
  readonly name?: string | undefined
  /**
   * Gives exactly `length` bytes from `offset` on, which lie inside of the file. Up to 16 calls of up to 8 MiB are under way at once.
   * `signal` is aborted where nobody wants the bytes any more. What it throws is the `cause` of ZT_IO.
   */
  read(offset: number, length: number, options: { readonly signal: AbortSignal }): Uint8Array | PromiseLike<Uint8Array>
  /**
   * Gives the file of a name that the index wants: a shard, external data. The name is a relative path with `/` that never leads out
   * of the folder. Undefined where there is none.
   */
  sibling?(name: string): ByteSource | undefined | PromiseLike<ByteSource | undefined>
}

/** Whether a value is meant as a source of bytes. */
export function isByteSource(value: unknown): value is ByteSource {
  return typeof value === 'object' && value !== null && 'read' in value && 'byteLength' in value
}

/** A source whose parts were looked at once, so that they cannot change. */
interface Known {
  readonly source: ByteSource
  readonly byteLength: number
  readonly name: string | undefined
}

function known(name: string, source: ByteSource): Known {
  const { byteLength, name: own, read, sibling } = validateObject(name, source)
  validateFunction(`${name}.read`, read)
  optional(sibling, (value) => validateFunction(`${name}.sibling`, value))
  return {
    source,
    byteLength: validateInteger(`${name}.byteLength`, byteLength),
    name: optional(own, (value) => validateText(`${name}.name`, value)),
  }
}

/** Answers what native threads ask of a source and of its siblings. */
class Reader {
  readonly #sources: Known[]
  readonly #byName = new Map<string, number>()
  readonly #asked = new Map<number, AbortController>()
  #native: NativeScript | undefined

  constructor(root: Known) {
    this.#sources = [root]
  }

  /** Where its answers go. */
  set native(native: NativeScript) {
    this.#native = native
  }

  ask(question: NativeQuestion): void {
    const { id, givenUp, beside } = question
    if (givenUp) {
      this.#asked.get(id)?.abort()
      this.#asked.delete(id)
      return
    }
    const [what, answer] =
      beside === undefined
        ? ['read() of the source', this.#read(question)]
        : ['sibling() of the source', this.#beside(id, beside)]
    answer
      .catch((error) => this.#native?.fail(id, `${what} failed: ${messageOf(error)}`, keepThrown(error)))
      .finally(() => this.#asked.delete(id))
  }

  async #read({ id, source: number, offset, length }: NativeQuestion): Promise<void> {
    const { source } = this.#sources[number] as Known
    const abort = new AbortController()
    this.#asked.set(id, abort)
    const bytes = await source.read(offset, length, { signal: abort.signal })
    if (!types.isUint8Array(bytes)) throw wrongType('what read() gives', 'a Uint8Array', bytes)
    this.#native?.answer(id, bytes)
  }

  async #beside(id: number, name: string): Promise<void> {
    let number = this.#byName.get(name)
    if (number === undefined) {
      const { source } = this.#sources[0] as Known
      const found = await source.sibling?.(name)
      if (found === undefined) {
        this.#native?.answerBeside(id)
        return
      }
      number = this.#sources.push(known(`what sibling(${JSON.stringify(name)}) gives`, found)) - 1
      this.#byName.set(name, number)
    }
    this.#native?.answerBeside(id, number, (this.#sources[number] as Known).byteLength)
  }
}

/** Opens a file that code of the caller's reads. */
export async function openBytes(
  source: ByteSource,
  request: OpenRequest,
  origin: Origin,
  signal: AbortSignal | undefined,
): Promise<TensorFile> {
  const root = known('source', source)
  const reader = new Reader(root)
  const name = root.name ?? 'source'
  const native = rethrowNative(
    () => new binding.ScriptSource(name, root.byteLength, (question) => reader.ask(question)),
  )
  reader.native = native
  const file = await run(unopened(), { signal }, (control) => native.open(request, control))
  return TensorFile.make(file, origin)
}
