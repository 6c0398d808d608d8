// `npm run test:web`: checks @ztensor/web in Node, and in Chromium, Firefox and WebKit where they are installed. All fixtures and malformed
// files must read and convert as with the addon. Needs `npm run build` and `npm run build:web` first. Without the Rust target or clang
// there is nothing to check.
//   PART...         only some: package, checks, folders, files, diff, save, page, look (the page in build/page), damaged, convert
//   --in=NAME,...   only in these: node, chromium, firefox, webkit
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { Writable } from 'node:stream'
import { parseArgs } from 'node:util'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import * as addon from 'ztensor'
import { capture, root } from '../../scripts/command.mjs'
import { missing, webFolder } from '../../scripts/web.mjs'
import { bytesOf, tables } from '../corpus/tables.mjs'
import { checks } from '../web/checks.mjs'
import { describeConversion, TARGETS } from '../web/conversions.mjs'
import { convertChecks } from '../web/convert-checks.mjs'
import { describeDiff, describeFile, describeFolder } from '../web/describe.mjs'
import { FolderHandle, writeFolders } from '../web/folders.mjs'
import { checkInBrowser } from '../web/in-browser.mjs'
import { packageChecks } from '../web/package-checks.mjs'
import { saveChecks } from '../web/save-checks.mjs'
import { describeSave, SAVES } from '../web/saves.mjs'
import { openBrowser } from './browsers.mjs'
import { serve } from './web-server.mjs'

/** Maximum sizes of the package in bytes, compressed as servers send them. */
const MAX = {
  'ztensor.wasm': 700_000,
  'ztensor-convert.wasm': 1_200_000,
  'JavaScript to read': 43_500,
  'JavaScript to convert': 24_000,
}

/** The part that runs in each browser, of the malformed files, the conversions, and what a worker reads: every so many. */
const BROWSERS = { chromium: 1, firefox: 5, webkit: 5 }

const { values, positionals: parts } = parseArgs({ allowPositionals: true, options: { in: { type: 'string' } } })
const has = (part) => (parts.length === 0 ? part !== 'look' || hasPage : parts.includes(part))
const hasPage = existsSync(join(root, 'build/page/index.html'))
if (!hasPage) console.log('not run: the page that shows models, which npm run build:page builds')
const places = values.in?.split(',') ?? ['node', ...Object.keys(BROWSERS)]
const inNode = places.includes('node')

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

/** A module of the package and those that it imports, without what is imported later. */
function loadedBy(name, all = []) {
  if (all.includes(name)) return all
  all.push(name)
  const imported = readFileSync(join(webFolder, name), 'utf8').matchAll(/\b(?:from|import)\s*"\.\/([^"]+)"/g)
  for (const [, other] of imported) loadedBy(other, all)
  return all
}

function checkSizes() {
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 }
  const compressed = (name) => brotliCompressSync(readFileSync(join(webFolder, name)), { params }).length
  const zipped = (names) =>
    names.reduce((sum, name) => sum + gzipSync(readFileSync(join(webFolder, name)), { level: 9 }).length, 0)
  const reading = loadedBy('index.js')
  const sizes = {
    'ztensor.wasm': compressed('ztensor.wasm'),
    'ztensor-convert.wasm': compressed('ztensor-convert.wasm'),
    'JavaScript to read': zipped(reading),
    'JavaScript to convert': zipped(loadedBy('convert.js').filter((name) => !reading.includes(name))),
  }
  for (const [name, max] of Object.entries(MAX)) {
    console.log(`${name}: ${sizes[name]} bytes compressed, of at most ${max}`)
    check(`the size of ${name} is at most ${max}`, String(sizes[name] <= max), 'true')
  }
}

const fixtures = join(root, '__test__/fixtures')
const fixtureFiles = readdirSync(fixtures, { recursive: true, withFileTypes: true })
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

/** Each file, and the next one, with every fourth file itself. */
const pairs = fixtureFiles.map((name, at) => [name, fixtureFiles[at % 4 === 3 ? at : (at + 1) % fixtureFiles.length]])

const ofDisk = (names) => names.map((name) => disk(join(fixtures, name)))

/** Converts by the addon into memory. */
async function convertByAddon(source, options) {
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

/** A writer of the addon, into memory. */
async function saveByAddon(options) {
  const chunks = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(chunk)
      done()
    },
  })
  return { writer: await addon.create(stream, options), bytes: async () => Buffer.concat(chunks) }
}

