// Checks @ztensor/web in the page of a browser: what it reads and converts must equal what the addon does.
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { some } from '../helpers/campaign.mjs'
import { TARGETS } from './conversions.mjs'
import { checks } from './page-checks.mjs'
import { checks as convertChecks } from './page-convert-checks.mjs'

/** What needs a file system of the origin, which some builds of WebKit lack. */
const NEEDS_FILES = new Set(['worker: the page reads no data of a Blob, a handle or a URL'])

/** How files are opened: by URL, as a File, or by code of the page. `step` is the part that runs outside of CI. */
const WAYS = [
  { what: 'page', fixtures: 'URL', malformed: 'File', options: {} },
  { what: 'worker', fixtures: 'URL', malformed: 'File', step: 4, options: { worker: true } },
  { what: 'worker, code of the page', fixtures: 'code', options: { worker: true } },
]

/** Describes a file. `as` is how it is opened. Runs in the page. */
async function describeInPage([path, as, options]) {
  const { describeFile } = await import('/__test__/web/describe.mjs')
  const web = await import('/packages/web/index.js')
  const counts = { files: 0, tensors: 0, reads: 0 }
  const url = new URL(path, location.href)
  const byCode = async (url) => {
    const response = await fetch(url)
    if (!response.ok) return undefined
    const bytes = new Uint8Array(await response.arrayBuffer())
    return {
      byteLength: bytes.length,
      name: path,
      read: (offset, length) => bytes.subarray(offset, offset + length),
      sibling: (name) => byCode(new URL(encodeURI(name), url)),
    }
  }
  const sources = {
    URL: () => url,
    File: async () => new File([await (await fetch(url)).arrayBuffer()], path.split('/').at(-1)),
    code: () => byCode(url),
  }
  const source = await sources[as]()
  try {
    return [await describeFile(web, source, options, counts), counts]
  } catch (error) {
    return [`${error} ${error.stack}`, counts]
  }
}

/** Describes the differences of two files; in some pairs in workers, or of files that are open. Runs in the page. */
async function diffInPage([pair, at]) {
  const { describeDiff } = await import('/__test__/web/describe.mjs')
  const web = await import('/packages/web/index.js')
  const sources = pair.map((name) => new URL(`/fixtures/${encodeURI(name)}`, location.href))
  if (at % 3 === 0) return describeDiff(web, ...sources, at)
  const opened = []
  try {
    for (const source of sources) opened.push(await web.open(source, { worker: at % 3 === 1 }))
    return await describeDiff(web, ...opened, at)
  } catch (error) {
    return JSON.stringify([error.code, error.tensor ?? null, error.option ?? null])
  } finally {
    for (const file of opened) file.close()
  }
}

/** Writes tensors to a stream, or to a Blob. Runs in the page. */
async function saveInPage(at) {
  const { describeSave, SAVES } = await import('/__test__/web/saves.mjs')
  const { create } = await import('/packages/web/convert.js')
  return describeSave(SAVES[at], async (options) => {
    if (at % 2 === 0) {
      const writer = await create(undefined, options)
      return { writer, bytes: () => writer.blob.arrayBuffer() }
    }
    const { readable, writable } = new TransformStream()
    const taking = new Response(readable).arrayBuffer()
    taking.catch(() => {})
    return { writer: await create(writable, options), bytes: () => taking }
  })
}

/** Runs one of the checks of a module. Runs in the page. */
async function runCheck([module, title]) {
  const { checks } = await import(module)
  try {
    await checks[title](await import('/packages/web/index.js'), await import('/packages/web/convert.js'))
    return 'as expected'
  } catch (error) {
    return `${error} ${error.stack}`
  }
}

