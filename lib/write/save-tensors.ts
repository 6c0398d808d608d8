// Writes all tensors of a file in one call, like `save_file` of safetensors.
import { inspect } from '#host'
import { type Counts, INTERVAL_MS, type JobOptions, type ValidJob } from '../native/job.js'
import { isMap, isPlainObject } from '../native/realm.js'
import { withinCall } from '../read/calls.js'
import { type Loaded, LoadedObject } from '../read/loaded.js'
import { CooTensor, CsrTensor } from '../read/sparse.js'
import type { Store } from '../read/store.js'
import { type AnyTensor, Tensor } from '../read/tensor.js'
import { jobOptions } from '../read/verify.js'
import { isIterable, readOptions, wrongType } from '../values/arguments.js'
import type { TypedArray } from '../values/dtype.js'
import type { CooInput, CsrInput, ObjectInput, TensorInput } from './input.js'
import { CREATE_OPTIONS, type CreateOptions } from './options.js'
import { TensorWriter } from './writer.js'

/**
 * A tensor to write: a typed array, an object with dtype, shape and data (such as a `TensorSlice`), a sparse tensor, the components of any
 * layout, a tensor of an open file, or a result of `file.load()` or `loadFile()`.
 */
export type AnyInput = TypedArray | TensorInput | CsrInput | CooInput | ObjectInput | AnyTensor | Loaded

/** Tensors by name: an object, a Map, or any iterable of pairs. */
export type Tensors = Readonly<Record<string, AnyInput>> | Iterable<readonly [name: string, tensor: AnyInput]>

const nameOf = (entry: unknown): unknown => (Array.isArray(entry) ? entry[0] : undefined)
const tensorOf = (entry: unknown): unknown => (Array.isArray(entry) ? entry[1] : undefined)

/** Adds a tensor in its own layout. */
async function add(writer: TensorWriter, name: string, input: AnyInput): Promise<void> {
  if (ArrayBuffer.isView(input)) return writer.add(name, input)
  if (typeof input !== 'object' || input === null) throw wrongType('the tensor', 'a typed array or an object', input)
  const given: object = input
  if (Tensor.is(given)) return addTensor(writer, name, given)
  if (given instanceof LoadedObject || 'components' in given) return writer.addObject(name, given as ObjectInput)
  if (given instanceof CsrTensor || 'indptr' in given) return writer.addCsr(name, given as CsrInput)
  if (given instanceof CooTensor || 'coords' in given) return writer.addCoo(name, given as CooInput)
  return writer.add(name, given as TensorInput)
}

/** How to write a file. */
export interface SaveFileOptions extends CreateOptions {
  /**
   * Called after a tensor was written, about every 100 ms, and once at the end. The totals of an iterator are those of the tensors that it
   * has returned so far.
   */
  onProgress?: JobOptions['onProgress']
}

/** The tensors to write: keeps their files open, and counts bytes for the progress. */
class Sources {
  readonly #stores = new Set<Store>()
  readonly #onProgress: ValidJob['onProgress']
  #counts: Counts = { bytes: 0, totalBytes: 0, tensors: 0, totalTensors: 0 }
  #reported = 0

  constructor(onProgress: ValidJob['onProgress']) {
    this.#onProgress = onProgress
  }

