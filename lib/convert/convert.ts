import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { builtins } from '../native/builtins.js'
import type { ValidJob } from '../native/job.js'
import type { NativeWriter } from '../native/native.js'
import type { TensorFile } from '../read/file.js'
import { withOpen } from '../read/open.js'
import type { Source } from '../read/source.js'
import { readOptions } from '../values/arguments.js'
import { Outlet } from '../write/outlet.js'
import { withFormat } from '../write/path.js'
import { type Target, validateTarget } from '../write/target.js'
import { TensorWriter } from '../write/writer.js'
import { CONVERT_OPTIONS, type ConvertOptions, type ConvertResult } from './options.js'
import { type Conversion, planConversion } from './plan.js'
import { type BeginOutput, beginConversion, validateConversion, writeConversion } from './write.js'

/** `convert` of lib/lazy.ts. */
export async function convert(
  source: Source | TensorFile,
  target: string | URL | Writable,
  options?: ConvertOptions,
): Promise<ConvertResult> {
  const read = readOptions(options, CONVERT_OPTIONS)
  const to = validateTarget('target', target, read)
  const { given, job, skips, dryRun } = validateConversion(withFormat(read, to.path))
  return withOpen(source, { ...read.source, signal: job.signal }, async (file) => {
    const conversion = await planConversion(file, { ...given, signal: job.signal })
    const output = outputTo(dryRun ? NOWHERE : to, job.signal)
    const { result } = await writeConversion(file, conversion, output, given, job, skips)
    return result
  })
}

/** The target of a file that is not written: its writer is aborted. */
const NOWHERE: Pick<Target, 'begin' | 'remote'> = {
  begin: async () => join(builtins.os.tmpdir(), `ztensor-dry-run-${builtins.crypto.randomUUID()}`),
  remote: undefined,
}

/** Writes a path, a URL or a stream. */
export function outputTo({ begin, remote }: Pick<Target, 'begin' | 'remote'>, signal?: AbortSignal): BeginOutput {
  return async (request, { plan }) => {
    const writer = await TensorWriter.make(await begin(), request, signal, remote, plan.isSized)
    const { native, outlet, direct } = TensorWriter.partsOf(writer)
    return {
      native,
      release: () => outlet?.release(),
      listen: async () => {
        await TensorWriter.listen(writer)
      },
      // Queued in the writer, so that abort() waits for it.
      write: (make) =>
        TensorWriter.during(writer, () => (direct instanceof Outlet ? direct.pass(make, signal) : make())),
      finish: () => writer.finish(),
      abort: () => writer.abort(),
      get entry() {
        return TensorWriter.entryOf(writer)
      },
    }
  }
}

/** Begins a file with the metadata of a conversion, in memory, and passes its writer to `use`. */
export async function withMetadata<T>(
  file: TensorFile,
  conversion: Conversion,
  given: ConvertOptions,
  job: ValidJob,
  use: (writer: NativeWriter) => T | Promise<T>,
): Promise<T> {
  const { work, begin } = await beginConversion(file, conversion, outputTo(NOWHERE, job.signal), given, job)
  try {
    await begin({ tensors: false, outlines: false })
    return await use(work.output.native)
  } finally {
    await work.output.abort()
  }
}
