// Opens pages in a browser and records what a report must not do: send requests, log errors, or violate its policy.
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
  await measured(page)
  return { page, noticed }
}

/** Waits until a treemap knows its width: before that it has no areas. */
export const measured = (page) =>
  page.waitForFunction(() => document.querySelector('.treemap:not(:has(.area))') === null)

/** Waits until the page shows a view: an address changes before its view appears. */
export async function viewShown(page, view) {
  await page.waitForFunction((hash) => document.querySelector('nav [aria-current]').hash === `#${hash}`, view)
  await measured(page)
}

/** Shows another view of an open report. */
export async function goTo(page, view) {
  await page.evaluate((hash) => {
    location.hash = hash
  }, view)
  await viewShown(page, view)
}

/** Closes a page, and asserts that it recorded nothing. */
export async function closeQuiet({ page, noticed }) {
  const hit = await page.evaluate(() => globalThis.hit)
  await page.close()
  assert.equal(hit, undefined, 'a name was executed')
  assert.deepEqual(noticed, [])
}

/** Serious and critical findings of axe about visible content. The policy of the page does not apply to code of a test. */
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

/**
 * The numbers with a unit, the shapes, and the numbers of tables that are partly hidden: by a parent element, by the window, or by the next
 * column.
 */
export const cutNumbers = (page) =>
  page.evaluate(() => {
    const found = []
    const walker = document.createTreeWalker(document.querySelector('#app'), NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const text = node.textContent.trim()
      const parent = node.parentElement
      const inTable = parent.closest('td.number, .legend, .facts, .amount, svg') !== null
      if (!/\d[\d.,]* (B|[KMGTPE]iB)|^\[[\d, ]+\]$/.test(text) && !(inTable && /\d/.test(text))) continue
      if (parent.closest('.hidden, details:not([open]) > :not(summary), title, option') !== null) continue
      const range = document.createRange()
      range.selectNodeContents(node)
      const { left, right, width } = range.getBoundingClientRect()
      if (width === 0) {
        found.push(`${text}: not shown`)
        continue
      }
      if (left < -1 || right > innerWidth + 1) found.push(`${text}: outside of the window`)
      for (let around = parent; around !== null; around = around.parentElement) {
        const { overflowX, textOverflow } = getComputedStyle(around)
        if (overflowX === 'visible' || around === document.documentElement) continue
        const box = around.getBoundingClientRect()
        // Text with an ellipsis has the box of its visible part.
        const shortened = textOverflow === 'ellipsis' && around.scrollWidth > around.clientWidth
        if (shortened || left < box.left - 1 || right > box.right + 1) {
          found.push(`${text}: cut by ${around.tagName.toLowerCase()}.${around.getAttribute('class')}`)
          break
        }
      }
    }
    return found
  })

/** Waits until the page is drawn in a new width: elements are measured in one frame and redrawn in the next. */
export const resized = (page) =>
  page.evaluate(async () => {
    for (let frame = 0; frame < 4; frame++) {
      await new Promise((drawn) => {
        requestAnimationFrame(() => setTimeout(drawn))
      })
    }
  })
