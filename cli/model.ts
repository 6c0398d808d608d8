// Describes the model of a file, from its metadata.
import type { TensorFile } from '../index.js'
import { modelFacts } from '../lib/values/formats.js'
import type { Entry } from './listing.js'
import { showCount } from './quantity.js'
import { printable, shorten } from './text.js'

const columns = 100

/** The types of the parameters by share, the most frequent first: "q4_k 83 %, q6_k 16 %, float32 1 %". */
function mix(listed: readonly Entry[]): string {
  const counts = new Map<string, number>()
  for (const { tensor } of listed) counts.set(tensor.storageType, (counts.get(tensor.storageType) ?? 0) + tensor.size)
  const total = Array.from(counts.values()).reduce((sum, count) => sum + count, 0)
  const share = (count: number): string => {
    const percent = total === 0 ? 0 : (100 * count) / total
    return percent > 0 && percent < 1 ? '< 1 %' : `${Math.round(percent)} %`
  }
  const sorted = Array.from(counts).sort(([, a], [, b]) => b - a)
  return sorted.map(([type, count]) => `${printable(type)} ${share(count)}`).join(', ')
}

/** The title and text of each line; empty for other formats. */
export function modelFields(
  file: TensorFile,
  attributes: TensorFile['attributes'],
  listed: readonly Entry[],
): [string, string][] {
  const facts = modelFacts(file.format)
  if (facts.length === 0 || attributes instanceof Map) return []
  const fields: [string, string][] = []
  const add = (title: string, value: unknown): void => {
    if (typeof value === 'string') fields.push([title, shorten(printable(value.split('\n', 1)[0] ?? ''), columns)])
    if (typeof value === 'number' || typeof value === 'bigint') fields.push([title, showCount(value)])
  }
  let before: unknown
  for (const { title, key } of facts) {
    const value =
      key.includes('{}') && typeof before !== 'string' ? undefined : attributes[key.replace('{}', String(before))]
    add(title, value)
    before = value
  }
  if (listed.length > 0) fields.push(['types', mix(listed)])
  return fields
}
