import { open, openSync } from 'ztensor'

export function names(path: string): string[] {
  using file = openSync(path)
  return [...file.keys()]
}

export async function size(path: string): Promise<number> {
  await using file = await open(path)
  return file.size
}
