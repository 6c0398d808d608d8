// The source of a job, which a task opens and checks for changes; and whether files of its target exist.

import { existsSync, promises } from 'node:fs'
import { resolve } from 'node:path'
import { builtins } from '../native/builtins.js'
import { optionHint, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { run, unopened } from '../native/job.js'
import { binding } from '../native/native.js'
import { urlText } from '../native/realm.js'
import { TURN } from '../read/batches.js'
import type { Catalog } from '../read/catalog.js'
import { TensorFile } from '../read/file.js'
import { OPEN_OPTIONS, type OpenOptions, open } from '../read/open.js'
import { filePath, optional, readOptions, validateBoolean, validateText, wrongType } from '../values/arguments.js'
import { hasContentDigest } from '../values/formats.js'
import { type RemoteOptions, remoteRequest, remoteUrl } from '../values/remote.js'
import type { TaskSource } from './format.js'

/** A source that other machines can open: a path, a URL, or a list of them. */
export type RemoteSource = string | URL | readonly (string | URL)[]

/** How a job's source is opened and identified. */
export interface TaskSourceOptions {
  /**
   * How to open the source. The job stores the format and the limits. Pass other options (`shards`, `remote`, whose headers may be
   * secret) to `runTask` and `finishJob` again.
   */
  source?: OpenOptions | undefined
  /**
   * Whether a changed modification time means a changed source: true by default. With false each machine may use its own copy, but a
   * change that affects neither file lengths nor the index is not detected.
   */
  checkModified?: boolean | undefined
}

function locationOf(name: string, source: unknown): string {
  const text = remoteUrl(source)
  if (text !== undefined) return text
  const url = urlText(source)
  if (url === undefined && typeof source !== 'string')
    throw wrongType(name, 'a path, a URL or a list of them, so that other machines can open it', source)
  const path = url === undefined ? validateText(name, source) : filePath(name, url)
  return resolve(path)
}

function locationsOf(source: unknown): string | string[] {
  return Array.isArray(source)
    ? Array.from(source, (one, at) => locationOf(`source[${at}]`, one))
    : locationOf('source', source)
}

/** Hashes each tensor's entry in the index: name, dtype, shape, layout, length, file and offset. */
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
 * Computes the identity of a source from the lengths of its files, its index and, with `checkModified`, their modification times. Inode
 * and device are not included: they differ between machines that share a folder. Times are in whole milliseconds, because file systems
 * differ in resolution.
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
  // The digests of the data, if the index has them.
  if (hasContentDigest(file)) add(await file.contentDigest('xxh3', { signal }).catch(() => ''))
  return `sha256:${hash.digest('hex')}`
}

/** Opens a source to plan a job. */
export async function openPlanned(
  given: unknown,
  options: TaskSourceOptions,
  signal: AbortSignal | undefined,
): Promise<{ file: TensorFile; source: TaskSource }> {
  const path = locationsOf(given)
  const checkModified = optional(options.checkModified, (value) => validateBoolean('checkModified', value)) ?? true
  const { format, maxIndexBytes, maxDecodedBytes, maxRank, maxAttributeValues } = readOptions(
    options.source,
    OPEN_OPTIONS,
    'source',
  )
  const file = await open(path, { ...options.source, signal })
  try {
    // A hub URL may name a branch; file.path names the resolved commit.
    const found = typeof path === 'string' && /^hf:/i.test(path) ? (file.path ?? path) : path
    const known = { format, maxIndexBytes, maxDecodedBytes, maxRank, maxAttributeValues }
    const given = Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined))
    const identity = await identityOf(file, checkModified, signal)
    return { file, source: { path: found, identity, checkModified, ...given } }
  } catch (error) {
    file.close()
    throw error
  }
}

function changed({ path }: TaskSource): ZTensorError {
  const name = typeof path === 'string' ? `'${path}'` : `'${path[0]}' or another file of the list`
  const hint = optionHint('checkModified', '; if each machine has its own copy, set checkModified: false')
  const message = `${name} has changed since the job was planned: its length, index or modification time differs. Plan the job again${hint.text}`
  return new ZTensorError('ZT_IO', message, { hints: [hint] })
}

/** Throws ZT_IO if the file has changed since the job was planned. */
export async function checkSource(file: TensorFile, source: TaskSource, signal?: AbortSignal): Promise<void> {
  if ((await identityOf(file, source.checkModified, signal)) !== source.identity) throw changed(source)
}

/** Opens the source of a task and checks that it has not changed. */
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

/** Whether a path is the URL of an object. */
export function isStored(path: string): boolean {
  return remoteUrl(path) !== undefined
}

/**
 * Whether a file or object exists.
 *
 * @throws ZTensorError ZT_IO if the store does not respond; the signal's reason
 */
export async function isThere(path: string, remote: RemoteOptions | undefined, signal?: AbortSignal): Promise<boolean> {
  if (!isStored(path)) return existsSync(path)
  const request = remoteRequest(remote)
  return run(unopened(path), { signal }, (control) => binding.isThere(path, request, control))
}
