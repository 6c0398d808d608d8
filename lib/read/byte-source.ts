// Files whose bytes the caller's code reads.
import { types } from '#host'
import { registerThrown, rethrowNative } from '../native/errors.js'
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
 * A file whose bytes your own code reads: from a bucket, a `Blob`, an encrypted file. `open` reads its index, `load()` reads tensors.
 * Several ranges are read concurrently, and adjacent ranges in one call. There is no memory to alias, so `data` throws ZT_NOT_LOCAL;
 * use `load()`.
 *
 * @example
 * const blob = await openAsBlob('model.safetensors')
 * const file = await open({
 *   byteLength: blob.size,
 *   read: async (offset, length) => new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer()),
 * })
 */
export interface ByteSource {
  /** Size of the file in bytes. */
  readonly byteLength: number
  /** The name of the file, such as `model.safetensors.index.json` for an index. Error messages include it. */
  readonly name?: string | undefined
  /**
   * Returns exactly `length` bytes from `offset`. The range lies within the file. Up to 16 calls of up to 8 MiB run concurrently.
   * `signal` is aborted if the bytes are no longer needed. An error that it throws becomes the `cause` of a ZT_IO.
   */
  read(offset: number, length: number, options: { readonly signal: AbortSignal }): Uint8Array | PromiseLike<Uint8Array>
  /**
   * Returns a file that the index refers to: a shard, or external data. The name is a relative path with `/` that never leads out
   * of the folder. Return undefined if the file does not exist.
   */
  sibling?(name: string): ByteSource | undefined | PromiseLike<ByteSource | undefined>
}

/** Whether a value looks like a `ByteSource`. */
export function isByteSource(value: unknown): value is ByteSource {
  return typeof value === 'object' && value !== null && 'read' in value && 'byteLength' in value
}

/** A source whose properties were read once, so that later changes have no effect. */
export interface KnownSource {
  readonly source: ByteSource
  readonly byteLength: number
  readonly name: string | undefined
}

/** Validates a source. `name` is that of the argument. */
export function knownSource(name: string, source: unknown): KnownSource {
  const { byteLength, name: own, read, sibling } = validateObject(name, source) as Partial<ByteSource>
  validateFunction(`${name}.read`, read)
  optional(sibling, (value) => validateFunction(`${name}.sibling`, value))
  return {
    source: source as ByteSource,
    byteLength: validateInteger(`${name}.byteLength`, byteLength),
    name: optional(own, (value) => validateText(`${name}.name`, value)),
  }
}

/** Answers the requests of native threads for bytes and for sibling files. */
class Reader {
  readonly #sources: KnownSource[]
  readonly #byName = new Map<string, number>()
  readonly #asked = new Map<number, AbortController>()
  #native: NativeScript | undefined

  constructor(root: KnownSource) {
    this.#sources = [root]
  }

  /** The native object that receives the answers. */
  set native(native: NativeScript) {
    this.#native = native
  }

  ask(question: NativeQuestion): void {
    const { id, givenUp, sibling } = question
    if (givenUp) {
      this.#asked.get(id)?.abort()
      this.#asked.delete(id)
      return
    }
    const [what, answer] =
      sibling === undefined
        ? ['read() of the source', this.#read(question)]
        : ['sibling() of the source', this.#sibling(id, sibling)]
    answer
      .catch((error) => this.#native?.fail(id, `${what} failed: ${messageOf(error)}`, registerThrown(error)))
      .finally(() => this.#asked.delete(id))
  }

  async #read({ id, source: number, offset, length }: NativeQuestion): Promise<void> {
    const { source } = this.#sources[number] as KnownSource
    const abort = new AbortController()
    this.#asked.set(id, abort)
    const bytes = await source.read(offset, length, { signal: abort.signal })
    if (!types.isUint8Array(bytes)) throw wrongType('the return value of read()', 'a Uint8Array', bytes)
    this.#native?.answer(id, bytes)
  }

  async #sibling(id: number, name: string): Promise<void> {
    let number = this.#byName.get(name)
    if (number === undefined) {
      const { source } = this.#sources[0] as KnownSource
      const found = await source.sibling?.(name)
      if (found === undefined) {
        this.#native?.answerSibling(id)
        return
      }
      number = this.#sources.push(knownSource(`the return value of sibling(${JSON.stringify(name)})`, found)) - 1
      this.#byName.set(name, number)
    }
    this.#native?.answerSibling(id, number, (this.#sources[number] as KnownSource).byteLength)
  }
}

/** Opens a file whose bytes the caller's code reads. */
export async function openBytes(
  source: ByteSource,
  request: OpenRequest,
  origin: Origin,
  signal: AbortSignal | undefined,
): Promise<TensorFile> {
  const root = knownSource('source', source)
  const reader = new Reader(root)
  const name = root.name ?? 'source'
  const native = rethrowNative(
    () => new binding.ScriptSource(name, root.byteLength, (question) => reader.ask(question)),
  )
  reader.native = native
  const file = await run(unopened(), { signal }, (control) => native.open(request, control))
  return TensorFile.make(file, origin)
}
