// New names of tensors by patterns.
import { invalid, optionHint, ZTensorError } from '../native/errors.js'
import { isPlainObject } from '../native/realm.js'
import { refusePromise, validateString, validateText, wrongType } from './arguments.js'

/**
 * New names of tensors: an object of names and patterns, such as `{ 'model.*': 'm.*' }`, or a function. `*` matches any characters, and each
 * `*` of the new name stands for what the `*` at the same position matched. The first entry that matches a name is used; other names stay.
 */
export type Renaming = { readonly [from: string]: string } | ((name: string) => string)

/**
 * What each `*` of a pattern matches, given its texts between the `*`; undefined for no match. All but the last match as little as
 * possible, so that the time is O(|name| × |pattern|).
 */
function matched(parts: readonly string[], name: string): string[] | undefined {
  const [first = '', ...others] = parts
  const last = others.pop()
  if (last === undefined) return name === first ? [] : undefined
  if (!name.startsWith(first)) return undefined
  const found: string[] = []
  let at = first.length
  for (const part of others) {
    const next = name.indexOf(part, at)
    if (next < 0) return undefined
    found.push(name.slice(at, next))
    at = next + part.length
  }
  const end = name.length - last.length
  if (end < at || !name.endsWith(last)) return undefined
  return [...found, name.slice(at, end)]
}

/** Gives names by patterns. */
export class Patterns {
  readonly #rules: readonly { readonly from: string; readonly parts: string[]; readonly to: string[] }[]
  readonly #used = new Set<string>()

  constructor(given: object) {
    this.#rules = Object.entries(given).map(([from, value]) => {
      const to = validateText(
        `rename[${JSON.stringify(from)}]`,
        validateString(`rename[${JSON.stringify(from)}]`, value),
      )
      const [parts, newParts] = [from.split('*'), to.split('*')]
      if (newParts.length !== parts.length && newParts.length !== 1) {
        const message = `rename: '${from}' has ${parts.length - 1} *, but its new name '${to}' has ${newParts.length - 1}`
        throw invalid(RangeError, message, { option: 'rename' })
      }
      return { from, parts, to: newParts }
    })
  }

  /** The new name of a tensor. */
  of(name: string): string {
    for (const { from, parts, to } of this.#rules) {
      const stars = matched(parts, name)
      if (stars === undefined) continue
      this.#used.add(from)
      return to.length === 1 ? (to[0] as string) : to.map((text, at) => text + (stars[at] ?? '')).join('')
    }
    return name
  }

  /** Throws if a pattern has matched no name: a typo would change the result in silence. */
  checkUsed(): void {
    const unused = this.#rules.find(({ from }) => !this.#used.has(from))
    if (unused === undefined) return
    const { from } = unused
    const what = from.includes('*') ? `rename: '${from}' matches no tensor` : `rename: there is no tensor '${from}'`
    throw invalid(RangeError, `${what}, or an earlier rule renames what it matches`, { option: 'rename' })
  }
}

/** Validates the option `rename`. */
export function validateRenaming(value: unknown): Renaming {
  if (typeof value === 'function') return value as (name: string) => string
  if (!isPlainObject(value)) throw wrongType('rename', "a function, or an object such as { 'model.*': 'm.*' }", value)
  // A copy: getters of the caller's object are called once.
  const copy: object = Object.fromEntries(Object.entries(value))
  // Throws for invalid patterns.
  new Patterns(copy)
  return copy as Renaming
}

/** Gives tensors new names, and rejects a name that two tensors would get. */
export class NewNames {
  readonly #patterns: Patterns | undefined
  readonly #rename: (name: string) => string
  readonly #owners = new Map<string, string>()

  constructor(rename: Renaming) {
    const patterns = typeof rename === 'function' ? undefined : new Patterns(rename)
    this.#patterns = patterns
    this.#rename = typeof rename === 'function' ? rename : (name) => (patterns as Patterns).of(name)
  }

  of(name: string): string {
    const returned: unknown = this.#rename(name)
    refusePromise('rename', returned)
    const renamed = validateText('the return value of rename', returned)
    const owner = this.#owners.get(renamed)
    if (owner !== undefined) {
      const [first, second, both] = [owner, name, renamed].map((one) => JSON.stringify(one))
      const hint = optionHint('rename')
      const message = `the tensors ${first} and ${second} would both be called ${both}${hint.text}`
      throw new ZTensorError('ZT_BAD_INDEX', message, { tensor: name, hints: [hint] })
    }
    this.#owners.set(renamed, name)
    return renamed
  }

  /** Throws for a pattern that matched no selected tensor. */
  check(): void {
    this.#patterns?.checkUsed()
  }
}
