// `--filter` of the commands that read several files: which names match, and which globs matched nothing.
import { namesMatching } from '../lib/values/filter.js'
import { globMatcher } from '../lib/values/glob.js'
import { NothingMatches } from './failure.js'

/** The globs of `--filter`, over the tensors of all files. */
export class NameFilter {
  readonly #globs: readonly string[] | undefined
  readonly #matches: (name: string) => boolean
  /** The globs that have matched no name yet. */
  readonly #unused: Map<string, (name: string) => boolean>
  /** Number of names that were selected. */
  count = 0

  constructor(globs: readonly string[] | undefined) {
    this.#globs = globs
    this.#matches = globs === undefined ? () => true : namesMatching(globs)
    this.#unused = new Map(globs?.map((glob) => [glob, globMatcher(glob.replace(/^!/, ''))]))
  }

  /** Whether there are globs. */
  get isGiven(): boolean {
    return this.#globs !== undefined
  }

  /** Whether a name is selected. */
  readonly keep = (name: string): boolean => {
    for (const [glob, matches] of this.#unused) if (matches(name)) this.#unused.delete(glob)
    const isSelected = this.#matches(name)
    if (isSelected) this.count += 1
    return isSelected
  }

  /** Tests all names. Throws for globs that matched none. */
  check(names: Iterable<string>): void {
    for (const name of names) this.keep(name)
    const error = this.error()
    if (error !== undefined) throw error
  }

  /** The error for globs that matched no tensor, and for globs that together selected none: a typo would change the result in silence. */
  error(): NothingMatches | undefined {
    if (this.#globs === undefined) return undefined
    if (this.count === 0) return new NothingMatches(this.#globs)
    const unused = [...this.#unused.keys()]
    return unused.length === 0 ? undefined : new NothingMatches(unused)
  }
}
