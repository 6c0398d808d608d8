// `npm run test:web-bundlers`: bundles @ztensor/web for browsers, and runs the output in chromium, with and without a worker. The bundlers
// come from npm into build/web-bundlers. Needs `npm run build` and `npm run build:web` first.
//   NAME...   only the checks with one of these in their titles
import assert from 'node:assert/strict'
import {
  cpSync,
  createReadStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { capture, npm, root } from '../../scripts/command.mjs'
import { webFolder } from '../../scripts/web.mjs'
import { blocksOf } from '../helpers/guides.mjs'
import { checkpoint } from '../helpers/tiny-checkpoint.mjs'
import { startChromium } from './chromium.mjs'
import { installInto } from './installed-app.mjs'

const TOOLS = {
  '@wllama/wllama': '3.13.0',
  esbuild: '0.28.2',
  next: '^16',
  'onnxruntime-web': '^1',
  react: '^19',
  'react-dom': '^19',
  vite: '8.3.8',
  'vite-7': 'npm:vite@^7',
  webpack: '5.112.2',
}
const tools = join(root, 'build/web-bundlers')
mkdirSync(tools, { recursive: true })
writeFileSync(join(tools, 'package.json'), JSON.stringify({ private: true, dependencies: TOOLS }))
const installed = await capture(...npm(['install', '--prefer-offline', '--no-audit', '--no-fund']), { cwd: tools })
assert.equal(installed.status, 0, installed.output)
const require = createRequire(join(tools, 'package.json'))
const tool = (name) => import(pathToFileURL(require.resolve(name)))

const work = realpathSync(mkdtempSync(join(tmpdir(), 'ztensor-web-bundlers-')))
process.on('exit', () => rmSync(work, { recursive: true, force: true }))

/** What each application runs. `title` tells the test how it went. */
const program = (name, converting) => `import { open } from '${name}'
import { convert } from '${converting}'

export async function run() {
  const json = JSON.stringify({ t: { dtype: 'F32', shape: [3], data_offsets: [0, 12] } })
  const head = new Uint8Array(8 + json.length)
  new DataView(head.buffer).setBigUint64(0, BigInt(json.length), true)
  head.set(new TextEncoder().encode(json), 8)
  const loaded = []
  for (const worker of [false, true]) {
    const file = await open(new Blob([head, Float32Array.of(1, 2, 3)]), { worker })
    loaded.push(...(await file.tensor('t').load({ as: 'float32' })))
    const { blob } = await convert(file, undefined, { format: 'safetensors', dtype: 'float16', worker })
    file.close()
    const converted = await open(blob)
    loaded.push(converted.tensor('t').dtype)
    converted.close()
  }
  return loaded.join()
}
`
const START = `import { run } from './program.js'
run().then((loaded) => { document.title = 'loaded ' + loaded }, (error) => { document.title = 'failed: ' + error.stack })
`
const HTML = (script) => `<!doctype html><title>running</title><script type="module" src="${script}"></script>`

/** An application with the packages in its node_modules. */
async function application(name, packageName, { withWeb = true, converting = '@ztensor/web/convert' } = {}) {
  const app = join(work, name)
  await installInto(app)
  if (withWeb) cpSync(webFolder, join(app, 'node_modules/@ztensor/web'), { recursive: true })
  writeFileSync(join(app, 'package.json'), '{ "private": true, "type": "module" }')
  writeFileSync(join(app, 'program.js'), program(packageName, converting))
  writeFileSync(join(app, 'main.js'), START)
  return app
}

const types = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm' }
let served = work
const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname)
  const file = join(served, path.endsWith('/') ? `${path}index.html` : path)
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404).end()
  createReadStream(file).pipe(
    response.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' }),
  )
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const browser = await startChromium()

