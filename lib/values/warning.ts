/** Something about a file that a user should know, and that does not make it unreadable. */
export interface Warning {
  /** Stable: `ZT_WARN_UNALIGNED`, `ZT_WARN_NEWER_VERSION`, `ZT_WARN_UNKNOWN_LAYOUT`, … */
  readonly code: string
  readonly message: string
  readonly tensor?: string
  readonly component?: string
  /** The file, where several were opened as one. */
  readonly path?: string
}
