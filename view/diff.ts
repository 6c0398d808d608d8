// The differences from the other file: the changed tensors, and how much each layer changed.
import { useMemo, useState } from 'preact/hooks'
import type { ChangedTensor } from '../lib/report/data.js'
import { Grid, type GridColumn, longest } from './grid.js'
import { HeatMap } from './heat.js'
import { html, type VNode } from './html.js'
import { type Model, relativeChange } from './model.js'
import { Bar, Choice, Empty, Name, Section, TensorLink, Value } from './pieces.js'
import { useChanges } from './select.js'
import { useReport } from './state.js'
import { counted, fileName, showCosine, showCount, showDigits, showPercent, showShape, visible } from './words.js'

interface Moved {
  readonly layer: number
  readonly change: number
  readonly tensors: number
}

/** How much each layer changed, the largest change first. */
function movedLayers(model: Model, changed: readonly ChangedTensor[]): Moved[] {
  const by = new Map<number, { difference: number; other: number; tensors: number }>()
  for (const { tensor, sums } of changed) {
    const layer = model.layers.layer[tensor] as number
    if (sums === undefined || layer < 0) continue
    const sum = by.get(layer) ?? { difference: 0, other: 0, tensors: 0 }
    sum.difference += sums.differenceSquared
    sum.other += sums.otherSquared
    sum.tensors += 1
    by.set(layer, sum)
  }
  return Array.from(by, ([layer, { difference, other, tensors }]) => ({
    ...{ layer, tensors, change: other === 0 ? Number.NaN : Math.sqrt(difference / other) },
  })).sort((a, b) => b.change - a.change)
}

const MAX_LAYERS = 24

function Layers({ moved }: { moved: readonly Moved[] }): VNode {
  const max = moved[0]?.change ?? 0
  return html`<${Section} title="Layers that moved most" note="‖Δ‖ / ‖before‖ over the changed tensors of a layer">
    ${
      moved.length === 0
        ? html`<${Empty}>No layer has changed values.<//>`
        : html`<table class="plain">
            <thead>
              <tr>
                <th scope="col" class="number">layer</th>
                <th scope="col" class="number">tensors</th>
                <th scope="col" class="number">change</th>
                <th scope="col" class="bars"><span class="hidden">change as a bar</span></th>
              </tr>
            </thead>
            <tbody>
              ${moved.slice(0, MAX_LAYERS).map(
                ({ layer, change, tensors }) => html`<tr key=${layer}>
                  <td class="number">${layer}</td>
                  <td class="number">${showCount(tensors)}</td>
                  <td class="number">${showPercent(change)}</td>
                  <td class="bars"><${Bar} share=${change / (max || 1)} /></td>
                </tr>`,
              )}
            </tbody>
          </table>`
    }
  <//>`
}

/** What differs: dtype, shape, layout, or the values alone. */
function whatChanged(model: Model, { tensor, dtype, shape, layout }: ChangedTensor): string {
  const parts = [
    dtype === undefined ? '' : `${visible(dtype)} → ${visible(model.dtype(tensor))}`,
    shape === undefined ? '' : `${showShape(shape)} → ${showShape(model.shape(tensor))}`,
    layout === undefined ? '' : `layout ${visible(layout)} → ${visible(model.layout(tensor))}`,
  ]
  return parts.filter(Boolean).join(', ') || 'values'
}

type Facts = NonNullable<Model['data']['diff']>

/** The metadata that differs. */
function Metadata({ diff }: { diff: Facts }): VNode {
  const side = (text: string | null): VNode => (text === null ? html`<i>none</i>` : html`<${Value} text=${text} />`)
  return html`<${Section} title="Metadata that differs" class="wide">
    <table class="plain pairs-of-values">
      <thead><tr><th scope="col">key</th><th scope="col">before</th><th scope="col">after</th></tr></thead>
      <tbody>
        ${diff.metadata.map(({ key, before, after }, at) => html`<tr key=${at}><th scope="row"><${Name} text=${key} /></th><td>${side(before)}</td><td>${side(after)}</td></tr>`)}
      </tbody>
    </table>
    ${diff.moreMetadata > 0 ? html`<p class="note">and ${showCount(diff.moreMetadata)} more</p>` : null}
  <//>`
}

/** The characters of the longest number, such as 1.2e-300 %. */
const NUMBER_WIDTH = 10

type Removed = Facts['removed'][number]
type Tab = 'changed' | 'added' | 'removed'

