// Extracts the data of a report from its HTML, as a browser does.
import { createHash } from 'node:crypto'
import { gunzipSync } from 'node:zlib'

/** The data in a report. */
export function dataOf(html) {
  const [, packed] = /<script type="application\/gzip" id="data">([A-Za-z0-9+/=]*)<\/script>/.exec(html)
  return JSON.parse(gunzipSync(Buffer.from(packed, 'base64')).toString('utf8'))
}

/** The page without its data, which is the same in every report. */
export const shellOf = (html) => html.replace(/(id="data">)[^<]*/, '$1')

/** The directives of the policy in its head. */
export function policyOf(html) {
  const [, policy] = /<meta http-equiv="Content-Security-Policy" content="([^"]*)">/.exec(html)
  return new Map(policy.split('; ').map((directive) => directive.split(/ (.*)/).slice(0, 2)))
}

export const hashOf = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** The numbers of a column, of so many rows. */
export function numbersOf(column, rows) {
  if ('all' in column) return Array(rows).fill(column.all)
  if ('list' in column) return column.list
  let value = 0
  return column.delta.map((step) => {
    value += step
    return value
  })
}

/** Names that would run code in a page that inserted them as HTML, or that look like others. */
export const HOSTILE = [
  '</script><script>globalThis.hit = 1</script>',
  '<img src=x onerror="globalThis.hit = 2">',
  '<!--<script>',
  '"\'`onload=globalThis.hit=3',
  '&lt;b&gt;&amp;',
  'evil\u202etxt.exe',
  'zero\u200bwidth\ufeff',
  'line\u2028break\nand\ttab\0nul',
  '__proto__',
  'constructor.prototype.polluted',
  '$' + '{globalThis.hit = 4}',
  'javascript:globalThis.hit=5',
  '....////....',
  '',
  '*'.repeat(64),
  'a.'.repeat(3000),
]