/** Opens a folder in the browser, or what another server has, and returns the title at the end. */
async function titleOf(folder, url = `http://127.0.0.1:${server.address().port}/`) {
  served = folder
  const page = await browser.newPage()
  try {
    await page.goto(url)
    await page.waitForFunction(() => /^(loaded|failed)/.test(document.title))
    return await page.title()
  } finally {
    await page.close()
  }
}

/** Opens an application on the development server of a version of Vite, and returns the title at the end. */
async function servedByVite(name, app) {
  const { createServer } = await tool(name)
  const server = await createServer({ root: app, logLevel: 'error', server: { port: 0, host: '127.0.0.1' } })
  await server.listen()
  try {
    return await titleOf(app, server.resolvedUrls.local[0])
  } finally {
    await server.close()
  }
}

/** Fields of a Protocol Buffers message: numbers, texts and messages by their number. */
function proto(fields) {
  const varint = (number) => (number < 128 ? [number] : [(number % 128) | 128, ...varint(Math.floor(number / 128))])
  return fields.flatMap(([number, value]) => {
    if (typeof value === 'number') return [number << 3, ...varint(value)]
    const bytes = typeof value === 'string' ? [...Buffer.from(value)] : value
    return [(number << 3) | 2, ...varint(bytes.length), ...bytes]
  })
}

/** A model of ONNX: y = x + w, with w of `length` elements in another file. */
function onnx(length) {
  const entry = (key, value) => [
    13,
    proto([
      [1, key],
      [2, value],
    ]),
  ]
  const external = [entry('location', 'w.bin'), entry('offset', '0'), entry('length', String(length * 4))]
  const w = proto([[1, length], [2, 1], [8, 'w'], ...external, [14, 1]])
  const info = (name, size) =>
    proto([
      [1, name],
      [
        2,
        proto([
          [
            1,
            proto([
              [1, 1],
              [2, proto([[1, proto([[1, size]])]])],
            ]),
          ],
        ]),
      ],
    ])
  const node = proto([
    [1, 'x'],
    [1, 'w'],
    [2, 'y'],
    [4, 'Add'],
  ])
  const graph = proto([
    [1, node],
    [2, 'sum'],
    [5, w],
    [11, info('x', 1)],
    [12, info('y', length)],
  ])
  return new Uint8Array(
    proto([
      [1, 8],
      [7, graph],
      [8, proto([[2, 13]])],
    ]),
  )
}

const LOADED = 'loaded 1,2,3,float16,1,2,3,float16'

