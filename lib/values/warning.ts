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
