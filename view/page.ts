// The page: shows one view at a time.
import { render } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { Diff } from './diff.js'
import { FileMap } from './file-map.js'
import { html, type VNode } from './html.js'
import type { Model } from './model.js'
import { Overview } from './overview.js'
import { Name } from './pieces.js'
import { chosen as rowsOf } from './select.js'
import { Context, type State, type ValuesTab, VIEWS, type View } from './state.js'
import { TensorPanel } from './tensor.js'
import { Tree } from './tree.js'
import { Treemap } from './treemap.js'
import { Values } from './values.js'
import { counted, fileName, showBytes, showCount, visible } from './words.js'

const TITLES: Readonly<Record<View, string>> = {
  overview: 'Overview',
  bytes: 'Bytes',
  map: 'File map',
  values: 'Values',
  diff: 'Diff',
}

/** The address within the page: a view, and the tensor whose panel is open: `#values?tensor=wte`. */
const placeOf = (hash: string): { view: string; tensor: string | null } => {
  const [view = '', query = ''] = hash.slice(1).split('?', 2)
  return { view, tensor: new URLSearchParams(query).get('tensor') }
}

const viewOfHash = (views: readonly View[]): View => {
  const wanted = placeOf(location.hash).view as View
  return views.includes(wanted) ? wanted : 'overview'
}

function tensorOfHash({ data }: Model): number | undefined {
  const { tensor } = placeOf(location.hash)
  const at = tensor === null ? -1 : data.tensors.names.indexOf(tensor)
  return at < 0 ? undefined : at
}

const hashOf = (view: View, { data }: Model, tensor: number | undefined): string =>
  tensor === undefined
    ? `#${view}`
    : `#${view}?${new URLSearchParams({ tensor: data.tensors.names[tensor] as string })}`

type Theme = 'light' | 'dark'

function ThemeSwitch(): VNode {
  const system = matchMedia('(prefers-color-scheme: dark)')
  const [theme, setTheme] = useState<Theme>(system.matches ? 'dark' : 'light')
  const [chosen, setChosen] = useState(false)
  useEffect(() => {
    const follow = () => {
      if (!chosen) setTheme(system.matches ? 'dark' : 'light')
    }
    system.addEventListener('change', follow)
    return () => system.removeEventListener('change', follow)
  }, [chosen])
  const next = theme === 'dark' ? 'light' : 'dark'
  const flip = () => {
    document.documentElement.dataset.theme = next
    setChosen(true)
    setTheme(next)
  }
  return html`<button type="button" class="theme" onClick=${flip} aria-label=${`Use ${next} colors`} title=${`Use ${next} colors`}>
    ${theme === 'dark' ? '☀' : '☾'}
  </button>`
}

