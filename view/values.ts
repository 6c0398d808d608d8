// The statistics of all tensors: a table, suspicious tensors, and plots over layers.
import { useMemo } from 'preact/hooks'
import type { TensorNumbers } from '../lib/report/data.js'
import { BYTES_WIDTH, Grid, type GridColumn, longest } from './grid.js'
import { HeatMap } from './heat.js'
import { html, type VNode } from './html.js'
import { Layers } from './layers.js'
import { Choice, Empty, Section, TensorLink } from './pieces.js'
import { useReport, type ValuesTab } from './state.js'
import { MEANING, type Suspect, type Suspicion, suspects } from './suspects.js'
import { counted, showBytes, showCount, showDigits, showScore, showShape, visible } from './words.js'

/** The characters of the longest number, such as -1.23e-38, or of float64 -1.23e-100. */
const NUMBER_WIDTH = 9
const DOUBLE_WIDTH = 10
/** The most tensors whose numbers are measured: formatting those of 100,000 would take a second. */
const MAX_MEASURED = 4096

type Numeric = 'min' | 'max' | 'mean' | 'std'

function Table(): VNode {
  const { model, rows, chosen, learned } = useReport()
  const shown = model.ordinals(rows)
  const columns = useMemo((): GridColumn<number>[] => {
    const bound = model.data.dtypes.includes('float64') ? DOUBLE_WIDTH : NUMBER_WIDTH
    const characters = (show: (at: number) => string, maxWidth: number): number =>
      model.size > MAX_MEASURED ? maxWidth : longest(Array.from(model.ordinals(undefined), show))
    const largest = (of: (found: TensorNumbers) => number): number => {
      let maxWidth = 0
      for (const at of model.ordinals(undefined)) {
        const found = model.numbers(at)
        if (found !== undefined) maxWidth = Math.max(maxWidth, of(found))
      }
      return maxWidth
    }
    const measured = (key: Numeric): GridColumn<number> => {
      const show = (at: number): string => showDigits(model.numbers(at)?.[key])
      return {
        ...{ key, title: key, numeric: true, characters: characters(show, bound), cell: show },
        sort: (at) => model.numbers(at)?.[key] ?? Number.NaN,
      }
    }
    const score = (at: number): string =>
      Number.isNaN(model.scores[at]) ? '–' : `${showScore(model.scores[at] as number)} σ`
    const tally = (key: string, title: string, of: (found: TensorNumbers) => number): GridColumn<number> => ({
      ...{ key, title, numeric: true, characters: showCount(largest(of)).length },
      cell: (at) => {
        const found = model.numbers(at)
        if (found === undefined) return '–'
        const text = showCount(of(found))
        return key !== 'zeros' && of(found) > 0 ? html`<b class="alarm">${text}</b>` : text
      },
      sort: (at) => {
        const found = model.numbers(at)
        return found === undefined ? Number.NaN : of(found)
      },
    })
    return [
      {
        ...{ key: 'name', title: 'name' },
        cell: (at) => html`<${TensorLink} tensor=${at} />`,
        ...{ sort: (at) => model.name(at), natural: true },
      },
      {
        ...{ key: 'dtype', title: 'type', characters: longest(model.data.dtypes.map(visible), 18) },
        cell: (at) => html`<span title=${visible(model.dtype(at))}>${visible(model.dtype(at))}</span>`,
        sort: (at) => model.dtype(at),
      },
      {
        ...{ key: 'shape', title: 'shape', characters: longest(model.data.shapes.map(showShape)) },
        cell: (at) => html`<span title=${showShape(model.shape(at))}>${showShape(model.shape(at))}</span>`,
        sort: (at) =>
          model
            .shape(at)
            .map((size) => String(size).padStart(12, '0'))
            .join(),
        text: (at) => showShape(model.shape(at)),
      },
      {
        ...{
          key: 'bytes',
          title: 'bytes',
          numeric: true,
          characters: characters((at) => showBytes(model.bytes[at] as number), BYTES_WIDTH),
        },
        cell: (at) => showBytes(model.bytes[at] as number),
        sort: (at) => model.bytes[at] as number,
      },
      ...(['min', 'max', 'mean', 'std'] as const).map(measured),
      tally('zeros', 'zeros', ({ zeros }) => zeros),
      tally('nan', 'NaN', ({ nan }) => nan),
      tally('infinite', '±∞', ({ positiveInfinite, negativeInfinite }) => positiveInfinite + negativeInfinite),
      {
        ...{ key: 'score', title: 'largest σ', numeric: true, characters: characters(score, bound + 2), cell: score },
        sort: (at) => model.scores[at] as number,
      },
    ]
  }, [model, learned])
  return html`<${Section} title=${rows === undefined ? counted(model.size, 'tensor') : `${showCount(shown.length)} of ${counted(model.size, 'tensor')}`} class="wide">
    <${Grid} label="Tensors" save="tensors" columns=${columns} rows=${shown} initial=${{ key: 'name', down: false }} rowKey=${(at: number) => at} chosen=${(at: number) => at === chosen} marked=${(at: number) => model.flaw(at) !== ''} />
  <//>`
}

function Suspects(): VNode {
  const { model, rows, learned, chosen } = useReport()
  const shown = useMemo(() => suspects(model, rows), [model, rows, learned])
  const kinds = (Object.keys(MEANING) as Suspicion[]).filter((kind) => shown.some((one) => one.kind === kind))
  const columns: GridColumn<Suspect>[] = [
    {
      key: 'kind',
      title: 'what',
      characters: longest(kinds),
      cell: ({ kind }) =>
        html`<span class=${`badge ${kind === 'not finite' || kind === 'unreadable' ? 'bad' : ''}`}>${kind}</span>`,
      sort: ({ kind }) => kind,
    },
    {
      key: 'name',
      title: 'name',
      cell: ({ tensor }) => html`<${TensorLink} tensor=${tensor} />`,
      ...{ sort: ({ tensor }: Suspect) => model.name(tensor), natural: true },
    },
    {
      ...{
        key: 'why',
        title: 'why',
        characters: longest(
          shown.map(({ why }) => why),
          44,
        ),
      },
      cell: ({ why }) => html`<bdi title=${visible(why)}>${visible(why)}</bdi>`,
      text: ({ why }) => why,
    },
  ]
  return html`<${Section} title="Suspects" class="wide" note="What often is a mistake; it may be meant.">
    ${
      shown.length === 0
        ? html`<${Empty}>${rows !== undefined ? 'None of these tensors looks suspicious.' : model.hasValues ? 'No suspicious tensors.' : 'No suspicious tensors among those with statistics.'}<//>`
        : html`<ul class="meanings">
              ${kinds.map((kind) => html`<li key=${kind}><b>${shown.filter((one) => one.kind === kind).length} ${kind}</b> ${MEANING[kind]}</li>`)}
            </ul>
            <${Grid} label="Suspects" save="suspects" columns=${columns} rows=${shown} rowKey=${({ tensor }: Suspect) => tensor} chosen=${({ tensor }: Suspect) => tensor === chosen} marked=${({ kind }: Suspect) => kind === 'not finite'} />`
    }
  <//>`
}

const TABS = [
  ['table', 'Table'],
  ['suspects', 'Suspects'],
  ['layers', 'Layers'],
  ['heat', 'Heat map'],
] as const satisfies readonly (readonly [ValuesTab, string])[]

export function Values(): VNode {
  const { model, tab, setTab } = useReport()
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