const CHECKS = {
  async 'no bundler, with the import map of the guide'() {
    const app = await application('none', '@ztensor/web')
    const map = blocksOf('docs/guide/browser.md').find(({ text }) => text.includes('type="importmap"'))
    writeFileSync(join(app, 'index.html'), `${map.text}${HTML('main.js')}`)
    assert.equal(await titleOf(app), LOADED)
  },

  async 'esbuild, with the modules and worker.js copied'() {
    const app = await application('esbuild', 'ztensor')
    const out = join(app, 'out')
    const { build } = require('esbuild')
    await build({ entryPoints: [join(app, 'main.js')], bundle: true, format: 'esm', outdir: out, logLevel: 'error' })
    for (const name of ['ztensor.wasm', 'ztensor-convert.wasm', 'worker.js'])
      cpSync(join(webFolder, name), join(out, name))
    writeFileSync(join(out, 'index.html'), HTML('main.js'))
    assert.equal(await titleOf(out), LOADED)
  },

  async Vite() {
    const app = await application('vite', 'ztensor')
    writeFileSync(join(app, 'index.html'), HTML('main.js'))
    const { build } = await tool('vite')
    await build({ root: app, base: './', logLevel: 'error', build: { outDir: join(app, 'out') } })
    assert.equal(await titleOf(join(app, 'out')), LOADED)
  },

  async 'the development server of Vite'() {
    const app = await application('vite-server', 'ztensor')
    writeFileSync(join(app, 'index.html'), HTML('main.js'))
    assert.equal(await servedByVite('vite', app), LOADED)
  },

  async 'the development server of Vite 7, with the setting of the guide'() {
    const app = await application('vite-7', '@ztensor/web')
    writeFileSync(join(app, 'index.html'), HTML('main.js'))
    const setting = blocksOf('docs/guide/browser.md').find(({ text }) => text.startsWith('// vite.config.js'))
    writeFileSync(join(app, 'vite.config.js'), setting.text)
    assert.equal(await servedByVite('vite-7', app), LOADED)
  },

  async webpack() {
    const app = await application('webpack', 'ztensor')
    const out = join(app, 'out')
    const webpack = require('webpack')
    const stats = await new Promise((resolve, reject) => {
      webpack(
        { context: app, entry: join(app, 'main.js'), mode: 'production', output: { path: out, filename: 'main.js' } },
        (error, stats) => (error ? reject(error) : resolve(stats)),
      )
    })
    const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true })
    assert.deepEqual([errors, warnings.filter(({ message }) => !/size|performance/.test(message))], [[], []])
    writeFileSync(join(out, 'index.html'), HTML('main.js'))
    assert.equal(await titleOf(out), LOADED)
  },

  async 'Next, a client component'() {
    const app = await application('next', '@ztensor/web')
    for (const name of readdirSync(join(tools, 'node_modules')))
      if (!['@ztensor', 'ztensor', '.bin', '.package-lock.json'].includes(name))
        cpSync(join(tools, 'node_modules', name), join(app, 'node_modules', name), { recursive: true })
    mkdirSync(join(app, 'app'))
    writeFileSync(
      join(app, 'next.config.js'),
      `export default { output: 'export', turbopack: { root: ${JSON.stringify(app)} } }\n`,
    )
    writeFileSync(
      join(app, 'app/layout.js'),
      'export default function Layout({ children }) { return <html><body>{children}</body></html> }\n',
    )
    writeFileSync(
      join(app, 'app/page.js'),
      `'use client'
import { useEffect } from 'react'
import { run } from '../program.js'

export default function Page() {
  useEffect(() => {
    run().then((loaded) => { document.title = 'loaded ' + loaded }, (error) => { document.title = 'failed: ' + error.stack })
  }, [])
  return <p>tensors</p>
}
`,
    )
    const script = join(app, 'node_modules/next/dist/bin/next')
    const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1' }
    const { status, output } = await capture(process.execPath, [script, 'build'], { cwd: app, env })
    assert.equal(status, 0, output)
    assert.equal(await titleOf(join(app, 'out')), LOADED)
  },

  async 'onnxruntime-web takes blob() as external data'() {
    const app = await application('onnx', './node_modules/@ztensor/web/index.js')
    const elements = 8 * 2 ** 20
    const ort = join(tools, 'node_modules/onnxruntime-web/dist')
    for (const name of readdirSync(ort).filter((name) =>
      /^ort\.wasm\.bundle\.min\.mjs$|^ort-wasm-simd-threaded\.(wasm|mjs)$/.test(name),
    ))
      cpSync(join(ort, name), join(app, name))
    writeFileSync(join(app, 'model.onnx'), onnx(elements))
    writeFileSync(
      join(app, 'onnx.js'),
      `import { open } from './node_modules/@ztensor/web/index.js'
import * as ort from './ort.wasm.bundle.min.mjs'

const count = ${elements}
export async function prepare() {
  const json = JSON.stringify({ w: { dtype: 'F32', shape: [count], data_offsets: [0, count * 4] } })
  const head = new Uint8Array(8 + json.length)
  new DataView(head.buffer).setBigUint64(0, BigInt(json.length), true)
  head.set(new TextEncoder().encode(json), 8)
  globalThis.file = new Blob([head, Float32Array.from({ length: count }, (_, at) => at)])
}
export async function part() {
  const opened = await open(globalThis.file)
  globalThis.part = opened.tensor('w').blob()
  opened.close()
}
export async function run() {
  ort.env.wasm.numThreads = 1
  const model = new Uint8Array(await (await fetch('model.onnx')).arrayBuffer())
  const externalData = [{ path: 'w.bin', data: globalThis.part }]
  const session = await ort.InferenceSession.create(model, { executionProviders: ['wasm'], externalData })
  const { y } = await session.run({ x: new ort.Tensor('float32', [1], [1]) })
  return [y.data[0], y.data[1000], y.data[count - 1]]
}
`,
    )
    writeFileSync(join(app, 'index.html'), '<!doctype html><title>onnx</title>')
    served = app
    const page = await browser.newPage()
    await page.goto(`http://127.0.0.1:${server.address().port}/`)
    const session = await page.context().newCDPSession(page)
    const heap = async () => {
      await session.send('HeapProfiler.collectGarbage')
      const { usedSize, backingStorageSize } = await session.send('Runtime.getHeapUsage')
      return usedSize + backingStorageSize
    }
    const call = (name) => page.evaluate(async (name) => (await import('/onnx.js'))[name](), name)
    await call('prepare')
    const before = await heap()
    await call('part')
    const grown = (await heap()) - before
    assert.deepEqual(await call('run'), [1, 1001, elements])
    console.log(
      `       ${elements * 4} bytes: blob() took ${grown} bytes of heap, the session ${(await heap()) - before}`,
    )
    assert.ok(grown < 16 * 2 ** 20, `${grown} bytes of heap`)
    await page.close()
  },

  async 'wllama runs the GGUF that convert makes of a checkpoint'() {
    const app = await application('wllama', './node_modules/@ztensor/web/index.js')
    cpSync(join(tools, 'node_modules/@wllama/wllama/esm'), join(app, 'wllama'), { recursive: true })
    const { folder } = await checkpoint()
    cpSync(folder, join(app, 'model'), { recursive: true })
    writeFileSync(
      join(app, 'program.js'),
      `import { convert } from './node_modules/@ztensor/web/convert.js'
import { Wllama } from './wllama/index.js'

export async function run() {
  const url = new URL('model/model.safetensors', location.href)
  const { blob } = await convert(url, undefined, { format: 'gguf', quantize: 'q8_0', worker: true })
  const wllama = new Wllama({ default: '/wllama/wasm/wllama.wasm' }, { suppressNativeLog: true })
  await wllama.loadModel([blob], { n_ctx: 64, n_threads: 1 })
  const { usage } = await wllama.createCompletion({ prompt: 'ab', max_tokens: 3, temperature: 0 })
  await wllama.exit()
  return [usage.prompt_tokens, usage.completion_tokens].join()
}
`,
    )
    writeFileSync(join(app, 'index.html'), HTML('main.js'))
    assert.equal(await titleOf(app), 'loaded 1,3')
  },

  async 'without @ztensor/web the error names the command that installs it'() {
    const app = await application('missing', 'ztensor', { withWeb: false })
    const { build } = require('esbuild')
    const failed = await build({
      entryPoints: [join(app, 'main.js')],
      bundle: true,
      format: 'esm',
      write: false,
      logLevel: 'silent',
    }).catch((error) => error)
    const [{ text, location }] = failed.errors
    assert.match(text, /Could not resolve "@ztensor\/web"/)
    assert.match(location.lineText, /npm install @ztensor\/web@\d/)
  },
}

const wanted = process.argv.slice(2)
let [passed, failed] = [0, 0]
for (const [claim, prove] of Object.entries(CHECKS)) {
  if (wanted.length > 0 && !wanted.some((word) => claim.includes(word))) continue
  try {
    await prove()
    passed += 1
    console.log(`ok     ${claim}`)
  } catch (error) {
    failed += 1
    console.log(`FAILED ${claim}\n${error.stack}\n`)
  }
}
await browser.close()
server.close()
console.log(`web bundlers: ${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 || passed === 0 ? 1 : 0
