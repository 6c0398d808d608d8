// `npm run build:web`: the package @ztensor/web in packages/web/: the core as a WebAssembly module, and the wrapper for browsers.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generateDtsBundle } from 'dts-bundle-generator'
import { build } from 'esbuild'
import { minify } from 'terser'
import { shared } from './bundle.mjs'
import { capture, root, runOrExit } from './command.mjs'
import { manifest } from './platform.mjs'

const TARGET = 'wasm32-unknown-unknown'

/** The folder of the package. */
export const webFolder = join(root, 'packages/web')

/** What this machine lacks to build the module; undefined if nothing. */
export async function missing() {
  const { stdout } = await capture('rustc', ['--print', 'target-libdir', '--target', TARGET])
  if (!existsSync(stdout.trim())) return `the Rust target ${TARGET} (rustup target add ${TARGET})`
  const clang = await capture('clang', ['--version'])
  return clang.status === 0 ? undefined : 'clang (apt-get install clang), which compiles zstd for browsers'
}

/** The modules: their names, profiles, features and flags. */
const MODULES = [
  // Code that is inlined into several callers is downloaded several times. The time of opening and decoding does not depend on it.
  { name: 'ztensor.wasm', profile: 'web', features: [], flags: '-C llvm-args=-inline-threshold=5' },
  // SIMD makes quantizing several times as fast; all browsers have it since 2023.
  { name: 'ztensor-convert.wasm', profile: 'web-convert', features: ['write'], flags: '-C target-feature=+simd128' },
]

/** Builds the modules and puts them into the package. */
function buildModules() {
  for (const { name, profile, features, flags } of MODULES) {
    const args = ['build', '-p', 'ztensor-web', '--profile', profile, '--target', TARGET]
    // Flags of the caller would replace those of the target.
    const env = { ...process.env, RUSTFLAGS: [process.env.RUSTFLAGS, flags].filter(Boolean).join(' ') }
    runOrExit('cargo', [...args, '--features', features.join(',')], { env })
    copyFileSync(join(root, 'target', TARGET, profile, 'ztensor_web.wasm'), join(webFolder, name))
  }
}

const entry = (name) => ({ in: join(root, `lib/web/${name}.ts`), out: name })

