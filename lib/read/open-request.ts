import type { OpenRequest } from '../native/native.js'
import { optional, validateBoolean, validateInteger, validateOneOf } from '../values/arguments.js'
import { FORMAT_NAMES } from '../values/format-names.js'

/** The limits that are options. */
export const LIMITS = ['maxIndexBytes', 'maxDecodedBytes', 'maxRank', 'maxAttributeValues'] as const

/** Validates the options that the binding needs to open a file: the format, the I/O mode, the limits. */
export function openRequest(read: { [Key in keyof OpenRequest]?: unknown }): OpenRequest {
  const request: OpenRequest = {}
  if (read.format !== undefined) request.format = validateOneOf('format', FORMAT_NAMES, read.format)
  if (read.io !== undefined) request.io = validateOneOf('io', ['auto', 'mmap', 'read', 'direct'], read.io)
  const followLinks = optional(read.followLinks, (value) => validateBoolean('followLinks', value))
  if (followLinks !== undefined) request.followLinks = followLinks
  for (const limit of LIMITS) {
    const value = optional(read[limit], (value) => validateInteger(limit, value))
    if (value !== undefined) request[limit] = value
  }
  return request
}
