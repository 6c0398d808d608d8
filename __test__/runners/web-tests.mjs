// `npm run test:web`: checks @ztensor/web in Node and in chromium. All fixtures and malformed files must read as with the addon. Needs
// `npm run build` and `npm run build:web` first. Without the Rust target or clang there is nothing to check.
//   PART...   only some: checks, folders, files, page, damaged, convert
import {
  createReadStream,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { Writable } from 'node:stream'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import * as addon from 'ztensor'
import { capture, root } from '../../scripts/command.mjs'
import { missing, webFolder } from '../../scripts/web.mjs'
import { bytesOf, tables } from '../corpus/tables.mjs'
import { some } from '../helpers/campaign.mjs'
import { checks } from '../web/checks.mjs'
import { describeConversion, TARGETS } from '../web/conversions.mjs'
import { convertChecks } from '../web/convert-checks.mjs'
import { describeFile, describeFolder } from '../web/describe.mjs'
import { FolderHandle, writeFolders } from '../web/folders.mjs'
import { checks as pageChecks } from '../web/page-checks.mjs'
import { startChromium } from './chromium.mjs'

/** Maximum sizes of the package in bytes, compressed as servers send them. */
const MAX = {
  'ztensor.wasm': 770_000,
  'ztensor-convert.wasm': 1_300_000,
  'JavaScript to read': 39_600,
  'JavaScript to convert': 15_000,
}

const parts = process.argv.slice(2)
const has = (part) => parts.length === 0 || parts.includes(part)

const lack = await missing()
if (lack !== undefined && !existsSync(join(webFolder, 'ztensor.wasm'))) {
  console.log(`not run: @ztensor/web cannot be built, because this machine lacks ${lack}`)
  process.exit(0)
}

const failures = []
let passed = 0
function check(what, found, expected) {
  if (found === expected) passed += 1
  else {
    let at = 0
    while (found[at] === expected[at]) at += 1
    const part = (text) => text.slice(Math.max(at - 60, 0), at + 120)
    failures.push(`${what}\n  web:   …${part(found)}\n  addon: …${part(expected)}`)
  }
}

const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 }
const compressed = (name) => brotliCompressSync(readFileSync(join(webFolder, name)), { params }).length
const zipped = (names) =>
  names.reduce((sum, name) => sum + gzipSync(readFileSync(join(webFolder, name)), { level: 9 }).length, 0)
const sizes = {
  'ztensor.wasm': compressed('ztensor.wasm'),
  'ztensor-convert.wasm': compressed('ztensor-convert.wasm'),
  'JavaScript to read': zipped(['index.js', 'shared.js']),
  'JavaScript to convert': zipped(['convert.js']),
}
for (const [name, max] of Object.entries(MAX)) {
  console.log(`${name}: ${sizes[name]} bytes compressed, of at most ${max}`)
  check(`the size of ${name} is at most ${max}`, String(sizes[name] <= max), 'true')
}

const fixtures = join(root, '__test__/fixtures')
const fixtureFiles = readdirSync(fixtures, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !/\.(py|cc|md|mjs)$/.test(entry.name))
  .map((entry) => relative(fixtures, join(entry.parentPath ?? entry.path, entry.name)))
  .sort()
const files = has('files') ? fixtureFiles : []

/** A source that reads a file of the disk, as the caller's code would. */
function disk(path) {
  const bytes = readFileSync(path)
  const isFile = (one) => statSync(one, { throwIfNoEntry: false })?.isFile()
  return {
    byteLength: bytes.length,
    name: path,
    read: (offset, length) => new Uint8Array(bytes.subarray(offset, offset + length)),
    sibling: (name) => (isFile(join(dirname(path), name)) ? disk(join(dirname(path), name)) : undefined),
  }
}

/** Converts by the addon into memory. */
async function convertedByAddon(source, options) {
  const chunks = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(chunk)
      done()
    },
  })
  const result = await addon.convert(source, stream, options)
  return { bytes: Buffer.concat(chunks), result }
}

const malformed = (has('files') ? Array.from(await tables()) : []).flatMap(([title, cases]) =>
  cases.map((one) => ({ name: `${title}: ${one.name}`, bytes: bytesOf(one), options: one.options })),
)