/** Exported classes keep their names in messages and stacks. esbuild's `keepNames` costs 6 kB, because it keeps the names of functions, too. */
const namedClasses = {
  name: 'named classes',
  setup({ onLoad }) {
    const sources = ['index', 'convert'].map((name) => readFileSync(join(root, `lib/web/${name}.ts`), 'utf8'))
    const exported = sources.flatMap((text) => text.match(/^export (?:type )?\{.*\}/gm)).join()
    onLoad({ filter: /[\\/]lib[\\/].*\.ts$/ }, ({ path }) => ({
      loader: 'ts',
      contents: readFileSync(path, 'utf8').replaceAll(/^export class (\w+).*\{$/gm, (head, name) =>
        new RegExp(`\\b${name}\\b`).test(exported) ? `${head} static name = '${name}';` : head,
      ),
    }))
  },
}

/** How the wrapper for browsers is bundled. The entries share their code. */
const bundling = {
  ...shared,
  platform: 'browser',
  target: 'es2022',
  entryPoints: [entry('index'), entry('convert'), entry('deferred')],
  plugins: [namedClasses],
  splitting: true,
  chunkNames: 'shared-[hash]',
  outdir: webFolder,
  write: false,
}

/** Characters of a line of the JavaScript, about. Lines of 200 cost 3 % in size. */
const MAX_LINE = 2000

/** The worker is one file, so that a page can host it. */
const worker = { ...bundling, entryPoints: [entry('worker')], splitting: false }

/** The names of all exports of an entry of the package: `index` or `convert`. */
export async function webExports(entry) {
  const { metafile } = await build({ ...bundling, metafile: true })
  const output = Object.entries(metafile.outputs).find(([name]) => name.endsWith(`/${entry}.js`))
  return output[1].exports
}

/** Bundles the wrapper into the package. */
export async function bundleWeb() {
  mkdirSync(webFolder, { recursive: true })
  const require = createRequire(import.meta.url)
  runOrExit(process.execPath, [require.resolve('typescript/lib/tsc.js'), '--project', join(root, 'lib/web')])
  for (const name of readdirSync(webFolder)) if (name.endsWith('.js')) rmSync(join(webFolder, name))
  const bundles = await Promise.all([build({ ...bundling, minify: true }), build({ ...worker, minify: true })])
  for (const { path, text } of bundles.flatMap(({ outputFiles }) => outputFiles)) {
    // esbuild makes one pass: several save 4 % more. Node prints the whole line of an uncaught error.
    const format = { max_line_len: MAX_LINE }
    const { code } = await minify(text, { module: true, ecma: 2022, compress: { passes: 3 }, format })
    writeFileSync(path, code)
  }
  writeFileSync(join(webFolder, 'node.js'), ofNode('index', 'ztensor.wasm'))
  writeFileSync(join(webFolder, 'convert-node.js'), ofNode('convert', 'ztensor-convert.wasm', "import './node.js'\n"))
  for (const [name, text] of Object.entries(types())) writeFileSync(join(webFolder, name), text)
  copyFileSync(join(root, 'LICENSE'), join(webFolder, 'LICENSE'))
}

/** What the types of the package need besides those of pages. */
const BASE = `/// <reference lib="esnext.disposable" />

/** Browsers have no streams of Node. */
type Readable = never
type Writable = never
/** Uint8Array<ArrayBuffer>, which TypeScript before 5.7 does not have. */
type OwnBytes = ReturnType<Uint8Array['slice']>
`

/** The types without what only Node has: its modules, and the methods that format objects for it. */
function withoutNode(text) {
  const own = text
    .replace(/^(?:import .*\n)+/, '')
    .replaceAll(/^interface (?:Host|Channel|SystemReason) \{[\s\S]*?^\}\n/gm, '')
    .replace(/^declare const inspect: .*\n/m, '')
    .replaceAll(/^\t\[inspect\.custom\].*\n/gm, '')
    .replaceAll('Uint8Array<ArrayBuffer>', 'OwnBytes')
  if (/\bnode:|\binspect\b|\bNodeJS\b/.test(own)) throw new Error('the types of @ztensor/web need types of Node')
  return `${BASE}${own}`
}

/** The public types, which need no types of Node. The entries share one file: a class with private members is declared once. */
function types() {
  const [text] = generateDtsBundle(
    [{ filePath: join(root, 'lib/web/types.ts'), output: { noBanner: true, exportReferencedTypes: false } }],
    { preferredConfigPath: join(root, 'lib/web/tsconfig.types.json') },
  )
  const source = readFileSync(join(root, 'lib/web/types.ts'), 'utf8')
  const ofConvert = /export \{([^}]*)\} from '\.\/convert\.js'/
    .exec(source)[1]
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean)
  const own = ofConvert.map((one) => one.replace(/^type /, '').split(' as '))
  const names = own.map(([name, alias = name]) => (alias === name ? name : `${alias} as ${name}`))
  const others = [
    ...text.matchAll(/^export (?:declare )?(?:abstract )?(?:class|interface|type|function|const) (\w+)/gm),
  ]
  const exported = new Set(others.map(([, name]) => name))
  for (const [, list] of text.matchAll(/^export \{([^}]*)\}/gm))
    for (const one of list.split(',')) exported.add(one.trim().split(' as ').at(-1))
  const ofIndex = [...exported].filter((name) => name && !own.some(([one, alias = one]) => alias === name)).sort()
  const from = (all) => `export { ${all.join(', ')} } from './types.js'\n`
  return {
    'types.d.ts': withoutNode(text),
    'index.d.ts': from(ofIndex),
    'convert.d.ts': from(names),
  }
}

/** The entry point of Node, Deno and Bun, which do not fetch files. */
const ofNode = (entry, wasm, also = '') => `import { readFile } from 'node:fs/promises'
${also}import { locate } from './${entry}.js'

locate(() => readFile(new URL('${wasm}', import.meta.url)))

export * from './${entry}.js'
`

if (resolve(process.argv[1] ?? '') === fileURLToPath(import.meta.url)) {
  const lack = await missing()
  if (lack !== undefined) {
    console.error(`@ztensor/web cannot be built: this machine lacks ${lack}`)
    process.exit(1)
  }
  if (!process.argv.includes('--wrapper')) buildModules()
  await bundleWeb()
  console.log(`built @ztensor/web ${manifest.version} in packages/web`)
}
