// Edits the metadata of a file and the names of its tensors, without writing its data again where the file system permits it.
import { invalid, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { type JobOptions, run, unopened } from '../native/job.js'
import { binding, type MetadataRequest, type NativeControl } from '../native/native.js'
import { isPlainObject } from '../native/realm.js'
import { open } from '../read/open.js'
import { openRequest } from '../read/open-request.js'
import { openError } from '../read/source.js'
import { jobOptions } from '../read/verify.js'
import { optional, readOptions, refusePromise, validateBoolean, validateText, wrongType } from '../values/arguments.js'
import { type AttributeValueInput, freezeMap } from '../values/attribute-input.js'
import { type AttributeValue, attributeJson } from '../values/attributes.js'
import { globMatcher } from '../values/glob.js'
import { Patterns, type Renaming, validateRenaming } from '../values/rename.js'
import { emitWarnings } from '../values/warning.js'
import type { IndexLimits } from './append.js'
import { targetPath } from './path.js'

const TYPES = [
  'uint8',
  'int8',
  'uint16',
  'int16',
  'uint32',
  'int32',
  'uint64',
  'int64',
  'float32',
  'float64',
  'bool',
  'string',
] as const

/** A value with the type that it gets in a GGUF file. For an array, that is the type of its items. */
export interface TypedValue {
  readonly type: (typeof TYPES)[number]
  readonly value: AttributeValueInput
}

/** What to change in a file, and how. */
export interface EditMetadataOptions extends JobOptions, IndexLimits {
  /**
   * The keys to set. All other keys stay. In GGUF, a new value gets the type of the old one if it fits. Otherwise it becomes a string, a
   * bool, the first of int32, uint32, int64 and uint64 that holds it, a float32, or an array of one of these; `{ type, value }` requests
   * a type. In safetensors, values that are not strings are stored as JSON.
   */
  set?: { readonly [key: string]: AttributeValueInput | TypedValue } | undefined
  /** The keys to remove. */
  remove?: string | readonly string[] | undefined
  /** New names of tensors, as in `convert`: by name, by pattern (`{ 'model.*': 'm.*' }`) or by a function. Names can be swapped. */
  rename?: Renaming | undefined
  /**
   * The tensors to drop, by name or glob; a glob that begins with `!` excludes what it matches. In safetensors and GGUF their bytes go
   * too: if any tensor follows them, the file is copied. In zTensor their bytes stay until `compact()`.
   */
  drop?: string | readonly string[] | undefined
  /**
   * Edit the file itself, instead of a clone or copy that replaces it atomically. A longer header needs a file system that can insert
   * blocks (ext4 and XFS on Linux); otherwise the file is replaced nevertheless. If the process or the machine stops during the edit, the
   * file may be damaged. A reader that has the file open may see the new bytes, or wrong ones: close it first. `inPlace` changes all
   * hard links.
   */
  inPlace?: boolean | undefined
}

/** The result of `editMetadata`. */
export interface EditMetadataResult {
  /** The size of the file in bytes. */
  readonly byteLength: number
  /**
   * How the file was edited:
   *
   * - `'unchanged'`: it had this content already.
   * - `'in-place'`: in the file itself.
   * - `'inserted'`: in the file itself, after blocks were inserted before its data.
   * - `'cloned'`: it was replaced by a clone that shares its blocks, so that no data was copied.
   * - `'copied'`: it was replaced by a copy.
   */
  readonly method: 'unchanged' | 'in-place' | 'inserted' | 'cloned' | 'copied'
}

const OPTIONS = ['set', 'remove', 'rename', 'drop', 'inPlace', 'onProgress', 'signal'] as const
const LIMITS = ['maxIndexBytes', 'maxRank', 'maxAttributeValues'] as const

/** Validates a list of texts, or a single one. */
function texts(name: string, value: unknown): string[] {
  if (value === undefined) return []
  if (typeof value === 'string') return [validateText(name, value)]
  if (!Array.isArray(value)) throw wrongType(name, 'a string or a list of strings', value)
  return Array.from(value, (item, at) => validateText(`${name}[${at}]`, item))
}

/** Any other object with these keys is a value of its own. */
function isTyped(value: unknown): value is TypedValue {
  if (!isPlainObject(value) || Object.keys(value).sort().join() !== 'type,value') return false
  return (TYPES as readonly unknown[]).includes((value as { type?: unknown }).type)
}

/** Encodes the keys to set for the binding. */
function settings(value: unknown): { set: unknown; types: MetadataRequest['types'] } {
  if (value === undefined) return { set: { map: [] }, types: [] }
  if (!isPlainObject(value)) throw wrongType('set', "a plain object, such as { 'general.name': 'a' }", value)
  const types: MetadataRequest['types'] = []
  const values = new Map<string, unknown>()
  for (const [key, given] of Object.entries(value)) {
    const typed = isTyped(given) ? { ...given } : undefined
    values.set(key, typed === undefined ? given : typed.value)
    types.push(typed === undefined ? {} : { kind: typed.type })
  }
  const set = freezeMap('set', values)
  let at = 0
  for (const one of values.values()) {
    const text = typeof one === 'string' ? undefined : attributeJson(one as AttributeValue)
    const type = types[at++] as MetadataRequest['types'][number]
    if (text !== undefined) type.text = text
  }
  return { set, types }
}

const isPattern = (name: string): boolean => /[*?]|^!/.test(name)

/** Names that are matched against one glob before the event loop gets a turn: some 2 ms. */
const MATCHED = 20_000

/**
 * Returns the names of `all` that globs match, in turns of the event loop. Throws if one matches none: a typo would change the result in
 * silence.
 */
async function matching(
  globs: readonly string[],
  all: readonly string[],
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const known = new Set(all)
  const exact = new Set(globs.filter((glob) => known.has(glob)))
  const rules = globs.map((glob) => {
    const excludes = glob.startsWith('!')
    return { glob, excludes, matches: globMatcher(excludes ? glob.slice(1) : glob) }
  })
  const [including, excluding] = [false, true].map((kind) => rules.filter(({ excludes }) => excludes === kind)) as [
    typeof rules,
    typeof rules,
  ]
  const unused = new Set(including.filter(({ glob }) => !exact.has(glob)))
  const found: string[] = []
  let left = MATCHED
  for (const name of all) {
    left -= globs.length
    if (left < 0) {
      await nextTurn()
      signal?.throwIfAborted()
      left = MATCHED
    }
    for (const rule of unused) if (rule.matches(name)) unused.delete(rule)
    const isIncluded = including.length === 0 || including.some(({ matches }) => matches(name))
    if (exact.has(name) || (isIncluded && !excluding.some(({ matches }) => matches(name)))) found.push(name)
  }
  const [first] = unused
  if (first !== undefined) throw invalid(RangeError, `drop: '${first.glob}' matches no tensor`, { option: 'drop' })
  if (found.length === 0) throw invalid(RangeError, 'drop selects none of the tensors', { option: 'drop' })
  return found
}

/** Returns alternating old and new names of the tensors that are renamed. */
function renamed(rename: Renaming, all: readonly string[]): string[] {
  const patterns = typeof rename === 'function' ? undefined : new Patterns(rename)
  const pairs = all.flatMap((name) => {
    const to: unknown = typeof rename === 'function' ? rename(name) : patterns?.of(name)
    refusePromise('rename', to)
    const checked = validateText('the return value of rename', to)
    return checked === name ? [] : [name, checked]
  })
  patterns?.checkUsed()
  return pairs
}

/** See `lazy.ts`. */
export async function editMetadata(path: string | URL, options?: EditMetadataOptions): Promise<EditMetadataResult> {
  const read = readOptions(options, [...OPTIONS, ...LIMITS])
  const target = targetPath(path)
  const { set, types } = settings(read.set)
  const remove = texts('remove', read.remove)
  const drop = texts('drop', read.drop)
  const rename = optional(read.rename, validateRenaming)
  const inPlace = optional(read.inPlace, (value) => validateBoolean('inPlace', value)) ?? false
  const { maxIndexBytes, maxRank, maxAttributeValues } = read
  const limits = openRequest({ maxIndexBytes, maxRank, maxAttributeValues })
  const job = jobOptions({ onProgress: read.onProgress, signal: read.signal })
  const request: MetadataRequest = { inPlace, types, remove, rename: [], drop, limits }
  try {
    // An abort in the same turn as the call prevents the edit, however fast that is.
    await undefined
    job.signal?.throwIfAborted()
    const byPattern = typeof rename === 'function' || Object.keys(rename ?? {}).some((from) => from.includes('*'))
    if (byPattern || drop.some(isPattern)) {
      const file = await open(target, { shards: 'none', maxIndexBytes, maxRank, maxAttributeValues })
      const all = [...file.keys()]
      file.close()
      if (drop.some(isPattern)) request.drop = await matching(drop, all, job.signal)
      if (rename !== undefined) {
        const dropped = new Set(request.drop)
        request.rename = renamed(
          rename,
          all.filter((name) => !dropped.has(name)),
        )
      }
    } else if (rename !== undefined) request.rename = Object.entries(rename).flat()
    const work = (control: NativeControl) => binding.editMetadata(target, set, request, control)
    const { byteLength, method, warnings } = await run(unopened(target), job, work, 'when undone')
    emitWarnings(warnings)
    // After the file was edited, an abort has no effect.
    if (method === 'unchanged') job.signal?.throwIfAborted()
    return { byteLength, method }
  } catch (thrown) {
    job.signal?.throwIfAborted()
    throw thrown instanceof ZTensorError ? openError(thrown, target) : thrown
  }
}
