// Makes a report: opens the files and collects the data.

import type { Progress } from '../native/job.js'
import { TensorFile } from '../read/file.js'
import { open } from '../read/open.js'
import type { Source } from '../read/source.js'
import { jobOptions } from '../read/verify.js'
import { optional, readOptions, validateBoolean } from '../values/arguments.js'
import { columns } from './columns.js'
import type { ReportData } from './data.js'
import { diffFacts } from './diff.js'
import { pageOf } from './html.js'
import { allFound, foundColumns } from './numbers.js'
import type { ReportOptions } from './report.js'

/** Combines the progress of consecutive passes. */
class Passes {
  readonly #report: ((progress: Progress) => void) | undefined
  readonly #total: { totalBytes: number; totalTensors: number }
  #before = { bytes: 0, tensors: 0 }

  constructor(report: ((progress: Progress) => void) | undefined, passes: readonly (readonly [number, number])[]) {
    this.#report = report
    this.#total = {
      totalBytes: passes.reduce((sum, [bytes]) => sum + bytes, 0),
      totalTensors: passes.reduce((sum, [, tensors]) => sum + tensors, 0),
    }
  }

  readonly listen = ({ bytes, tensors }: Pick<Progress, 'bytes' | 'tensors'>): void => {
    const all = { bytes: this.#before.bytes + bytes, tensors: this.#before.tensors + tensors }
    this.#report?.({ ...this.#total, ...all })
  }

  ended(bytes: number, tensors: number): void {
    this.#before = { bytes: this.#before.bytes + bytes, tensors: this.#before.tensors + tensors }
    this.listen({ bytes: 0, tensors: 0 })
  }
}

function bytesOf(file: TensorFile): number {
  let bytes = 0
  for (const tensor of file.values()) bytes += tensor.byteLength
  return bytes
}

/** Collects the data of a report of an open file. */
export async function reportData(
  file: TensorFile,
  against: TensorFile | undefined,
  { statistics, onProgress, signal }: Omit<ReportOptions, 'against'>,
  live = false,
): Promise<ReportData> {
  const read = statistics ?? !TensorFile.storeOf(file).isRemote
  const data = await columns(file, live, signal)
  const own: [number, number] = [read ? bytesOf(file) : 0, read ? file.size : 0]
  const compared: [number, number] = against === undefined ? [0, 0] : [bytesOf(file) + bytesOf(against), file.size]
  const passes = new Passes(onProgress, [own, compared])
  const found = read ? await allFound(file, passes.listen, signal) : undefined
  passes.ended(...own)
  const diff = against === undefined ? undefined : await diffFacts(file, against, passes.listen, signal)
  passes.ended(...compared)
  return {
    ...data,
    ...(found === undefined ? {} : { found: foundColumns(found) }),
    ...(diff === undefined ? {} : { diff }),
  }
}

/** Opens the files of a report. `close()` closes those that were not open before. */
export async function openSides(
  given: readonly (Source | TensorFile | undefined)[],
  signal: AbortSignal | undefined,
): Promise<{ sides: (TensorFile | undefined)[]; close: () => void }> {
  const opened: TensorFile[] = []
  const close = () => {
    for (const file of opened) file.close()
  }
  const sides: (TensorFile | undefined)[] = []
  try {
    for (const side of given) {
      if (side === undefined || side instanceof TensorFile) sides.push(side)
      else sides.push(opened[opened.push(await open(side, { signal })) - 1])
    }
  } catch (error) {
    close()
    throw error
  }
  return { sides, close }
}

/** `report` of lib/lazy.ts. */
export async function makeReport(source: Source | TensorFile, options?: ReportOptions): Promise<string> {
  const read = readOptions(options, ['against', 'statistics', 'onProgress', 'signal'])
  const statistics = optional(read.statistics, (value) => validateBoolean('statistics', value))
  const job = jobOptions({ onProgress: read.onProgress, signal: read.signal })
  read.signal?.throwIfAborted()
  const { sides, close } = await openSides([source, read.against], read.signal)
  try {
    const [file, against] = sides as [TensorFile, TensorFile | undefined]
    const data = await reportData(file, against, { statistics, ...job })
    return (await pageOf(data, "'none'")).html
  } finally {
    close()
  }
}
