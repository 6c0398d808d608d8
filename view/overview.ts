// An overview of the file.
import { useMemo, useState } from 'preact/hooks'
import { html, type VNode } from './html.js'
import { Bar, Empty, hueOf, Later, Name, Section } from './pieces.js'
import { textMatcher } from './select.js'
import { useReport } from './state.js'
import { suspects } from './suspects.js'
import { type Folded, folded, type Node } from './tree.js'
import { baseName, counted, showBytes, showCount, showLarge, showShape, showShare, visible } from './words.js'

function Facts(): VNode {
  const { model } = useReport()
  const { file, layouts } = model.data
  const { parameters } = file
  const facts: [string, unknown, (string | undefined)?][] = [
    ['Tensors', showCount(model.size)],
    [
      'Parameters',
      typeof parameters === 'number' ? showLarge(parameters) : parameters,
      typeof parameters === 'number' ? showCount(parameters) : undefined,
    ],
    ['Size', showBytes(file.byteLength), `${showCount(file.byteLength)} bytes`],
    ['Format', file.version === null ? file.format : `${file.format} ${visible(file.version)}`],
  ]
  if (file.generator !== null) facts.push(['Written by', visible(file.generator)])
  if (file.files.length > 1) facts.push(['Files', showCount(file.files.length)])
  if (layouts.length > 1 || (layouts[0] ?? 'dense') !== 'dense')
    facts.push(['Layouts', layouts.map(visible).join(', ')])
  return html`<dl class="facts">
    ${facts.map(
      ([term, value, title]) => html`<div key=${term}>
        <dt>${term}</dt>
        <dd title=${title}>${value}</dd>
      </div>`,
    )}
  </dl>`
}

interface Share {
  readonly dtype: number
  readonly bytes: number
  readonly tensors: number
}

function useShares(): Share[] {
  const { model, rows } = useReport()
  return useMemo(() => {
    const shares = model.data.dtypes.map((_, dtype) => ({ dtype, bytes: 0, tensors: 0 }))
    const add = (at: number) => {
      const share = shares[model.dtypeNumber(at)] as (typeof shares)[number]
      share.bytes += model.bytes[at] as number
      share.tensors += 1
    }
    if (rows === undefined) for (let at = 0; at < model.size; at++) add(at)
    else for (const at of rows) add(at)
    return shares.filter(({ tensors }) => tensors > 0).sort((a, b) => b.bytes - a.bytes)
  }, [model, rows])
}

