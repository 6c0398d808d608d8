// Makes the pictures in docs/pictures from a report of a made-up Llama: `node scripts/screenshots.mjs`. Needs `npm run build` first,
// and a chromium.
import assert from 'node:assert/strict'
import { mkdtempSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { report } from 'ztensor/report'
import { writeLlama } from '../__test__/browser/models.mjs'
import { startChromium } from '../__test__/runners/chromium.mjs'
import { root } from './command.mjs'

/** The maximum size of a picture, which a page of documentation loads. */
const MAX_BYTES = 200_000

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ztensor-pictures-')))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
const [base, tuned, html] = ['llama-base.safetensors', 'llama-tuned.safetensors', 'report.html'].map((name) =>
  join(folder, name),
)
await writeLlama(base)
await writeLlama(tuned, { tuned: true, faults: true })
writeFileSync(html, await report(tuned, { against: base }))

const browser = await startChromium()

async function picture(name, { view, dark = false, height = 860 }, act) {
  const page = await browser.newPage({ viewport: { width: 1280, height }, colorScheme: dark ? 'dark' : 'light' })
  await page.goto(`file://${html}#${view}`)
  await page.waitForSelector('main > *')
  await act(page)
  // The pointer would highlight the element below it.
  await page.mouse.move(1, 1)
  await page.evaluate(() => document.activeElement.blur())
  const path = join(root, 'docs/pictures', name)
  await page.screenshot({ path })
  await page.close()
  const { size } = statSync(path)
  assert.ok(size < MAX_BYTES, `${name} has ${size} bytes`)
  console.log(`${name}: ${Math.ceil(size / 1000)} KB`)
}

await picture('view.png', { view: 'bytes' }, async (page) => {
  await page.getByLabel('Fold identical blocks').uncheck()
  await page.getByRole('button', { name: 'outliers', exact: true }).click()
  await page.locator('.area[aria-label^="down_proj.weight"]').first().waitFor()
  await page.locator('.area.heat-5, .area.heat-6').last().click()
  await page.waitForSelector('.panel .bar-fill')
})

await picture('view-diff.png', { view: 'diff', dark: true }, async (page) => {
  await page.locator('.grid tbody .link').nth(2).click()
  await page.waitForSelector('.panel .bar-fill')
})

await browser.close()
