// Names of Windows' system errors, as libuv gives them to `node:fs`.

const NAMES: Record<string, readonly number[]> = {
  EACCES: [998, 1224],
  EBADF: [6],
  EBUSY: [32, 33, 170],
  EEXIST: [80, 183],
  EINVAL: [13, 87],
  EIO: [23, 27, 1117],
  EISDIR: [1],
  EMFILE: [4],
  ENAMETOOLONG: [206],
  ENOENT: [2, 3, 15, 53, 67, 123, 161, 267],
  ENOMEM: [8, 14, 1455],
  ENOSPC: [39, 112],
  ENOTEMPTY: [145],
  EPERM: [5, 1314],
  EROFS: [19],
  EXDEV: [17],
}

const BY_NUMBER = new Map(Object.entries(NAMES).flatMap(([name, numbers]) => numbers.map((number) => [number, name])))

/** The name of a Windows error number (`GetLastError`), where `node:fs` has one for it. */
export function win32ErrorName(number: number): string | undefined {
  return BY_NUMBER.get(number)
}