function Dtypes(): VNode {
  const { model } = useReport()
  const shares = useShares()
  const total = shares.reduce((sum, { bytes }) => sum + bytes, 0)
  return html`<${Section} title="Data types">
    <div class="stack" aria-hidden="true">
      ${shares.map(
        ({ dtype, bytes }) =>
          html`<i key=${dtype} class=${hueOf(dtype)} style=${{ flexGrow: bytes / (total || 1) }}></i>`,
      )}
    </div>
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">dtype</th>
          <th scope="col" class="number">tensors</th>
          <th scope="col" class="number">bytes</th>
          <th scope="col" class="number">share</th>
        </tr>
      </thead>
      <tbody>
        ${shares.map(
          ({ dtype, bytes, tensors }) => html`<tr key=${dtype}>
            <td><i class=${`swatch ${hueOf(dtype)}`}></i>${visible(model.data.dtypes[dtype] as string)}</td>
            <td class="number">${showCount(tensors)}</td>
            <td class="number">${showBytes(bytes)}</td>
            <td class="number">${showShare(bytes, total)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  <//>`
}

const MOST_CHILDREN = 60
/** The modules that are initially expanded: those of a transformer, down to one of its identical layers. */
const OPEN_LEVELS = 3
const OPEN_CHILDREN = 12

function Branch({ item, whole, level }: { item: Folded; whole: number; level: number }): VNode {
  const { model, choose, fold, setScope, scope } = useReport()
  const { node, nodes, title } = item
  const single = node.children.length === 0 && node.tensor >= 0
  const [open, setOpen] = useState(level < OPEN_LEVELS && folded(node, fold).length <= OPEN_CHILDREN)
  const bytes = nodes.reduce((sum, one) => sum + one.bytes, 0)
  const times = nodes.length > 1 ? html` <span class="times">× ${nodes.length}</span>` : null
  const inner = open ? folded(node, fold) : []
  return html`<li>
    <div class="branch">
      ${
        single
          ? html`<span class="twist"></span>
              <button type="button" class="link" onClick=${() => choose(node.tensor)}><${Name} text=${title} /></button>
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
              <button
                type="button"
                class="link module"
                aria-pressed=${scope === node.path}
                title="Limit all views to this module"
                onClick=${() => setScope(scope === node.path ? '' : node.path)}
              >
                <${Name} text=${title} />
              </button>
              <span class="shape">${counted(node.count, 'tensor')}${nodes.length > 1 ? ' each' : ''}</span>`
      }
      ${times}
      <span class="amount">${showBytes(bytes)}</span>
      <${Bar} share=${bytes / (whole || 1)} />
    </div>
    ${
      inner.length > 0
        ? html`<ul>
            ${inner
              .slice(0, MOST_CHILDREN)
              .map((one) => html`<${Branch} key=${one.node.path} item=${one} whole=${whole} level=${level + 1} />`)}
            ${inner.length > MOST_CHILDREN ? html`<li class="more">and ${showCount(inner.length - MOST_CHILDREN)} more: see the table under Values</li>` : null}
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
  const { model, fold, setFold, scope } = useReport()
  const top = trunk(model.node(scope))
  const items = useMemo(() => folded(top, fold), [top, fold])
  const title = top.path === '' ? 'Modules' : `Modules in ${visible(top.path)}`
  return html`<${Section} title=${title} class="wide">
    <label class="check">
      <input type="checkbox" checked=${fold} onChange=${() => setFold(!fold)} /> Fold identical blocks
    </label>
    <ul class="outline">
      ${items
        .slice(0, MOST_CHILDREN)
        .map((item) => html`<${Branch} key=${item.node.path} item=${item} whole=${model.node('').bytes} level=${0} />`)}
      ${items.length > MOST_CHILDREN ? html`<li class="more">and ${showCount(items.length - MOST_CHILDREN)} more</li>` : null}
    </ul>
  <//>`
}

const LONG = 160

function Value({ text }: { text: string }): VNode {
  const shown = text.split('\n').map(visible).join('\n')
  if (shown.length <= LONG) return html`<bdi class="value">${shown}</bdi>`
  return html`<details>
    <summary><bdi>${shown.slice(0, LONG).replaceAll('\n', ' ')}…</bdi></summary>
    <bdi class="value">${shown}</bdi>
  </details>`
}

function Metadata(): VNode {
  const { model, query } = useReport()
  const { attributes, moreAttributes } = model.data.file
  const matches = useMemo(() => textMatcher(query), [query])
  const found = attributes.filter(({ key, value }) => matches(`${key} ${value}`))
  return html`<${Section} title="Metadata" class="wide">
    ${
      attributes.length === 0
        ? html`<${Empty}>The file has no metadata.<//>`
        : found.length === 0
          ? html`<${Empty}>None of the ${counted(attributes.length, 'entry').replace('entrys', 'entries')} matches the search.<//>`
          : html`<dl class="metadata">
              ${found.map(
                ({ key, value }, at) => html`<div key=${at}>
                  <dt><${Name} text=${key} /></dt>
                  <dd><${Value} text=${value} /></dd>
                </div>`,
              )}
            </dl>`
    }
    ${moreAttributes > 0 ? html`<p class="note">and ${showCount(moreAttributes)} more, which \`ztensor info --json\` prints</p>` : null}
  <//>`
}

function Findings(): VNode {
  const { model, go, learned } = useReport()
  const { warnings, moreWarnings } = model.data.file
  const doubtful = useMemo(() => suspects(model), [model, learned])
  const { diff } = model.data
  return html`<${Section} title="At a glance">
    <ul class="findings">
      <li>
        ${
          !model.hasValues
            ? model.data.live
              ? 'Values are read on demand.'
              : 'The values were not read.'
            : doubtful.length === 0
              ? 'No suspicious tensors.'
              : html`<button type="button" class="link" onClick=${() => go('values')}>
                  ${counted(doubtful.length, 'tensor')} ${doubtful.length === 1 ? 'looks' : 'look'} suspicious
                </button>`
        }
      </li>
      ${
        diff === undefined
          ? null
          : html`<li>
              <button type="button" class="link" onClick=${() => go('diff')}>
                ${counted(diff.changed.length, 'tensor')} changed, ${showCount(diff.added.length)} added, ${showCount(diff.removed.length)} removed
              </button>
              <span> against ${visible(baseName(diff.against))}</span>
            </li>`
      }
      <li>${warnings.length + moreWarnings === 0 ? 'No warnings.' : counted(warnings.length + moreWarnings, 'warning')}</li>
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
  const { files } = useReport().model.data.file
  if (files.length < 2) return null
  return html`<${Section} title="Files">
    <table class="plain">
      <tbody>
        ${files.map(
          ({ name, byteLength }, at) => html`<tr key=${at}>
            <td><${Name} text=${name} short=${baseName(name)} /></td>
            <td class="number">${showBytes(byteLength)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  <//>`
}

export const Overview = (): VNode =>
  html`<div class="columns">
    <${Facts} /><${Dtypes} /><${Findings} /><${Files} /><${Later} make=${() => html`<${Outline} />`} /><${Metadata} />
  </div>`
