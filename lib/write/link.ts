import { basename, extname } from '#host'
import { invalid } from '../native/errors.js'
import { run } from '../native/job.js'
import { binding, type LinkedFile } from '../native/native.js'
import { TensorFile } from '../read/file.js'
import { optional, validateObject, validateText } from '../values/arguments.js'

/** A tensor of another file to link to. */
export interface LinkInput {
  /** An open zTensor 2 file, which must stay open until the link is made. */
  readonly file: TensorFile
  /** The tensor's name in that file; the new name by default. */
  readonly tensor?: string | undefined
  /**
   * The name of the other file in the shard table. By default `x` if it is `model-x.zt` in the folder of a new `model.zt`, so that
   * readers find it by name; otherwise its name without the extension, and readers find it by size and digest.
   */
  readonly shard?: string | undefined
}

interface ValidLink {
  readonly file: TensorFile
  readonly tensor: string
  readonly shard: string | undefined
}

/** Validates a link. */
export function validateLink(name: string, given: LinkInput): ValidLink {
  const { file, tensor, shard } = validateObject('tensor', given)
  return {
    file: TensorFile.checked('file', file),
    tensor: optional(tensor, (value) => validateText('tensor', value)) ?? name,
    shard: optional(shard, (value) => validateText('shard', value)),
  }
}

/** The name of a path without its extension. */
function stemOf(path: string): string {
  const name = basename(path)
  return name.slice(0, name.length - extname(name).length)
}

/** The files that a writer links to, each identified once. */
export class Links {
  readonly #path: string | undefined
  readonly #algorithm: string
  readonly #files = new WeakMap<TensorFile, Promise<LinkedFile>>()
  readonly #names = new Set<string>()

  constructor(path: string | undefined, digest: string | undefined) {
    this.#path = path
    // Other digests belong to other versions. The core then throws, since they have no links.
    this.#algorithm = digest === 'sha256' ? 'sha256' : 'xxh3'
  }

  /** Resolves a link to the tensor's ordinal, and its file's name, size and digest. */
  async resolve({ file, tensor, shard }: ValidLink, signal: AbortSignal | undefined) {
    const store = TensorFile.storeOf(file)
    file.tensor(tensor)
    const ordinal = store.native.find(tensor)
    const known = this.#files.get(file)
    if (known !== undefined) {
      const linked = await known
      if (shard !== undefined && shard !== linked.name) {
        throw invalid(TypeError, `the file is already linked under the name ${JSON.stringify(linked.name)}`)
      }
      return { ordinal, native: store.native, linked }
    }
    const own = shard ?? this.#label(file.path)
    const identified = run(store, { signal }, (control) =>
      binding.identify(store.native, own, this.#algorithm, control),
    )
    this.#names.add(own)
    this.#files.set(file, identified)
    // After a failure, the next call tries again.
    identified.catch(() => this.#files.delete(file))
    return { ordinal, native: store.native, linked: await identified }
  }

  #label(path: string | undefined): string {
    const stem = stemOf(path ?? 'base')
    const root = this.#path === undefined ? '' : `${stemOf(this.#path)}-`
    const own = root !== '' && stem.startsWith(root) ? stem.slice(root.length) : stem
    // §7.1: at most 64 of these characters, and no leading dot.
    const base =
      own
        .replace(/[^A-Za-z0-9._-]/g, '-')
        .replace(/^\.+/, '')
        .slice(0, 56) || 'base'
    for (let number = 2, label = base; ; number += 1) {
      if (!this.#names.has(label)) return label
      label = `${base}-${number}`
    }
  }
}
