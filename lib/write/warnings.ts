import type { WriteWarning } from '../native/native.js'

/** Emits process warnings for problems after a file was published: the file exists, so the call has succeeded. */
export function emitWarnings(warnings: readonly WriteWarning[]): void {
  for (const { code, message } of warnings) process.emitWarning(message, { type: 'ZTensorWarning', code })
}
