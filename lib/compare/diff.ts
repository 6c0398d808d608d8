// Finds the differences between two files of any formats.
import { ZTensorError } from '../native/errors.js'
import type { Counts, ValidJob } from '../native/job.js'
import { isMap } from '../native/realm.js'
import { withinCall } from '../read/calls.js'
import type { TensorFile } from '../read/file.js'
import { openAll } from '../read/open-all.js'
import type { AnyTensor, Layout } from '../read/tensor.js'
import { jobOptions } from '../read/verify.js'
import { optional, readOptions, validateBoolean } from '../values/arguments.js'
import type { Attributes } from '../values/attributes.js'
import type { DType } from '../values/dtype.js'
import { checkFilter, type Filter, tensorFilter } from '../values/filter.js'
import { NewNames, type Renaming, validateRenaming } from '../values/rename.js'
import type { CompareOptions, Comparison, compare } from './compare.js'
import { isSame } from './same.js'

/** What to compare. */
export interface DiffOptions extends CompareOptions {
  /** Compare only these tensors, all by default. A glob that matches a tensor of neither file is an error. */
  filter?: Filter<AnyTensor> | undefined
  /** Compare only values: ignore differences of dtypes and layouts. */
  values?: boolean | undefined
  /**
   * Also compare the attributes of tensors, and count metadata that differs: `same` is false then. Otherwise it is only listed, because
   * formats store different metadata of the same tensors.
   */
  metadata?: boolean | undefined
  /**
   * New names of the first file's tensors, under which the second file has them: a function, or an object of names and patterns, as in
   * `convert`. Two tensors with the same new name are an error.
   */
  rename?: Renaming | undefined
}

/** A value of each side. */
export type Pair<T> = readonly [a: T, b: T]

/** A tensor that only one file has. */
export interface DiffTensor {
  readonly name: string
  readonly dtype: DType | undefined
  readonly shape: readonly number[]
  readonly layout: Layout
}

/** A value of metadata, or an attribute of a tensor, that differs. It is undefined on a side that does not have it. */
export interface ChangedAttribute {
  readonly key: unknown
  readonly values: Pair<unknown>
}

/** How two tensors with the same name differ. */
export interface TensorChange {
  readonly name: string
  /** The name in the second file, if `rename` gives it another. */
  readonly renamed?: string | undefined
  /** The dtypes, if they differ. */
  readonly dtype: Pair<DType | undefined> | undefined
  /** The shapes, if they differ. */
  readonly shape: Pair<readonly number[]> | undefined
  /** The layouts, if they differ. */
  readonly layout: Pair<Layout> | undefined
  /**
   * How the values differ: a comparison, or if values cannot be compared as numbers, the roles of the components whose bytes differ.
   * Undefined if the values are equal, or the shapes differ.
   */
  readonly values: { readonly comparison: Comparison } | { readonly components: readonly string[] } | undefined
  /** The roles of additional components whose bytes differ, or that only one side has. */
  readonly components: readonly string[]
  /** The attributes that differ, if the option `metadata` is set. */
  readonly attributes: readonly ChangedAttribute[]
}

/** The differences between two files. */
export interface FileDiff {
  /** Whether there are no differences of tensors, and with the option `metadata` none of metadata. */
  readonly same: boolean
  /** The tensors that only the second file has. */
  readonly added: readonly DiffTensor[]
  /** The tensors that only the first file has. */
  readonly removed: readonly DiffTensor[]
  /** The tensors that both files have and that differ, in the order of the first file. */
  readonly changed: readonly TensorChange[]
  /** Number of tensors that both files have and that are equal. */
  readonly unchanged: number
  /** The metadata of the files that differs. */
  readonly metadata: readonly ChangedAttribute[]
}

/** After these errors, the bytes of components differ. All others say that they cannot be read. */
const DIFFERENT = new Set(['ZT_BAD_LAYOUT', 'ZT_BAD_DTYPE', 'ZT_BAD_SHAPE'])

/** After these errors, the bytes are compared instead of the numbers. */
const BY_BYTES = new Set([...DIFFERENT, 'ZT_LIMIT', 'ZT_UNSUPPORTED_ENCODING'])

function rethrowUnless(codes: ReadonlySet<string>, error: unknown): void {
  if (!(error instanceof ZTensorError && codes.has(error.code))) throw error
}

