// Files that are truncated while they are mapped. The native side catches the fault, maps zeros instead and counts the loss; this module
// reports it to the code that opened the file.
import { onExit, onHandlersChanged, setImmediate } from '#host'
import { ZTensorError } from './errors.js'
import { binding, seal } from './native.js'

/** A file that can be truncated while it is mapped. */
export interface Losable {
  /** The error to report, once; undefined if the file is intact or its loss was already reported. */
  takeLoss(): ZTensorError | undefined
  readonly onMappingLost: ((error: ZTensorError) => void) | undefined
}

const counter = binding.losses()
const count = counter === null ? undefined : new Uint32Array(counter)

/** The number of losses in this process, read from memory that the native side updates. Costs no native call. */
export function losses(): number {
  return count === undefined ? 0 : (count[0] as number)
}

const mapped = new Set<WeakRef<Losable>>()
let sweepAt = 64
let started = false

/** Registers a file, so that its loss is reported. Does not keep the file alive. */
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
    report((error) => {
      setImmediate(() => {
        throw error
      })
    })
  })
  started = true
  // A program that exits before the next turn of the event loop must not mistake zeros for data.
  onExit((fail) => {
    seal()
    report(fail)
  })
  // Node installs its own handler with the first SIGBUS listener and removes the handler with the last, so ours is reinstalled.
  onHandlersChanged('SIGBUS', () => binding.armFaultHandler())
}

/** Reports every new loss: to `onMappingLost`, or to `raise` without it. */
function report(raise: (error: unknown) => void): void {
  for (const ref of [...mapped]) {
    const file = ref.deref()
    const loss = file?.takeLoss()
    if (file === undefined || loss === undefined) continue
    mapped.delete(ref)
    if (file.onMappingLost === undefined) raise(loss)
    else call(file.onMappingLost, loss, raise)
  }
  for (let left = binding.abandonedLosses(); left > 0; left--) {
    raise(mappingLost('a closed file, of which a buffer is still in use,'))
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
  const message = `${which} was truncated while it was mapped: the lost bytes read as zeros. Restore the file and open it again`
  return new ZTensorError('ZT_MAPPING_LOST', message)
}
