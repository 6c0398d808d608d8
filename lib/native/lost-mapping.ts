// Mapped files that are cut short. The native side keeps the process alive, puts zeros where the file was and counts;
// here those who opened such a file are told.
import { setImmediate } from 'node:timers'
import { ZTensorError } from './errors.js'
import { binding, seal } from './native.js'

/** A file that can be lost. */
export interface Losable {
  /** What to tell whoever opened it, once; undefined while the file is whole or was reported. */
  takeLoss(): ZTensorError | undefined
  readonly onMappingLost: ((error: ZTensorError) => void) | undefined
}

const counter = binding.losses()
const count = counter === null ? undefined : new Uint32Array(counter)

/** Losses so far in the whole process, in memory that the native side writes: looking costs nothing. */
export function losses(): number {
  return count === undefined ? 0 : (count[0] as number)
}

const mapped = new Set<WeakRef<Losable>>()
let sweepAt = 64
let started = false

/** Has the file told of its loss. Does not keep it alive. */
export function watch(file: Losable): WeakRef<Losable> {
  if (!started) start()
  if (mapped.size >= sweepAt) {
    for (const ref of mapped) if (ref.deref() === undefined) mapped.delete(ref)
    sweepAt = Math.max(64, mapped.size * 2)
  }
  const ref = new WeakRef(file)
  mapped.add(ref)
  return ref
}

export function unwatch(ref: WeakRef<Losable>): void {
  mapped.delete(ref)
}

function start(): void {
  binding.onMappingLost(() => {
    tell((error) => {
      setImmediate(() => {
        throw error
      })
    })
  })
  started = true
  // A program that ends before its event loop has a turn must not take zeros for data.
  process.on('exit', () => {
    seal()
    tell((error) => {
      process.exitCode = 1
      throw error
    })
  })
  // The first listener to the signal replaces our handler, and the removal of the last one takes ours away too.
  const rearm = (event: string | symbol) => {
    if (event === 'SIGBUS') binding.armFaultHandler()
  }
  process.on('newListener', rearm)
  process.on('removeListener', rearm)
}

/** Tells of every loss that was not told of yet, where nobody listens by `raise`. */
function tell(raise: (error: unknown) => void): void {
  for (const ref of [...mapped]) {
    const file = ref.deref()
    const loss = file?.takeLoss()
    if (file === undefined || loss === undefined) continue
    mapped.delete(ref)
    if (file.onMappingLost === undefined) raise(loss)
    else call(file.onMappingLost, loss, raise)
  }
  for (let left = binding.abandonedLosses(); left > 0; left--) {
    raise(mappingLost('a file that is closed or gone, of which a buffer is still in use'))
  }
}

function call(listener: (error: ZTensorError) => void, loss: ZTensorError, raise: (error: unknown) => void): void {
  try {
    listener(loss)
  } catch (error) {
    raise(error)
  }
}

export function mappingLost(which: string): ZTensorError {
  const message = `${which} was cut short while it was mapped: what was lost reads as zeros. Open it again once it is whole`
  return new ZTensorError('ZT_MAPPING_LOST', message)
}
