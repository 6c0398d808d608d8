// Checks the page that opens files in a browser (page/): with files, folders and URLs, in a real browser.
import assert from 'node:assert/strict'
import { createReadStream, mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { basename, join, normalize } from 'node:path'
import { convert } from 'ztensor'
import { pageFolder } from '../../scripts/page.mjs'
import { safetensors } from '../helpers/command.mjs'
import { HOSTILE } from '../helpers/report-page.mjs'
import { checkpoint } from '../helpers/tiny-checkpoint.mjs'
import { writeLlama, writeMany, writeQuantized } from './models.mjs'
import { accessibility, goTo, measured, overflows } from './page.mjs'

const MANY = 100_000
/** A file that is larger than an array of a browser. */
const LARGE = 5 * 2 ** 30

const TYPES = { html: 'text/html; charset=utf-8', js: 'text/javascript', css: 'text/css', wasm: 'application/wasm' }

/** Serves the page at `/`, and files of `folder` by ranges at `/files/`. Records the bytes of the files that it sends. */
async function served(folder) {
  const sent = { bytes: 0 }
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname)
    const isPage = !path.startsWith('/files/')
    const root = isPage ? pageFolder : folder
    const file = join(root, normalize(isPage ? path : path.slice('/files'.length)))
    const found = statSync(file.endsWith('/') ? join(file, 'index.html') : file, { throwIfNoEntry: false })
    if (found?.isFile() !== true) return response.writeHead(404).end()
    const name = file.endsWith('/') ? join(file, 'index.html') : file
    const type = TYPES[name.split('.').at(-1)] ?? 'application/octet-stream'
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '')
    if (isPage || range === null) {
      response.writeHead(200, { 'content-type': type, 'content-length': found.size })
      return createReadStream(name).pipe(response)
    }
    const [start, end] = [Number(range[1]), Math.min(Number(range[2]), found.size - 1)]
    response.writeHead(206, { 'content-type': type, 'content-range': `bytes ${start}-${end}/${found.size}` })
    sent.bytes += end - start + 1
    return createReadStream(name, { start, end }).pipe(response)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { origin: `http://127.0.0.1:${server.address().port}`, sent, close: () => server.close() }
}

/** Writes the models into a folder, and serves it and the page. */
export async function prepare(folder) {
  const path = (name) => join(folder, name)
  await writeLlama(path('llama.safetensors'), { layers: 2 })
  await convert(path('llama.safetensors'), path('set.safetensors'), { maxShardBytes: 100_000 })
  writeQuantized(path('quantized.gguf'))
  writeFileSync(
    path('hostile.safetensors'),
    safetensors(Object.fromEntries(HOSTILE.map((name) => [name, ['U8', [1], Uint8Array.of(1)]]))),
  )
  writeFileSync(path('damaged.safetensors'), readFileSync(path('llama.safetensors')).subarray(0, 5000))
  await writeMany(path('many.safetensors'), MANY)
  const header = Buffer.from(
    JSON.stringify({ large: { dtype: 'F32', shape: [LARGE / 4096, 1024], data_offsets: [0, LARGE] } }),
  )
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  writeFileSync(path('large.safetensors'), Buffer.concat([length, header]))
  truncateSync(path('large.safetensors'), 8 + header.length + LARGE)
  mkdirSync(path('model'))
  await convert(path('llama.safetensors'), path('model/model.safetensors'), { maxShardBytes: 100_000 })
  writeFileSync(path('model/config.json'), '{"model_type":"llama"}')
  const { folder: checkpointFolder } = await checkpoint()
  return { path, checkpoint: checkpointFolder, ...(await served(folder)) }
}

/** Opens the page, and passes it to `look`. The page sends no request but to its own server, and logs nothing. */
async function withPage(browser, { origin }, { search = '', width = 1280, dark = false, picker = true } = {}, look) {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: dark ? 'dark' : 'light' })
  const noticed = []
  page.on('console', (message) => noticed.push(`console ${message.type()}: ${message.text()}`))
  page.on('pageerror', (error) => noticed.push(`error: ${error.message}`))
  page.on('request', (request) => {
    if (!request.url().startsWith(origin) && request.url() !== 'data:,') noticed.push(`request: ${request.url()}`)
  })
  await page.addInitScript((picker) => {
    addEventListener('securitypolicyviolation', (event) => console.error('policy', event.violatedDirective))
    if (!picker) delete globalThis.showDirectoryPicker
    // Without it, files are saved as downloads.
    delete globalThis.showSaveFilePicker
  }, picker)
  await page.goto(`${origin}/${search}`)
  await page.waitForSelector('h1')
  await look(page, noticed)
  assert.equal(await page.evaluate(() => globalThis.hit), undefined, 'a name was executed')
  await page.close()
  assert.deepEqual(noticed, [])
}