function pairOf<T>(a: T, b: T): Pair<T> | undefined {
  return isSame(a, b) ? undefined : [a, b]
}

function changedAttributes(a: Attributes, b: Attributes): ChangedAttribute[] {
  const [left, right] = [a, b].map((one) => (isMap(one) ? one : new Map<unknown, unknown>(Object.entries(one))))
  const keys = new Set([...(left?.keys() ?? []), ...(right?.keys() ?? [])])
  return Array.from(keys).flatMap((key) => {
    const values = pairOf(left?.get(key), right?.get(key))
    return values === undefined ? [] : [{ key, values }]
  })
}

/** The components that hold the values of a tensor, by its layout. */
const VALUE_ROLES: ReadonlyMap<string, readonly string[]> = new Map([
  ['dense', ['data']],
  ['sparse_csr', ['values', 'indices', 'indptr']],
  ['sparse_coo', ['values', 'coords']],
])

/** The roles of a tensor's components that do not hold its values. */
function otherRoles({ layout, components }: AnyTensor): string[] {
  const own = VALUE_ROLES.get(layout)
  return own === undefined ? [] : Array.from(components.keys()).filter((role) => !own.includes(role))
}

/** `compare`, or one with other defaults. */
export type Compare = (...sides: Parameters<typeof compare>) => Promise<Comparison>

/** The roles, all by default, of the components whose bytes differ, or that only one side has. */
async function differingComponents(
  a: AnyTensor,
  b: AnyTensor,
  compared: Compare,
  roles: Iterable<string> = new Set([...a.components.keys(), ...b.components.keys()]),
): Promise<string[]> {
  const differing: string[] = []
  for (const role of roles) {
    const [left, right] = [a.components.get(role), b.components.get(role)]
    let same = false
    if (left !== undefined && right !== undefined) {
      try {
        same = (await compared(left, right)).identical
      } catch (error) {
        rethrowUnless(DIFFERENT, error)
      }
    }
    if (!same) differing.push(role)
  }
  return differing
}

/** How the values differ; undefined if they are equal. */
async function changedValues(a: AnyTensor, b: AnyTensor, compared: Compare): Promise<TensorChange['values']> {
  try {
    const comparison = await compared(a, b)
    return comparison.equal ? undefined : { comparison }
  } catch (error) {
    rethrowUnless(BY_BYTES, error)
    const components = await differingComponents(a, b, compared)
    return components.length === 0 ? undefined : { components }
  }
}

async function change(a: AnyTensor, b: AnyTensor, options: DiffOptions, compared: Compare): Promise<TensorChange> {
  const shape = pairOf(a.shape, b.shape)
  return {
    name: a.name,
    ...(a.name === b.name ? {} : { renamed: b.name }),
    dtype: options.values ? undefined : pairOf<DType | undefined>(a.dtype, b.dtype),
    shape,
    layout: options.values ? undefined : pairOf<Layout>(a.layout, b.layout),
    values: shape === undefined ? await changedValues(a, b, compared) : undefined,
    components: options.values
      ? []
      : await differingComponents(a, b, compared, new Set([...otherRoles(a), ...otherRoles(b)])),
    attributes: options.metadata ? changedAttributes(a.attributes, b.attributes) : [],
  }
}

function isChange({ dtype, shape, layout, values, components, attributes }: TensorChange): boolean {
  return [dtype, shape, layout, values].some((part) => part !== undefined) || components.length + attributes.length > 0
}

const bytesOf = ([a, b]: Pair<AnyTensor>): number => a.byteLength + b.byteLength

/** The total progress of all pairs, which are compared in batches. */
class Total {
  readonly #report: ((counts: Counts) => void) | undefined
  readonly #all: { totalBytes: number; totalTensors: number }
  #bytes = 0
  #tensors = 0

  constructor(report: ((counts: Counts) => void) | undefined, pairs: readonly Pair<AnyTensor>[]) {
    this.#report = report
    this.#all = { totalBytes: pairs.reduce((total, pair) => total + bytesOf(pair), 0), totalTensors: pairs.length }
  }

