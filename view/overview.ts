// An overview of the file.
import { useMemo, useState } from 'preact/hooks'
import type { MetadataRow } from '../lib/report/data.js'
import { html, type VNode } from './html.js'
import type { Model, Sums } from './model.js'
import { Bar, Empty, FlawBadge, hueOf, Later, Name, Section, TensorLink, Value } from './pieces.js'
import { textMatcher, useChanges } from './select.js'
import { useReport } from './state.js'
import { suspects } from './suspects.js'
import { type Folded, folded, type Node, tensorsOf } from './tree.js'
import { baseName, counted, showBits, showBytes, showCount, showLarge, showShape, showShare, visible } from './words.js'

interface Totals extends Sums {
  readonly layouts: ReadonlySet<string>
}

function totalsOf(model: Model, rows: Uint32Array | undefined): Totals {
  const totals = { tensors: 0, elements: 0, bytes: 0, layouts: new Set<string>() }
  for (const at of model.ordinals(rows)) {
    totals.tensors += 1
    totals.elements += model.elements(at)
    totals.bytes += model.bytes[at] as number
    totals.layouts.add(model.layoutKind(at))
  }
  return totals
}

interface Fact {
  readonly term: string
  readonly value: unknown
  readonly title?: string | undefined
  readonly more?: string | undefined
}

/** What the metadata says of a model. */
function modelFacts(model: Model['data']['file']['model']): Fact[] {
  if (model === undefined) return []
  const text = (term: string, value: string | null | undefined): Fact[] =>
    value == null ? [] : [{ term, value: visible(value) }]
  const count = (term: string, value: number | null | undefined): Fact[] =>
    value == null ? [] : [{ term, value: showCount(value) }]
  return [
    ...text('Model', model.name),
    ...text('Architecture', model.architecture),
    ...text('Mixture', model.mixture),
    ...count('Context', model.contextLength),
    ...count('Vocabulary', model.vocabularySize),
    ...(model.architecture == null ? [] : [{ term: 'Chat template', value: model.hasChatTemplate ? 'yes' : 'no' }]),
    ...text('License', model.license),
  ]
}

function Facts(): VNode {
  const { model, rows, learned } = useReport()
  const { file } = model.data
  const { tensors, elements, bytes, layouts } = useMemo(() => totalsOf(model, rows), [model, rows])
  const flawed = useMemo(() => model.notFinite(rows), [model, rows, learned])
  const whole = typeof file.parameters === 'number' ? showLarge(file.parameters) : file.parameters
  const facts: Fact[] = [
    { term: 'Tensors', value: showCount(tensors), more: rows && `of ${showCount(model.size)}` },
    rows === undefined
      ? {
          ...{ term: 'Parameters', value: whole },
          title: typeof file.parameters === 'number' ? showCount(file.parameters) : undefined,
        }
      : { term: 'Parameters', value: showLarge(elements), title: showCount(elements), more: `of ${whole}` },
  ]
  facts.unshift(...modelFacts(file.model))
  if (layouts.has('quantized')) facts.push({ term: 'Bits per weight', value: showBits(bytes, elements) })
  if (rows !== undefined)
    facts.push({ term: 'Tensor bytes', value: showBytes(bytes), title: `${showCount(bytes)} bytes` })
  if (flawed.length > 0)
    facts.push({ term: 'NaN or infinity', value: html`<span class="alarm">${counted(flawed.length, 'tensor')}</span>` })
  facts.push(
    { term: 'File size', value: showBytes(file.byteLength), title: `${showCount(file.byteLength)} bytes` },
    { term: 'Format', value: file.version === null ? file.format : `${file.format} ${visible(file.version)}` },
  )
  if (file.generator !== null) facts.push({ term: 'Written by', value: visible(file.generator) })
  if (file.files.length > 1) facts.push({ term: 'Files', value: showCount(file.files.length) })
  if (layouts.size > 1 || (layouts.size === 1 && !layouts.has('dense')))
    facts.push({ term: 'Tensor layouts', value: Array.from(layouts, visible).join(', ') })
  return html`<dl class="facts">
    ${facts.map(
      ({ term, value, title, more }) => html`<div key=${term}>
        <dt>${term}</dt>
        <dd title=${title}>${value}${more === undefined ? null : html` <small>${more}</small>`}</dd>
      </div>`,
    )}
  </dl>`
}

