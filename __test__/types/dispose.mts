import { open, openSync } from 'ztensor'

export function names(path: string): string[] {
  using file = openSync(path)
  return [...file.keys()]
}

export async function size(path: string): Promise<number> {
  await using file = await open(path)
  return file.size
}

export async function replaced(file: Awaited<ReturnType<typeof open>>): Promise<void> {
  file.close()
  const done: Promise<void> = file.close({ drain: true, signal: AbortSignal.timeout(1000) })
  await done
  // @ts-expect-error: an option that is misspelt
  file.close({ drains: true })
}