  /** Adds a tensor that will be written. If its file drains from now on, it waits until `close`. */
  add(input: unknown): void {
    const { totalBytes, totalTensors } = this.#counts
    if (this.#onProgress !== undefined)
      this.#counts = { ...this.#counts, totalBytes: totalBytes + sizeOf(input), totalTensors: totalTensors + 1 }
    if (!Tensor.is(input)) return
    const { store } = Tensor.ref(input)
    if (this.#stores.has(store)) return
    store.calls.enter()
    this.#stores.add(store)
  }

  wrote(input: unknown): void {
    if (this.#onProgress === undefined) return
    const { bytes, tensors } = this.#counts
    this.#counts = { ...this.#counts, bytes: bytes + sizeOf(input), tensors: tensors + 1 }
    const now = performance.now()
    if (now - this.#reported >= INTERVAL_MS) this.report()
  }

  report(): void {
    if (this.#onProgress === undefined) return
    this.#reported = performance.now()
    this.#onProgress(this.#counts)
  }

  close(): void {
    for (const { calls } of this.#stores) calls.end()
  }
}

/** Size in bytes of a tensor's elements and indices. */
function sizeOf(input: unknown): number {
  if (Tensor.is(input) || ArrayBuffer.isView(input)) return input.byteLength
  const { data, values, indices, indptr, coords, components } = Object(input)
  const parts = Object.values(Object(components)).map((part) => Object(part).data)
  const sizes = [data, values, indices, indptr, coords, ...parts].map((array) => Object(array).byteLength)
  return sizes.reduce((sum: number, size: unknown) => (typeof size === 'number' ? sum + size : sum), 0)
}

/** Adds a tensor of an open file. Its attributes are only copied if its layout needs them: not every format supports attributes. */
async function addTensor(writer: TensorWriter, name: string, tensor: AnyTensor): Promise<void> {
  if (tensor.layout === 'sparse_csr') return writer.addCsr(name, await withinCall(() => tensor.loadCsr()))
  if (tensor.layout === 'sparse_coo') return writer.addCoo(name, await withinCall(() => tensor.loadCoo()))
  if (tensor.layout === 'dense') {
    const { dtype, shape } = tensor
    return writer.add(name, { dtype, shape, data: (await withinCall(() => tensor.load())) as TypedArray })
  }
  const components: Record<string, { dtype: TensorInput['dtype']; data: TypedArray }> = {}
  for (const [role, component] of tensor.components)
    components[role] = { dtype: component.dtype, data: await withinCall(() => component.load()) }
  const { layout, dtype, shape, attributes } = tensor
  await writer.addObject(name, { layout, dtype, shape, attributes, components })
}

/** Creates a writer. */
type Create<Target> = (target: Target, options: CreateOptions) => Promise<TensorWriter>

/** Writes tensors in one call, to what `create` creates. Returns the writer. */
export async function saveTensors<Target>(
  create: Create<Target>,
  target: Target,
  tensors: Tensors,
  options: SaveFileOptions | undefined,
): Promise<TensorWriter> {
  // The order of safetensors for Python.
  const isSwapped = typeof tensors === 'string'
  if (isSwapped || ArrayBuffer.isView(tensors) || !(isIterable(tensors) || isPlainObject(tensors))) {
    const what = 'an object of tensors by name, or a Map'
    throw wrongType('tensors', isSwapped ? `${what}, as in saveFile(path, tensors)` : what, tensors)
  }
  const entries = isIterable(tensors) ? tensors : Object.entries(tensors)
  const { onProgress, ...read } = readOptions(options, [...CREATE_OPTIONS, 'onProgress'])
  const sources = new Sources(jobOptions({ onProgress }).onProgress)
  // The tensors of an iterator are known one by one.
  const isKnown = Array.isArray(entries) || isMap(entries)
  let writer: TensorWriter | undefined
  try {
    if (isKnown) for (const entry of entries) sources.add(tensorOf(entry))
    writer = await create(target, read)
    if (isKnown) TensorWriter.foresee(writer, Array.from(entries, nameOf))
    for (const entry of entries) {
      if (!Array.isArray(entry)) throw wrongType('an entry of tensors', '[name, tensor]', entry)
      if (!isKnown) sources.add(entry[1])
      await add(writer, entry[0], entry[1]).catch((error) => {
        if (error?.code === 'ZT_INVALID_ARG') error.message = `tensors[${inspect(entry[0])}]: ${error.message}`
        throw error
      })
      sources.wrote(entry[1])
    }
    await writer.finish()
    sources.report()
    return writer
  } catch (error) {
    await writer?.abort()
    throw error
  } finally {
    sources.close()
  }
}
