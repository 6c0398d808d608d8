// `npm run test:web`: checks @ztensor/web in Node and in chromium. All fixtures and malformed files must read as with the addon. Needs
// `npm run build` and `npm run build:web` first. Without the Rust target or clang there is nothing to check.
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname, join, relative } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import * as addon from 'ztensor'
import { root } from '../../scripts/command.mjs'
import { missing, webFolder } from '../../scripts/web.mjs'
import { bytesOf, tables } from '../corpus/tables.mjs'
import { checks } from '../web/checks.mjs'
import { describeFile } from '../web/describe.mjs'
import { startChromium } from './chromium.mjs'

/** Maximum sizes of the package in bytes, compressed as servers send them. */
const MAX = { wasm: 760_000, javascript: 40_000 }

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

const wasm = readFileSync(join(webFolder, 'ztensor.wasm'))
const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 }
const sizes = {
  wasm: brotliCompressSync(wasm, { params }).length,
  javascript: gzipSync(readFileSync(join(webFolder, 'index.js')), { level: 9 }).length,
}
for (const [name, max] of Object.entries(MAX)) {
  console.log(`${name}: ${sizes[name]} bytes compressed, of at most ${max}`)
  check(`the size of ${name} is at most ${max}`, String(sizes[name] <= max), 'true')
}

const fixtures = join(root, '__test__/fixtures')
const files = readdirSync(fixtures, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !/\.(py|cc|md|mjs)$/.test(entry.name))
  .map((entry) => relative(fixtures, join(entry.parentPath ?? entry.path, entry.name)))
  .sort()

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

const malformed = Array.from(await tables()).flatMap(([title, cases]) =>
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

const web = await import('../../packages/web/node.js')
for (const [title, look] of Object.entries(checks)) {
  const found = await look(web).then(
    () => 'as expected',
    (error) => error.stack,
  )
  check(title, found, 'as expected')
}
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

/** Serves the package, the descriptions and the files, with ranges. */
const types = { js: 'text/javascript', mjs: 'text/javascript', wasm: 'application/wasm', html: 'text/html' }
const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname)
  const at = /^\/malformed\/(\d+)$/.exec(path)?.[1]
  if (at !== undefined) return response.end(malformed[at].bytes)
  if (path === '/')
    return response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>tests</title>')
  const file = path.startsWith('/fixtures/') ? join(fixtures, path.slice(10)) : join(root, path)
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
const inChromium = counts()
/** Describes a file in the page: `as` is how it is opened, by its URL or as a File. */
async function describeInPage(path, as, options) {
  return page.evaluate(
    async ([path, as, options]) => {
      const { describeFile } = await import('/__test__/web/describe.mjs')
      const web = await import('/packages/web/index.js')
      const counts = { files: 0, tensors: 0, reads: 0 }
      const url = new URL(path, location.href)
      const source = as === 'URL' ? url : new File([await (await fetch(url)).arrayBuffer()], path.split('/').at(-1))
      try {
        return [await describeFile(web, source, options, counts), counts]
      } catch (error) {
        return [`${error} ${error.stack}`, counts]
      }
    },
    [path, as, options],
  )
}
function add(counts) {
  for (const key of Object.keys(inChromium)) inChromium[key] += counts[key]
}
for (const name of files) {
  const [found, counts] = await describeInPage(`/fixtures/${encodeURI(name)}`, 'URL', {})
  add(counts)
  check(`chromium: ${name}`, found, expected.fixtures[name])
}
for (const [at, { name, options }] of malformed.entries()) {
  const { io, ...others } = options ?? {}
  const [found, counts] = await describeInPage(`/malformed/${at}`, 'File', others)
  add(counts)
  check(`chromium: ${name}`, found, expected.malformed[at])
}
console.log('@ztensor/web in chromium:', inChromium)
await browser.close()
server.close()

for (const failure of failures) console.log(`FAILED ${failure}`)
console.log(`web tests: ${passed} passed, ${failures.length} failed`)
process.exitCode = failures.length > 0 ? 1 : 0
