// The layout of the cache of the hub's clients (https://huggingface.co/docs/huggingface_hub/guides/manage-cache): `blobs` by entity tag,
// `snapshots` with a link to a blob for each file of a commit, `refs` with the commit of a branch or tag, `.no_exist`.
import { promises, readdirSync, readFileSync, type Stats } from 'node:fs'
import { basename, dirname, join, relative, sep } from 'node:path'
import { builtins } from '../native/builtins.js'
import { ZTensorError } from '../native/errors.js'
import { isPlain } from './place.js'

const { mkdir, readdir, readFile, readlink, rename, rm, stat, symlink, writeFile, copyFile } = promises

/** The error of a failed operation on a file below `path`. */
export function ioError(path: string, thrown: unknown): unknown {
  const cause = thrown instanceof ZTensorError ? thrown.cause : thrown
  const code = cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
  const isDenied = ['EACCES', 'EPERM', 'EROFS'].includes(code)
  if (!(thrown instanceof Error) || !/^E[A-Z]+$/.test(code)) return thrown
  if (thrown instanceof ZTensorError && !isDenied) return thrown
  const hint = isDenied
    ? `: this user cannot write to '${path}': make the folder writable, or set HF_HUB_CACHE to another folder`
    : ''
  return new ZTensorError('ZT_IO', `${thrown.message}${hint}`, { cause })
}

const isAbsent = (error: unknown): boolean =>
  ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')

/** The result of `call`; undefined if the file does not exist. */
export async function unlessAbsent<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}

/** A path of a repository as a path of this system. */
const local = (path: string): string => path.split('/').join(sep)

/** The path of a file of a commit in the cache. */
export const snapshotPath = (folder: string, commit: string, path: string): string =>
  join(folder, 'snapshots', commit, local(path))

/** What the path of a snapshot leads to; undefined if there is nothing, or its blob is missing. */
export const fileAt = async (path: string): Promise<Stats | undefined> => {
  const found = await unlessAbsent(stat(path))
  return found?.isFile() ? found : undefined
}

/** The commit to which a revision referred when it was last downloaded. */
export async function cachedCommit(folder: string, revision: string): Promise<string | undefined> {
  if (!isPlain(revision)) return undefined
  const text = await unlessAbsent(readFile(join(folder, 'refs', local(revision)), 'utf8')).catch(() => undefined)
  return text?.trim() || undefined
}

/** Remembers the commit of a revision. */
export async function writeRef(folder: string, revision: string, commit: string): Promise<void> {
  if (revision === commit || !isPlain(revision) || (await cachedCommit(folder, revision)) === commit) return
  await replaceFile(join(folder, 'refs', local(revision)), (path) => writeFile(path, commit))
}

/** Remembers that a commit does not have a file. */
export async function writeMissing(folder: string, commit: string, path: string): Promise<void> {
  const marker = join(folder, '.no_exist', commit, local(path))
  await mkdir(dirname(marker), { recursive: true })
  await writeFile(marker, '')
}

/** Writes a file under another name, and renames it. */
export async function replaceFile(path: string, write: (path: string) => Promise<void>): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const temporary = `${path}.${builtins.crypto.randomUUID()}`
  try {
    await write(temporary)
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

/** Errors of systems and file systems that cannot make links. */
const UNLINKABLE = ['EPERM', 'EACCES', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EINVAL', 'UNKNOWN']

/**
 * Makes the file of a snapshot: a relative link to its blob, so that the cache can be moved. Without links, a new blob is moved there, and
 * an older one is copied, as Python does: another snapshot may use it.
 */
export async function linkBlob(blob: string, path: string, isNew: boolean): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const target = relative(dirname(path), blob)
  if ((await unlessAbsent(readlink(path)).catch(() => undefined)) === target) return
  if (!/^(1|true|yes|on)$/i.test(process.env.HF_HUB_DISABLE_SYMLINKS ?? '')) {
    try {
      return await replaceFile(path, (temporary) => symlink(target, temporary))
    } catch (error) {
      if (!UNLINKABLE.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    }
  }
  if (isNew) await rename(blob, path)
  else await replaceFile(path, (temporary) => copyFile(blob, temporary))
}

/** Marks the folder as a cache, so that backups skip it. */
export async function tagCache(root: string): Promise<void> {
  const text =
    'Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache directory: https://bford.info/cachedir/\n'
  await writeFile(join(root, 'CACHEDIR.TAG'), text, { flag: 'wx' }).catch(() => {})
}

/** A file of a snapshot. */
export interface SnapshotFile {
  /** The path in the repository, with slashes. */
  readonly path: string
  /** Size in bytes; undefined if its blob is missing. */
  readonly byteLength: number | undefined
}

/** Maximum number of files and folders below a folder. */
const MAX_FILES = 200_000

/** The files below a folder, sorted by path. Links to folders are not followed. */
export async function filesBelow(root: string): Promise<SnapshotFile[]> {
  const found: SnapshotFile[] = []
  const folders = ['']
  for (const inner of folders) {
    for (const entry of (await unlessAbsent(readdir(join(root, inner), { withFileTypes: true }))) ?? []) {
      const path = join(inner, entry.name)
      if (entry.isDirectory()) folders.push(path)
      else found.push({ path: path.split(sep).join('/'), byteLength: (await fileAt(join(root, path)))?.size })
      if (found.length + folders.length > MAX_FILES)
        throw new ZTensorError('ZT_LIMIT', `'${root}' has more than ${MAX_FILES} files: name a folder in it`)
    }
  }
  return found.sort((a, b) => (a.path < b.path ? -1 : 1))
}

/** The files of a commit in the cache, sorted by path. */
export const snapshotFiles = (folder: string, commit: string): Promise<SnapshotFile[]> =>
  filesBelow(join(folder, 'snapshots', commit))

/** The name of a repository's folder in the cache: `models--owner--name`. */
export const REPOSITORY = /^(models|datasets|spaces)--(.+?)--(.+)$/

/**
 * The snapshot of the branch `main` for the folder of a repository in the cache, or its only snapshot; undefined for any other path.
 * Synchronous, as `openSync` needs it: it reads one small file, and only if the path has the name of such a folder.
 */
export function snapshotOf(path: string): string | undefined {
  if (!REPOSITORY.test(basename(path))) return undefined
  const commits = (): string[] => {
    try {
      return readdirSync(join(path, 'snapshots'))
    } catch {
      return []
    }
  }
  let [commit, ...others] = commits()
  if (others.length > 0) commit = undefined
  try {
    const main = readFileSync(join(path, 'refs', 'main'), 'utf8').trim()
    if (/^[0-9a-f]+$/.test(main)) commit = main
  } catch {
    // Only a commit was downloaded.
  }
  return commit === undefined ? undefined : join(path, 'snapshots', commit)
}