/** Copies a folder into the file system of the origin, and describes it. Runs in the page. */
async function describeFolderInPage([title, names]) {
  const { describeFolder } = await import('/__test__/web/describe.mjs')
  const web = await import('/packages/web/index.js')
  const own = await (await navigator.storage.getDirectory()).getDirectoryHandle(title, { create: true })
  const root = await own.getDirectoryHandle('root', { create: true })
  for (const name of names) {
    const parts = name.split('/')
    const last = parts.pop()
    let folder = root
    for (const part of parts) folder = await folder.getDirectoryHandle(part, { create: true })
    const writable = await (await folder.getFileHandle(last, { create: true })).createWritable()
    await (await fetch(encodeURI(`/folders/${title}/${name}`))).body.pipeTo(writable)
  }
  return describeFolder(web, root, 'root')
}

/** Converts a file to each target: to a file of the origin, to a stream, and to Blobs; some in workers. Runs in the page. */
async function convertInPage([path, hasFiles, at]) {
  const { describeConversion, TARGETS } = await import('/__test__/web/conversions.mjs')
  const { convert } = await import('/packages/web/convert.js')
  const counts = { files: 0, bytes: 0, errors: 0 }
  const all = []
  for (const [turn, [target, given]] of Object.entries(TARGETS).entries()) {
    const options = { ...given, worker: (at + turn) % 4 === 0 }
    const convertTo = async (options) => {
      const url = new URL(path, location.href)
      if (target === 'safetensors' && hasFiles) {
        const folder = await navigator.storage.getDirectory()
        const handle = await folder.getFileHandle('converted', { create: true })
        const result = await convert(url, handle, options)
        return { bytes: new Uint8Array(await (await handle.getFile()).arrayBuffer()), result }
      }
      if (target === 'zTensor 2' || target === 'npz') {
        const { readable, writable } = new TransformStream()
        const taking = new Response(readable).arrayBuffer()
        taking.catch(() => {})
        const result = await convert(url, writable, options)
        return { bytes: new Uint8Array(await taking), result }
      }
      const { blob, ...result } = await convert(url, undefined, options)
      return { bytes: new Uint8Array(await blob.arrayBuffer()), result }
    }
    all.push([target, await describeConversion(convertTo, options, counts)])
  }
  return [all, counts]
}

