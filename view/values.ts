// The statistics of all tensors: a table, suspicious tensors, and plots over layers.
import { useMemo, useState } from 'preact/hooks'
import type { TensorNumbers } from '../lib/report/data.js'
import { Grid, type GridColumn } from './grid.js'
import { HeatMap } from './heat.js'
import { html, type VNode } from './html.js'
import { Layers } from './layers.js'
import { Choice, Empty, Section, TensorLink } from './pieces.js'
import { useReport } from './state.js'
import { MEANING, type Suspect, type Suspicion, suspects } from './suspects.js'
import { counted, showBytes, showCount, showNumber, showShape, visible } from './words.js'

type Numeric = 'min' | 'max' | 'mean' | 'std'

function Table(): VNode {
  const { model, rows, chosen, learned } = useReport()
  const all = useMemo(() => Uint32Array.from({ length: model.size }, (_, at) => at), [model])
  const shown = rows ?? all
  const columns = useMemo((): GridColumn<number>[] => {
    const measured = (key: Numeric): GridColumn<number> => ({
      ...{ key, title: key, numeric: true, width: '82px' },
      cell: (at) => showNumber(model.numbers(at)?.[key]),
      sort: (at) => model.numbers(at)?.[key] ?? Number.NaN,
    })
    const tally = (key: string, title: string, of: (found: TensorNumbers) => number): GridColumn<number> => ({
      ...{ key, title, numeric: true, width: title === 'zeros' ? '76px' : '56px' },
      cell: (at) => {
        const found = model.numbers(at)
        return found === undefined ? '–' : showCount(of(found))
      },
      sort: (at) => {
        const found = model.numbers(at)
        return found === undefined ? Number.NaN : of(found)
      },
    })
    return [
      {
        ...{ key: 'name', title: 'name', width: 'auto' },
        cell: (at) => html`<${TensorLink} tensor=${at} />`,
        sort: (at) => model.sortKeys[at] as string,
      },
      {
        ...{ key: 'dtype', title: 'dtype', width: '84px' },
        cell: (at) => visible(model.dtype(at)),
        sort: (at) => model.dtype(at),
      },
      {
        ...{ key: 'shape', title: 'shape', width: '118px' },
        cell: (at) => showShape(model.shape(at)),
        sort: (at) =>
          model
            .shape(at)
            .map((size) => String(size).padStart(12, '0'))
            .join(),
      },
      {
        ...{ key: 'bytes', title: 'bytes', numeric: true, width: '82px' },
        cell: (at) => showBytes(model.bytes[at] as number),
        sort: (at) => model.bytes[at] as number,
      },
      ...(['min', 'max', 'mean', 'std'] as const).map(measured),
      tally('zeros', 'zeros', ({ zeros }) => zeros),
      tally('nan', 'NaN', ({ nan }) => nan),
      tally('infinite', '±∞', ({ positiveInfinite, negativeInfinite }) => positiveInfinite + negativeInfinite),
      {
        ...{ key: 'score', title: 'largest σ', numeric: true, width: '78px' },
        cell: (at) =>
          Number.isNaN(model.scores[at]) ? '–' : `${showNumber(Number((model.scores[at] as number).toPrecision(3)))} σ`,
        sort: (at) => model.scores[at] as number,
      },
    ]
  }, [model, learned])
  return html`<${Section} title=${counted(shown.length, 'tensor')} class="wide">
    <${Grid} label="Tensors" columns=${columns} rows=${shown} rowKey=${(at: number) => at} chosen=${(at: number) => at === chosen} />
  <//>`
}

function Suspects(): VNode {
  const { model, rows, learned, chosen } = useReport()
  const all = useMemo(() => suspects(model), [model, learned])
  const shown = useMemo(() => {
    if (rows === undefined) return all
    const selected = new Set(rows)
    return all.filter(({ tensor }) => selected.has(tensor))
  }, [all, rows])
  const kinds = (Object.keys(MEANING) as Suspicion[]).filter((kind) => all.some((one) => one.kind === kind))
  const columns: GridColumn<Suspect>[] = [
    {
      key: 'kind',
      title: 'what',
      width: '130px',
      cell: ({ kind }) =>
        html`<span class=${`badge ${kind === 'not finite' || kind === 'unreadable' ? 'bad' : ''}`}>${kind}</span>`,
      sort: ({ kind }) => kind,
    },
    {
      key: 'name',
      title: 'name',
      width: 'auto',
      cell: ({ tensor }) => html`<${TensorLink} tensor=${tensor} />`,
      sort: ({ tensor }) => model.sortKeys[tensor] as string,
    },
    { key: 'why', title: 'why', width: '380px', cell: ({ why }) => html`<bdi>${visible(why)}</bdi>` },
  ]
  return html`<${Section} title="Suspects" class="wide" note="What often is a mistake; it may be meant.">
    ${
      all.length === 0
        ? html`<${Empty}>${model.hasValues ? 'No suspicious tensors.' : 'No suspicious tensors among those with statistics.'}<//>`
        : html`<ul class="meanings">
              ${kinds.map((kind) => html`<li key=${kind}><b>${kind}</b> ${MEANING[kind]}: ${all.filter((one) => one.kind === kind).length}</li>`)}
            </ul>
            <${Grid} label="Suspects" columns=${columns} rows=${shown} rowKey=${({ tensor }: Suspect) => tensor} chosen=${({ tensor }: Suspect) => tensor === chosen} />`
    }
  <//>`
}

const TABS = [
  ['table', 'Table'],
  ['suspects', 'Suspects'],
  ['layers', 'Layers'],
  ['heat', 'Heat map'],
] as const
type Tab = (typeof TABS)[number][0]

export function Values(): VNode {
  const { model } = useReport()
  const [tab, setTab] = useState<Tab>('table')
  return html`<div>
    <${Choice} label="What to show of the values" value=${tab} options=${TABS} onChange=${setTab} />
    ${
      model.hasValues || tab === 'table'
        ? null
        : html`<p class="note">
            ${model.data.live ? 'Only tensors that you have opened have statistics.' : 'The values were not read. Run ztensor view --stats.'}
          </p>`
    }
    ${tab === 'table' ? html`<${Table} />` : tab === 'suspects' ? html`<${Suspects} />` : tab === 'layers' ? html`<${Layers} />` : html`<${HeatMap} />`}
  </div>`
}
