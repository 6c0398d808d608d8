// The path that a file: URL spells. Names of files are bytes on Unix, and a URL may spell bytes that are no UTF-8.
import { isUtf8 } from 'node:buffer'
import { filePath } from './arguments.js'

/** The path of a file: URL as text, or the bytes of one that is not UTF-8. */
export function pathOfUrl(name: string, url: string): string | Buffer {
  const bytes = process.platform === 'win32' ? undefined : bytesOfUrl(url)
  return bytes === undefined || isUtf8(bytes) ? filePath(name, url) : bytes
}

/** The bytes that the path of a local file: URL spells; undefined for any other URL, which Node then refuses in its own words. */
function bytesOfUrl(text: string): Buffer | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'file:' || url.hostname !== '' || /%2f|%00/i.test(url.pathname)) return undefined
  const spelled = url.pathname.replace(/%([0-9a-f]{2})/gi, (_, byte) => String.fromCharCode(Number.parseInt(byte, 16)))
  return Buffer.from(spelled, 'latin1')
}