// What the addon says.
const counts = () => ({ files: 0, tensors: 0, reads: 0 })
const ofAddon = counts()
const expected = { fixtures: {}, malformed: [] }
for (const name of files) expected.fixtures[name] = await describeFile(addon, disk(join(fixtures, name)), {}, ofAddon)
for (const { bytes, options } of malformed) {
  const { io, ...others } = options ?? {}
  const source = {
    byteLength: bytes.length,
    read: (offset, length) => new Uint8Array(bytes.subarray(offset, offset + length)),
  }
  expected.malformed.push(await describeFile(addon, source, others, ofAddon))
}
console.log('addon:', ofAddon)
const conversionCounts = () => ({ files: 0, bytes: 0, errors: 0 })
const convertedCounts = conversionCounts()
const conversions = (has('convert') ? fixtureFiles : []).flatMap((name) =>
  Object.keys(TARGETS).map((target) => ({ name, target })),
)
for (const one of conversions) {
  const source = disk(join(fixtures, one.name))
  const convert = (options) => convertedByAddon(source, options)
  one.expected = await describeConversion(convert, TARGETS[one.target], convertedCounts)
}
console.log('conversions of the addon:', convertedCounts)

const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'ztensor-web-')))
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }))
const folders = has('folders') ? Object.entries(writeFolders(scratch)) : []
expected.folders = await Promise.all(folders.map(([, path]) => describeFolder(addon, path, path)))

const web = await import('../../packages/web/node.js')
for (const [title, look] of has('checks') ? Object.entries(checks) : []) {
  const found = await look(web).then(
    () => 'as expected',
    (error) => error.stack,
  )
  check(title, found, 'as expected')
}
for (const [at, [title, path]] of folders.entries())
  check(`Node: ${title}`, await describeFolder(web, new FolderHandle(path, 'root'), 'root'), expected.folders[at])
const inNode = counts()
for (const name of files) {
  const found = await describeFile(web, disk(join(fixtures, name)), {}, inNode).catch((error) => error.stack)
  check(`Node: ${name}`, found, expected.fixtures[name])
}
for (const [at, { name, bytes, options }] of malformed.entries()) {
  const { io, ...others } = options ?? {}
  const found = await describeFile(web, new Uint8Array(bytes), others, inNode).catch((error) => error.stack)
  check(`Node: ${name}`, found, expected.malformed[at])
}
console.log('@ztensor/web in Node:', inNode)
const converting = await import('../../packages/web/convert-node.js')
const { convert } = converting
for (const [title, look] of has('convert') ? Object.entries(convertChecks) : []) {
  const found = await look(web, converting).then(
    () => 'as expected',
    (error) => error.stack,
  )
  check(title, found, 'as expected')
}
const convertedInNode = conversionCounts()
for (const { name, target, expected } of conversions) {
  const convertToBlob = async (options) => {
    const { blob, ...result } = await convert(disk(join(fixtures, name)), undefined, options)
    return { bytes: new Uint8Array(await blob.arrayBuffer()), result }
  }
  const found = await describeConversion(convertToBlob, TARGETS[target], convertedInNode)
  check(`Node: ${name} to ${target}`, found, expected)
}
console.log('conversions of @ztensor/web in Node:', convertedInNode)

/** Serves the package, the descriptions and the files, with ranges. */
const types = { js: 'text/javascript', mjs: 'text/javascript', wasm: 'application/wasm', html: 'text/html' }
const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname)
  const at = /^\/malformed\/(\d+)$/.exec(path)?.[1]
  if (at !== undefined) return response.end(malformed[at].bytes)
  if (path === '/')
    return response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>tests</title>')
  const file = path.startsWith('/fixtures/')
    ? join(fixtures, path.slice(10))
    : path.startsWith('/folders/')
      ? join(scratch, path.slice(9))
      : join(root, path)
  const size = statSync(file, { throwIfNoEntry: false })?.size
  if (size === undefined) return response.writeHead(404).end()
  const type = types[/\.(\w+)$/.exec(file)?.[1]] ?? 'application/octet-stream'
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '')
  if (range === null) return createReadStream(file).pipe(response.writeHead(200, { 'content-type': type }))
  const start = Number(range[1])
  if (start >= size) return response.writeHead(416, { 'content-range': `bytes */${size}` }).end()
  const end = Math.min(Number(range[2]), size - 1)
  response.writeHead(206, { 'content-type': type, 'content-range': `bytes ${start}-${end}/${size}` })
  createReadStream(file, { start, end }).pipe(response)
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const origin = `http://127.0.0.1:${server.address().port}`