function Dtypes(): VNode {
  const { model, rows } = useReport()
  const shares = useMemo(() => model.shares(rows), [model, rows])
  const total = shares.reduce((sum, one) => sum + one.elements, 0)
  const quantized = shares.some((share) => share.quantized)
  return html`<${Section} title="Data types">
    ${
      shares.length === 0
        ? html`<${Empty}>${model.size === 0 ? 'The file has no tensors.' : 'No tensor matches.'}<//>`
        : html`<div class="stack" aria-hidden="true">
              ${shares.map(
                ({ dtype, elements }) =>
                  html`<i key=${dtype} class=${hueOf(model.dtypeHue(dtype))} style=${{ flexGrow: elements / (total || 1) }}></i>`,
              )}
            </div>
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">type</th>
                  <th scope="col" class="number extra">tensors</th>
                  <th scope="col" class="number">parameters</th>
                  ${quantized ? html`<th scope="col" class="number">bits per weight</th>` : null}
                  <th scope="col" class="number">bytes</th>
                  <th scope="col" class="number">of parameters</th>
                </tr>
              </thead>
              <tbody>
                ${shares.map(
                  ({ dtype, tensors, elements, bytes }) => html`<tr key=${dtype}>
                    <td><i class=${`swatch ${hueOf(model.dtypeHue(dtype))}`}></i>${visible(model.data.dtypes[dtype] as string)}</td>
                    <td class="number extra">${showCount(tensors)}</td>
                    <td class="number" title=${showCount(elements)}>${showLarge(elements)}</td>
                    ${quantized ? html`<td class="number">${showBits(bytes, elements)}</td>` : null}
                    <td class="number">${showBytes(bytes)}</td>
                    <td class="number">${showShare(elements, total)}</td>
                  </tr>`,
                )}
              </tbody>
            </table>`
    }
  <//>`
}

const MAX_CHILDREN = 60
/** The modules that are initially expanded: those of a transformer, down to one of its identical layers. */
const OPEN_LEVELS = 3
const OPEN_CHILDREN = 12

function Branch({ item, whole, level }: { item: Folded; whole: number; level: number }): VNode {
  const { model, choose, fold, setScope, scope, learned } = useReport()
  const { node, nodes, title } = item
  const single = node.children.length === 0 && node.tensor >= 0
  const [open, setOpen] = useState(level < OPEN_LEVELS && folded(node, fold).length <= OPEN_CHILDREN)
  const flaw = useMemo(() => model.flawOf(tensorsOf(nodes)), [item, learned])
  const bytes = nodes.reduce((sum, one) => sum + one.bytes, 0)
  const elements = nodes.reduce((sum, one) => sum + one.elements, 0)
  const times = nodes.length > 1 ? html` <span class="times">× ${nodes.length}</span>` : null
  // The amounts in the columns are those of all folded blocks, which are identical.
  const each = `, ${showLarge(elements / nodes.length)} parameters, ${showBytes(bytes / nodes.length)} each`
  const inner = open ? folded(node, fold) : []
  return html`<li>
    <div class="branch">
      ${
        single
          ? html`<span class="twist"></span>
              <span><${FlawBadge} flaw=${flaw} /> <button type="button" class="link" onClick=${() => choose(node.tensor)}><${Name} text=${title} /></button></span>
              <span class="shape">${visible(model.dtype(node.tensor))} ${showShape(model.shape(node.tensor))}</span>`
          : html`<button
                type="button"
                class="twist"
                aria-expanded=${open}
                aria-label=${`${open ? 'Close' : 'Open'} ${visible(title)}`}
                onClick=${() => setOpen(!open)}
              >
                ${open ? '▾' : '▸'}
              </button>
              <span><${FlawBadge} flaw=${flaw} /> <button
                type="button"
                class="link module"
                aria-pressed=${scope === node.path}
                title="Limit all views to this module"
                onClick=${() => setScope(scope === node.path ? '' : node.path)}
              >
                <${Name} text=${title} />
              </button></span>
              <span class=${`shape ${nodes.length > 1 ? 'each' : ''}`}>${counted(node.count, 'tensor')}${nodes.length > 1 ? each : ''}</span>`
      }
      ${times}
      <span class="amount parameters" title=${counted(elements, 'parameter')}>${showLarge(elements)}</span>
      <span class="amount">${showBytes(bytes)}</span>
      <${Bar} share=${bytes / (whole || 1)} />
    </div>
    ${
      inner.length > 0
        ? html`<ul>
            ${inner
              .slice(0, MAX_CHILDREN)
              .map((one) => html`<${Branch} key=${one.node.path} item=${one} whole=${whole} level=${level + 1} />`)}
            ${inner.length > MAX_CHILDREN ? html`<li class="more">and ${showCount(inner.length - MAX_CHILDREN)} more: see the table under Values</li>` : null}
          </ul>`
        : null
    }
  </li>`
}

