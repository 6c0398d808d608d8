// Builds safetensors files around a header that is given as text (or bytes), so it may be invalid JSON.
import { u64 } from './zt.mjs'

/** `header`: text, bytes, or an object that is written as JSON. `size` overrides the stated length of the header. */
export function safetensors(header, data = Buffer.alloc(0), { size } = {}) {
  const text = typeof header === 'string' || header instanceof Uint8Array ? Buffer.from(header) : Buffer.from(JSON.stringify(header))
  return Buffer.concat([u64(size ?? text.length), text, data])
}

/** The text of an entry with its parts as raw text. */
export const entry = ({ dtype = '"F32"', shape = '[2,2]', offsets = '[0,16]', more = '' } = {}) =>
  `{"dtype":${dtype},"shape":${shape},"data_offsets":${offsets}${more}}`
