// Modules of the TypeScript sources, for scripts and tests.
import { join } from 'node:path'
import { build } from 'esbuild'
import { shared } from './bundle.mjs'
import { root } from './command.mjs'

/** Bundles a module in memory and imports it. Its path is relative to the root. */
export async function source(path) {
  const { outputFiles } = await build({ ...shared, entryPoints: [join(root, path)], write: false })
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`)
}
