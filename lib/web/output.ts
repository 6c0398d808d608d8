// Where a conversion in a browser writes: a stream, a file of the origin's own file system, or a Blob.

import type { BeginOutput } from '../convert/write.js'
import { onAbort } from '../native/abort.js'
import { publicError, ZTensorError } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import { wrongType } from '../values/arguments.js'
import { BlobTarget, type Target } from './blob-target.js'
import type { NativeConversion } from './conversion.js'
import { KeptData } from './kept.js'
import type { Sink } from './tree.js'

/** A target: a stream, such as that of `handle.createWritable()`, or the handle of a file. Without one, the result has a Blob. */
export type WebTarget = WritableStream<Uint8Array<ArrayBuffer>> | FileSystemWritableFileStream | FileSystemFileHandle

const isStream = (target: unknown): target is WritableStream => target instanceof WritableStream

function isFile(target: unknown): target is FileSystemFileHandle {
  return typeof target === 'object' && target !== null && 'createWritable' in target
}

function failed(cause: unknown): ZTensorError {
  return new ZTensorError('ZT_IO', `the stream failed: ${messageOf(cause)}`, { cause })
}

const lockedError = (stream: WritableStream): Error =>
  wrongType('target', 'a WritableStream that no other writer has locked', stream)

/** A stream of the caller, or of a handle. */
function ofStream(open: () => Promise<WritableStream>): Target {
  let writer: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>> | undefined
  let stop: (reason: unknown) => void = () => {}
  let isStopped = false
  // A write that has begun ends only when the stream's own code does, whatever the abort.
  const stopped = new Promise<never>((_resolve, reject) => {
    stop = reject
  })
  stopped.catch(() => {})
  const attempt = async (work: Promise<unknown> | undefined) => {
    try {
      await Promise.race([work, stopped])
    } catch (cause) {
      throw failed(cause)
    }
  }
  return {
    async open() {
      const opening = open()
      const stream = await Promise.race([opening, stopped]).catch((cause) => {
        // A stream that arrives later is aborted.
        opening.then((late) => late.abort(cause)).catch(() => {})
        throw failed(cause)
      })
      if (stream.locked) throw lockedError(stream)
      writer = stream.getWriter()
      writer.closed.catch(() => {})
      // An abort before this had no stream to abort.
      if (isStopped) await stopped.catch((reason) => this.abort(reason))
    },
    write: (bytes) => attempt(writer?.write(bytes)),
    close: () => attempt(writer?.close()),
    async abort(reason) {
      isStopped = true
      writer?.abort(reason).catch(() => {})
      stop(reason)
    },
    release: () => writer?.releaseLock(),
  }
}

/** The name of the file that a handle writes; undefined for other targets. */
export const nameOf = (target: unknown): string | undefined => (isFile(target) ? target.name : undefined)

/** Validates a target. */
export function targetOf(target: unknown): Target {
  if (target === undefined || target === null) return new BlobTarget()
  if (isStream(target)) {
    if (target.locked) throw lockedError(target)
    return ofStream(async () => target)
  }
  if (isFile(target)) return ofStream(() => target.createWritable())
  throw wrongType('target', 'a WritableStream, a FileSystemFileHandle, or undefined for a Blob', target)
}

/** Writes to a target. */
export function outputTo(target: Target, signal: AbortSignal | undefined): BeginOutput {
  return async (request, { native, plan }) => {
    const conversion = native as unknown as NativeConversion
    let kept: KeptData | undefined
    try {
      // In a worker it answers later.
      if (await conversion.create(request, plan.isSized)) kept = new KeptData()
    } catch (error) {
      throw publicError(error)
    }
    const sink: Sink = kept ?? target
    let forget = () => {}
    let ending: Promise<void> | undefined
    const abort = (): Promise<void> => {
      forget()
      const reason = signal?.aborted ? signal.reason : new ZTensorError('ZT_CLOSED', 'the conversion failed')
      ending ??= target.abort(reason).then(() => conversion.close())
      return ending
    }
    return {
      native: sink as never,
      release: () => target.release(),
      async listen() {
        if (signal !== undefined) forget = onAbort(signal, () => void abort())
        await target.open()
        signal?.throwIfAborted()
      },
      write: (make) => make(),
      async finish() {
        const assembly = await conversion.finish(sink).catch((error) => {
          throw publicError(error)
        })
        if (assembly !== undefined) await kept?.assemble(assembly, target, signal)
        await target.close()
        forget()
        ending = Promise.resolve()
        conversion.close()
      },
      abort,
      entry: undefined,
    }
  }
}