const choose = (page, files) => page.locator('input[type=file]').first().setInputFiles(files)

/** Waits for the report. */
async function shown(page) {
  await page.waitForSelector('main > *:not(.brand)')
  await page.waitForSelector('nav [aria-current]')
  await measured(page)
}

const heading = (page) => page.locator('h1').innerText()

const failure = async (page) => {
  await page.waitForSelector('[role=alert]')
  return page.locator('[role=alert]').innerText()
}

export const checks = {
  'a chosen file is shown, with values on demand, and another one after it': (browser, context) =>
    withPage(browser, context, {}, async (page) => {
      await choose(page, context.path('llama.safetensors'))
      await shown(page)
      assert.equal(await heading(page), 'llama.safetensors')
      assert.match(await page.title(), /^llama\.safetensors · ztensor$/)
      await goTo(page, 'values')
      await page.locator('.grid tbody .link', { hasText: 'layers.0.input_layernorm' }).click()
      await page.waitForSelector('.panel .bar-fill')
      await page.waitForFunction(() => /^1 × 256/.test(document.querySelector('.slice + .note')?.textContent ?? ''))
      assert.deepEqual(await accessibility(page), [])
      await page.getByRole('button', { name: 'Open another' }).click()
      await page.waitForSelector('.start')
      assert.equal(await page.title(), 'Look at a model · ztensor')
      await choose(page, context.path('quantized.gguf'))
      await shown(page)
      assert.equal(await heading(page), 'quantized.gguf')
    }),

  'the files of a set are one model': (browser, context) =>
    withPage(browser, context, {}, async (page) => {
      const index = JSON.parse(readFileSync(context.path('set.safetensors.index.json'), 'utf8'))
      const shards = [...new Set(Object.values(index.weight_map))]
      assert.ok(shards.length > 1)
      await choose(page, ['set.safetensors.index.json', ...shards].map(context.path))
      await shown(page)
      const count = Object.keys(index.weight_map).length
      assert.match(await page.locator('.summary').innerText(), new RegExp(`${count} tensors`))
    }),

  'a folder is one model': (browser, context) =>
    withPage(browser, context, { picker: false }, async (page) => {
      await page.locator('input[webkitdirectory]').setInputFiles(context.path('model'))
      await shown(page)
      assert.equal(await heading(page), 'model')
    }),

  'a file is dropped': (browser, context) =>
    withPage(browser, context, {}, async (page) => {
      const bytes = [...readFileSync(context.path('quantized.gguf'))]
      await page.evaluate((bytes) => {
        const data = new DataTransfer()
        data.items.add(new File([new Uint8Array(bytes)], 'dropped.gguf'))
        dispatchEvent(new DragEvent('dragover', { dataTransfer: data, cancelable: true }))
        if (document.querySelector('.start.over') === null) globalThis.notOver = true
        dispatchEvent(new DragEvent('drop', { dataTransfer: data, cancelable: true }))
      }, bytes)
      await shown(page)
      assert.equal(await heading(page), 'dropped.gguf')
    }),

  'a URL is opened by ranges, and the address of the page names it': (browser, context) =>
    withPage(browser, context, {}, async (page) => {
      const url = `${context.origin}/files/large.safetensors`
      await page.fill('#address', url)
      context.sent.bytes = 0
      await page.keyboard.press('Enter')
      await shown(page)
      assert.equal(await heading(page), 'large.safetensors')
      assert.ok(context.sent.bytes < 2 ** 20, `${context.sent.bytes} bytes were fetched`)
      assert.equal(await page.evaluate(() => new URLSearchParams(location.search).get('url')), url)
      await page.reload()
      await shown(page)
      assert.equal(await heading(page), 'large.safetensors')
    }),

  'a file of 5 GiB is shown, and parts of its tensor': (browser, context) =>
    withPage(browser, context, {}, async (page) => {
      await choose(page, context.path('large.safetensors'))
      await shown(page)
      assert.match(await page.locator('.summary').innerText(), /5\.0 GiB/)
    }),

  'hostile names are only text': (browser, context) =>
    withPage(browser, context, {}, async (page) => {
      await choose(page, context.path('hostile.safetensors'))
      await shown(page)
      for (const view of ['bytes', 'map', 'values', 'overview']) await goTo(page, view)
    }),

  '100,000 tensors': (browser, context) =>
    withPage(browser, context, {}, async (page) => {
      await choose(page, context.path('many.safetensors'))
      await shown(page)
      assert.match(await page.locator('.summary').innerText(), /100,000 tensors/)
    }),

  'a folder of a checkpoint becomes a quantized GGUF': (browser, context) =>
    withPage(browser, context, { picker: false }, async (page) => {
      await page.locator('input[webkitdirectory]').setInputFiles(context.checkpoint)
      await shown(page)
      await page.getByRole('button', { name: 'Convert' }).click()
      const form = page.locator('dialog form')
      await form.getByLabel('Weights').selectOption('q8_0')
      const [saved] = await Promise.all([
        page.waitForEvent('download'),
        form.getByRole('button', { name: 'Convert' }).click(),
      ])
      assert.equal(saved.suggestedFilename(), `${basename(context.checkpoint)}-q8_0.gguf`)
      const expected = context.path('expected.gguf')
      await convert(context.checkpoint, expected, { quantize: 'q8_0' })
      assert.ok(readFileSync(await saved.path()).equals(readFileSync(expected)))
    }),

  'a file is converted, and saved by the browser': (browser, context) =>
    withPage(browser, context, {}, async (page) => {
      await choose(page, context.path('llama.safetensors'))
      await shown(page)
      await page.getByRole('button', { name: 'Convert' }).click()
      assert.deepEqual(await accessibility(page), [])
      const form = page.locator('dialog form')
      await form.getByLabel('Format').selectOption('zt')
      const [saved] = await Promise.all([
        page.waitForEvent('download'),
        form.getByRole('button', { name: 'Convert' }).click(),
      ])
      assert.equal(saved.suggestedFilename(), 'llama.zt')
      await page.waitForSelector('dialog [role=status]')
      assert.match(await page.locator('dialog [role=status]').innerText(), /^Wrote llama\.zt: 20 tensors, /)
      const expected = context.path('expected.zt')
      await convert(context.path('llama.safetensors'), expected, { version: '2', canonical: false })
      assert.ok(readFileSync(await saved.path()).equals(readFileSync(expected)))
      // No configuration: llama.cpp could not use it.
      await form.getByLabel('Format').selectOption('gguf')
      await form.getByLabel('Weights').selectOption('q4_k_m')
      await form.getByRole('button', { name: 'Convert' }).click()
      await page.waitForSelector('dialog [role=alert]')
      assert.match(await page.locator('dialog [role=alert]').innerText(), /general\.architecture/)
      await page.keyboard.press('Escape')
      await page.waitForSelector('dialog', { state: 'hidden' })
    }),

  'a damaged file, no file and other addresses are errors': (browser, context) =>
    withPage(browser, context, {}, async (page, noticed) => {
      await choose(page, context.path('damaged.safetensors'))
      assert.match(await failure(page), /ZT_/)
      assert.deepEqual(await accessibility(page), [])
      for (const [address, says] of [
        ['ftp://a/b', /Only URLs that begin with https:, http: or hf:/],
        ['hf://owner/name', /Name a file of the repository/],
        [`${context.origin}/files/none.safetensors`, /ZT_NOT_FOUND/],
      ]) {
        await page.fill('#address', address)
        await page.keyboard.press('Enter')
        await page.waitForSelector('[role=status]', { state: 'detached' })
        assert.match(await failure(page), says)
      }
      // Browsers log each response of 404.
      assert.match(noticed.pop() ?? '', /404/)
      while (/404/.test(noticed.at(-1) ?? '')) noticed.pop()
    }),

  'the keyboard reaches everything': (browser, context) =>
    withPage(browser, context, {}, async (page) => {
      const reached = []
      for (let step = 0; step < 5; step++) {
        await page.keyboard.press('Tab')
        reached.push(await page.evaluate(() => document.activeElement.type || document.activeElement.tagName))
      }
      assert.deepEqual(reached, ['A', 'file', 'button', 'text', 'submit'])
    }),
}

for (const [dark, width] of [
  [false, 1280],
  [true, 400],
])
  checks[
    `axe finds nothing serious at the start, and nothing sticks out (${dark ? 'dark' : 'light'}, ${width} pixels)`
  ] = (browser, context) =>
    withPage(browser, context, { dark, width }, async (page) => {
      assert.equal(await overflows(page), false)
      assert.deepEqual(await accessibility(page), [])
    })
