// Pages in a browser that notices whatever a report must not do: ask for something, complain, or break its policy.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Opens a page of a report; `path` is a file, or the URL of a server. */
export async function openReport(browser, path, { view = 'overview', width = 1280, height = 900, dark = false } = {}) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light' })
  const noticed = []
  const url = path.startsWith('http:') ? path : pathToFileURL(path).href
  page.on('console', (message) => noticed.push(`console ${message.type()}: ${message.text()}`))
  page.on('pageerror', (error) => noticed.push(`error: ${error.message}`))
  page.on('dialog', (dialog) => {
    noticed.push(`dialog: ${dialog.message()}`)
    dialog.dismiss()
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(url.replace(/#.*/, '')) && request.url() !== 'data:,')
      noticed.push(`request: ${request.url()}`)
  })
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error('policy', event.violatedDirective))
  })
  await page.goto(`${url}#${view}`)
  await page.waitForSelector('main > *')
  return { page, noticed }
}

/** Closes a page that must have been quiet. */
export async function closeQuiet({ page, noticed }) {
  const hit = await page.evaluate(() => globalThis.hit)
  await page.close()
  assert.equal(hit, undefined, 'a name was executed')
  assert.deepEqual(noticed, [])
}

/** Serious and critical findings of axe about what is to be seen. The policy of the page does not bind what a test evaluates. */
export async function accessibility(page) {
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run(document, {
      resultTypes: ['violations'],
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice'],
    }),
  )
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`)
          .join(' | ')}`,
    )
}

/** Whether the page is wider than its window. */
export const overflows = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth)
