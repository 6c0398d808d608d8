// The display names of two files that are compared.
import { resolve, sep } from 'node:path'
import type { TensorFile } from '../read/file.js'
import { nameOf } from './columns.js'

/** The display names of two files. Two local files of one name have as many folders before it as tell them apart. */
export function namesOfBoth(one: TensorFile, other: TensorFile): readonly [string, string] {
  const names = [nameOf(one), nameOf(other)] as const
  const [left, right] = [one.path, other.path]
  if (names[0] !== names[1] || left === undefined || right === undefined) return names
  const [a, b] = [resolve(left).split(sep), resolve(right).split(sep)]
  let parts = 1
  while (parts < Math.min(a.length, b.length) && a.at(-parts) === b.at(-parts)) parts++
  return [a.slice(-parts).join('/'), b.slice(-parts).join('/')]
}
