import { warn } from '#host'
import type { WriteWarning } from '../native/native.js'

/** A problem of a file that does not prevent reading it. */
export interface Warning {
  /** The stable code: `ZT_WARN_UNALIGNED`, `ZT_WARN_NEWER_VERSION`, `ZT_WARN_UNKNOWN_LAYOUT`, … */
  readonly code: string
  readonly message: string
  readonly tensor?: string
  readonly component?: string
  /** The path of the file, if several files were opened as one. */
  readonly path?: string
}

/** Emits process warnings for problems after a file was published: the file exists, so the call has succeeded. */
export function emitWarnings(warnings: readonly WriteWarning[]): void {
  for (const { code, message } of warnings) warn(message, code)
}
