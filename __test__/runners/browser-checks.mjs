// Runs checks in a real browser, each with what `prepare` made in a folder.
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startChromium } from './chromium.mjs'

/** Runs the checks whose titles have one of the arguments of the program, or all, and sets its exit code. */
export async function runChecks(what, checks, prepare) {
  const words = process.argv.slice(2)
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ztensor-browser-')))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const browser = await startChromium()
  const context = await prepare(folder)
  let [passed, failed] = [0, 0]
  for (const [title, look] of Object.entries(checks)) {
    if (words.length > 0 && !words.some((word) => title.includes(word))) continue
    const begun = performance.now()
    try {
      await look(browser, context)
      passed += 1
      console.log(`ok     ${title} (${Math.round(performance.now() - begun)} ms)`)
    } catch (error) {
      failed += 1
      console.log(`FAILED ${title}\n${error.stack}\n`)
    }
  }
  await browser.close()
  console.log(`${what}: ${passed} passed, ${failed} failed`)
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0
  return context
}
