// Bundles `view/`, the page of reports, into dist/report-page.js: a module with its script and its style sheet as text. The
// packages inside it are named in that text, as their licenses ask.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, transform } from 'esbuild'
import { root } from './command.mjs'

const INSIDE = ['preact', 'htm', 'd3-hierarchy']
// The maximum size of a report without the summary of its file.
const MAX = 400 * 1000

/** The notice that the license of a package requires. */
function notice(name) {
  const folder = join(root, 'node_modules', name)
  const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const text = readFileSync(join(folder, 'LICENSE'), 'utf8').trim()
  // The Apache license is named by its URL; short licenses are included in full.
  const [copyright] = /Copyright \d.*/.exec(text) ?? ['']
  const words = license === 'Apache-2.0' ? `${copyright}\nhttps://www.apache.org/licenses/LICENSE-2.0` : text
  return `${name} ${version} (${license})\n${words}`
}

/** Writes the page of reports into `dist`. */
export async function buildView(dist) {
  const bundle = await build({
    entryPoints: [join(root, 'view/main.ts')],
    tsconfig: join(root, 'view/tsconfig.json'),
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'none',
  })
  const notices = `/*!\n${INSIDE.map(notice).join('\n\n').replaceAll('*/', '* /')}\n*/\n`
  const script = `${notices}${bundle.outputFiles[0].text.trim()}`
  const { code } = await transform(readFileSync(join(root, 'view/style.css'), 'utf8'), { loader: 'css', minify: true })
  const style = code.trim()
  // The text is between tags, so it must not contain its end tag.
  assert.doesNotMatch(script, /<\/script|<!--|<script/i)
  assert.doesNotMatch(style, /<\/style|@import|url\(/i)
  assert.ok(Buffer.byteLength(script) + Buffer.byteLength(style) < MAX, 'the page of reports is too large')
  const literal = (text) => JSON.stringify(text)
  const module = `'use strict'\nexports.SCRIPT = ${literal(script)}\nexports.STYLE = ${literal(style)}\n`
  writeFileSync(join(dist, 'report-page.js'), module)
}
