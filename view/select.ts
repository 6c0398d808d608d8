// Filters tensors by the search box and the selected module.
import type { Model } from './model.js'

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

/** The ordinals of the tensors in a module whose names, dtypes or shapes contain all words; undefined for all tensors. */
export function chosen(model: Model, query: string, scope: string): Uint32Array | undefined {
  const all = tests(query)
  if (all.length === 0 && scope === '') return undefined
  const kinds = new Map<number, string>()
  const kindText = (at: number): string => {
    const kind = model.kind(at)
    let text = kinds.get(kind)
    if (text === undefined) {
      text = `${model.dtype(at)} ${model.shape(at).join('x')} ${model.layout(at)}`.toLowerCase()
      kinds.set(kind, text)
    }
    return text
  }
  const found: number[] = []
  for (let at = 0; at < model.size; at++) {
    if (scope !== '' && !model.name(at).startsWith(scope)) continue
    const name = model.lower[at] as string
    if (all.every((test) => test(name) || test(kindText(at)))) found.push(at)
  }
  return Uint32Array.from(found)
}
