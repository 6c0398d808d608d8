// `npm run build:web`: the package @ztensor/web in packages/web/: the core as a WebAssembly module, and the wrapper for browsers.
import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
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

/** Builds the module and puts it into the package. */
function buildModule() {
  runOrExit('cargo', ['build', '-p', 'ztensor-web', '--profile', 'web', '--target', TARGET])
  copyFileSync(join(root, 'target', TARGET, 'web/ztensor_web.wasm'), join(webFolder, 'ztensor.wasm'))
}

/** How the wrapper for browsers is bundled. The worker is complete, too, so that a page can host it as one file. */
const bundling = {
  ...shared,
  platform: 'browser',
  target: 'es2022',
  entryPoints: ['index', 'worker'].map((name) => ({ in: join(root, `lib/web/${name}.ts`), out: name })),
  outdir: webFolder,
  write: false,
}

/** The names of all exports of the package. */
export async function webExports() {
  const { metafile } = await build({ ...bundling, metafile: true })
  return Object.values(metafile.outputs).flatMap((output) => output.exports)
}

/** Bundles the wrapper into the package. */
export async function bundleWeb() {
  mkdirSync(webFolder, { recursive: true })
  const require = createRequire(import.meta.url)
  runOrExit(process.execPath, [require.resolve('typescript/lib/tsc.js'), '--project', join(root, 'lib/web')])
  for (const name of readdirSync(webFolder)) if (name.endsWith('.js')) rmSync(join(webFolder, name))
  const { outputFiles } = await build({ ...bundling, minify: true })
  for (const { path, text } of outputFiles) {
    // esbuild makes one pass: several save 4 % more.
    const { code } = await minify(text, { module: true, ecma: 2022, compress: { passes: 3 } })
    writeFileSync(path, code)
  }
  writeFileSync(join(webFolder, 'node.js'), NODE)
  writeFileSync(join(webFolder, 'index.d.ts'), types())
  copyFileSync(join(root, 'LICENSE'), join(webFolder, 'LICENSE'))
}

/** The public types, which need no types of Node. */
function types() {
  const [text] = generateDtsBundle(
    [{ filePath: join(root, 'lib/web/index.ts'), output: { noBanner: true, exportReferencedTypes: false } }],
    { preferredConfigPath: join(root, 'lib/web/tsconfig.types.json') },
  )
  const [imports] = /^(?:import .*\n)+/.exec(text) ?? ['']
  // Streams of Node are never returned, and only Node calls inspect.custom.
  const stand = `/** Browsers have no streams of Node. */
type Readable = never
interface InspectOptions {}
declare const inspect$1: { readonly custom: unique symbol }
`
  return `${stand}${text.slice(imports.length)}`
}

/** The entry point of Node, Deno and Bun, which do not fetch files. */
const NODE = `import { readFile } from 'node:fs/promises'
import { locate } from './index.js'

locate(() => readFile(new URL('ztensor.wasm', import.meta.url)))

export * from './index.js'
`

if (resolve(process.argv[1] ?? '') === fileURLToPath(import.meta.url)) {
  const lack = await missing()
  if (lack !== undefined) {
    console.error(`@ztensor/web cannot be built: this machine lacks ${lack}`)
    process.exit(1)
  }
  if (!process.argv.includes('--wrapper')) buildModule()
  await bundleWeb()
  console.log(`built @ztensor/web ${manifest.version} in packages/web`)
}
