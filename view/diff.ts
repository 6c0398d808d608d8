// The differences from the other file: the changed tensors, and how much each layer changed.
import { useMemo, useState } from 'preact/hooks'
import type { ChangedTensor } from '../lib/report/data.js'
import { Grid, type GridColumn } from './grid.js'
import { HeatMap } from './heat.js'
import { html, type VNode } from './html.js'
import { type Model, relativeChange } from './model.js'
import { Bar, Choice, Empty, Name, Section, TensorLink } from './pieces.js'
import { textMatcher } from './select.js'
import { useReport } from './state.js'
import { baseName, counted, showCosine, showCount, showNumber, showPercent, showShape, visible } from './words.js'

interface Moved {
  readonly layer: number
  readonly change: number
  readonly tensors: number
}

/** How much each layer changed, the largest change first. */
function movedLayers(model: Model, selected: ReadonlySet<number> | undefined): Moved[] {
  const by = new Map<number, { difference: number; other: number; tensors: number }>()
  for (const { tensor, sums } of model.changes.values()) {
    const layer = model.layers.layer[tensor] as number
    if (sums === undefined || layer < 0 || (selected !== undefined && !selected.has(tensor))) continue
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

const MOST_LAYERS = 24

function Layers({ moved }: { moved: readonly Moved[] }): VNode {
  const most = moved[0]?.change ?? 0
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
              ${moved.slice(0, MOST_LAYERS).map(
                ({ layer, change, tensors }) => html`<tr key=${layer}>
                  <td class="number">${layer}</td>
                  <td class="number">${showCount(tensors)}</td>
                  <td class="number">${showPercent(change)}</td>
                  <td class="bars"><${Bar} share=${change / (most || 1)} /></td>
                </tr>`,
              )}
            </tbody>
          </table>`
    }
  <//>`
}

type Removed = NonNullable<Model['data']['diff']>['removed'][number]
type Tab = 'changed' | 'added' | 'removed'

export function Diff(): VNode | null {
  const { model, rows, chosen, query } = useReport()
  const { diff } = model.data
  const [tab, setTab] = useState<Tab>('changed')
  const selected = useMemo(() => (rows === undefined ? undefined : new Set(rows)), [rows])
  const moved = useMemo(() => movedLayers(model, selected), [model, selected])
  const changed = useMemo(
    () => (diff?.changed ?? []).filter(({ tensor }) => selected === undefined || selected.has(tensor)),
    [diff, selected],
  )
  const added = useMemo(
    () => (diff?.added ?? []).filter((tensor) => selected === undefined || selected.has(tensor)),
    [diff, selected],
  )
  const matches = useMemo(() => textMatcher(query), [query])
  const removed = useMemo(() => (diff?.removed ?? []).filter(({ name }) => matches(name)), [diff, matches])
  if (diff === undefined) return null
  const nameColumn = <T>(of: (row: T) => number): GridColumn<T> => ({
    ...{ key: 'name', title: 'name', width: 'auto' },
    cell: (row) => html`<${TensorLink} tensor=${of(row)} />`,
    sort: (row) => model.sortKeys[of(row)] as string,
  })
  const number = (
    key: string,
    title: string,
    of: (row: ChangedTensor) => number | null | undefined,
    show = showNumber,
  ): GridColumn<ChangedTensor> => ({
    ...{ key, title, numeric: true, width: '92px' },
    cell: (row) => show(of(row) ?? Number.NaN),
    sort: (row) => of(row) ?? Number.NaN,
  })
  const changedColumns: GridColumn<ChangedTensor>[] = [
    nameColumn(({ tensor }) => tensor),
    {
      ...{ key: 'what', title: 'what', width: '120px' },
      cell: ({ tensor, dtype, shape, layout }) =>
        [
          dtype === undefined ? '' : `${visible(dtype)} → ${visible(model.dtype(tensor))}`,
          shape === undefined ? '' : `${showShape(shape)} → ${showShape(model.shape(tensor))}`,
          layout === undefined ? '' : 'layout',
        ]
          .filter(Boolean)
          .join(', ') || 'values',
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
      title: 'dtype',
      width: '110px',
      cell: (at) => visible(model.dtype(at)),
      sort: (at) => model.dtype(at),
    },
    { key: 'shape', title: 'shape', width: '180px', cell: (at) => showShape(model.shape(at)) },
  ]
  const removedColumns: GridColumn<Removed>[] = [
    {
      key: 'name',
      title: 'name',
      width: 'auto',
      cell: ({ name }) => html`<${Name} text=${name} />`,
      sort: ({ name }) => name,
    },
    {
      key: 'dtype',
      title: 'dtype',
      width: '110px',
      cell: ({ dtype }) => visible(dtype ?? 'unknown'),
      sort: ({ dtype }) => dtype ?? '',
    },
    { key: 'shape', title: 'shape', width: '180px', cell: ({ shape }) => showShape(shape) },
  ]
  const facts = [
    ['Changed', diff.changed.length],
    ['Added', diff.added.length],
    ['Removed', diff.removed.length],
    ['Unchanged', diff.unchanged],
  ] as const
  return html`<div class="columns">
    <p class="against wide">Compared with <b><${Name} text=${diff.against} short=${baseName(diff.against)} /></b> (${diff.format}, ${counted(diff.tensors, 'tensor')})</p>
    <dl class="facts">
      ${facts.map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${showCount(value)}</dd></div>`)}
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
              columns=${changedColumns}
              rows=${changed}
              rowKey=${({ tensor }: ChangedTensor) => tensor}
              chosen=${({ tensor }: ChangedTensor) => tensor === chosen}
              initial=${{ key: 'change', down: true }}
            />`
          : tab === 'added'
            ? html`<${Grid} key="added" label="Added tensors" columns=${addedColumns} rows=${added} rowKey=${(at: number) => at} chosen=${(at: number) => at === chosen} />`
            : html`<${Grid} key="removed" label="Removed tensors" columns=${removedColumns} rows=${removed} rowKey=${({ name }: Removed) => name} />`
      }
    <//>
    <${Layers} moved=${moved} />
    <${HeatMap} first="change" />
  </div>`
}