  /** Listens to the comparison of one pair. */
  listen(): { onProgress?: (counts: Counts) => void } {
    const report = this.#report
    if (report === undefined) return {}
    return { onProgress: ({ bytes }) => report({ ...this.#all, bytes: this.#bytes + bytes, tensors: this.#tensors }) }
  }

  did(pairs: readonly Pair<AnyTensor>[]): void {
    this.#bytes += pairs.reduce((total, pair) => total + bytesOf(pair), 0)
    this.#tensors += pairs.length
    this.#report?.({ ...this.#all, bytes: this.#bytes, tensors: this.#tensors })
  }
}

// The comparisons of a batch share one native call, which uses all cores. These bounds keep the event loop responsive and limit the
// memory for decoded tensors.
const TOGETHER_PAIRS = 2048
const TOGETHER_BYTES = 64 * 2 ** 20

function* batches(pairs: readonly Pair<AnyTensor>[]): Generator<Pair<AnyTensor>[]> {
  let batch: Pair<AnyTensor>[] = []
  let bytes = 0
  for (const pair of pairs) {
    const more = bytesOf(pair)
    if (batch.length > 0 && (batch.length === TOGETHER_PAIRS || bytes + more > TOGETHER_BYTES)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(pair)
    bytes += more
  }
  if (batch.length > 0) yield batch
}

const described = ({ name, dtype, shape, layout }: AnyTensor): DiffTensor => ({ name, dtype, shape, layout })

async function diffFiles(
  compare: Compare,
  a: TensorFile,
  b: TensorFile,
  options: Omit<DiffOptions, keyof ValidJob> & ValidJob,
): Promise<FileDiff> {
  const { atol, rtol, norms, onProgress, signal } = options
  const keep = tensorFilter(options.filter) ?? (() => true)
  checkFilter(options.filter, a, b)
  const pairs: Pair<AnyTensor>[] = []
  const removed: DiffTensor[] = []
  const names = options.rename === undefined ? undefined : new NewNames(options.rename)
  const paired = new Set<string>()
  for (const [name, tensor] of a) {
    const renamed = names === undefined ? name : names.of(name)
    if (!keep(tensor)) continue
    const other = b.get(renamed)
    if (other === undefined) removed.push(described(tensor))
    else {
      pairs.push([tensor, other])
      paired.add(renamed)
    }
  }
  names?.check()
  const added: DiffTensor[] = []
  const isKnown = names === undefined ? (name: string) => a.has(name) : (name: string) => paired.has(name)
  for (const [name, tensor] of b) if (keep(tensor) && !isKnown(name)) added.push(described(tensor))
  const changed: TensorChange[] = []
  const total = new Total(onProgress, pairs)
  for (const batch of batches(pairs)) {
    const how = { atol, rtol, norms, signal, ...(batch.length === 1 ? total.listen() : {}) }
    const compared: Compare = (left, right) => withinCall(() => compare(left, right, how))
    const found = await Promise.allSettled(batch.map((pair) => change(...pair, options, compared)))
    for (const one of found) {
      if (one.status === 'rejected') throw one.reason
      if (isChange(one.value)) changed.push(one.value)
    }
    total.did(batch)
  }
  const metadata = changedAttributes(a.metadata, b.metadata)
  const differences = added.length + removed.length + changed.length + (options.metadata ? metadata.length : 0)
  return { same: differences === 0, added, removed, changed, unchanged: pairs.length - changed.length, metadata }
}

/** What differs between Node and browsers, where `compare` is loaded before this code. */
export interface DiffTools<Source> {
  readonly open: (source: Source, options: { signal: AbortSignal | undefined }) => Promise<TensorFile>
  readonly compare: Compare
}

/** Finds the differences between two files, which `open` opens unless they are open. */
export async function diffSources<Source extends object | string>(
  { open, compare }: DiffTools<Source>,
  a: Source | TensorFile,
  b: Source | TensorFile,
  options: DiffOptions | undefined,
): Promise<FileDiff> {
  const known = ['atol', 'rtol', 'norms', 'rename', 'filter', 'values', 'metadata', 'onProgress', 'signal'] as const
  const read = readOptions(options, known)
  const rename = optional(read.rename, validateRenaming)
  for (const key of ['values', 'metadata', 'norms'] as const)
    optional(read[key], (value) => validateBoolean(key, value))
  const { onProgress, signal, ...how } = read
  const job = jobOptions({ onProgress, signal })
  const { files, close } = await openAll<Source, readonly [Source | TensorFile, Source | TensorFile]>(
    [a, b],
    signal,
    open,
  )
  try {
    return await diffFiles(compare, ...files, { ...how, rename, onProgress: job.onProgress, signal: job.signal })
  } finally {
    close()
  }
}
