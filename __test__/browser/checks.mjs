// What a report shows, looked at in a real browser.
import assert from 'node:assert/strict'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { report, serveReport } from 'ztensor'
import { safetensors } from '../helpers/command.mjs'
import { HOSTILE } from '../helpers/report-page.mjs'
import { writeLlama, writeMany } from './models.mjs'
import { accessibility, closeQuiet, openReport, overflows } from './page.mjs'

const fixtures = fileURLToPath(new URL('../fixtures', import.meta.url))
const MANY = 100_000

/** Writes the models and their reports into a folder. */
export async function prepare(folder) {
  const path = (name) => join(folder, name)
  await writeLlama(path('base.safetensors'), { layers: 8 })
  await writeLlama(path('tuned.safetensors'), { layers: 8, tuned: true, faults: true })
  writeFileSync(path('llama.html'), await report(path('tuned.safetensors'), { against: path('base.safetensors') }))
  await writeMany(path('many.safetensors'), MANY)
  writeFileSync(path('many.html'), await report(path('many.safetensors'), { statistics: false }))
  return path
}

const texts = (page, selector) => page.locator(selector).allInnerTexts()

/** Clicks the button of this very name in a group of choices. */
const choose = (page, name) => page.getByRole('button', { name, exact: true }).click()

async function withReport(browser, path, options, look) {
  const opened = await openReport(browser, path, options)
  await look(opened.page)
  await closeQuiet(opened)
}

const VIEWS = ['overview', 'bytes', 'layout', 'values', 'diff']

