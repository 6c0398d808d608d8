// The direction and size of the changes between two files, which `compare` does not compute.

import type { TensorChange } from '../compare/diff.js'
import { diff } from '../compare/diff-paths.js'
import { ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import type { Progress } from '../native/job.js'
import { withinCall } from '../read/calls.js'
import type { TensorFile } from '../read/file.js'
import { boxes } from '../read/read-stream.js'
import type { AnyTensor } from '../read/tensor.js'
import { attributeText } from './columns.js'
import type { ChangedTensor, DiffFacts } from './data.js'
import { namesOfBoth } from './names.js'
import { measured } from './numbers.js'

/** Keys of the metadata that are listed. */
const MAX_KEYS = 500

type Sums = NonNullable<ChangedTensor['sums']>

/** Elements of a piece: 4 MiB on each side, a few milliseconds of work on this thread. */
const PIECE = 2 ** 20
const EXPONENT_BITS = 23
const EXPONENT_BIAS = 127
const EXPONENTS = 256

/** The running sums over all pieces of a pair of tensors. */
class Running {
  #product = 0
  #aSquared = 0
  #bSquared = 0
  #differenceSquared = 0
  readonly #exponents = new Float64Array(EXPONENTS)
  /** One word, viewed as a float and as bits. */
  readonly #float = new Float32Array(1)
  readonly #bits = new Uint32Array(this.#float.buffer)

  add(a: Float32Array, b: Float32Array): void {
    const [float, bits, exponents] = [this.#float, this.#bits, this.#exponents]
    let [product, aSquared, bSquared, squared] = [0, 0, 0, 0]
    for (let at = 0; at < a.length; at++) {
      const [left, right] = [a[at] as number, b[at] as number]
      const difference = left - right
      // NaN and infinities would turn all sums into NaN; `compare` counts them.
      if (!Number.isFinite(difference)) continue
      product += left * right
      aSquared += left * left
      bSquared += right * right
      if (difference === 0) continue
      squared += difference * difference
      float[0] = difference
      const exponent = ((bits[0] as number) >>> EXPONENT_BITS) & 0xff
      exponents[exponent] = (exponents[exponent] as number) + 1
    }
    this.#product += product
    this.#aSquared += aSquared
    this.#bSquared += bSquared
    this.#differenceSquared += squared
  }

  sums(): Sums {
    const length = Math.sqrt(this.#aSquared) * Math.sqrt(this.#bSquared)
    const used = Array.from(this.#exponents.keys()).filter((at) => this.#exponents[at] !== 0)
    const first = used[0] ?? 0
    return {
      cosine: length === 0 ? null : measured(Math.max(-1, Math.min(1, this.#product / length))),
      differenceSquared: this.#differenceSquared,
      otherSquared: this.#bSquared,
      exponents: {
        first: first - EXPONENT_BIAS,
        counts: used.length === 0 ? [] : Array.from(this.#exponents.slice(first, (used.at(-1) as number) + 1)),
      },
    }
  }
}

const UNSUMMED = new Set<string>(['ZT_BAD_LAYOUT', 'ZT_BAD_DTYPE', 'ZT_LIMIT', 'ZT_UNSUPPORTED_ENCODING'])

/** Whether a tensor is sparse: sparse tensors have no slices, so there are no sums of them. */
const isSparse = ({ layout }: AnyTensor): boolean => layout === 'sparse_csr' || layout === 'sparse_coo'

async function sumsOf(a: AnyTensor, b: AnyTensor, signal: AbortSignal | undefined): Promise<Sums | undefined> {
  if (isSparse(a) || isSparse(b)) return undefined
  const running = new Running()
  try {
    for (const slice of boxes(a.shape, PIECE)) {
      const how = { as: 'float32', slice, signal } as const
      const [left, right] = await withinCall(() => Promise.all([a.load(how), b.load(how)]))
      running.add(left as Float32Array, right as Float32Array)
      await nextTurn()
    }
  } catch (error) {
    if (error instanceof ZTensorError && UNSUMMED.has(error.code)) return undefined
    throw error
  }
  return running.sums()
}

function valuesOf({ values }: TensorChange): Pick<ChangedTensor, 'values'> {
  if (values === undefined || !('comparison' in values)) return {}
  const { elements, differing, maxAbsolute, maxRelative, unmatchedNaN } = values.comparison
  return {
    values: {
      elements,
      differing,
      maxAbsolute: measured(maxAbsolute),
      maxRelative: measured(maxRelative),
      unmatchedNaN,
    },
  }
}

async function changedTensor(
  change: TensorChange,
  [tensor, a, b]: readonly [number, AnyTensor, AnyTensor],
  signal: AbortSignal | undefined,
): Promise<ChangedTensor> {
  const sums = change.values === undefined ? undefined : await sumsOf(a, b, signal)
  return {
    tensor,
    ...(change.dtype === undefined ? {} : { dtype: change.dtype[0] ?? 'unknown' }),
    ...(change.shape === undefined ? {} : { shape: change.shape[0] }),
    ...(change.layout === undefined ? {} : { layout: change.layout[0] }),
    ...valuesOf(change),
    ...(sums === undefined ? {} : { sums }),
  }
}

/** Finds how the tensors of `file` with these names differ from `others`, tensors of `against`. `progress` gets the bytes read of both sides, some of which are read twice. */
export async function diffFacts(
  file: TensorFile,
  names: readonly string[],
  against: TensorFile,
  others: readonly AnyTensor[],
  progress: ((done: Pick<Progress, 'bytes' | 'tensors'>) => void) | undefined,
  signal: AbortSignal | undefined,
): Promise<DiffFacts> {
  const positions = new Map(names.map((name, at) => [name, at]))
  const compared = new Set([...names, ...others.map(({ name }) => name)])
  const filter = ({ name }: AnyTensor): boolean => compared.has(name)
  const found = await withinCall(() => diff(against, file, { filter, onProgress: progress, signal }))
  const numberOf = (name: string): number => positions.get(name) as number
  const changed: ChangedTensor[] = []
  for (const change of found.changed) {
    signal?.throwIfAborted()
    const { name } = change
    changed.push(await changedTensor(change, [numberOf(name), file.tensor(name), against.tensor(name)], signal))
  }
  return {
    against: namesOfBoth(file, against)[1],
    format: against.format,
    tensors: others.length,
    added: found.added.map(({ name }) => numberOf(name)),
    removed: found.removed.map(({ name, dtype, shape }) => ({ name, dtype: dtype ?? null, shape })),
    changed,
    unchanged: found.unchanged,
    metadata: found.metadata.slice(0, MAX_KEYS).map(({ key, values: [before, after] }) => ({
      key: attributeText(key),
      before: before === undefined ? null : attributeText(before),
      after: after === undefined ? null : attributeText(after),
    })),
    moreMetadata: Math.max(0, found.metadata.length - MAX_KEYS),
  }
}
