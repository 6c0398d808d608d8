/** Characters that one call takes as arguments. */
const STEP = 2 ** 13

/** Encodes bytes as base64, in Node and in browsers. */
export function base64(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += STEP) text += String.fromCharCode(...bytes.subarray(at, at + STEP))
  return btoa(text)
}
