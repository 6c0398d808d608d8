// `npm run build:page`: the page that opens tensor files in a browser, as static files in build/page/. It has the WebAssembly module of
// `npm run build:web`.
import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { shared } from './bundle.mjs'
import { root, runOrExit } from './command.mjs'
import { webFolder } from './web.mjs'

/** The folder of the page. */
export const pageFolder = join(root, 'build/page')

/** The modules: the second is fetched at the first conversion. */
const MODULES = ['ztensor.wasm', 'ztensor-convert.wasm']

/** Builds the page. */
export async function buildPage() {
  const require = createRequire(import.meta.url)
  runOrExit(process.execPath, [require.resolve('typescript/lib/tsc.js'), '--project', join(root, 'page')])
  rmSync(pageFolder, { recursive: true, force: true })
  mkdirSync(pageFolder, { recursive: true })
  await build({
    ...shared,
    platform: 'browser',
    target: 'es2022',
    minify: true,
    splitting: true,
    tsconfig: join(root, 'page/tsconfig.json'),
    entryPoints: [
      { in: join(root, 'page/main.ts'), out: 'page' },
      { in: join(root, 'lib/web/worker.ts'), out: 'worker' },
      { in: join(root, 'page/style.css'), out: 'page' },
    ],
    outdir: pageFolder,
  })
  copyFileSync(join(root, 'page/index.html'), join(pageFolder, 'index.html'))
  for (const name of MODULES) copyFileSync(join(webFolder, name), join(pageFolder, name))
}

if (resolve(process.argv[1] ?? '') === fileURLToPath(import.meta.url)) {
  if (!MODULES.every((name) => existsSync(join(webFolder, name)))) {
    console.error('build/page needs the WebAssembly modules: npm run build:web')
    process.exit(1)
  }
  await buildPage()
  console.log('built the page in build/page: serve the folder, and open its index.html')
}
