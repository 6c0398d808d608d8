// The beginnings of a file's metadata, for what shows or looks up some of them: a vocabulary has a million values.
import type { AttributeObject } from './attributes.js'

/** The method of a file that returns the beginnings of its metadata. The command has a copy of this module. */
export const OUTLINE: unique symbol = Symbol.for('ztensor.outline')

/** How much of each value is created. */
export interface OutlineRequest {
  /** Maximum number of keys. All by default. */
  readonly keys?: number
  /** Maximum number of items of a list. The others are holes: the list has its length. */
  readonly items: number
  /** UTF-16 units of a text that is no key: of a longer one at least as many are created. */
  readonly units: number
}

/** The beginnings of metadata, and the number of all keys. */
export interface MetadataOutline {
  readonly metadata: AttributeObject
  readonly keys: number
}
