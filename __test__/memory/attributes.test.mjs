// Attributes of files with very many of them: what shows or passes them on creates few values.
import { writeFileSync } from 'node:fs'
import { inspect } from 'node:util'
import test from 'ava'
import { convert, create, openSync } from 'ztensor'
import { report } from 'ztensor/report'
import { run } from '../helpers/command.mjs'
import { gguf } from '../helpers/gguf-writer.mjs'
import { hasPeaks, peakOf } from '../helpers/peak-memory.mjs'
import { dataOf } from '../helpers/report-page.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const MIB = 2 ** 20

function written(metadata) {
  const path = scratchPath('many.gguf')
  writeFileSync(path, gguf({ metadata, tensors: [{ name: 'w', shape: [4], data: Buffer.alloc(16) }] }))
  return path
}

/** A tokenizer: a list of tokens, and one of pairs that are merged. */
function tokenizer(tokens, merges) {
  const list = (count, item) => ['string', Array.from({ length: count }, (_, at) => item(at))]
  return written([
    ['general.architecture', 'string', 'llama'],
    ['tokenizer.ggml.tokens', 'array', list(tokens, (at) => `token${at}`)],
    ['tokenizer.ggml.scores', 'array', ['f32', Array.from({ length: tokens }, (_, at) => -at)]],
    ['tokenizer.ggml.merges', 'array', list(merges, (at) => `tok en${at}`)],
  ])
}

const VALUES = {
  'split.count': 7,
  text: 'a'.repeat(5000),
  short: 'b',
  'a pair': '😀'.repeat(2100),
  list: Array.from({ length: 300 }, (_, at) => at / 2),
  exact: Array.from({ length: 64 }, (_, at) => at),
  more: Array.from({ length: 65 }, (_, at) => `item ${at}`),
  empty: [],
  nested: [[1, 2, Array.from({ length: 500 }, (_, at) => at)], { key: Array(70).fill(null) }],
  map: Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`k${at}`, at])),
  numbered: new Map(Array.from({ length: 70 }, (_, at) => [at, [at]])),
  bytes: new Uint8Array(1000).fill(1),
  big: 2n ** 63n,
  last: [true, [Array(101).fill('x'.repeat(5000))], false],
}

async function withValues() {
  const path = scratchPath('values.zt')
  const writer = await create(path, { version: '1.2', metadata: VALUES })
  await writer.add('w', Float32Array.of(1))
  await writer.finish()
  return path
}

test('a report shows the beginnings of attributes as it would show all of them', async (t) => {
  const file = openSync(await withValues())
  const data = dataOf(await report(file))
  const shown = (value) => {
    if (typeof value === 'string') return value.length > 4000 ? `${value.slice(0, 4000)}…` : value
    if (value instanceof Uint8Array) return `${value.byteLength} bytes`
    if (typeof value !== 'object') return String(value)
    const options = { breakLength: Infinity, compact: true, depth: 6, maxArrayLength: 64, maxStringLength: 4000 }
    const text = inspect(value, options).replace(/^\[Object: null prototype\] /, '')
    return text.length > 4000 ? `${text.slice(0, 4000)}…` : text
  }
  const expected = Object.entries(file.metadata).map(([key, value]) => ({ key, value: shown(value) }))
  t.deepEqual(data.file.metadata, expected)
  t.is(data.file.moreMetadata, 0)
  t.true(expected.some(({ value }) => value.endsWith('236 more items ]')))
  file.close()
})

test('info and metadata show the beginnings of attributes', async (t) => {
  const path = await withValues()
  for (const command of ['info', 'metadata']) {
    const { stdout, stderr } = await run([command, path])
    t.is(stderr, '')
    const line = (key) =>
      stdout
        .split('\n')
        .find((line) => line.trim().startsWith(`${key}: `))
        ?.trim()
    t.is(line('split.count'), 'split.count: 7')
    t.is(line('text'), `text: ${'a'.repeat(99)}…`)
    t.regex(line('list'), /^list: \[0,0\.5,1,.*… \(300 values\)$/)
    t.regex(line('more'), /^more: \["item 0","item 1",.*…$/)
    t.regex(line('nested'), /^nested: \[\[1,2,\[0,1,2,.*…$/)
    t.regex(line('map'), /^map: \{"k0":0,"k1":1,.*…$/)
    t.is(line('big'), 'big: "9223372036854775808"')
    t.is(line('"a pair"'), `"a pair": ${'😀'.repeat(49)}…`)
    t.regex(line('last'), /^last: \[true,\[\["xxx/)
  }
  const { stdout } = await run(['metadata', path, '--json'])
  t.is(JSON.parse(stdout).list.length, 300)
})

test('conversions to text: attributes become the JSON that JavaScript writes', async (t) => {
  const path = await withValues()
  const target = scratchPath('values.safetensors')
  const { skipped } = await convert(path, target)
  const expected = Object.entries(openSync(path).metadata).flatMap(([key, value]) => {
    if (value instanceof Uint8Array || value instanceof Map) return []
    const text = JSON.stringify(value, (_, item) => (typeof item === 'bigint' ? Number(item) : item))
    return [[key, typeof value === 'string' ? value : key === 'big' ? '9223372036854775808' : text]]
  })
  t.deepEqual(Object.entries(openSync(target).metadata), expected)
  t.deepEqual(
    skipped.map(({ message }) => message),
    ['safetensors cannot store 2 values of the metadata: "numbered", "bytes"'],
  )
})

if (hasPeaks) {
  test('convert and report do not create the values of a tokenizer', async (t) => {
    const path = JSON.stringify(tokenizer(120_000, 240_000))
    const target = JSON.stringify(scratchPath('out'))
    const heapOf = (work) => {
      const counted = `const before = process.memoryUsage().heapUsed
        ${work}
        return process.memoryUsage().heapUsed - before`
      return peakOf(t, `const file = z.openSync(${path})`, counted)
    }
    const all = heapOf('globalThis.kept = file.metadata')
    t.true(all.printed > 16 * MIB)
    const calls = {
      report: `await (await import('ztensor/report')).report(file)`,
      'convert to GGUF': `await z.convert(file, ${target} + '.gguf')`,
      'convert to zTensor 2': `await z.convert(file, ${target} + '.zt', { version: '2' })`,
      'convert to safetensors': `await z.convert(file, ${target} + '.safetensors')`,
    }
    for (const [call, work] of Object.entries(calls)) {
      const { peak, printed } = heapOf(work)
      t.true(printed < all.printed / 2, `${call}: ${Math.round(printed / MIB)} of ${Math.round(all.printed / MIB)} MiB`)
      if (call === 'report') t.true(peak < all.peak / 2, `${call}: ${Math.round(peak / MIB)} MiB`)
    }
  })
}
