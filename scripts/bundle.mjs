// Bundles the package and its command into dist/, because loading a file costs more than its contents. The compiler has
// checked the sources before.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { build, transform } from 'esbuild'
import { root } from './command.mjs'
import { ENTRIES } from './entries.mjs'
import { manifest } from './platform.mjs'

/** How esbuild bundles the sources. */
export const shared = {
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  charset: 'utf8',
  legalComments: 'inline',
  logLevel: 'warning',
  define: { PACKAGE_VERSION: JSON.stringify(manifest.version) },
}

/**
 * Programs load index.js, hub.js, jobs.js or report.js. The first call that needs deferred.js loads it. index.js and deferred.js use shared.js. esbuild splits only ES
 * modules, so the split comes first, and `require` has another name until it is done.
 */
async function bundlePackage(dist) {
  const { outputFiles } = await build({
    ...shared,
    entryPoints: [
      ...ENTRIES.map((name) => join(root, `${name}.ts`)),
      { in: join(root, 'lib/deferred.ts'), out: 'deferred' },
    ],
    define: { ...shared.define, require: 'requireLater' },
    splitting: true,
    chunkNames: 'shared',
    outdir: dist,
    write: false,
  })
  for (const { path, text } of outputFiles) {
    const { code } = await transform(text, { format: 'cjs', platform: 'node', target: 'node20', charset: 'utf8' })
    // Files of the sources that are required are in dist/ itself.
    const own = code.replaceAll(
      /\brequireLater\("(?:\.{1,2}\/)*(?:lib\/)?/g,
      (call) => `require("${call.includes('./') ? './' : ''}`,
    )
    // Compilers turn `import ztensor from 'ztensor'` into `require('ztensor').default`. In an ES module Node makes it by itself.
    writeFileSync(path, basename(path) === 'index.js' ? `${own}module.exports.default = module.exports\n` : own)
  }
}

/** Writes the package and its command into `dist`. */
export async function bundle(dist) {
  mkdirSync(dist, { recursive: true })
  await bundlePackage(dist)
  const { outputFiles, metafile } = await build({
    ...shared,
    format: 'cjs',
    entryPoints: [
      { in: join(root, 'cli/start.ts'), out: 'cli' },
      { in: join(root, 'cli/main.ts'), out: 'command' },
    ],
    outdir: dist,
    plugins: [outside],
    // V8 parses it faster without the comments of the bundled packages.
    minifyWhitespace: true,
    lineLimit: 140,
    legalComments: 'none',
    metafile: true,
    write: false,
  })
  for (const { path, text } of outputFiles) {
    const { inputs } = Object.entries(metafile.outputs).find(([name]) => basename(name) === basename(path))[1]
    const packages = new Set(Object.keys(inputs).flatMap((name) => /^.*node_modules\/[^/]+/.exec(name) ?? []))
    writeFileSync(path, [text, ...Array.from(packages, licenseOf)].join(''))
  }
}

/** The license of a package of which dist/ has a copy, as a comment. */
function licenseOf(folder) {
  const read = (name) => readFileSync(join(root, folder, name), 'utf8').trim()
  const { name, version } = JSON.parse(read('package.json'))
  const file = readdirSync(join(root, folder)).find((one) => /^licen[cs]e/i.test(one))
  return `/*! ${name} ${version}\n\n${read(file)} */\n`
}

/**
 * `command.js` requires the entries and `deferred.js` and holds no copy of them; `cli.js` requires `command.js`. Packages have files of
 * these names, too.
 */
const outside = {
  name: 'outside',
  setup({ onResolve }) {
    const siblings = {
      ...Object.fromEntries(ENTRIES.map((name) => [`../${name}.js`, `./${name}.js`])),
      '../lib/deferred.js': './deferred.js',
      './command.js': './command.js',
    }
    onResolve({ filter: /^\.{1,2}\/(lib\/)?\w+\.js$/ }, ({ path, importer }) =>
      /[\\/]node_modules[\\/]/.test(importer) || siblings[path] === undefined
        ? undefined
        : { path: siblings[path], external: true },
    )
  },
}
