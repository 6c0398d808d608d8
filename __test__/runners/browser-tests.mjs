// `npm run test:browser`: checks reports in a real browser. Needs `npm run build` first, and a chromium.
//   NAME...   only the checks with one of these in their titles
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checks, prepare } from '../browser/checks.mjs'
import { startChromium } from './chromium.mjs'

const wanted = process.argv.slice(2)
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ztensor-browser-')))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))

const browser = await startChromium()
const path = await prepare(folder)
let [passed, failed] = [0, 0]
for (const [title, look] of Object.entries(checks)) {
  if (wanted.length > 0 && !wanted.some((word) => title.includes(word))) continue
  const begun = performance.now()
  try {
    await look(browser, path)
    passed += 1
    console.log(`ok     ${title} (${Math.round(performance.now() - begun)} ms)`)
  } catch (error) {
    failed += 1
    console.log(`FAILED ${title}\n${error.stack}\n`)
  }
}
await browser.close()
console.log(`browser tests: ${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 || passed === 0 ? 1 : 0
