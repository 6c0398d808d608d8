// Folders of browsers without directory handles, as such handles.

/** A file of a folder. */
class FileHandle {
  readonly kind = 'file'
  readonly name: string
  readonly #file: File

  constructor(file: File) {
    this.name = file.name
    this.#file = file
  }

  async getFile(): Promise<File> {
    return this.#file
  }

  async isSameEntry(other: unknown): Promise<boolean> {
    return other === this
  }
}

/** A folder, with the part of a FileSystemDirectoryHandle that reads. */
export class Folder {
  readonly kind = 'directory'
  readonly name: string
  readonly #entries = new Map<string, FileHandle | Folder>()

  constructor(name: string) {
    this.name = name
  }

  /** Adds a file by its path in the folder. */
  add(path: readonly string[], file: File): void {
    const [first = '', ...rest] = path
    if (rest.length === 0) {
      this.#entries.set(first, new FileHandle(file))
      return
    }
    const known = this.#entries.get(first)
    const folder = known instanceof Folder ? known : new Folder(first)
    this.#entries.set(first, folder)
    folder.add(rest, file)
  }

  async *entries(): AsyncGenerator<[string, FileHandle | Folder]> {
    yield* this.#entries
  }

  async *keys(): AsyncGenerator<string> {
    yield* this.#entries.keys()
  }

  async *values(): AsyncGenerator<FileHandle | Folder> {
    yield* this.#entries.values()
  }

  [Symbol.asyncIterator](): AsyncGenerator<[string, FileHandle | Folder]> {
    return this.entries()
  }

  async getFileHandle(name: string): Promise<FileHandle> {
    const found = this.#entries.get(name)
    if (found instanceof FileHandle) return found
    throw this.#missing(name, found !== undefined)
  }

  async getDirectoryHandle(name: string): Promise<Folder> {
    const found = this.#entries.get(name)
    if (found instanceof Folder) return found
    throw this.#missing(name, found !== undefined)
  }

  async isSameEntry(other: unknown): Promise<boolean> {
    return other === this
  }

  #missing(name: string, isOther: boolean): DOMException {
    return new DOMException(
      `${this.name} has no ${name}, or it is of another kind`,
      isOther ? 'TypeMismatchError' : 'NotFoundError',
    )
  }
}

/** The folder of the files of an `<input webkitdirectory>`, whose paths begin with the folder's name. */
export function folderOfFiles(files: Iterable<File>): FileSystemDirectoryHandle {
  let root: Folder | undefined
  for (const file of files) {
    const [name = '', ...path] = file.webkitRelativePath.split('/')
    root ??= new Folder(name)
    root.add(path, file)
  }
  return (root ?? new Folder('')) as unknown as FileSystemDirectoryHandle
}

const fileOf = (entry: FileSystemFileEntry): Promise<File> =>
  new Promise((resolve, reject) => entry.file(resolve, reject))

/** Reads the entries of a folder, which come in parts. */
async function entriesOf(entry: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = entry.createReader()
  const all: FileSystemEntry[] = []
  for (;;) {
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject))
    if (part.length === 0) return all
    all.push(...part)
  }
}

/** Folders of a folder that are read. */
const DEPTH = 4

async function addEntries(folder: Folder, entry: FileSystemDirectoryEntry, path: readonly string[]): Promise<void> {
  for (const one of await entriesOf(entry)) {
    if (one.isFile) folder.add([...path, one.name], await fileOf(one as FileSystemFileEntry))
    else if (path.length < DEPTH) await addEntries(folder, one as FileSystemDirectoryEntry, [...path, one.name])
  }
}

/** What was dropped: a file or the folder of an entry. */
async function ofEntry(entry: FileSystemEntry): Promise<File | FileSystemDirectoryHandle> {
  if (entry.isFile) return fileOf(entry as FileSystemFileEntry)
  const folder = new Folder(entry.name)
  await addEntries(folder, entry as FileSystemDirectoryEntry, [])
  return folder as unknown as FileSystemDirectoryHandle
}

/** The files and folders that were dropped. Call it while the event is handled: the browser forgets them afterwards. */
export function dropped(items: DataTransferItemList): Promise<(File | FileSystemDirectoryHandle)[]> {
  const pending = Array.from(items, async (item) => {
    const entry = item.webkitGetAsEntry()
    const file = item.getAsFile()
    return entry === null ? file : ofEntry(entry)
  })
  return Promise.all(pending).then((all) => all.filter((one) => one !== null))
}