export const checks = {
  'the overview has facts, dtypes, modules folded to × 8, and metadata': async (browser, path) => {
    await withReport(browser, path('llama.html'), {}, async (page) => {
      const facts = await texts(page, '.facts div')
      assert.ok(
        facts.some((text) => /Tensors\s+75/.test(text)),
        facts.join(),
      )
      assert.ok(
        facts.some((text) => /Format\s+safetensors/.test(text)),
        facts.join(),
      )
      await page.waitForSelector('.times')
      assert.deepEqual(await texts(page, '.times'), ['× 8'])
      assert.ok((await texts(page, '.metadata dt')).includes('license'))
      await page.fill('#search', 'adamw')
      assert.deepEqual(await texts(page, '.metadata dt'), ['training.optimizer'])
    })
  },

  'the treemap zooms by mouse and keyboard, and its table has the same': async (browser, path) => {
    await withReport(browser, path('llama.html'), { view: 'bytes' }, async (page) => {
      const names = () => page.locator('.area').evaluateAll((areas) => areas.map((area) => area.ariaLabel))
      assert.ok(
        (await names()).some((name) => /^0 … 7 × 8, .*%/.test(name)),
        (await names()).join('\n'),
      )
      const first = page.locator('.area[tabindex="0"]')
      await first.focus()
      assert.match(await first.getAttribute('aria-label'), /^model, /)
      await page.keyboard.press('Enter')
      await page.waitForFunction(() => document.querySelector('.crumbs b').textContent === 'model')
      assert.deepEqual((await texts(page, '.plain tbody .link')).sort(), [
        'embed_tokens.weight',
        'layers',
        'norm.weight',
      ])
      await page.locator('.area[tabindex="0"]').focus()
      await page.keyboard.press('ArrowDown')
      assert.equal(await page.evaluate(() => document.activeElement.classList.contains('area')), true)
      await page.keyboard.press('Escape')
      await page.waitForFunction(() => document.querySelector('.crumbs b').textContent === 'All')
      await page.getByLabel('Fold identical blocks').uncheck()
      assert.ok(!(await names()).some((name) => name.includes('×')))
      await choose(page, 'outliers')
      assert.ok((await page.locator('.area.heat-7, .area.heat-6, .area.heat-5').count()) > 0)
    })
  },

  'the layout lists what lies where, and what is aliased': async (browser, path) => {
    await withReport(browser, path('llama.html'), { view: 'layout' }, async (page) => {
      const rows = await texts(page, '.grid tbody tr')
      assert.match(rows[0], /^0\s+.*header and index/)
      assert.match(rows[1], /lm_head\.bias\s+data\s+raw\s+aliased/)
      assert.match((await texts(page, '.card')).join(), /aliased\s+aliases the file \(zero-copy\)\s+75/)
      const box = await page.locator('.filemap canvas').boundingBox()
      await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
      await page.waitForFunction(() => / at [\d,]+$/.test(document.querySelector('.tip').textContent))
      await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2)
      assert.match(await page.locator('.panel h2').innerText(), /^model\./)
    })
  },

  'the values sort, filter and show their histogram': async (browser, path) => {
    await withReport(browser, path('llama.html'), { view: 'values' }, async (page) => {
      await page.getByRole('button', { name: 'largest σ' }).click()
      assert.equal(await page.locator('th[aria-sort="descending"]').innerText(), 'largest σ ↓')
      assert.match((await texts(page, '.grid tbody tr')).at(0), /layers\.1\.mlp\.down_proj/)
      await page.locator('.grid tbody .link').first().click()
      assert.equal((await page.locator('.panel .bar-fill').count()) >= 48, true)
      await choose(page, 'log')
      await page.keyboard.press('Escape')
      await page.waitForSelector('.panel', { state: 'detached' })
      assert.match(await page.evaluate(() => document.activeElement.textContent), /down_proj/)
      await page.keyboard.press('/')
      await page.keyboard.type('layers.3 float32')
      await page.waitForFunction(() => document.querySelectorAll('.grid tbody tr').length === 2)
      assert.match(await page.locator('.filter').innerText(), /^2 tensors of 75/)
    })
  },

  'suspects, layers and the heat map find what is wrong': async (browser, path) => {
    await withReport(browser, path('llama.html'), { view: 'values' }, async (page) => {
      await choose(page, 'Suspects')
      const found = (await texts(page, '.grid tbody tr')).map((row) => row.replace(/\s+/g, ' '))
      assert.match(found[0], /^not finite model\.layers\.3\.self_attn\.k_proj\.weight 1 NaN, 1 infinite of 16,384/)
      assert.ok(
        found.some((row) => /^outliers model\.layers\.1\.mlp\.down_proj/.test(row)),
        found.join('\n'),
      )
      assert.ok(
        found.some((row) => /^all zero model\.layers\.5\.self_attn\.v_proj/.test(row)),
        found.join('\n'),
      )
      await choose(page, 'Layers')
      assert.equal(await page.locator('.small-multiples figure').count(), 9)
      await choose(page, 'Heat map')
      assert.equal(await page.locator('.heat td button').count(), 72)
      await page.locator('.heat td button').first().focus()
      await page.keyboard.press('ArrowRight')
      await page.keyboard.press('ArrowDown')
      assert.match(await page.evaluate(() => document.activeElement.ariaLabel), /^model\.layers\.1\./)
      await page.keyboard.press('Enter')
      await page.waitForSelector('.panel')
    })
  },

  'the difference names what changed, and which layers moved most': async (browser, path) => {
    await withReport(browser, path('llama.html'), { view: 'diff' }, async (page) => {
      assert.match(await page.locator('.against').innerText(), /base\.safetensors \(safetensors, 74 tensors\)/)
      const rows = await texts(page, '.grid tbody tr')
      assert.match(rows[0], /layers\.5\.self_attn\.v_proj\.weight\s+values\s+100 %/)
      assert.match(rows[1], /layers\.7\./)
      const layers = await texts(page, '.plain tbody tr')
      assert.match(
        layers.find((row) => row.startsWith('7')),
        /^7\s+7\s+1\.\d+ %/,
      )
      await page.locator('.grid tbody .link').nth(1).click()
      await page.waitForSelector('text=‖Δ‖ / ‖before‖')
      await choose(page, 'added 1')
      assert.match((await texts(page, '.grid tbody tr'))[0], /lm_head\.bias/)
    })
  },

  'a module that is chosen limits all views, until it is left': async (browser, path) => {
    await withReport(browser, path('llama.html'), {}, async (page) => {
      await page.waitForSelector('.module')
      await page.locator('.module', { hasText: 'layers' }).click()
      await page.getByRole('link', { name: 'Values' }).click()
      assert.equal(await page.locator('h2').first().innerText(), '72 tensors')
      await page.getByRole('button', { name: 'Leave the module' }).click()
      assert.equal(await page.locator('h2').first().innerText(), '75 tensors')
    })
  },

  'the colours follow the system, and the switch': async (browser, path) => {
    await withReport(browser, path('llama.html'), { dark: true }, async (page) => {
      const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
      const dark = await ground()
      await page.emulateMedia({ colorScheme: 'light' })
      const light = await ground()
      assert.notEqual(light, dark)
      await page.getByRole('button', { name: 'Use dark colors' }).click()
      assert.equal(await ground(), dark)
    })
  },

  'hostile names do nothing, and are seen for what they are': async (browser, path) => {
    const tensors = Object.create(null)
    for (const name of HOSTILE) tensors[name] = ['F32', [2], Float32Array.of(1, 2)]
    const metadata = Object.fromEntries(HOSTILE.map((name, at) => [`${at}${name}`, name]))
    const file = path('hostile.safetensors')
    writeFileSync(file, safetensors(tensors, metadata))
    const html = path('hostile.html')
    writeFileSync(html, await report(file, { against: file }))
    for (const view of VIEWS) {
      await withReport(browser, html, { view }, async (page) => {
        assert.equal(await page.locator('img, main script, iframe').count(), 0)
        if (view !== 'values') return
        const names = await texts(page, '.grid tbody .name')
        assert.ok(names.includes('</script><script>globalThis.hit = 1</script>'), names.join('\n'))
        assert.ok(names.includes('evil\\u{202e}txt.exe'))
        assert.ok(names.includes('__proto__'))
        for (const link of await page.locator('.grid tbody .link').all()) await link.click()
        for (const tab of ['Suspects', 'Layers', 'Heat map']) await choose(page, tab)
      })
    }
  },

  'files of every kind open without a complaint': async (browser, path) => {
    // One of each: the first file with an ending.
    const names = new Map()
    for (const name of readdirSync(fixtures, { recursive: true }).sort()) {
      const [ending] = /(?<=\.)(?:zt|safetensors|gguf|npz|npy|onnx|btf|pt|h5|keras|tflite|arrow)$/.exec(name) ?? []
      if (ending !== undefined && !names.has(ending)) names.set(ending, name)
    }
    assert.ok(names.size > 6, [...names.values()].join())
    for (const name of names.values()) {
      const html = path('fixture.html')
      writeFileSync(html, await report(join(fixtures, name)))
      const opened = await openReport(browser, html)
      for (const view of VIEWS.slice(0, 4)) {
        await opened.page.goto(`${opened.page.url().replace(/#.*/, '')}#${view}`)
        await opened.page.waitForSelector('main > *')
      }
      await closeQuiet(opened)
    }
  },

  'a table of 100,000 tensors holds only the rows in sight': async (browser, path) => {
    await withReport(browser, path('many.html'), { view: 'values' }, async (page) => {
      assert.equal(await page.locator('h2').first().innerText(), '100,000 tensors')
      assert.ok((await page.locator('.grid tbody tr').count()) < 60)
      await page.locator('.grid').evaluate((grid) => {
        grid.scrollTop = grid.scrollHeight
      })
      await page.waitForSelector('tr[aria-rowindex="100001"]')
      await page.fill('#search', 'layers.99.experts.7.')
      await page.waitForFunction(() => document.querySelector('h2').textContent === '9 tensors')
      for (const view of VIEWS.slice(0, 3)) {
        await page.goto(`${page.url().replace(/#.*/, '')}#${view}`)
        await page.waitForSelector('main > *')
      }
    })
  },

  'a page that is served reads values and slices as they are looked at': async (browser, path) => {
    const server = await serveReport(path('tuned.safetensors'))
    try {
      await withReport(browser, server.url, { view: 'values' }, async (page) => {
        assert.match((await texts(page, '.grid tbody tr'))[1], /–/)
        await page.locator('.grid tbody .link').nth(1).click()
        await page.waitForSelector('.panel .bar-fill')
        await page.waitForFunction(() => /^1 × 256/.test(document.querySelector('.slice + .note')?.textContent ?? ''))
        assert.equal(await page.locator('canvas.slice').evaluate(({ width }) => width), 256)
        assert.deepEqual(await accessibility(page), [])
      })
    } finally {
      await server.close()
    }
  },
}

for (const [dark, width] of [
  [false, 1280],
  [true, 400],
]) {
  checks[`axe finds nothing serious, and nothing sticks out (${dark ? 'dark' : 'light'}, ${width} pixels)`] = async (
    browser,
    path,
  ) => {
    for (const view of VIEWS) {
      await withReport(browser, path('llama.html'), { view, width, dark }, async (page) => {
        if (view === 'overview') await page.waitForSelector('.outline')
        assert.equal(await overflows(page), false, `${view} is wider than the window`)
        assert.deepEqual(await accessibility(page), [], view)
        if (view !== 'values') return
        for (const tab of ['Suspects', 'Layers', 'Heat map']) {
          await choose(page, tab)
          assert.equal(await overflows(page), false, `${tab} is wider than the window`)
          assert.deepEqual(await accessibility(page), [], tab)
        }
        await page.locator('.heat td button').nth(2).click()
        assert.deepEqual(await accessibility(page), [], 'the panel')
      })
    }
  }
}