/** Opens a file in the page that shows models, and the values of its first tensor. Runs in the page. */
async function look([address, view]) {
  const frame = document.createElement('iframe')
  Object.assign(frame, {
    width: 1200,
    height: 800,
    src: `${view}?url=${encodeURIComponent(new URL(address, location.href))}`,
  })
  document.body.append(frame)
  const find = async (selector) => {
    for (;;) {
      const found = frame.contentDocument.querySelector(selector)
      if (found !== null) return found
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  await find('nav [aria-current]')
  const shown = [(await find('h1')).innerText, (await find('.summary')).innerText]
  frame.contentWindow.location.hash = 'values'
  ;(await find('.grid tbody .link')).click()
  await find('.panel .bar-fill')
  shown.push((await find('.slice + .note')).textContent)
  frame.remove()
  return shown
}

/** How many of 200 closed files left memory, without and with workers. `collect` collects the garbage of the page. */
async function checkMemory(name, page, collect, check) {
  for (const worker of [false, true]) {
    await page.evaluate(async (worker) => {
      const { openAndClose200 } = await import('/__test__/web/page-checks.mjs')
      globalThis.memories = []
      await openAndClose200(await import('/packages/web/index.js'), worker, globalThis.memories)
    }, worker)
    await collect()
    const { made, left } = await page.evaluate(() => {
      const left = globalThis.memories.filter((memory) => memory.deref() !== undefined)
      return { made: globalThis.memories.length, left: left.length }
    })
    console.log(`200 files opened and closed${worker ? ' with workers' : ''}: ${made} instances, ${left} left`)
    check(`${name}: memory after 200 files, worker ${worker}`, String(made >= 200 && left <= 2), 'true')
  }
}

const total = (all, counts) => {
  for (const key of Object.keys(counts)) all[key] = (all[key] ?? 0) + counts[key]
}

/**
 * Checks a browser.
 *
 * @param name of the browser
 * @param page evaluates functions in the page; `collect`, where the browser has it, collects its garbage
 * @param cases the files, and what the addon says of each
 * @param has whether a part of the checks runs
 * @param check compares a text with that of the addon
 * @param step the part that runs of the malformed files, the conversions, and what a worker reads: every `step`th
 */
export async function checkInBrowser(name, page, cases, has, check, step) {
  const {
    files,
    ofFixtures,
    malformed,
    ofMalformed,
    toCompare,
    ofDiffs,
    saves,
    ofSaves,
    folders,
    ofFolders,
    toConvert,
    ofConversions,
  } = cases
  const part = (list) => list.filter((_, at) => at % step === 0)
  const hasFiles = await page.evaluate(() => typeof navigator.storage?.getDirectory === 'function')
  if (!hasFiles) console.log(`${name} has no file system of the origin: folders and handles are not checked in it`)
  for (const way of has('files') ? WAYS : []) {
    const all = {}
    for (const file of way.options.worker ? part(files) : files) {
      const path = `/fixtures/${encodeURI(file)}`
      const [found, counts] = await page.evaluate(describeInPage, [path, way.fixtures, way.options])
      total(all, counts)
      check(`${name}, ${way.what}: ${file}`, found, ofFixtures[file])
    }
    const cases_ = way.malformed === undefined ? [] : some(part([...malformed.entries()]), way.step ?? 1)
    for (const [at, { name: file, options }] of cases_) {
      const { io, ...others } = options ?? {}
      const given = [`/malformed/${at}`, way.malformed, { ...others, ...way.options }]
      const [found, counts] = await page.evaluate(describeInPage, given)
      total(all, counts)
      check(`${name}, ${way.what}: ${file}`, found, ofMalformed[at])
    }
    console.log(`${name}, ${way.what}:`, all)
  }
  for (const [at, pair] of part([...toCompare.entries()]))
    check(`${name}: diff ${pair}`, await page.evaluate(diffInPage, [pair, at]), ofDiffs[at])
  for (const [at, { title }] of part([...saves.entries()]))
    check(`${name}: ${title}`, await page.evaluate(saveInPage, at), ofSaves[at])
  for (const title of has('page') ? Object.keys(checks) : [])
    if (hasFiles || !NEEDS_FILES.has(title))
      check(`${name}: ${title}`, await page.evaluate(runCheck, ['/__test__/web/page-checks.mjs', title]), 'as expected')
  for (const title of has('convert') ? Object.keys(convertChecks) : []) {
    const found = await page.evaluate(runCheck, ['/__test__/web/page-convert-checks.mjs', title])
    check(`${name}: ${title}`, found, 'as expected')
  }
  if (has('look')) {
    const [heading, summary, values] = await page.evaluate(look, ['/fixtures/zt2-zstd.zt', '/build/page/index.html'])
    check(`${name}: the page shows a model: ${summary}, ${values}`, heading, 'zt2-zstd.zt')
  }
  if (has('page') && page.collect !== undefined) await checkMemory(name, page, page.collect, check)
  for (const [at, [title, path]] of hasFiles ? folders.entries() : []) {
    const names = readdirSync(path, { recursive: true }).filter((name) => statSync(join(path, name)).isFile())
    check(`${name}: ${title}`, await page.evaluate(describeFolderInPage, [title, names]), ofFolders[at])
  }
  const all = {}
  for (const [at, file] of part(toConvert).entries()) {
    const given = [`/fixtures/${encodeURI(file)}`, hasFiles, at]
    const [stated, counts] = await page.evaluate(convertInPage, given)
    total(all, counts)
    for (const [target, found] of stated)
      check(`${name}: ${file} to ${target}`, found, ofConversions[`${file} to ${target}`])
  }
  if (has('convert')) console.log(`${name}, conversions to ${Object.keys(TARGETS).length} formats:`, all)
}
