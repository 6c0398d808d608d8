// Makes a report: opens the files and collects the data.

import type { Counts, ValidJob } from '../native/job.js'
import { everything } from '../read/batches.js'
import { TensorFile } from '../read/file.js'
import { open } from '../read/open.js'
import { openAll } from '../read/open-all.js'
import type { Source } from '../read/source.js'
import type { AnyTensor } from '../read/tensor.js'
import { jobOptions } from '../read/verify.js'
import { optional, readOptions, validateBoolean, validateText } from '../values/arguments.js'
import { checkFilter, tensorFilter } from '../values/filter.js'
import { columns, nameOf } from './columns.js'
import { configOf } from './config.js'
import type { ReportData } from './data.js'
import { diffFacts } from './diff.js'
import { pageOf } from './html.js'
import { namesOfBoth } from './names.js'
import { allFound, foundColumns } from './numbers.js'
import type { ReportOptions } from './report.js'

/** Combines the progress of consecutive passes. */
class Passes {
  readonly #report: ((counts: Counts) => void) | undefined
  readonly #total: { totalBytes: number; totalTensors: number }
  #before = { bytes: 0, tensors: 0 }

  constructor(report: ((counts: Counts) => void) | undefined, passes: readonly (readonly [number, number])[]) {
    this.#report = report
    this.#total = {
      totalBytes: passes.reduce((sum, [bytes]) => sum + bytes, 0),
      totalTensors: passes.reduce((sum, [, tensors]) => sum + tensors, 0),
    }
  }

  readonly listen = ({ bytes, tensors }: Pick<Counts, 'bytes' | 'tensors'>): void => {
    const all = { bytes: this.#before.bytes + bytes, tensors: this.#before.tensors + tensors }
    this.#report?.({ ...this.#total, ...all })
  }

  ended(bytes: number, tensors: number): void {
    this.#before = { bytes: this.#before.bytes + bytes, tensors: this.#before.tensors + tensors }
    this.listen({ bytes: 0, tensors: 0 })
  }
}

function bytesOf(tensors: Iterable<AnyTensor>): number {
  let bytes = 0
  for (const tensor of tensors) bytes += tensor.byteLength
  return bytes
}

/** The ordinals of the tensors that a report shows. */
export async function chosenIn(
  file: TensorFile,
  against: TensorFile | undefined,
  { filter, signal }: ReportOptions,
): Promise<Uint32Array> {
  const matches = tensorFilter(filter)
  checkFilter(filter, file, ...(against === undefined ? [] : [against]))
  return matches === undefined ? everything(file.size) : TensorFile.filtered(file, matches, signal)
}

/** Collects the data of a report of an open file, with the tensors of these ordinals. */
export async function reportData(
  file: TensorFile,
  chosen: Uint32Array,
  against: TensorFile | undefined,
  { statistics, filter, title, onProgress, signal }: Pick<ReportOptions, 'statistics' | 'filter' | 'title'> & ValidJob,
  live = false,
): Promise<ReportData> {
  const read = statistics ?? !TensorFile.storeOf(file).isRemote
  const name = against === undefined ? nameOf(file) : namesOfBoth(file, against)[0]
  const data = await columns(file, chosen, { filter, title, name, config: await configOf(file) }, live, signal)
  const { names } = data.tensors
  const bytes = bytesOf(Array.from(chosen, (ordinal) => TensorFile.at(file, ordinal)))
  const own: [number, number] = read ? [bytes, chosen.length] : [0, 0]
  const others = against === undefined ? [] : othersOf(file, names, against, filter)
  const compared: [number, number] = against === undefined ? [0, 0] : [bytes + bytesOf(others), chosen.length]
  const passes = new Passes(onProgress, [own, compared])
  const found = read ? await allFound(file, chosen, passes.listen, signal) : undefined
  passes.ended(...own)
  const diff = against === undefined ? undefined : await diffFacts(file, names, against, others, passes.listen, signal)
  passes.ended(...compared)
  return {
    ...data,
    ...(found === undefined ? {} : { found: foundColumns(found) }),
    ...(diff === undefined ? {} : { diff }),
  }
}

/** The tensors of the other file that a report compares: those with these names, and others that the filter selects. */
function othersOf(
  file: TensorFile,
  names: readonly string[],
  against: TensorFile,
  filter: ReportOptions['filter'],
): AnyTensor[] {
  const matches = tensorFilter(filter)
  if (matches === undefined) return Array.from(against.values())
  const shown = new Set(names)
  return Array.from(against.values()).filter((tensor) =>
    file.has(tensor.name) ? shown.has(tensor.name) : matches(tensor),
  )
}

/** `report` of lib/lazy.ts. */
export async function makeReport(source: Source | TensorFile, options?: ReportOptions): Promise<string> {
  const read = readOptions(options, ['against', 'statistics', 'filter', 'title', 'onProgress', 'signal'])
  const statistics = optional(read.statistics, (value) => validateBoolean('statistics', value))
  const title = optional(read.title, (value) => validateText('title', value))
  const job = jobOptions({ onProgress: read.onProgress, signal: read.signal })
  tensorFilter(read.filter)
  read.signal?.throwIfAborted()
  const { files, close } = await openAll([source, read.against], read.signal, open)
  try {
    const [file, against] = files as [TensorFile, TensorFile | undefined]
    const { filter } = read
    const chosen = await chosenIn(file, against, read)
    const data = await reportData(file, chosen, against, { statistics, filter, title, ...job })
    return (await pageOf(data, "'none'")).html
  } finally {
    close()
  }
}