function Page({ model, buttons }: { model: Model; buttons: readonly VNode[] }): VNode {
  const views = VIEWS.filter((view) => view !== 'diff' || model.data.diff !== undefined)
  const [view, setView] = useState<View>(viewOfHash(views))
  const [query, setQuery] = useState('')
  const [scope, setScope] = useState('')
  const [fold, setFold] = useState(true)
  const [tab, setTab] = useState<ValuesTab>('table')
  const [chosen, choose] = useState<number | undefined>(tensorOfHash(model))
  const [learned, setLearned] = useState(0)
  const [opener, setOpener] = useState<Element | null>(null)
  useEffect(() => {
    const follow = () => {
      setView(viewOfHash(views))
      if (placeOf(location.hash).tensor !== null) choose(tensorOfHash(model))
    }
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  useEffect(() => {
    const find = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement
      if (event.key !== '/' || typing || event.ctrlKey || event.metaKey) return
      event.preventDefault()
      document.querySelector<HTMLInputElement>('#search')?.focus()
    }
    addEventListener('keydown', find)
    return () => removeEventListener('keydown', find)
  }, [])
  useEffect(() => {
    // The address names the open tensor. Opening one adds nothing to the history.
    if (chosen !== undefined || placeOf(location.hash).tensor !== null)
      history.replaceState(history.state, '', hashOf(view, model, chosen))
  }, [view, chosen])
  const matching = useMemo(() => rowsOf(model, query, ''), [model, query])
  const rows = useMemo(() => (scope === '' ? matching : rowsOf(model, query, scope)), [model, matching, scope])
  const tree = useMemo(() => (matching === undefined ? model.tree : new Tree(model, matching)), [model, matching])
  const state: State = {
    ...{ model, learned, query, scope, rows, tree, chosen, fold, tab, setScope, setFold, setTab },
    go: (next) => {
      location.hash = next
    },
    choose: (tensor) => {
      if (tensor !== undefined && chosen === undefined) setOpener(document.activeElement)
      // Restores the keyboard focus to where the panel was opened.
      if (tensor === undefined && opener instanceof HTMLElement) opener.focus({ preventScroll: true })
      choose(tensor)
    },
    learn: (tensor, found) => {
      if (found === undefined) return
      model.learn(tensor, found)
      setLearned(learned + 1)
    },
  }
  const { file } = model.data
  const { filter } = file
  const count =
    filter === undefined
      ? counted(model.size, 'tensor')
      : `${showCount(model.size)} of ${counted(filter.tensors, 'tensor')}`
  const shown = { overview: Overview, bytes: Treemap, map: FileMap, values: Values, diff: Diff }[view]
  return html`<${Context.Provider} value=${state}>
    <a class="skip" href="#main" onClick=${(event: Event) => {
      event.preventDefault()
      document.querySelector<HTMLElement>('#main')?.focus()
    }}>Skip to the content</a>
    <header class="top">
      <div class="title">
        <p class="brand">ztensor</p>
        <h1><${Name} text=${file.title ?? file.name} short=${file.title ?? fileName(file.name)} /></h1>
        <p class="summary">${file.title === undefined ? '' : `${visible(fileName(file.name))} · `}${visible(file.format)} · ${count} · ${showBytes(file.byteLength)}${model.data.live ? ' · live' : ''}</p>
      </div>
      <div class="tools">
        <input
          id="search"
          type="search"
          placeholder="Search names, types, shapes   /"
          aria-label="Search names, dtypes, block types, shapes and metadata"
          value=${query}
          onInput=${(event: Event) => setQuery((event.currentTarget as HTMLInputElement).value)}
          autocomplete="off"
          spellcheck=${false}
        />
        ${buttons}
        <${ThemeSwitch} />
      </div>
      <nav aria-label="Views">
        ${views.map((one) => html`<a key=${one} href=${`#${one}`} aria-current=${one === view ? 'page' : undefined}>${TITLES[one]}</a>`)}
      </nav>
    </header>
    ${
      filter === undefined
        ? null
        : html`<p class="filter">
            <span>This report shows only the tensors that ${filter.globs.length === 0 ? 'a filter selects' : html`match <bdi>${visible(filter.globs.join(' '))}</bdi>`}.</span>
          </p>`
    }
    ${
      rows === undefined
        ? null
        : html`<p class="filter" role="status">
            <span><b>${showCount(rows.length)}</b> of ${counted(model.size, 'tensor')} ${query.trim() === '' ? 'selected' : rows.length === 1 ? 'matches' : 'match'}</span>
            ${scope === '' ? null : html`<span class="chip">in <${Name} text=${scope} /><button type="button" aria-label="Leave the module" onClick=${() => setScope('')}>×</button></span>`}
            ${query.trim() === '' ? null : html`<span class="chip">matching <bdi>${visible(query.trim())}</bdi><button type="button" aria-label="Clear the search" onClick=${() => setQuery('')}>×</button></span>`}
          </p>`
    }
    <div class=${`body ${chosen === undefined ? '' : 'with-panel'}`}>
      <main id="main" tabindex="-1"><${shown} key=${view} /></main>
      ${chosen === undefined ? null : html`<${TensorPanel} tensor=${chosen} />`}
    </div>
  <//>`
}

/** Shows a model in an element, with the buttons of the page that opened it. */
export function show(app: Element, model: Model, buttons: readonly VNode[] = []): void {
  app.textContent = ''
  render(html`<${Page} model=${model} buttons=${buttons} />`, app)
}