export function Diff(): VNode | null {
  const { model, rows, chosen } = useReport()
  const { diff } = model.data
  const [tab, setTab] = useState<Tab>('changed')
  const { changed, added, removed } = useChanges()
  const moved = useMemo(() => movedLayers(model, changed), [model, changed])
  if (diff === undefined) return null
  const nameColumn = <T>(of: (row: T) => number): GridColumn<T> => ({
    ...{ key: 'name', title: 'name' },
    cell: (row) => html`<${TensorLink} tensor=${of(row)} />`,
    ...{ sort: (row) => model.name(of(row)), natural: true },
  })
  const number = (
    key: string,
    title: string,
    of: (row: ChangedTensor) => number | null | undefined,
    show: (value: number | null | undefined) => string = showDigits,
  ): GridColumn<ChangedTensor> => ({
    ...{ key, title, numeric: true, characters: NUMBER_WIDTH },
    cell: (row) => show(of(row) ?? Number.NaN),
    sort: (row) => of(row) ?? Number.NaN,
  })
  const changedColumns: GridColumn<ChangedTensor>[] = [
    nameColumn(({ tensor }) => tensor),
    {
      ...{
        key: 'what',
        title: 'what',
        characters: longest(
          changed.map((one) => whatChanged(model, one)),
          60,
        ),
      },
      cell: (one) => html`<span title=${whatChanged(model, one)}>${whatChanged(model, one)}</span>`,
      text: (one) => whatChanged(model, one),
    },
    number('change', 'change', relativeChange, (value) => showPercent(value as number)),
    number('cosine', 'cosine', ({ sums }) => sums?.cosine, showCosine),
    number('largest', 'largest |Δ|', ({ values }) => values?.maxAbsolute),
    number(
      'differing',
      'differing',
      ({ values }) => (values === undefined ? Number.NaN : values.differing / (values.elements || 1)),
      (value) => showPercent(value as number),
    ),
  ]
  const addedColumns: GridColumn<number>[] = [
    nameColumn((tensor) => tensor),
    {
      key: 'dtype',
      title: 'type',
      characters: longest(
        added.map((at) => model.dtype(at)),
        18,
      ),
      cell: (at) => visible(model.dtype(at)),
      sort: (at) => model.dtype(at),
    },
    {
      ...{ key: 'shape', title: 'shape', characters: longest(added.map((at) => showShape(model.shape(at)))) },
      text: (at) => showShape(model.shape(at)),
      cell: (at) => html`<span title=${showShape(model.shape(at))}>${showShape(model.shape(at))}</span>`,
    },
  ]
  const removedColumns: GridColumn<Removed>[] = [
    {
      key: 'name',
      title: 'name',
      cell: ({ name }) => html`<${Name} text=${name} />`,
      ...{ sort: ({ name }) => name, natural: true },
    },
    {
      key: 'dtype',
      title: 'type',
      characters: longest(
        removed.map(({ dtype }) => dtype ?? 'unknown'),
        18,
      ),
      cell: ({ dtype }) => visible(dtype ?? 'unknown'),
      sort: ({ dtype }) => dtype ?? '',
    },
    {
      ...{ key: 'shape', title: 'shape', characters: longest(removed.map(({ shape }) => showShape(shape))) },
      text: ({ shape }) => showShape(shape),
      cell: ({ shape }) => html`<span title=${showShape(shape)}>${showShape(shape)}</span>`,
    },
  ]
  const facts = [
    ['Changed', changed.length, diff.changed.length],
    ['Added', added.length, diff.added.length],
    ['Removed', removed.length, diff.removed.length],
    ['Unchanged', rows === undefined ? diff.unchanged : rows.length - changed.length - added.length, diff.unchanged],
  ] as const
  return html`<div class="columns">
    <p class="against wide">Compared with <b><${Name} text=${diff.against} short=${fileName(diff.against)} /></b> (${diff.format}, ${counted(diff.tensors, 'tensor')})</p>
    <dl class="facts">
      ${facts.map(([term, value, whole]) => html`<div key=${term}><dt>${term}</dt><dd>${showCount(value)}${rows === undefined ? null : html` <small>of ${showCount(whole)}</small>`}</dd></div>`)}
    </dl>
    <${Section} title="Tensors" class="wide">
      <${Choice}
        label="Which tensors"
        value=${tab}
        options=${[
          ['changed', `changed ${showCount(changed.length)}`],
          ['added', `added ${showCount(added.length)}`],
          ['removed', `removed ${showCount(removed.length)}`],
        ]}
        onChange=${setTab}
      />
      ${
        tab === 'changed'
          ? html`<${Grid}
              key="changed"
              label="Changed tensors"
              save="changed"
              columns=${changedColumns}
              rows=${changed}
              rowKey=${({ tensor }: ChangedTensor) => tensor}
              chosen=${({ tensor }: ChangedTensor) => tensor === chosen}
              marked=${({ tensor }: ChangedTensor) => model.flaw(tensor) !== ''}
              initial=${{ key: 'change', down: true }}
            />`
          : tab === 'added'
            ? html`<${Grid} key="added" label="Added tensors" save="added" columns=${addedColumns} rows=${added} initial=${{ key: 'name', down: false }} rowKey=${(at: number) => at} chosen=${(at: number) => at === chosen} />`
            : html`<${Grid} key="removed" label="Removed tensors" save="removed" columns=${removedColumns} rows=${removed} initial=${{ key: 'name', down: false }} rowKey=${({ name }: Removed) => name} />`
      }
    <//>
    ${diff.metadata.length === 0 ? null : html`<${Metadata} diff=${diff} />`}
    <${Layers} moved=${moved} />
    <${HeatMap} first="change" />
  </div>`
}
