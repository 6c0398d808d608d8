// Checks what a report shows in a real browser.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { report, serveReport } from 'ztensor/report'
import { safetensors } from '../helpers/command.mjs'
import { HOSTILE } from '../helpers/report-page.mjs'
import { bytesOf, quantized, writeLlama, writeMany, writeNarrow, writeOneDtype, writeQuantized } from './models.mjs'
import { accessibility, closeQuiet, cutNumbers, goTo, openReport, overflows, resized, viewShown } from './page.mjs'

const fixtures = fileURLToPath(new URL('../fixtures', import.meta.url))
const MANY = 100_000

/** Writes the models and their reports into a folder. */
export async function prepare(folder) {
  const path = (name) => join(folder, name)
  await writeLlama(path('base.safetensors'), { layers: 8 })
  await writeLlama(path('tuned.safetensors'), { layers: 8, tuned: true, faults: true })
  writeFileSync(path('llama.html'), await report(path('tuned.safetensors'), { against: path('base.safetensors') }))
  writeQuantized(path('quantized.gguf'))
  writeFileSync(path('quantized.html'), await report(path('quantized.gguf')))
  await writeOneDtype(path('one.safetensors'))
  writeFileSync(path('one.html'), await report(path('one.safetensors')))
  await writeNarrow(path('narrow.safetensors'))
  writeFileSync(path('narrow.html'), await report(path('narrow.safetensors')))
  await writeMany(path('many.safetensors'), MANY)
  writeFileSync(path('many.html'), await report(path('many.safetensors'), { statistics: false }))
  return path
}

const texts = (page, selector) => page.locator(selector).allInnerTexts()

/** Clicks the button with exactly this name in a group of choices. */
const choose = (page, name) => page.getByRole('button', { name, exact: true }).click()

async function withReport(browser, path, options, look) {
  const opened = await openReport(browser, path, options)
  await look(opened.page)
  await closeQuiet(opened)
}

const VIEWS = ['overview', 'bytes', 'map', 'values', 'diff']
const TABS = ['Table', 'Suspects', 'Layers', 'Heat map']

/** The cells of a table as text, one array a row. */
const cells = (page, selector) =>
  page
    .locator(`${selector} tr`)
    .evaluateAll((rows) => rows.map(({ children }) => Array.from(children, (cell) => cell.textContent.trim())))

