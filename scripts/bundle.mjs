// Bundles what is published into dist/: the package as one file, and the command as another beside it, since a file that is loaded
// costs a program more than what stands in it. The compiler has checked the sources before.
import { join } from 'node:path'
import { build } from 'esbuild'
import { root } from './command.mjs'

const shared = {
  bundle: true,
  platform: 'node',
  format: 'cjs',
  target: 'node20',
  charset: 'utf8',
  legalComments: 'inline',
  logLevel: 'warning',
}

/** What a module of the sources exports, for scripts and tests; its path is that from the root. */
export async function source(path) {
  const { outputFiles } = await build({ ...shared, entryPoints: [join(root, path)], format: 'esm', write: false })
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`)
}

/** Writes the package and its command into `dist`. */
export async function bundle(dist) {
  await build({
    ...shared,
    entryPoints: [join(root, 'index.ts')],
    outfile: join(dist, 'index.js'),
    // The page of reports is a file of its own, for those who make one.
    external: ['@ztensor/*', './report-page.js'],
  })
  await build({
    ...shared,
    entryPoints: [join(root, 'cli/main.ts')],
    outfile: join(dist, 'cli.js'),
    external: ['./index.js', 'commander', 'cli-progress'],
    plugins: [packageOutside],
  })
}

/** The command asks the package, and has no copy of it. */
const packageOutside = {
  name: 'package-outside',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\.\/index\.js$/ }, () => ({ path: './index.js', external: true }))
  },
}