/** Skips modules that contain nothing but one other module. */
function trunk(root: Node): Node {
  let node = root
  while (node.children.length === 1 && (node.children[0] as Node).children.length > 0) node = node.children[0] as Node
  return node
}

function Outline(): VNode {
  const { tree, fold, setFold, scope } = useReport()
  const top = useMemo(() => trunk(tree.node(scope)), [tree, scope])
  const items = useMemo(() => folded(top, fold), [top, fold])
  const title = top.path === '' ? 'Modules' : `Modules in ${visible(top.path)}`
  return html`<${Section} title=${title} class="wide">
    <label class="check">
      <input type="checkbox" checked=${fold} onChange=${() => setFold(!fold)} /> Fold identical blocks
    </label>
    ${top.count === 0 ? html`<${Empty}>No tensor matches.<//>` : html`<p class="branch heads" aria-hidden="true"><span class="amount parameters">parameters</span><span class="amount">bytes</span></p>`}
    <ul class="outline">
      ${items
        .slice(0, MAX_CHILDREN)
        .map(
          (item) =>
            html`<${Branch} key=${`${item.node.path} ${item.node.count}`} item=${item} whole=${tree.root.bytes} level=${0} />`,
        )}
      ${items.length > MAX_CHILDREN ? html`<li class="more">and ${showCount(items.length - MAX_CHILDREN)} more</li>` : null}
    </ul>
  <//>`
}

/** Keys and values that the search finds, of the file or of the configuration next to it. */
function Rows(props: { title: string; rows: readonly MetadataRow[]; more?: number; none?: string }): VNode {
  const { query } = useReport()
  const { title, rows, more = 0, none } = props
  const matches = useMemo(() => textMatcher(query), [query])
  const found = rows.filter(({ key, value }) => matches(`${key} ${value}`))
  const entries = (count: number): string => `${showCount(count)} ${count === 1 ? 'entry' : 'entries'}`
  return html`<${Section} title=${title} class="wide" ...${query.trim() === '' || rows.length === 0 ? {} : { note: `${showCount(found.length)} of ${entries(rows.length)} ${found.length === 1 ? 'matches' : 'match'}` }}>
    ${
      rows.length === 0
        ? html`<${Empty}>${none}<//>`
        : found.length === 0
          ? null
          : html`<dl class="metadata">
              ${found.map(
                ({ key, value }, at) => html`<div key=${at}>
                  <dt><${Name} text=${key} /></dt>
                  <dd><${Value} text=${value} /></dd>
                </div>`,
              )}
            </dl>`
    }
    ${more > 0 ? html`<p class="note">and ${showCount(more)} more, which \`ztensor info --json\` prints</p>` : null}
  <//>`
}

function Metadata(): VNode {
  const { metadata, moreMetadata, config } = useReport().model.data.file
  return html`<${Rows} title="Metadata" rows=${metadata} more=${moreMetadata} none="The file has no metadata." />
    ${config === undefined ? null : html`<${Rows} title="config.json" rows=${config} none="The configuration is empty." />`}`
}

const MAX_FLAWED = 8

/** The tensors with NaN or infinities. */
function NotFinite({ tensors }: { tensors: readonly number[] }): VNode {
  const { model, go, setTab } = useReport()
  let [nan, infinite] = [0, 0]
  for (const at of tensors) {
    const found = model.numbers(at)
    nan += found?.nan ?? 0
    infinite += (found?.positiveInfinite ?? 0) + (found?.negativeInfinite ?? 0)
  }
  const kinds = [nan > 0 ? `${showCount(nan)} NaN` : '', infinite > 0 ? `${showCount(infinite)} infinite` : '']
  return html`<${Section} title=${`${counted(tensors.length, 'tensor')} with NaN or infinity`} class="wide problem" note=${`${kinds.filter(Boolean).join(' and ')} ${nan + infinite === 1 ? 'value' : 'values'}`}>
    <ul class="findings">
      ${tensors.slice(0, MAX_FLAWED).map((at) => {
        const found = model.numbers(at)
        const bad = (found?.nan ?? 0) + (found?.positiveInfinite ?? 0) + (found?.negativeInfinite ?? 0)
        return html`<li key=${at}><${TensorLink} tensor=${at} /> <span class="note">${showCount(bad)} of ${showCount(found?.count ?? 0)}</span></li>`
      })}
    </ul>
    ${
      tensors.length > MAX_FLAWED
        ? html`<button type="button" class="link" onClick=${() => {
            setTab('suspects')
            go('values')
          }}>and ${showCount(tensors.length - MAX_FLAWED)} more</button>`
        : null
    }
  <//>`
}

