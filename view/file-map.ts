// The file map: where each tensor is in the file, the gaps, and which tensors are read without a copy.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { BYTES_WIDTH, Grid, type GridColumn, longest } from './grid.js'
import { html, type VNode } from './html.js'
import { HUES } from './model.js'
import { Choice, dtypeLegend, Empty, hueOf, Legend, Section, TensorLink, useWidth } from './pieces.js'
import { MEANING, type Segment, segmentsOf } from './segments.js'
import { useReport } from './state.js'
import { baseName, counted, showBytes, showCount, showShare, visible } from './words.js'

const REASONS: Readonly<Record<string, string>> = {
  '': 'aliases the file (zero-copy)',
  encoded: 'is compressed and must be decoded',
  misaligned: 'its offset is not aligned for its dtype',
  runtime: 'the runtime does not support external memory of this size',
  'map-failed': 'the file could not be mapped',
  'byte-order': 'has the opposite byte order',
  reordered: 'is stored in another element order',
  remote: 'the file is remote',
  inline: 'is stored in the index',
  io: 'the file is read, not mapped',
  packed: 'is not contiguous',
}

/** Rows of the map: enough to show a tensor of a thousandth of the file. */
const LINES = 12
const LINE = 22

const KINDS = ['tensor', 'shared', 'padding', 'hole', 'before', 'behind', 'other'] as const

/** The file as rows of equal size on a canvas: there may be 100,000 segments. */
function Lines({
  segments,
  byteLength,
  marked,
}: {
  segments: readonly Segment[]
  byteLength: number
  marked: (one: Segment) => boolean
}): VNode {
  const { model, choose, chosen } = useReport()
  const [box, width] = useWidth()
  const [tip, setTip] = useState<Segment | undefined>(undefined)
  const [canvas, setCanvas] = useState<HTMLCanvasElement | null>(null)
  const perLine = byteLength / LINES
  useEffect(() => {
    if (canvas === null || width === 0) return
    const scale = devicePixelRatio
    canvas.width = width * scale
    canvas.height = LINES * LINE * scale
    const context = canvas.getContext('2d')
    if (context === null) return
    context.scale(scale, scale)
    context.clearRect(0, 0, width, LINES * LINE)
    const style = getComputedStyle(canvas)
    const color = (name: string): string => style.getPropertyValue(name).trim()
    const colors = new Map<string, string>()
    for (const kind of KINDS) colors.set(kind, color(`--segment-${kind}`))
    for (let hue = -1; hue < HUES; hue++) colors.set(hueOf(hue), color(`--${hueOf(hue)}`))
    for (const one of segments) {
      const { part, kind, offset, length } = one
      const hue = kind === 'tensor' && part !== undefined ? hueOf(model.dtypeHue(model.dtypeNumber(part.tensor))) : kind
      context.fillStyle = colors.get(hue) ?? 'grey'
      context.globalAlpha = marked(one) ? 1 : 0.2
      const last = Math.min(LINES - 1, Math.floor((offset + Math.max(0, length - 1)) / perLine))
      for (let line = Math.floor(offset / perLine); line <= last; line++) {
        const from = Math.max(0, (offset - line * perLine) / perLine) * width
        const to = Math.min(1, (offset + length - line * perLine) / perLine) * width
        const gap = to - from > 3 ? 0.75 : 0
        context.fillRect(from, line * LINE + 1, Math.max(to - from - gap, 0.5), LINE - 3)
      }
      if (part !== undefined && part.tensor === chosen) {
        context.globalAlpha = 1
        context.strokeStyle = color('--ink')
        const line = Math.floor(offset / perLine)
        const from = ((offset - line * perLine) / perLine) * width
        context.strokeRect(
          from,
          line * LINE + 1,
          Math.max(2, Math.min(width - from, (length / perLine) * width)),
          LINE - 3,
        )
      }
    }
  }, [canvas, width, segments, marked, chosen, document.documentElement.dataset.theme])
  const at = (event: MouseEvent): Segment | undefined => {
    const { left, top } = (event.currentTarget as HTMLElement).getBoundingClientRect()
    const line = Math.floor((event.clientY - top) / LINE)
    const byte = (line + (event.clientX - left) / Math.max(1, width)) * perLine
    // The last segment that begins at or before the position.
    let [low, high] = [0, segments.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((segments[middle] as Segment).offset <= byte) low = middle + 1
      else high = middle
    }
    return segments[low - 1]
  }
  const say = ({ part, kind, length, offset }: Segment): VNode =>
    html`<bdi>${part === undefined ? MEANING[kind] : visible(model.name(part.tensor))}</bdi><span>, ${showBytes(length)} at ${showCount(offset)}</span>`
  return html`<div class="filemap" ref=${box}>
    <canvas
      ref=${setCanvas}
      role="img"
      aria-label="Map of the file; the table below lists the same"
      style=${{ height: `${LINES * LINE}px` }}
      onMouseMove=${(event: MouseEvent) => setTip(at(event))}
      onMouseLeave=${() => setTip(undefined)}
      onClick=${(event: MouseEvent) => choose(at(event)?.part?.tensor)}
    ></canvas>
    <p class="note tip">${tip === undefined ? `Each line is ${showBytes(Math.round(perLine))}. Point at a line to see its tensors.` : say(tip)}</p>
  </div>`
}