const browser = await startChromium()
const page = await browser.newPage()
await page.goto(origin)
/** Describes a file in the page. `as` is how it is opened: by its URL, as a File, or by code of the page. */
async function describeInPage(path, as, options) {
  return page.evaluate(
    async ([path, as, options]) => {
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
    },
    [path, as, options],
  )
}
/** How files are opened in chromium. Outside of CI, every `step`th malformed file is. */
const ways = [
  { what: 'chromium', fixtures: 'URL', malformed: 'File', options: {} },
  { what: 'worker in chromium', fixtures: 'URL', malformed: 'File', step: 4, options: { worker: true } },
  { what: 'worker in chromium, code of the page', fixtures: 'code', options: { worker: true } },
]
for (const way of ways) {
  const all = counts()
  const add = (counts) => {
    for (const key of Object.keys(all)) all[key] += counts[key]
  }
  for (const name of files) {
    const [found, counts] = await describeInPage(`/fixtures/${encodeURI(name)}`, way.fixtures, way.options)
    add(counts)
    check(`${way.what}: ${name}`, found, expected.fixtures[name])
  }
  const cases = [...malformed.entries()]
  for (const [at, { name, options }] of way.malformed === undefined ? [] : some(cases, way.step ?? 1)) {
    const { io, ...others } = options ?? {}
    const [found, counts] = await describeInPage(`/malformed/${at}`, way.malformed, { ...others, ...way.options })
    add(counts)
    check(`${way.what}: ${name}`, found, expected.malformed[at])
  }
  console.log(`@ztensor/web, ${way.what}:`, all)
}
for (const title of has('page') ? Object.keys(pageChecks) : []) {
  const found = await page.evaluate(async (title) => {
    const { checks } = await import('/__test__/web/page-checks.mjs')
    try {
      await checks[title](await import('/packages/web/index.js'))
      return 'as expected'
    } catch (error) {
      return `${error} ${error.stack}`
    }
  }, title)
  check(`chromium: ${title}`, found, 'as expected')
}
for (const [at, [title, path]] of folders.entries()) {
  const names = readdirSync(path, { recursive: true }).filter((name) => statSync(join(path, name)).isFile())
  const found = await page.evaluate(
    async ([title, names]) => {
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
    },
    [title, names],
  )
  check(`chromium: ${title}`, found, expected.folders[at])
}
console.log(`folders: ${folders.length} in Node and in chromium`)
const session = await page.context().newCDPSession(page)
for (const worker of has('page') ? [false, true] : []) {
  await page.evaluate(async (worker) => {
    const { openAndClose200 } = await import('/__test__/web/page-checks.mjs')
    globalThis.memories = []
    await openAndClose200(await import('/packages/web/index.js'), worker, globalThis.memories)
  }, worker)
  await session.send('HeapProfiler.collectGarbage')
  const counts = await page.evaluate(() => {
    const left = globalThis.memories.filter((memory) => memory.deref() !== undefined)
    return { made: globalThis.memories.length, left: left.length }
  })
  console.log(`200 files opened and closed${worker ? ' with workers' : ''}: instances`, counts)
  check(`chromium: memory after 200 files, worker ${worker}`, String(counts.made >= 200 && counts.left <= 2), 'true')
}
const convertedInChromium = conversionCounts()
for (const name of has('convert') ? fixtureFiles : []) {
  const found = await page.evaluate(
    async (path) => {
      const { describeConversion, TARGETS } = await import('/__test__/web/conversions.mjs')
      const { convert } = await import('/packages/web/convert.js')
      const counts = { files: 0, bytes: 0, errors: 0 }
      const all = []
      for (const [target, options] of Object.entries(TARGETS)) {
        // The first to a file of the origin's own file system, the others to streams and Blobs.
        const convertTo = async (options) => {
          const url = new URL(path, location.href)
          if (target === 'safetensors') {
            const folder = await navigator.storage.getDirectory()
            const handle = await folder.getFileHandle('converted', { create: true })
            const result = await convert(url, handle, options)
            return { bytes: new Uint8Array(await (await handle.getFile()).arrayBuffer()), result }
          }
          if (target === 'zTensor 2') {
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
    },
    `/fixtures/${encodeURI(name)}`,
  )
  for (const key of Object.keys(convertedInChromium)) convertedInChromium[key] += found[1][key]
  for (const [target, stated] of found[0]) {
    const { expected } = conversions.find((one) => one.name === name && one.target === target)
    check(`chromium: ${name} to ${target}`, stated, expected)
  }
}
console.log('conversions of @ztensor/web in chromium:', convertedInChromium)
await browser.close()
server.close()

if (has('damaged')) {
  const program = join(root, '__test__/web/damaged.mjs')
  // The time limit ends a process that hangs.
  const { status, output, stdout } = await capture(process.execPath, [program], { timeout: 280_000 })
  check('damaged files do not end the process', status === 0 ? '0' : `${status} ${output}`, '0')
  const { strangers, ...found } = JSON.parse(stdout || '{"strangers":["nothing"]}')
  console.log('damaged files:', found)
  check('damaged files meet no bug', strangers.slice(0, 3).join('\n'), '')
}

for (const failure of failures) console.log(`FAILED ${failure}`)
console.log(`web tests: ${passed} passed, ${failures.length} failed`)
process.exitCode = failures.length > 0 ? 1 : 0
