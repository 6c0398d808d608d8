import type { WriteWarning } from '../native/native.js'

/** Tells the process what went wrong once a file was under its name: it is there, so that the call has succeeded. */
export function emitWarnings(warnings: readonly WriteWarning[]): void {
  for (const { code, message } of warnings) process.emitWarning(message, { type: 'ZTensorWarning', code })
}
