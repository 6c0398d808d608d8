// A page that opens tensor files in the browser and shows them. Nothing is uploaded.
import { render } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { open, type TensorFile, type WebSource } from '../lib/web/index.js'
import { html, type VNode } from '../view/html.js'
import { show } from '../view/page.js'
import { fileName, visible } from '../view/words.js'
import { Convert } from './convert.js'
import { dropped, folderOfFiles } from './folder.js'
import { messageOf } from './message.js'
import { modelOf } from './report.js'
import { addressOf } from './url.js'

const TITLE = 'Look at a model · ztensor'

/** Trusted types of a browser that has them. */
interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(url: string): string | null }): unknown
}

// The policy of the page trusts no script URL but that of the worker.
const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes }
const worker = new URL('worker.js', import.meta.url).href
trustedTypes?.createPolicy('default', { createScriptURL: (url) => (url === worker ? url : null) })

const app = document.getElementById('app') as HTMLElement

/** The file that is shown. */
let current: TensorFile | undefined

/** What was chosen, and the name that the page shows for it. */
interface Chosen {
  readonly source: WebSource
  readonly name: string
}

const nameOfAll = (sources: readonly { readonly name: string }[]): string =>
  sources.length === 1 ? (sources[0]?.name ?? '') : `${sources.length} files`

/** A folder is opened as a folder, and several files as one. */
function chosenOf(sources: readonly (File | FileSystemDirectoryHandle)[]): Chosen {
  const [first] = sources
  if (first === undefined) throw new Error('This is neither a file nor a folder.')
  if (sources.length > 1 && sources.some((one) => !(one instanceof File)))
    throw new Error('Drop one folder, or files: several folders are several models.')
  return { source: sources.length === 1 ? first : (sources as readonly File[]), name: nameOfAll(sources) }
}

/** Opens a source and shows it. */
async function showFile({ source, name }: Chosen, signal: AbortSignal): Promise<void> {
  const file = await open(source, { signal, worker: true })
  try {
    const isFolder = typeof source === 'object' && 'kind' in source && source.kind === 'directory'
    const model = await modelOf(file, isFolder ? name : undefined, signal)
    signal.throwIfAborted()
    current = file
    location.hash = ''
    document.title = `${visible(fileName(name))} · ztensor`
    show(app, model, [
      html`<${Convert} file=${file} name=${fileName(name)} />`,
      html`<button type="button" class="again" onClick=${start}>Open another</button>`,
    ])
  } catch (error) {
    file.close()
    throw error
  }
}

function Start(): VNode {
  const [address, setAddress] = useState('')
  const [opening, setOpening] = useState<string | undefined>(undefined)
  const [failure, setFailure] = useState<string | undefined>(undefined)
  const [isOver, setOver] = useState(false)
  const stop = useRef<AbortController | undefined>(undefined)

  /** Opens what `choose` returns, in place of what is being opened. */
  async function begin(choose: () => Chosen | Promise<Chosen | undefined>): Promise<void> {
    stop.current?.abort()
    const own = new AbortController()
    stop.current = own
    setFailure(undefined)
    try {
      const chosen = await choose()
      if (chosen === undefined || own.signal.aborted) return
      setOpening(chosen.name)
      await showFile(chosen, own.signal)
    } catch (error) {
      if (own.signal.aborted) return
      setFailure(messageOf(error))
    }
    if (stop.current === own) setOpening(undefined)
  }

  const cancel = () => {
    stop.current?.abort()
    setOpening(undefined)
  }

  function openAddress(text: string): Promise<void> {
    return begin(() => {
      const url = addressOf(text, location.href)
      history.replaceState(null, '', `?${new URLSearchParams({ url: text.trim() })}`)
      return { source: url, name: url.href }
    })
  }

  async function chooseFolder(): Promise<Chosen | undefined> {
    try {
      const folder = await (window as unknown as FolderPicker).showDirectoryPicker()
      return { source: folder, name: folder.name }
    } catch (error) {
      if ((error as Error).name === 'AbortError') return undefined
      throw error
    }
  }

  useEffect(() => {
    const given = new URLSearchParams(location.search).get('url')
    if (given !== null) {
      setAddress(given)
      void openAddress(given)
    }
    const over = (event: DragEvent) => {
      event.preventDefault()
      setOver(true)
    }
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) setOver(false)
    }
    const drop = (event: DragEvent) => {
      event.preventDefault()
      setOver(false)
      const { items } = event.dataTransfer ?? {}
      if (items === undefined) return
      const found = dropped(items)
      void begin(async () => chosenOf(await found))
    }
    addEventListener('dragover', over)
    addEventListener('dragleave', leave)
    addEventListener('drop', drop)
    return () => {
      removeEventListener('dragover', over)
      removeEventListener('dragleave', leave)
      removeEventListener('drop', drop)
    }
  }, [])

  const files = (event: Event): File[] => {
    const input = event.currentTarget as HTMLInputElement
    const chosen = [...(input.files ?? [])]
    // So that the same file can be chosen again.
    input.value = ''
    return chosen
  }

  return html`<main class=${`start ${isOver ? 'over' : ''}`}>
    <p class="brand">ztensor</p>
    <h1>Look at a model</h1>
    <p>Drop a tensor file, the files of a sharded model, or a folder anywhere on this page: safetensors, GGUF, PyTorch, ONNX, HDF5, NumPy and${' '}<a href="https://github.com/ztensor/ztensor-node/blob/main/docs/formats.md">others</a>. It is read in this browser, and nothing is uploaded.</p>
    <div class="ways">
      <label class="file">Choose files<input type="file" multiple onChange=${(event: Event) => {
        const chosen = files(event)
        if (chosen.length > 0) void begin(() => chosenOf(chosen))
      }} /></label>
      ${
        'showDirectoryPicker' in window
          ? html`<button type="button" onClick=${() => void begin(chooseFolder)}>Choose a folder</button>`
          : html`<label class="file">Choose a folder<input type="file" webkitdirectory onChange=${(event: Event) => {
              const chosen = files(event)
              if (chosen.length > 0) void begin(() => chosenOf([folderOfFiles(chosen)]))
            }} /></label>`
      }
    </div>
    <form class="address" onSubmit=${(event: Event) => {
      event.preventDefault()
      void openAddress(address)
    }}>
      <label for="address">Or a URL, of which only the parts that are shown are fetched</label>
      <div class="ways">
        <input id="address" type="text" inputmode="url" value=${address} placeholder="hf://owner/repository/model.safetensors" autocomplete="off" spellcheck=${false}
          onInput=${(event: Event) => setAddress((event.currentTarget as HTMLInputElement).value)} />
        <button type="submit">Open</button>
      </div>
    </form>
    ${opening === undefined ? null : html`<p role="status">Opening <bdi>${visible(fileName(opening))}</bdi> … <button type="button" class="link" onClick=${cancel}>Cancel</button></p>`}
    ${failure === undefined ? null : html`<p class="problem" role="alert">${visible(failure)}</p>`}
  </main>`
}

interface FolderPicker {
  showDirectoryPicker(): Promise<FileSystemDirectoryHandle>
}

function start(): void {
  const { search } = location
  if (current !== undefined) {
    current.close()
    current = undefined
    if (search !== '' || location.hash !== '') history.replaceState(null, '', location.pathname)
  }
  document.title = TITLE
  app.textContent = ''
  render(null, app)
  render(html`<${Start} />`, app)
  document.querySelector<HTMLElement>('h1')?.focus()
}

start()
