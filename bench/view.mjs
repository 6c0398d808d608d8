// `node bench/view.mjs`: how long it takes to make a report of 100,000 tensors, and to show it in a browser. Needs a chromium.
//   --quick   5,000 tensors, one round
import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { report } from 'ztensor/report'
import { startChromium } from '../__test__/runners/chromium.mjs'
import { root } from '../scripts/command.mjs'
import { Inputs } from './inputs.mjs'

const quick = process.argv.includes('--quick')
const rounds = quick ? 1 : 5
const folder = join(root, 'build/bench')
mkdirSync(folder, { recursive: true })
const { path } = new Inputs(folder, quick).many()
const html = join(folder, 'report.html')

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]
const rows = []

async function timed(what, work) {
  const times = []
  for (let round = 0; round < rounds; round++) times.push(await work())
  rows.push([what, Math.round(median(times))])
}

async function clock(work) {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

await timed('report(), values read', () => clock(async () => writeFileSync(html, await report(path))))
await timed('report(), index alone', () => clock(() => report(path, { statistics: false })))

const browser = await startChromium()
// The first page of a browser waits for the browser.
await (await browser.newPage()).goto('about:blank')

/** Milliseconds from the start of the navigation to a paint, of anything and of the view. */
async function paints(view) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
  await page.addInitScript(() => {
    const look = () => {
      if (document.querySelector('main > *') === null) requestAnimationFrame(look)
      // The callback of a frame comes before its paint, the one of the next after it.
      else requestAnimationFrame(() => Object.assign(globalThis, { shown: performance.now() }))
    }
    requestAnimationFrame(look)
  })
  await page.goto(`${pathToFileURL(html)}#${view}`)
  await page.waitForFunction(() => globalThis.shown)
  const found = await page.evaluate(() => ({
    first: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Number.NaN,
    shown: globalThis.shown,
  }))
  await page.close()
  return found
}

await timed('first paint', async () => (await paints('overview')).first)
for (const view of ['overview', 'bytes', 'layout', 'values']) {
  await timed(`${view} is shown`, async () => (await paints(view)).shown)
}

const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
await page.goto(`${pathToFileURL(html)}#values`)
await page.waitForSelector('.grid tbody tr')
/** Milliseconds until the change by an action is painted. */
const act = (script, argument) =>
  page.evaluate(
    async ([source, argument]) => {
      const begun = performance.now()
      document.querySelector(source)[argument.call](...argument.with)
      if (argument.type !== undefined) {
        const input = document.querySelector(source)
        input.value = argument.type
        input.dispatchEvent(new Event('input', { bubbles: true }))
      }
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
      return performance.now() - begun
    },
    [script, argument],
  )
await timed('sort by std', () => act('th:nth-child(8) button', { call: 'click', with: [] }))
await timed('sort by name', () => act('th:nth-child(1) button', { call: 'click', with: [] }))
await timed('search', () =>
  act('#search', { call: 'focus', with: [], type: `experts.${Math.floor(Math.random() * 9)}` }),
)
await timed('scroll by a page', () => act('.grid', { call: 'scrollBy', with: [0, 500] }))
await browser.close()

console.log(
  `${cpus().length} × ${cpus()[0]?.model}, Node ${process.version}; ${statSync(html).size} bytes of HTML; medians of ${rounds}, ms`,
)
for (const [what, time] of rows) console.log(`${what.padEnd(24)}${time}`)