function Sums({ segments, byteLength }: { segments: readonly Segment[]; byteLength: number }): VNode {
  const sums = KINDS.map((kind) => {
    const of = segments.filter((one) => one.kind === kind)
    return { kind, count: of.length, bytes: of.reduce((sum, { length }) => sum + length, 0) }
  }).filter(({ count }) => count > 0)
  return html`<table class="plain">
    <thead>
      <tr>
        <th scope="col">what</th>
        <th scope="col" class="number">pieces</th>
        <th scope="col" class="number">bytes</th>
        <th scope="col" class="number">share</th>
      </tr>
    </thead>
    <tbody>
      ${sums.map(
        ({ kind, count, bytes }) => html`<tr key=${kind}>
          <td><i class=${`swatch segment-${kind}`}></i>${MEANING[kind]}</td>
          <td class="number">${showCount(count)}</td>
          <td class="number">${showBytes(bytes)}</td>
          <td class="number">${showShare(bytes, byteLength)}</td>
        </tr>`,
      )}
    </tbody>
  </table>`
}

function Copies({ selected }: { selected: ReadonlySet<number> | undefined }): VNode {
  const { model } = useReport()
  const sums = useMemo(() => {
    const by = new Map<string, { parts: number; bytes: number }>()
    for (let at = 0; at < model.partCount; at++) {
      const { tensor, reason, stored } = model.part(at)
      if (selected !== undefined && !selected.has(tensor)) continue
      const sum = by.get(reason) ?? { parts: 0, bytes: 0 }
      by.set(reason, { parts: sum.parts + 1, bytes: sum.bytes + stored })
    }
    return Array.from(by).sort((a, b) => b[1].bytes - a[1].bytes)
  }, [model, selected])
  return html`<${Section} title="Aliased or copied" note="What happens when a program on this machine asks for the data of a tensor.">
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">data</th>
          <th scope="col">why</th>
          <th scope="col" class="number">components</th>
          <th scope="col" class="number">bytes</th>
        </tr>
      </thead>
      <tbody>
        ${sums.map(
          ([reason, { parts, bytes }]) => html`<tr key=${reason}>
            <td>${reason === '' ? 'aliased' : 'copied'}</td>
            <td>${REASONS[reason] ?? visible(reason)}</td>
            <td class="number">${showCount(parts)}</td>
            <td class="number">${showBytes(bytes)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  <//>`
}

type Shown = 'all' | 'gaps'

export function FileMap(): VNode {
  const { model, rows, chosen } = useReport()
  const { files } = model.data.file
  const [wanted, setFile] = useState(0)
  const [shown, setShown] = useState<Shown>('all')
  const selected = useMemo(() => (rows === undefined ? undefined : new Set(rows)), [rows])
  const tensors = useMemo(() => model.tensorsOfFiles(rows), [model, rows])
  // Only files with matching tensors can be chosen.
  const choices = Array.from(files.keys()).filter((at) => rows === undefined || (tensors[at] as number) > 0)
  const file = choices.includes(wanted) ? wanted : (choices[0] ?? 0)
  const segments = useMemo(() => segmentsOf(model, file), [model, file])
  const byteLength = files[file]?.byteLength ?? model.data.file.byteLength
  const marked = useMemo(
    () => (one: Segment) => selected === undefined || (one.part !== undefined && selected.has(one.part.tensor)),
    [selected],
  )
  const matching = useMemo(() => segments.filter(marked), [segments, marked])
  const gaps = shown === 'gaps' && rows === undefined
  const listed = useMemo(() => (gaps ? segments.filter((one) => one.part === undefined) : matching), [matching, gaps])
  const columns: GridColumn<Segment>[] = [
    {
      key: 'offset',
      title: 'offset',
      numeric: true,
      characters: showCount(byteLength).length,
      cell: ({ offset }) => showCount(offset),
      sort: ({ offset }) => offset,
    },
    {
      key: 'length',
      title: 'bytes',
      numeric: true,
      characters: BYTES_WIDTH,
      cell: ({ length }) => showBytes(length),
      sort: ({ length }) => length,
    },
    {
      key: 'what',
      title: 'what',
      cell: ({ kind, part }) =>
        part === undefined
          ? html`<em>${MEANING[kind]}</em>`
          : html`<${TensorLink} tensor=${part.tensor} />${kind === 'shared' ? html` <small>shared</small>` : null}`,
    },
    {
      ...{ key: 'role', title: 'component', characters: longest(model.data.roles, 16) },
      cell: ({ part }) => visible(part?.role ?? ''),
    },
    {
      ...{ key: 'encoding', title: 'encoding', characters: longest(model.data.encodings, 16) },
      cell: ({ part }) => visible(part?.encoding ?? ''),
    },
    {
      key: 'data',
      title: 'data',
      characters: longest(
        model.data.reasons.map((reason) => (reason === '' ? 'aliased' : `copied: ${reason}`)),
        24,
      ),
      cell: ({ part }) =>
        part === undefined ? '' : part.reason === '' ? 'aliased' : `copied: ${visible(part.reason)}`,
    },
  ]
  const legend = useMemo(() => dtypeLegend(model, rows), [model, rows])
  const inIndex = useMemo(() => {
    let count = 0
    for (let at = 0; at < model.partCount; at++) {
      const { tensor, offset } = model.part(at)
      if (offset < 0 && (selected === undefined || selected.has(tensor))) count += 1
    }
    return count
  }, [model, selected])
  return html`<div class="columns">
    <${Section} title="File map" class="wide">
      ${
        files.length > 1
          ? html`<label class="select">File <select value=${file} onChange=${(event: Event) => setFile(Number((event.currentTarget as HTMLSelectElement).value))}>
              ${choices.map((at) => {
                const { name, byteLength } = files[at] as (typeof files)[number]
                return html`<option key=${at} value=${at}>${visible(baseName(name))} (${counted(tensors[at] as number, 'tensor')}, ${showBytes(byteLength)})</option>`
              })}
            </select></label>`
          : null
      }
      ${
        byteLength === 0
          ? html`<${Empty}>The offsets of the tensors are not known for this file.<//>`
          : rows !== undefined && rows.length === 0
            ? html`<${Empty}>No tensor matches.<//>`
            : html`<${Lines} segments=${segments} byteLength=${byteLength} marked=${marked} />
                <${Legend} title=${files.length > 1 ? 'in all files:' : undefined} items=${legend} />`
      }
    <//>
    <${Section} title="What the bytes are" note=${rows === undefined ? undefined : 'Only the selected tensors.'}><${Sums} segments=${matching} byteLength=${byteLength} />
      ${inIndex > 0 ? html`<p class="note">${counted(inIndex, 'component')} without an offset: in the index, or in several pieces.</p>` : null}
    <//>
    <${Copies} selected=${selected} />
    <${Section} title="In the order of the file" class="wide">
      ${
        rows === undefined
          ? html`<${Choice}
              label="What to list"
              value=${shown}
              options=${[['all', 'everything'], ['gaps', 'only gaps']]}
              onChange=${setShown}
            />`
          : null
      }
      <${Grid}
        label="Pieces of the file"
        columns=${columns}
        rows=${listed}
        rowKey=${({ offset, kind, part }: Segment) => `${offset} ${kind} ${part?.tensor ?? ''} ${part?.role ?? ''}`}
        chosen=${({ part }: Segment) => part !== undefined && part.tensor === chosen}
        marked=${({ part }: Segment) => part !== undefined && model.flaw(part.tensor) !== ''}
      />
    <//>
  </div>`
}