/** What the values look like, in one line. */
function ValuesFinding(): VNode {
  const { model, rows, learned, go, setTab } = useReport()
  const doubtful = useMemo(() => suspects(model, rows), [model, rows, learned])
  if (!model.hasValues)
    return html`<li>${model.data.live ? 'Values are read on demand.' : 'The values were not read.'}</li>`
  const ordinals = model.ordinals(rows)
  const without = ordinals.reduce((count, at) => count + (model.numbers(at) === undefined ? 1 : 0), 0)
  return html`<li>
      ${
        doubtful.length === 0
          ? 'No suspicious tensors.'
          : html`<button type="button" class="link" onClick=${() => {
              setTab('suspects')
              go('values')
            }}>
              ${counted(doubtful.length, 'tensor')} ${doubtful.length === 1 ? 'looks' : 'look'} suspicious
            </button>`
      }
    </li>
    ${without === 0 ? null : html`<li>${counted(without, 'tensor')} ${without === 1 ? 'has' : 'have'} no statistics.</li>`}`
}

function Findings(): VNode {
  const { model, go, rows, query } = useReport()
  const { diff, file } = model.data
  const { added, changed, removed } = useChanges()
  const names = useMemo(
    () => (rows === undefined ? undefined : new Set(Array.from(rows, (at) => model.name(at)))),
    [rows],
  )
  const matches = useMemo(() => textMatcher(query), [query])
  const warnings = useMemo(
    () =>
      file.warnings.filter(({ code, message, tensor }) => {
        if (names === undefined) return true
        return tensor === undefined ? query.trim() !== '' && matches(`${code} ${message}`) : names.has(tensor)
      }),
    [file, names, matches],
  )
  const all = file.warnings.length + file.moreWarnings
  return html`<${Section} title="At a glance">
    <ul class="findings">
      <${ValuesFinding} />
      ${
        diff === undefined
          ? null
          : html`<li>
              <button type="button" class="link" onClick=${() => go('diff')}>
                ${counted(changed.length, 'tensor')} changed, ${showCount(added.length)} added, ${showCount(removed.length)} removed
              </button>
              <span> against ${visible(baseName(diff.against))}</span>
            </li>`
      }
      <li>${all === 0 ? 'No warnings.' : names === undefined ? counted(all, 'warning') : `${showCount(warnings.length)} of ${counted(all, 'warning')}`}</li>
    </ul>
    ${
      warnings.length === 0
        ? null
        : html`<details open=${warnings.length <= 3}>
            <summary>Warnings</summary>
            <ul class="warnings">
              ${warnings.slice(0, 200).map(
                ({ code, message, tensor }, at) => html`<li key=${at}>
                  <code>${visible(code)}</code> ${tensor === undefined || message.includes(tensor) ? null : html`<${Name} text=${tensor} />: `}
                  <bdi>${visible(message)}</bdi>
                </li>`,
              )}
            </ul>
          </details>`
    }
  <//>`
}

function Files(): VNode | null {
  const { model, rows } = useReport()
  const { files } = model.data.file
  const tensors = useMemo(() => model.tensorsOfFiles(rows), [model, rows])
  if (files.length < 2) return null
  const shown = Array.from(files.keys()).filter((at) => rows === undefined || (tensors[at] as number) > 0)
  return html`<${Section} title="Files" ...${rows === undefined ? {} : { note: `${showCount(shown.length)} of ${counted(files.length, 'file')}` }}>
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">file</th>
          <th scope="col" class="number">tensors</th>
          <th scope="col" class="number">file size</th>
        </tr>
      </thead>
      <tbody>
        ${shown.map((at) => {
          const { name, byteLength } = files[at] as (typeof files)[number]
          return html`<tr key=${at}>
            <td><${Name} text=${name} short=${baseName(name)} /></td>
            <td class="number">${showCount(tensors[at] as number)}</td>
            <td class="number">${showBytes(byteLength)}</td>
          </tr>`
        })}
      </tbody>
    </table>
  <//>`
}

export function Overview(): VNode {
  const { model, rows, learned } = useReport()
  const flawed = useMemo(() => model.notFinite(rows), [model, rows, learned])
  return html`<div class="columns">
    <${Facts} />${flawed.length === 0 ? null : html`<${NotFinite} tensors=${flawed} />`}<${Dtypes} /><${Findings} /><${Files} /><${Later} make=${() => html`<${Outline} />`} /><${Metadata} />
  </div>`
}
