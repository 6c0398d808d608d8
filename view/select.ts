// Filters tensors by the search box and the selected module.
import { useMemo } from 'preact/hooks'
import { naturalOrder } from '../cli/natural.js'
import type { ChangedTensor, DiffFacts } from '../lib/report/data.js'
import type { Model } from './model.js'
import { useReport } from './state.js'

const escapedPattern = (word: string): string =>
  word
    .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.')

type Test = (text: string) => boolean

/** One test for each word: a substring, or with `*` and `?` a pattern for a substring. */
function tests(query: string): Test[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean)
  return words.map((word) => {
    if (!/[*?]/.test(word)) return (text) => text.includes(word)
    const pattern = new RegExp(escapedPattern(word), 's')
    return (text) => pattern.test(text)
  })
}

/** Whether a text contains all words of the query. */
export function textMatcher(query: string): Test {
  const all = tests(query)
  return (text) => {
    const lower = text.toLowerCase()
    return all.every((test) => test(lower))
  }
}

/** The text of a tensor that a search looks through, besides its name. */
export const kindText = (dtype: string, shape: readonly number[], more = ''): string =>
  `${dtype} ${shape.join('x')} ${more}`.toLowerCase()

/** The ordinals, in the natural order of the names, of the tensors in a module whose names, storage types, shapes or layouts contain all words; undefined for all tensors. */
export function chosen(model: Model, query: string, scope: string): Uint32Array | undefined {
  const all = tests(query)
  if (all.length === 0 && scope === '') return undefined
  const kinds = new Map<number, string>()
  const kindOf = (at: number): string => {
    const kind = model.kind(at)
    let text = kinds.get(kind)
    if (text === undefined) {
      text = kindText(model.dtype(at), model.shape(at), `${model.layout(at)} ${model.layoutKind(at)}`)
      kinds.set(kind, text)
    }
    return text
  }
  const found: number[] = []
  for (const at of model.ordinals(undefined)) {
    if (scope !== '' && !model.name(at).startsWith(scope)) continue
    const name = model.lower[at] as string
    if (all.every((test) => test(name) || test(kindOf(at)))) found.push(at)
  }
  return Uint32Array.from(found)
}

export interface Changes {
  readonly changed: readonly ChangedTensor[]
  readonly added: readonly number[]
  readonly removed: DiffFacts['removed']
}

/** The differences in all tensors, in the natural order of the names. */
function inOrder(model: Model): Changes {
  const { changed = [], added = [], removed = [] } = model.data.diff ?? {}
  return {
    changed: Array.from(changed).sort((a, b) => model.byName(a.tensor, b.tensor)),
    added: Array.from(added).sort((a, b) => model.byName(a, b)),
    removed: Array.from(removed).sort((a, b) => naturalOrder(a.name, b.name)),
  }
}

/** The differences in the selected tensors. */
export function useChanges(): Changes {
  const { model, rows, query, scope } = useReport()
  const all = useMemo(() => inOrder(model), [model])
  return useMemo(() => {
    const { changed, added, removed } = all
    if (rows === undefined) return { changed, added, removed }
    const selected = new Set(rows)
    const words = tests(query)
    return {
      changed: changed.filter(({ tensor }) => selected.has(tensor)),
      added: added.filter((tensor) => selected.has(tensor)),
      removed: removed.filter(({ name, dtype, shape }) => {
        const [lower, kind] = [name.toLowerCase(), kindText(dtype ?? 'unknown', shape)]
        return name.startsWith(scope) && words.every((test) => test(lower) || test(kind))
      }),
    }
  }, [all, rows, query, scope])
}
