// Node's names and messages of the system's errors.
import { getSystemErrorMap } from 'node:util'
import type { SystemReason } from './host.js'

/** Windows error numbers, of files and of sockets, by the names that libuv gives them (`uv_translate_sys_error`). */
const WIN32_ERRORS: Record<string, readonly number[]> = {
  EACCES: [998, 1224, 10013],
  EADDRNOTAVAIL: [10049],
  EBADF: [6],
  EBUSY: [32, 33, 170],
  ECANCELED: [995, 10004],
  ECONNABORTED: [1236, 10053],
  ECONNREFUSED: [1225, 10061],
  ECONNRESET: [64, 10054],
  EEXIST: [80, 183],
  EHOSTUNREACH: [1232, 10065],
  EINVAL: [13, 87, 10022],
  EIO: [23, 27, 1117],
  EISDIR: [1],
  EMFILE: [4, 10024],
  ENAMETOOLONG: [206],
  ENETUNREACH: [1231, 10051],
  ENOBUFS: [10055],
  ENOENT: [2, 3, 15, 53, 67, 123, 161, 267, 11001, 11004],
  ENOMEM: [8, 14, 1455],
  ENOSPC: [39, 112],
  ENOTCONN: [2250, 10057],
  ENOTEMPTY: [145],
  EPERM: [5, 1314],
  EPIPE: [109, 230, 232, 233, 10058],
  EROFS: [19],
  ETIMEDOUT: [121, 10060],
  EXDEV: [17],
}

const WIN32_NAMES = new Map(
  Object.entries(WIN32_ERRORS).flatMap(([name, numbers]) => numbers.map((number) => [number, name])),
)

/** Describes an error of the system by its number: `errno`, or `GetLastError` on Windows. */
export function systemError(given: number): SystemReason | undefined {
  const known = getSystemErrorMap()
  const name = process.platform === 'win32' ? WIN32_NAMES.get(given) : undefined
  const errno = [...known].find(([, [code]]) => code === name)?.[0] ?? -given
  const found = known.get(errno)
  return found && { errno, code: found[0], text: found[1] }
}
