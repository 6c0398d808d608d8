import { basename, parse } from 'node:path'
import { invalid } from '../native/errors.js'
import { run } from '../native/job.js'
import { binding, type LinkedFile } from '../native/native.js'
import { TensorFile } from '../read/file.js'
import { optional, validateObject, validateText } from '../values/arguments.js'

/** A tensor of another file. */
export interface LinkInput {
  /** An open zTensor 2 file, which must stay open until the link is made. */
  readonly file: TensorFile
  /** The tensor's name there; the new name by default. */
  readonly tensor?: string | undefined
  /**
   * What the new file calls the other one: by default `x` where that is `model-x.zt` beside a new `model.zt`, so that it is
   * found by its name, and else its name without the ending; readers then look for it by size and digest.
   */
  readonly shard?: string | undefined
}

interface Wanted {
  readonly file: TensorFile
  readonly tensor: string
  readonly shard: string | undefined
}

/** Reads what to link to as `name`. */
export function validateLink(name: string, given: LinkInput): Wanted {
  const { file, tensor, shard } = validateObject('tensor', given)
  return {
    file: TensorFile.checked('file', file),
    tensor: optional(tensor, (value) => validateText('tensor', value)) ?? name,
    shard: optional(shard, (value) => validateText('shard', value)),
  }
}

/** The files that a writer links to, each identified once. */
export class Links {
  readonly #path: string | undefined
  readonly #algorithm: string
  readonly #files = new WeakMap<TensorFile, Promise<LinkedFile>>()
  readonly #names = new Set<string>()

  constructor(path: string | undefined, digest: string | undefined) {
    this.#path = path
    // Of another version, which the core will say has no links.
    this.#algorithm = digest === 'sha256' ? 'sha256' : 'xxh3'
  }

  /** The tensor's ordinal in its file, and what the file is called and identified by. */
  async resolve({ file, tensor, shard }: Wanted, signal: AbortSignal | undefined) {
    const store = TensorFile.storeOf(file)
    file.tensor(tensor)
    const ordinal = store.native.find(tensor)
    const known = this.#files.get(file)
    if (known !== undefined) {
      const linked = await known
      if (shard !== undefined && shard !== linked.name) {
        throw invalid(TypeError, `the file is linked as ${JSON.stringify(linked.name)} already`)
      }
      return { ordinal, native: store.native, linked }
    }
    const own = shard ?? this.#label(file.path)
    const identified = run(store, { signal }, (control) =>
      binding.identify(store.native, own, this.#algorithm, control),
    )
    this.#names.add(own)
    this.#files.set(file, identified)
    // Another try identifies it anew.
    identified.catch(() => this.#files.delete(file))
    return { ordinal, native: store.native, linked: await identified }
  }

  #label(path: string | undefined): string {
    const stem = parse(path ?? 'base').name
    const root = this.#path === undefined ? '' : `${parse(this.#path).name}-`
    const own = root !== '' && basename(stem).startsWith(root) ? stem.slice(root.length) : stem
    // §7.1: at most 64 of these, the first of them no dot.
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
