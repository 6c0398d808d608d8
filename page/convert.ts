// Converts the file that is shown, and saves the result.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { TensorFile } from '../lib/web/index.js'
import { html, type VNode } from '../view/html.js'
import { counted, showBytes, visible } from '../view/words.js'
import { messageOf } from './message.js'

/** What the page writes: the extension, and the options of `convert`. */
const FORMATS = {
  safetensors: { title: 'safetensors', extension: '.safetensors', options: { format: 'safetensors' } },
  gguf: { title: 'GGUF', extension: '.gguf', options: { format: 'gguf' } },
  zt: { title: 'zTensor 2', extension: '.zt', options: { format: 'zt', version: '2', canonical: false } },
} as const
type Format = keyof typeof FORMATS

/** Mixtures from large to small, and what they take. */
const MIXTURES = [
  ['', 'as stored'],
  ['q8_0', 'q8_0: 8.5 bits per weight'],
  ['q6_k', 'q6_k: 6.6 bits per weight'],
  ['q5_k_m', 'q5_k_m: some 5.7 bits per weight'],
  ['q4_k_m', 'q4_k_m: some 4.9 bits per weight'],
  ['q3_k_m', 'q3_k_m: some 3.9 bits per weight'],
  ['q2_k', 'q2_k: some 3.2 bits per weight'],
] as const

/** What was left out, of which the page lists so many. */
const MAX_LISTED = 20

interface FilePicker {
  showSaveFilePicker(options: { suggestedName: string }): Promise<FileSystemFileHandle>
}

/** Asks where to save: a handle if the browser writes to files, otherwise undefined for a download. Null if the user cancels. */
async function askTarget(suggestedName: string): Promise<FileSystemFileHandle | undefined | null> {
  if (!('showSaveFilePicker' in window)) return undefined
  try {
    return await (window as unknown as FilePicker).showSaveFilePicker({ suggestedName })
  } catch (error) {
    if ((error as Error).name === 'AbortError') return null
    throw error
  }
}

/** Saves a Blob as a download. */
function download(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  // The browser has begun the download by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

/** The name without its extension. */
const stemOf = (name: string): string => name.replace(/\.(index\.json|[a-z0-9]+)$/i, '')

type Doing =
  | { readonly state: 'asking' }
  | { readonly state: 'writing'; readonly share: number | undefined }
  | { readonly state: 'done'; readonly message: string; readonly skipped: readonly string[] }
  | { readonly state: 'failed'; readonly message: string }

/** A button that opens the dialog. */
export function Convert({ file, name }: { file: TensorFile; name: string }): VNode {
  const dialog = useRef<HTMLDialogElement | null>(null)
  const [format, setFormat] = useState<Format>(file.format === 'gguf' ? 'safetensors' : 'gguf')
  const [mixture, setMixture] = useState('')
  const [doing, setDoing] = useState<Doing>({ state: 'asking' })
  const stop = useRef<AbortController | undefined>(undefined)
  useEffect(() => () => stop.current?.abort(), [])

  async function begin(): Promise<void> {
    const own = new AbortController()
    stop.current = own
    const { extension, options } = FORMATS[format]
    const quantize = format === 'gguf' && mixture !== '' ? { quantize: mixture } : {}
    const suggested = `${stemOf(name)}${mixture === '' || format !== 'gguf' ? '' : `-${mixture}`}${extension}`
    try {
      const target = await askTarget(suggested)
      if (target === null) return
      setDoing({ state: 'writing', share: undefined })
      const { convert } = await import('../lib/web/convert.js')
      const { tensors, skipped, blob } = await convert(file, target, {
        ...options,
        ...quantize,
        worker: true,
        signal: own.signal,
        onProgress: ({ bytes, totalBytes }) =>
          setDoing({ state: 'writing', share: totalBytes === 0 ? undefined : bytes / totalBytes }),
      })
      if (blob !== undefined) download(blob, suggested)
      const byteLength = (blob ?? (await target?.getFile()))?.size ?? 0
      const message = `Wrote ${target?.name ?? suggested}: ${counted(tensors, 'tensor')}, ${showBytes(byteLength)}.`
      setDoing({ state: 'done', message, skipped: skipped.map(messageOf) })
    } catch (error) {
      setDoing(own.signal.aborted ? { state: 'asking' } : { state: 'failed', message: messageOf(error) })
    }
  }

  const isWriting = doing.state === 'writing'
  return html`<button type="button" class="again" onClick=${() => {
    setDoing({ state: 'asking' })
    dialog.current?.showModal()
  }}>Convert</button>
  <dialog ref=${dialog} class="convert" aria-labelledby="convert" onClose=${() => stop.current?.abort()}>
    <form onSubmit=${(event: Event) => {
      event.preventDefault()
      void begin()
    }}>
      <h2 id="convert">Convert</h2>
      <p class="note">In this browser: nothing is uploaded.</p>
      <label>Format <select value=${format} disabled=${isWriting} onChange=${(event: Event) =>
        setFormat((event.currentTarget as HTMLSelectElement).value as Format)}>
        ${Object.entries(FORMATS).map(([id, { title }]) => html`<option key=${id} value=${id}>${title}</option>`)}
      </select></label>
      ${
        format === 'gguf'
          ? html`<label>Weights <select value=${mixture} disabled=${isWriting} onChange=${(event: Event) =>
              setMixture((event.currentTarget as HTMLSelectElement).value)}>
              ${MIXTURES.map(([id, title]) => html`<option key=${id} value=${id}>${title}</option>`)}
            </select></label>`
          : null
      }
      ${isWriting ? html`<progress aria-label="Progress" value=${doing.share} max="1"></progress>` : null}
      ${doing.state === 'done' ? html`<p role="status">${visible(doing.message)}</p>` : null}
      ${
        doing.state === 'done' && doing.skipped.length > 0
          ? html`<ul>
              ${doing.skipped.slice(0, MAX_LISTED).map((one) => html`<li>${visible(one)}</li>`)}
              ${doing.skipped.length > MAX_LISTED ? html`<li>and ${doing.skipped.length - MAX_LISTED} more</li>` : null}
            </ul>`
          : null
      }
      ${doing.state === 'failed' ? html`<p class="problem" role="alert">${visible(doing.message)}</p>` : null}
      <div class="ways">
        <button type="submit" disabled=${isWriting}>Convert</button>
        <button type="button" onClick=${() => dialog.current?.close()}>${isWriting ? 'Cancel' : 'Close'}</button>
      </div>
    </form>
  </dialog>`
}
