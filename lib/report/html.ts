// The HTML file of a report: it contains script, style and data, and a Content-Security-Policy that forbids network requests.
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { REPORT_MARK } from '../values/report-mark.js'
import type { ReportData } from './data.js'

const hashed = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** Escapes text for HTML. Replaces control characters and lone surrogates, which could hide text. */
function escaped(text: string): string {
  return text
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

/** The page and its Content-Security-Policy. */
export interface Page {
  readonly html: string
  readonly policy: string
}

/** Builds the page of a report. `connect` is the connect-src of its policy: `'self'` for a page that a server provides. */
export async function pageOf(data: ReportData, connect: "'none'" | "'self'"): Promise<Page> {
  // Loaded lazily: only reports need it.
  const { SCRIPT, STYLE } = require('./report-page.js') as typeof import('./report-page.js')
  const packed = await promisify(gzip)(JSON.stringify(data), { level: 9 })
  const policy = [
    "default-src 'none'",
    `script-src ${hashed(SCRIPT)}`,
    `style-src ${hashed(STYLE)}`,
    'img-src data:',
    `connect-src ${connect}`,
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ')
  const shown = (name: string): string => (name.includes('://') && name.split('/').at(-1)) || name
  const title = data.file.title ?? shown(data.file.name)
  const against = data.file.title === undefined ? data.diff?.against : undefined
  const html = [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    REPORT_MARK,
    `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="referrer" content="no-referrer">',
    '<meta name="color-scheme" content="light dark">',
    '<link rel="icon" href="data:,">',
    `<title>${escaped(title)}${against === undefined ? '' : ` and ${escaped(shown(against))}`} · ztensor</title>`,
    `<style>${STYLE}</style>`,
    '</head>',
    '<body>',
    `<div id="app"><p class="boot">Reading the summary of ${escaped(title)} …</p></div>`,
    '<noscript><p class="boot">This report needs JavaScript. It makes no network requests.</p></noscript>',
    `<script type="application/gzip" id="data">${packed.toString('base64')}</script>`,
    `<script>${SCRIPT}</script>`,
    '</body>',
    '</html>',
    '',
  ].join('\n')
  return { html, policy }
}
