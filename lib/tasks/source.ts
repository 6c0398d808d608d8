// The source of a job: how each task finds it, and how it is known to be the same one.

import { promises } from 'node:fs'
import { resolve } from 'node:path'
import { builtins } from '../native/builtins.js'
import { ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { urlText } from '../native/realm.js'
import { TURN } from '../read/batches.js'
import type { Catalog } from '../read/catalog.js'
import { TensorFile } from '../read/file.js'
import { OPEN_OPTIONS, type OpenOptions, open } from '../read/open.js'
import { remoteUrl } from '../read/remote.js'
import { filePath, optional, readOptions, validateBoolean, validateText, wrongType } from '../values/arguments.js'
import type { TaskSource } from './format.js'

/** A source that other machines can open too. */
export type RemoteSource = string | URL | readonly (string | URL)[]

/** How a job's source is opened and recognized. */
export interface TaskSourceOptions {
  /**
   * How to open the source. A job keeps the format and the limits; what it cannot or should not hold (`shards`, `remote`, whose headers
   * may be secret) is given to `runTask` and `finish…` again.
   */
  source?: OpenOptions | undefined
  /**
   * Whether a source with another modification time is another source: true by default. With false each machine may have a copy of
   * its own, and a change that keeps every length and the whole index goes unnoticed.
   */
  checkModified?: boolean | undefined
}

function placeOf(name: string, source: unknown): string {
  const text = remoteUrl(source)
  if (text !== undefined) return text
  const url = urlText(source)
  if (url === undefined && typeof source !== 'string')
    throw wrongType(name, 'a path or a URL, or a list of them: other machines open it too', source)
  const path = url === undefined ? validateText(name, source) : filePath(name, url)
  return resolve(path)
}

function placesOf(source: unknown): string | string[] {
  return Array.isArray(source)
    ? Array.from(source, (one, at) => placeOf(`source[${at}]`, one))
    : placeOf('source', source)
}

/** Adds what the index says of each tensor: its name, type, shape, layout, length and place. */
async function hashIndex(catalog: Catalog, add: (line: string) => void): Promise<void> {
  for (let at = 0; at < catalog.size; at++) {
    if (at % TURN === TURN - 1) await nextTurn()
    const [shape, offset] = [catalog.shape(at), catalog.plainOffset(at) ?? -1]
    const dtype = catalog.dtype(at)?.name
    add(
      JSON.stringify([
        catalog.name(at),
        dtype,
        shape,
        catalog.layout(at),
        catalog.byteLength(at),
        catalog.file(at),
        offset,
      ]),
    )
  }
}

/**
 * What a source is: the lengths of its files, its index and, if asked for, when its files were modified. No inode and no device: they
 * differ between machines that share a folder. Whole milliseconds: file systems differ in what they keep below.
 */
async function identityOf(file: TensorFile, checkModified: boolean, signal?: AbortSignal): Promise<string> {
  const hash = builtins.crypto.createHash('sha256')
  const add = (line: string): void => {
    hash.update(line).update('\n')
  }
  for (const { path, byteLength } of file.files) {
    const local = checkModified && path !== undefined && remoteUrl(path) === undefined
    const modified = local ? Math.floor((await promises.stat(path)).mtimeMs) : undefined
    add(JSON.stringify([byteLength, modified]))
  }
  await hashIndex(await TensorFile.ready(file, signal), add)
  // The digests of its data, where the index has them.
  if (file.format === 'zt' && file.version === '2') add(await file.contentDigest('xxh3', { signal }).catch(() => ''))
  return `sha256:${hash.digest('hex')}`
}

/** Opens a source that a job is planned for. */
export async function openPlanned(
  given: unknown,
  options: TaskSourceOptions,
  signal: AbortSignal | undefined,
): Promise<{ file: TensorFile; source: TaskSource }> {
  const path = placesOf(given)
  const checkModified = optional(options.checkModified, (value) => validateBoolean('checkModified', value)) ?? true
  const { format, maxIndexBytes, maxDecodedBytes, maxRank, maxAttributeValues } = readOptions(
    options.source,
    OPEN_OPTIONS,
    'source',
  )
  const file = await open(path, { ...options.source, signal })
  try {
    // A URL of the hub may name a branch; the file's own place names the commit that was found.
    const found = typeof path === 'string' && /^hf:/i.test(path) ? (file.path ?? path) : path
    const kept = { format, maxIndexBytes, maxDecodedBytes, maxRank, maxAttributeValues }
    const given = Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== undefined))
    const identity = await identityOf(file, checkModified, signal)
    return { file, source: { path: found, identity, checkModified, ...given } }
  } catch (error) {
    file.close()
    throw error
  }
}

function changed({ path }: TaskSource): ZTensorError {
  const place = typeof path === 'string' ? path : `${path[0]} and the others`
  const message =
    `'${place}' is not what it was when the job was planned: its length, its index or its modification time differs. ` +
    'Plan the job again; where each machine has a copy of its own, with checkModified: false'
  return new ZTensorError('ZT_IO', message)
}

/** Refuses a file that is not the planned one. */
export async function checkSource(file: TensorFile, source: TaskSource, signal?: AbortSignal): Promise<void> {
  if ((await identityOf(file, source.checkModified, signal)) !== source.identity) throw changed(source)
}

/** Opens the source of a task, if it is still the same. */
export async function openSource(
  source: TaskSource,
  options: OpenOptions | undefined,
  signal: AbortSignal | undefined,
): Promise<TensorFile> {
  const { path, identity: _identity, checkModified: _checked, ...opening } = source
  const file = await open(path, { ...opening, ...options, signal })
  try {
    await checkSource(file, source, signal)
    return file
  } catch (error) {
    file.close()
    throw error
  }
}