/** The files, and what the addon says of them. */
async function casesOfAddon(scratch) {
  const counts = { files: 0, tensors: 0, reads: 0 }
  const files = has('files') ? fixtureFiles : []
  const ofFixtures = {}
  for (const name of files) ofFixtures[name] = await describeFile(addon, disk(join(fixtures, name)), {}, counts)
  const malformed = (has('files') ? Array.from(await tables()) : []).flatMap(([title, cases]) =>
    cases.map((one) => ({ name: `${title}: ${one.name}`, bytes: bytesOf(one), options: one.options })),
  )
  const ofMalformed = []
  for (const { bytes, options } of malformed) {
    const { io, ...others } = options ?? {}
    const read = (offset, length) => new Uint8Array(bytes.subarray(offset, offset + length))
    ofMalformed.push(await describeFile(addon, { byteLength: bytes.length, read }, others, counts))
  }
  console.log('addon:', counts)
  const toCompare = has('diff') ? pairs : []
  const ofDiffs = []
  for (const [at, pair] of toCompare.entries()) ofDiffs.push(await describeDiff(addon, ...ofDisk(pair), at))
  const saves = has('save') ? SAVES : []
  const ofSaves = []
  for (const one of saves) ofSaves.push(await describeSave(one, saveByAddon))
  const folders = has('folders') ? Object.entries(writeFolders(scratch)) : []
  const ofFolders = await Promise.all(folders.map(([, path]) => describeFolder(addon, path, path)))
  const converted = { files: 0, bytes: 0, errors: 0 }
  const toConvert = has('convert') ? fixtureFiles : []
  const ofConversions = {}
  for (const name of toConvert)
    for (const [target, options] of Object.entries(TARGETS)) {
      const convert = (options) => convertByAddon(disk(join(fixtures, name)), options)
      ofConversions[`${name} to ${target}`] = await describeConversion(convert, options, converted)
    }
  console.log('conversions of the addon:', converted)
  return {
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
  }
}

/** Runs named functions that throw what is wrong. */
async function checkAll(all, ...given) {
  for (const [title, look] of Object.entries(all)) {
    const found = await look(...given).then(
      () => 'as expected',
      (error) => error.stack,
    )
    check(title, found, 'as expected')
  }
}

async function checkInNode({
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
}) {
  const web = await import('../../packages/web/node.js')
  const converting = await import('../../packages/web/convert-node.js')
  if (has('package')) await checkAll(packageChecks, web, converting)
  if (has('checks')) await checkAll(checks, web)
  if (has('convert')) await checkAll(convertChecks, web, converting)
  if (has('save')) await checkAll(saveChecks, web, converting)
  for (const [at, [title, path]] of folders.entries())
    check(`Node: ${title}`, await describeFolder(web, new FolderHandle(path, 'root'), 'root'), ofFolders[at])
  const counts = { files: 0, tensors: 0, reads: 0 }
  const describe = (...given) => describeFile(web, ...given, counts).catch((error) => error.stack)
  for (const name of files) check(`Node: ${name}`, await describe(disk(join(fixtures, name)), {}), ofFixtures[name])
  for (const [at, { name, bytes, options }] of malformed.entries()) {
    const { io, ...others } = options ?? {}
    check(`Node: ${name}`, await describe(new Uint8Array(bytes), others), ofMalformed[at])
  }
  console.log('Node:', counts)
  for (const [at, pair] of toCompare.entries())
    check(`Node: diff ${pair}`, await describeDiff(web, ...ofDisk(pair), at), ofDiffs[at])
  console.log('Node, diffs:', toCompare.length)
  for (const [at, one] of saves.entries()) {
    const found = await describeSave(one, async (options) => {
      const writer = await converting.create(undefined, options)
      return { writer, bytes: () => writer.blob.arrayBuffer() }
    })
    check(`Node: ${one.title}`, found, ofSaves[at])
  }
  console.log('Node, saves:', saves.length)
  const converted = { files: 0, bytes: 0, errors: 0 }
  for (const name of toConvert)
    for (const [target, options] of Object.entries(TARGETS)) {
      const convert = async (options) => {
        const { blob, ...result } = await converting.convert(disk(join(fixtures, name)), undefined, options)
        return { bytes: new Uint8Array(await blob.arrayBuffer()), result }
      }
      const found = await describeConversion(convert, options, converted)
      check(`Node: ${name} to ${target}`, found, ofConversions[`${name} to ${target}`])
    }
  console.log('Node, conversions:', converted)
}

async function checkDamaged() {
  const program = join(root, '__test__/web/damaged.mjs')
  // The time limit ends a process that hangs.
  const { status, output, stdout } = await capture(process.execPath, [program], { timeout: 280_000 })
  check('damaged files do not end the process', status === 0 ? '0' : `${status} ${output}`, '0')
  const { strangers, ...found } = JSON.parse(stdout || '{"strangers":["nothing"]}')
  console.log('damaged files:', found)
  check('damaged files meet no bug', strangers.slice(0, 3).join('\n'), '')
}

const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'ztensor-web-')))
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }))
const cases = await casesOfAddon(scratch)
if (inNode) {
  checkSizes()
  await checkInNode(cases)
  if (has('damaged')) await checkDamaged()
}
for (const [name, step] of Object.entries(BROWSERS)) {
  if (!places.includes(name)) continue
  const server = await serve({ '/fixtures/': fixtures, '/folders/': scratch }, cases.malformed)
  const page = await openBrowser(name, server)
  if (page !== undefined) {
    await checkInBrowser(name, page, cases, has, check, step)
    await page.close()
  }
  server.close()
}

for (const failure of failures) console.log(`FAILED ${failure}`)
console.log(`web tests: ${passed} passed, ${failures.length} failed`)
process.exitCode = failures.length > 0 ? 1 : 0