const largeNumber = (value) => (value >= 1e6 ? `${Number((value / 1e6).toPrecision(3))} M` : value.toLocaleString('en'))
const showBytes = (bytes) =>
  bytes < 2 ** 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`
const elementsOf = ([, shape]) => shape.reduce((one, other) => one * other)
const sum = (values) => values.reduce((total, value) => total + value, 0)

/** The classes with a prefix of some elements, without duplicates. */
const classes = async (page, selector, prefix) => {
  const all = await page
    .locator(selector)
    .evaluateAll((elements) => elements.flatMap(({ classList }) => [...classList]))
  return [...new Set(all.filter((name) => name.startsWith(prefix)))].sort()
}

export const checks = {
  'the address names the open tensor, and opens it again': async (browser, path) => {
    await withReport(browser, `${path('llama.html')}`, { view: 'values?tensor=lm_head.bias' }, async (page) => {
      assert.match(await page.locator('.panel h2').innerText(), /^lm_head\.bias/)
      assert.equal(await page.evaluate(() => document.querySelector('nav [aria-current]').hash), '#values')
      await page.fill('#search', 'model.norm.weight')
      await page.waitForFunction(() => document.querySelector('.filter')?.innerText.startsWith('1 of'))
      await page.locator('.grid tbody .link').first().click()
      await page.waitForFunction(() => location.hash === '#values?tensor=model.norm.weight')
      await goTo(page, 'bytes')
      await page.waitForFunction(() => location.hash === '#bytes?tensor=model.norm.weight')
      await page.keyboard.press('Escape')
      await page.waitForFunction(() => location.hash === '#bytes')
      await page.evaluate(() => {
        location.hash = '#map?tensor=model.embed_tokens.weight'
      })
      await page.waitForFunction(() =>
        document.querySelector('.panel h2')?.innerText.startsWith('model.embed_tokens.weight'),
      )
    })
    await withReport(browser, path('llama.html'), { view: 'values?tensor=no.such' }, async (page) => {
      assert.equal(await page.locator('.panel').count(), 0)
    })
  },

  'the overview of GGUF says which model it is, and the title is the given one': async (browser, path) => {
    const html = await report(path('quantized.gguf'), { title: 'Tiny <b>llama</b>' })
    writeFileSync(path('titled.html'), html)
    await withReport(browser, path('titled.html'), {}, async (page) => {
      assert.equal(await page.title(), 'Tiny <b>llama</b> · ztensor')
      assert.equal(await page.locator('h1').innerText(), 'Tiny <b>llama</b>')
      assert.match(await page.locator('.summary').innerText(), /^quantized\.gguf · gguf /)
      const facts = (await texts(page, '.facts div')).map((text) => text.replace(/\s+/g, ' '))
      assert.ok(facts.includes('Architecture llama'), facts.join())
      assert.ok(facts.includes('Chat template no'), facts.join())
    })
  },

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

  'a filtered report is labeled as such, and its file map shows the rest as others': async (browser, path) => {
    const filter = { filter: ['model.layers.0.*', '!*.bias'] }
    writeFileSync(path('part.html'), await report(path('tuned.safetensors'), filter))
    await withReport(browser, path('part.html'), {}, async (page) => {
      assert.match(await page.locator('.summary').innerText(), / \d+ of 75 tensors /)
      assert.match(
        (await texts(page, '.filter')).join(),
        /shows only the tensors that match model\.layers\.0\.\* !\*\.bias/,
      )
      await goTo(page, 'map')
      const rows = await texts(page, '.grid tbody tr')
      assert.match(rows[0], /^0\s+.*not in this report/)
      assert.ok(!rows.some((row) => /unused space|padding or headers|header and index/.test(row)), rows.join('\n'))
    })
    const server = await serveReport(path('tuned.safetensors'), filter)
    try {
      await withReport(browser, server.url, {}, async (page) => {
        assert.match(await page.locator('.summary').innerText(), / of 75 tensors .*live/)
      })
    } finally {
      await server.close()
    }
  },

  'the treemap zooms by mouse and keyboard, and its table has the same items': async (browser, path) => {
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

  'the file map lists the offset of each tensor, and whether it is aliased': async (browser, path) => {
    await withReport(browser, path('llama.html'), { view: 'map' }, async (page) => {
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
      assert.match(await page.locator('.filter').innerText(), /^2 of 75 tensors match/)
    })
  },

  'suspects, layers and the heat map show suspicious values': async (browser, path) => {
    await withReport(browser, path('llama.html'), { view: 'values' }, async (page) => {
      await choose(page, 'Suspects')
      const found = (await texts(page, '.grid tbody tr')).map((row) => row.replace(/\s+/g, ' '))
      assert.match(
        found[0],
        /^not finite NaN, ∞ model\.layers\.3\.self_attn\.k_proj\.weight 1 NaN, 1 infinite of 16,384/,
      )
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

  'the diff view names changed tensors, and the layers that changed most': async (browser, path) => {
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

  'the diff view lists the metadata that differs': async (browser, path) => {
    await withReport(browser, path('llama.html'), { view: 'diff' }, async (page) => {
      assert.deepEqual(await cells(page, '.pairs-of-values tbody'), [
        ['training.tokens', '1.8e12', '1.9e12'],
        ['training.base', 'none', 'base.safetensors'],
      ])
    })
  },

  'a table is copied and saved as it is shown': async (browser, path) => {
    await withReport(browser, path('llama.html'), { view: 'values' }, async (page) => {
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
      await page.locator('#search').fill('layers.0.mlp')
      await page.waitForFunction(() => document.querySelectorAll('.grid tbody tr').length === 3)
      const [saved] = await Promise.all([page.waitForEvent('download'), page.locator('.save').getByText('CSV').click()])
      assert.equal(saved.suggestedFilename(), 'tensors.csv')
      const lines = readFileSync(await saved.path(), 'utf8')
        .trimEnd()
        .split('\n')
      assert.match(lines[0], /^name,type,shape,bytes,min,max,mean,std,zeros,NaN,±∞,largest σ$/)
      assert.match(lines[1], /^model\.layers\.0\.mlp\.down_proj\.weight,bfloat16,"\[256, 688\]",352256,-?\d/)
      assert.equal(lines.length, 4)
      await page.locator('.save').getByText('Copy').click()
      await page.waitForSelector('.save >> text=Copied.')
      const copied = await page.evaluate(() => navigator.clipboard.readText())
      const rows = copied.trimEnd().split('\n')
      assert.deepEqual([rows.length, rows[1].split('\t')[2]], [4, '[256, 688]'])
    })
  },

  'the heat map fills its card': async (browser, path) => {
    await withReport(browser, path('llama.html'), { view: 'values' }, async (page) => {
      await choose(page, 'Heat map')
      const [table, card] = await page.evaluate(() =>
        ['.heat table', '.heat'].map((selector) => document.querySelector(selector).clientWidth),
      )
      assert.ok(table >= card - 1, `${table} of ${card}`)
    })
  },

  'names are in natural order in every view, also if rows are otherwise equal': async (browser, path) => {
    const stored = ['h.10.w', 'h.9.w', 'h.2.w', 'e_10.w', 'e_9.w', 'e_2.w']
    const natural = ['e_2.w', 'e_9.w', 'e_10.w', 'h.2.w', 'h.9.w', 'h.10.w']
    const file = (value) => {
      const data = new Float32Array(4).fill(value)
      return safetensors(Object.fromEntries(stored.map((name) => [name, ['F32', [4], data]])))
    }
    writeFileSync(path('order.safetensors'), file(0))
    writeFileSync(path('ones.safetensors'), file(1))
    writeFileSync(path('order.html'), await report(path('order.safetensors'), { against: path('ones.safetensors') }))
    await withReport(browser, path('order.html'), {}, async (page) => {
      const named = async (selector) => (await texts(page, selector)).map((name) => name.trim())
      await page.waitForSelector('.module')
      await page.getByLabel('Fold identical blocks').uncheck()
      await page.waitForFunction(() => document.querySelectorAll('.outline .module').length === 7)
      assert.deepEqual(await named('.outline .module'), ['e_2', 'e_9', 'e_10', 'h', '2', '9', '10'])
      await goTo(page, 'values')
      assert.deepEqual(await named('.grid tbody .link'), natural)
      await page.getByRole('button', { name: 'bytes' }).click()
      await page.waitForSelector('th[aria-sort="descending"]')
      assert.deepEqual(await named('.grid tbody .link'), natural)
      await page.getByRole('button', { name: 'name' }).click()
      await page.getByRole('button', { name: 'name' }).click()
      await page.waitForSelector('th[aria-sort="descending"]')
      assert.deepEqual(await named('.grid tbody .link'), natural.toReversed())
      await choose(page, 'Suspects')
      assert.deepEqual(await named('.grid tbody .link'), natural)
      await page.fill('#search', 'h.')
      await page.waitForFunction(() => document.querySelectorAll('.grid tbody .link').length === 3)
      assert.deepEqual(await named('.grid tbody .link'), natural.slice(3))
      await page.fill('#search', '')
      await goTo(page, 'diff')
      assert.deepEqual(await named('.grid tbody .link'), natural)
    })
  },

  'a selected module limits all views until it is cleared': async (browser, path) => {
    await withReport(browser, path('llama.html'), {}, async (page) => {
      await page.waitForSelector('.module')
      await page.locator('.module', { hasText: 'layers' }).click()
      await page.getByRole('link', { name: 'Values' }).click()
      await viewShown(page, 'values')
      assert.equal(await page.locator('h2').first().innerText(), '72 of 75 tensors')
      await page.getByRole('button', { name: 'Leave the module' }).click()
      assert.equal(await page.locator('h2').first().innerText(), '75 tensors')
    })
  },

  'a search filters every view, and shows how many of how many tensors match': async (browser, path) => {
    const all = [...quantized()]
    const searches = {
      q4_k: ([, , type]) => type === 'q4_k',
      Q6_K: ([, , type]) => type === 'q6_k',
      float32: ([, , type]) => type === 'float32',
      quantized: ([, , type]) => type !== 'float32',
      'blk.2.': ([name]) => name.startsWith('blk.2.'),
      'attn q?_k 256x256': ([name, shape, type]) => name.includes('attn') && /q._k/.test(type) && shape[0] === 256,
      'no such thing': () => false,
    }
    await withReport(browser, path('quantized.html'), {}, async (page) => {
      for (const [query, isMatch] of Object.entries(searches)) {
        const matching = all.filter(isMatch)
        const [count, bytes] = [matching.length, sum(matching.map(bytesOf))]
        const types = [...new Set(matching.map(([, , type]) => type))].sort()
        await page.fill('#search', query)
        await page.waitForFunction(
          (text) => document.querySelector('.filter')?.innerText.startsWith(text),
          `${count} of ${all.length} tensors match`,
        )

        await goTo(page, 'overview')
        await page.waitForSelector('.outline', { state: 'attached' })
        const facts = (await texts(page, '.facts div')).map((text) => text.replace(/\s+/g, ' '))
        assert.ok(facts.includes(`Tensors ${count} of ${all.length}`), facts.join())
        assert.ok(
          facts.some((fact) => fact.startsWith(`Parameters ${largeNumber(sum(matching.map(elementsOf)))} of`)),
          facts.join(),
        )
        assert.deepEqual((await cells(page, '.plain tbody')).map(([type]) => type).sort(), types)
        const outlined = await texts(page, '.outline .shape')
        assert.equal(
          outlined.some((text) => /q8_0/.test(text)),
          types.includes('q8_0'),
          query,
        )

        await goTo(page, 'bytes')
        const listed = await cells(page, '.plain tbody')
        assert.equal(sum(listed.map((row) => Number(row[1]))), count)
        assert.equal((await page.locator('.area').count()) > 0, count > 0)
        assert.deepEqual(
          (
            await page.locator('.area[aria-label]').evaluateAll((areas) => areas.map(({ ariaLabel }) => ariaLabel))
          ).filter((label) => /token_embd/.test(label)).length,
          types.includes('q8_0') ? 1 : 0,
        )

        await goTo(page, 'map')
        assert.equal(await page.locator('.grid').getByRole('row').count(), count + 1)
        assert.equal(await page.locator('.filemap').count(), count > 0 ? 1 : 0)
        const [pieces] = await cells(page, '.card:has-text("What the bytes are") tbody')
        assert.equal(Number(pieces?.[1] ?? 0), count)
        assert.equal(pieces?.[2] ?? '0.0 KiB', showBytes(bytes))

        await goTo(page, 'values')
        await choose(page, 'Table')
        assert.equal(await page.locator('h2').first().innerText(), `${count} of ${all.length} tensors`)
        assert.deepEqual((await texts(page, '.grid tbody .name')).sort(), matching.map(([name]) => name).sort())
        await choose(page, 'Heat map')
        const modules = matching.map(([name]) => name.replace(/^blk\.\d/, 'blk.*'))
        const repeated = modules.filter((name) => modules.filter((other) => other === name).length > 1)
        assert.equal(await page.locator('.heat td button').count(), repeated.length)
      }
      await page.getByRole('button', { name: 'Clear the search' }).click()
      assert.equal(await page.locator('.filter').count(), 0)
    })
    await withReport(browser, path('llama.html'), { view: 'diff' }, async (page) => {
      await page.fill('#search', 'layers.5 proj')
      await page.waitForFunction(() => document.querySelector('.filter')?.innerText.startsWith('7 of 75'))
      const facts = (await texts(page, '.facts div')).map((text) => text.replace(/\s+/g, ' '))
      assert.deepEqual(facts, ['Changed 7 of 49', 'Added 0 of 1', 'Removed 0 of 0', 'Unchanged 0 of 25'])
      assert.equal(await page.locator('.grid tbody tr').count(), 7)
      await goTo(page, 'overview')
      assert.match((await texts(page, '.findings')).join(), /7 tensors changed, 0 added, 0 removed/)
    })
  },

  'a search in a module without a match shows nothing, and the path leads out of it': async (browser, path) => {
    await withReport(browser, path('one.html'), { view: 'bytes' }, async (page) => {
      await page.locator('.plain tbody .link', { hasText: 'text' }).click()
      await page.fill('#search', 'vision')
      await page.waitForFunction(() => document.querySelector('.filter')?.innerText.startsWith('0 of 24 tensors match'))
      assert.equal(await page.locator('.area, .plain tbody tr').count(), 0)
      assert.match(await page.locator('.empty').innerText(), /No bytes here match/)
      await page.locator('.crumbs').getByRole('button', { name: 'All' }).click()
      await page.waitForSelector('.area')
      assert.match(await page.locator('.filter').innerText(), /^19 of 24 tensors match/)
    })
  },

  'no number is cut off, at 800 pixels and at 1280': async (browser, path) => {
    for (const width of [800, 1280]) {
      for (const name of ['llama.html', 'quantized.html', 'one.html']) {
        await withReport(browser, path(name), { width }, async (page) => {
          await page.waitForSelector('.outline')
          const look = async (what) => {
            await resized(page)
            assert.deepEqual(await cutNumbers(page), [], `${name}, ${width} pixels, ${what}`)
          }
          await look('overview')
          await goTo(page, 'bytes')
          await look('bytes')
          await page.getByLabel('Fold identical blocks').uncheck()
          await look('bytes, unfolded')
          await goTo(page, 'map')
          await look('map')
          await goTo(page, 'values')
          for (const tab of TABS) {
            await choose(page, tab)
            await look(tab)
          }
          await choose(page, 'Table')
          const pages = page.getByRole('group', { name: 'Columns' }).getByRole('button')
          const titles = new Set()
          await resized(page)
          for (let at = 0; at < Math.max(1, await pages.count()); at++) {
            if ((await pages.count()) > 0) await pages.nth(at).click()
            await look(`columns ${at}`)
            for (const title of await texts(page, '.grid th')) titles.add(title)
          }
          assert.deepEqual(
            [...titles],
            ['name ↑', 'type', 'shape', 'bytes', 'min', 'max', 'mean', 'std', 'zeros', 'NaN', '±∞', 'largest σ'],
          )
          assert.equal((await pages.count()) > 0, width === 800)
          await page.locator('.grid tbody .link').first().click()
          await page.waitForSelector('.panel')
          await look('the panel')
          await page.keyboard.press('Escape')
          // The check detects clipped text.
          await page.waitForSelector('.panel', { state: 'detached' })
          await resized(page)
          if (width === 800) await pages.first().click()
          await page.locator('.grid').evaluate((grid) => {
            for (const column of grid.querySelectorAll('col')) column.style.width = '30px'
            grid.querySelector('table').style.minWidth = '0'
            grid.querySelector('table').style.width = '360px'
          })
          assert.notDeepEqual(await cutNumbers(page), [])
        })
      }
      await withReport(browser, path('llama.html'), { width, view: 'diff' }, async (page) => {
        await resized(page)
        assert.deepEqual(await cutNumbers(page), [], `diff, ${width} pixels`)
      })
    }
  },

  'legends have numbers, and nearly equal values have the same color': async (browser, path) => {
    const legend = async (page) => (await texts(page, '.legend li')).map((text) => text.replace(/\s+/g, ' ').trim())
    await withReport(browser, path('narrow.html'), { view: 'values' }, async (page) => {
      await choose(page, 'Heat map')
      for (const metric of ['std', 'largest |value|', 'bytes']) {
        await choose(page, metric)
        assert.deepEqual(await classes(page, '.heat td button', 'tone-'), ['tone-0'], metric)
        assert.deepEqual(await classes(page, '.heat td button', 'heat-'), [], metric)
      }
      assert.deepEqual(await legend(page), ['bytes:', '256 B'])
      await choose(page, 'std')
      assert.deepEqual(await legend(page), ['std:', '0.01998 to 0.02003'])
    })
    await withReport(browser, path('llama.html'), { view: 'values' }, async (page) => {
      await choose(page, 'Heat map')
      for (const metric of ['change', 'std', 'largest |value|', 'largest σ', 'zeros', 'bytes']) {
        await choose(page, metric)
        const [title, ...items] = await legend(page)
        assert.equal(title, `${metric}:`)
        for (const item of items.filter((text) => !['none', 'NaN or ∞'].includes(text)))
          assert.match(item, /\d/, metric)
        const shown = await classes(page, '.legend .swatch', 'tone-')
        for (const used of await classes(page, '.heat td button', 'tone-'))
          assert.ok(shown.includes(used), `${metric} ${used}`)
      }
      await choose(page, 'Layers')
      for (const item of await legend(page)) assert.match(item, / \d[\d.e-]* to \d[\d.e-]*$/)
      await choose(page, 'Heat map')
      assert.ok((await classes(page, '.heat td button', 'tone-')).length > 3)
      for (const [view, least] of [
        ['bytes', 1],
        ['map', 1],
      ]) {
        await goTo(page, view)
        const items = await legend(page)
        assert.ok(items.length > least, view)
        for (const item of items) assert.match(item, / \d+(\.\d)? [KM]?i?B$/)
      }
    })
  },

  'NaN and infinity are counted, marked and linked': async (browser, path) => {
    const name = 'model.layers.3.self_attn.k_proj.weight'
    await withReport(browser, path('llama.html'), {}, async (page) => {
      const facts = (await texts(page, '.facts div')).map((text) => text.replace(/\s+/g, ' '))
      assert.ok(facts.includes('NaN or infinity 1 tensor'), facts.join())
      assert.match(
        await page.locator('.problem').innerText(),
        /1 tensor with NaN or infinity\s+1 NaN and 1 infinite values\s+NaN, ∞\s+model\.layers\.3\.self_attn\.k_proj\.weight 2 of 16,384/,
      )
      await page.locator('.problem .link').click()
      assert.equal(await page.locator('.panel h2').innerText(), name)
      assert.deepEqual(await texts(page, '.panel .alarm'), ['1', '1'])
      await page.keyboard.press('Escape')
      await goTo(page, 'values')
      await page.fill('#search', 'k_proj')
      await page.waitForFunction(() => document.querySelectorAll('.grid tbody tr').length === 8)
      const marked = page.locator('.grid tr.marked')
      assert.equal(await marked.count(), 1)
      assert.match(await marked.innerText(), /^NaN, ∞\s+model\.layers\.3\./)
      await choose(page, 'Heat map')
      assert.deepEqual(
        await page
          .locator('.heat .flawed')
          .evaluateAll((all) => all.map(({ ariaLabel }) => ariaLabel.replace(/: [\d.]+/, ''))),
        [`${name}, has NaN, ∞`],
      )
      await goTo(page, 'bytes')
      assert.ok((await page.locator('.area.flawed').count()) > 0)
      await page.fill('#search', 'q_proj')
      await page.waitForFunction(() => document.querySelectorAll('.area.flawed').length === 0)
      await goTo(page, 'overview')
      assert.equal(await page.locator('.problem').count(), 0)
    })
  },

  'a model of one dtype is colored by module, with numbers': async (browser, path) => {
    await withReport(browser, path('one.html'), { view: 'bytes' }, async (page) => {
      assert.equal(await page.getByRole('button', { name: 'module', exact: true }).getAttribute('aria-pressed'), 'true')
      assert.ok((await classes(page, '.area:not(.inner)', 'hue-')).length >= 5)
      const items = (await texts(page, '.legend li')).map((text) => text.replace(/\s+/g, ' ').trim())
      assert.deepEqual(items, [
        'vision.layers.*.mlp.weight 768.0 KiB',
        'vision.embeddings.weight 294.0 KiB',
        'text.embeddings.weight 256.0 KiB',
        'vision.layers.*.attn.k_proj.weight 192.0 KiB',
        'vision.layers.*.attn.q_proj.weight 192.0 KiB',
        'text.layers.*.attn.q_proj.weight 96.0 KiB',
        'other 2 B',
      ])
      // The same module has one color in all layers.
      await page.getByLabel('Fold identical blocks').uncheck()
      assert.equal((await classes(page, '.area[aria-label^="mlp"]', 'hue-')).length, 1)
      await choose(page, 'type')
      assert.equal((await classes(page, '.area:not(.inner)', 'hue-')).length, 1)
      assert.deepEqual(await texts(page, '.legend li bdi'), ['float16'])
    })
  },

  'quantized tensors have the names and colors of their storage types, and bits per weight': async (browser, path) => {
    const all = [...quantized()]
    const bits = (tensors) => Number(((8 * sum(tensors.map(bytesOf))) / sum(tensors.map(elementsOf))).toFixed(2))
    await withReport(browser, path('quantized.html'), {}, async (page) => {
      assert.doesNotMatch(await page.locator('main').innerText(), /unknown/)
      const facts = (await texts(page, '.facts div')).map((text) => text.replace(/\s+/g, ' '))
      assert.ok(facts.includes(`Bits per weight ${bits(all)}`), facts.join())
      const rows = await cells(page, '.plain tbody')
      assert.deepEqual(rows.map(([type, , , bits]) => `${type} ${bits}`).sort(), [
        'float32 32',
        'q4_k 4.5',
        'q6_k 6.56',
        'q8_0 8.5',
      ])
      await goTo(page, 'bytes')
      assert.equal((await classes(page, '.area:not(.inner)', 'hue-')).length, 4)
      assert.ok(!(await classes(page, '.area:not(.inner)', 'hue-')).includes('hue-mixed'))
      assert.deepEqual((await texts(page, '.legend li bdi')).sort(), ['float32', 'q4_k', 'q6_k', 'q8_0'])
      const blocks = all.filter(([name]) => name.startsWith('blk.'))
      const row = (await cells(page, '.plain tbody')).find(([name]) => name === 'blk')
      assert.deepEqual(row.slice(1, 4), [
        String(blocks.length),
        largeNumber(sum(blocks.map(elementsOf))),
        String(bits(blocks)),
      ])
      await page.locator('.plain tbody .link', { hasText: 'token_embd' }).click()
      assert.match(
        await page.locator('.panel .kind').innerText(),
        /^q8_0 \[512, 256\] · 136\.0 KiB · layout gguf\.q8_0\/1 · 8\.5 bits per weight/,
      )
    })
  },

  'modules have their numbers of parameters': async (browser, path) => {
    const all = [...quantized()]
    await withReport(browser, path('quantized.html'), {}, async (page) => {
      await page.waitForSelector('.outline')
      const branches = (await texts(page, '.outline .branch')).map((text) => text.replace(/\s+/g, ' '))
      const blocks = sum(all.filter(([name]) => name.startsWith('blk.')).map(elementsOf))
      assert.ok(
        branches.some((text) => text.includes(`blk 16 tensors ${largeNumber(blocks)}`)),
        branches.join('\n'),
      )
      assert.ok(
        branches.some((text) => text.includes('weight q4_k [768, 256] 196,608 108.0 KiB')),
        branches.join('\n'),
      )
    })
    await withReport(browser, path('llama.html'), { view: 'bytes' }, async (page) => {
      const labels = await page.locator('.area').evaluateAll((areas) => areas.map(({ ariaLabel }) => ariaLabel))
      assert.ok(
        labels.some(
          (label) => label.includes('embed_tokens.weight, 2.0 MiB') && label.includes('1,048,576 parameters'),
        ),
        labels.join('\n'),
      )
    })
  },

  'the file map and the layout of tensors have separate names': async (browser, path) => {
    await withReport(browser, path('quantized.html'), { view: 'map' }, async (page) => {
      assert.deepEqual(await texts(page, 'nav[aria-label="Views"] a'), ['Overview', 'Bytes', 'File map', 'Values'])
      assert.equal(await page.locator('h2').first().innerText(), 'File map')
      assert.doesNotMatch(await page.locator('#app').innerText(), /layout/i)
      await goTo(page, 'overview')
      const facts = (await texts(page, '.facts div')).map((text) => text.replace(/\s+/g, ' '))
      assert.ok(facts.includes('Tensor layouts dense, quantized'), facts.join())
    })
  },

  'the colors follow the system setting, and the switch': async (browser, path) => {
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

  'hostile names run nothing, and are shown escaped': async (browser, path) => {
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

  'files of every format open without errors or warnings in the console': async (browser, path) => {
    // One of each: the first file with an extension.
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

  'a table of 100,000 tensors renders only the visible rows': async (browser, path) => {
    await withReport(browser, path('many.html'), { view: 'values' }, async (page) => {
      assert.equal(await page.locator('h2').first().innerText(), '100,000 tensors')
      assert.ok((await page.locator('.grid tbody tr').count()) < 60)
      await page.locator('.grid').evaluate((grid) => {
        grid.scrollTop = grid.scrollHeight
      })
      await page.waitForSelector('tr[aria-rowindex="100001"]')
      await page.fill('#search', 'layers.99.experts.7.')
      await page.waitForFunction(() => document.querySelector('h2').textContent === '9 of 100,000 tensors')
      for (const view of VIEWS.slice(0, 3)) {
        await page.goto(`${page.url().replace(/#.*/, '')}#${view}`)
        await page.waitForSelector('main > *')
      }
    })
  },

  'a served page reads values and slices when they are shown': async (browser, path) => {
    const server = await serveReport(path('tuned.safetensors'))
    try {
      await withReport(browser, server.url, { view: 'values' }, async (page) => {
        assert.match((await texts(page, '.grid tbody tr'))[1], /–/)
        await page.locator('.grid tbody .link', { hasText: 'layers.0.input_layernorm' }).click()
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
