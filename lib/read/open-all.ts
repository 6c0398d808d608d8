// Opens the sources of a call that reads several.
import { TensorFile } from './file.js'

/**
 * Opens several sources with `open`. A file that is already open is used as it is: `close` leaves it open, and a drain of it waits for `close`. The
 * result has undefined for a source that is undefined.
 */
export async function openAll<Source extends object | string, S extends readonly (Source | TensorFile | undefined)[]>(
  sources: S,
  signal: AbortSignal | undefined,
  open: (source: Source, options: { signal: AbortSignal | undefined }) => Promise<TensorFile>,
): Promise<{ files: { [At in keyof S]: TensorFile | Extract<S[At], undefined> }; close: () => void }> {
  const ends: (() => void)[] = []
  const close = () => {
    for (const end of ends.splice(0)) end()
  }
  try {
    // All open files are entered before the first wait.
    for (const source of sources) {
      if (!(source instanceof TensorFile)) continue
      const { calls } = TensorFile.storeOf(source)
      calls.enter()
      ends.push(() => calls.end())
    }
    const files: (TensorFile | undefined)[] = []
    for (const source of sources) {
      if (source === undefined || source instanceof TensorFile) files.push(source)
      else {
        const file = await open(source as Source, { signal })
        ends.push(() => file.close())
        files.push(file)
      }
    }
    return { files: files as Awaited<ReturnType<typeof openAll<Source, S>>>['files'], close }
  } catch (error) {
    close()
    throw error
  }
}
