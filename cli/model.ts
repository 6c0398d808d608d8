// Describes the model of a file, from its metadata.
import type { FileSummary } from '../index.js'
import { showCount } from './quantity.js'
import { printable, shorten } from './text.js'

const columns = 100

const shown = (text: string): string => shorten(printable(text.split('\n', 1)[0] ?? ''), columns)

/** The types of the parameters by share, the most frequent first: "q4_k 83 %, q6_k 16 %, float32 1 %". */
function shares({ storageTypes }: FileSummary): string {
  const percent = (share: number): string => {
    const rounded = 100 * share
    return rounded > 0 && rounded < 1 ? '< 1 %' : `${Math.round(rounded)} %`
  }
  const sorted = Object.entries(storageTypes).sort(([, a], [, b]) => b.parameters - a.parameters)
  return sorted.map(([type, { share }]) => `${printable(type)} ${percent(share)}`).join(', ')
}

/** The model in a few words: "SmolLM2 135M, llama, Q4_K_M, 4.92 bits per weight"; undefined for formats that describe no models. */
export function modelLine({ model, bitsPerWeight }: FileSummary): string | undefined {
  if (model === undefined) return undefined
  const { name, architecture, mixture } = model
  const known = [name, architecture, mixture].flatMap((text) => (text === undefined ? [] : shown(text)))
  if (known.length === 0) return undefined
  const bits = bitsPerWeight === undefined ? [] : [`${bitsPerWeight} bits per weight`]
  return [...known, ...bits].join(', ')
}

/** The title and text of each line about the model; empty for formats that describe no models. `template` is its chat template. */
export function modelFields(summary: FileSummary, template: string | undefined): [string, string][] {
  const { model, tensors } = summary
  if (model === undefined) return []
  const { name, architecture, contextLength, vocabularySize, mixture, tiedEmbeddings, license } = model
  const text = (value: string | undefined): string | undefined => (value === undefined ? undefined : shown(value))
  const count = (value: number | undefined): string | undefined => (value === undefined ? undefined : showCount(value))
  const fields: [string, string | undefined][] = [
    ['model', text(name)],
    ['arch', text(architecture)],
    ['mixture', text(mixture)],
    ['context', count(contextLength)],
    ['vocabulary', count(vocabularySize)],
    ['embeddings', tiedEmbeddings ? 'tied: they are the output, too' : undefined],
    ['license', text(license)],
    ['template', text(template)],
    ['types', tensors > 0 ? `${shares(summary)} (of the parameters)` : undefined],
  ]
  return fields.flatMap(([title, value]): [string, string][] => (value === undefined ? [] : [[title, value]]))
}
