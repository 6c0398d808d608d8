// `npm run types`: rolls the public types, from index.ts down, into index.d.ts, which is committed so that a change of the
// surface shows in review. `--check` changes nothing and fails with the difference.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateDtsBundle } from 'dts-bundle-generator'
import { root } from './command.mjs'

const banner = '// The public types of ztensor, rolled up from index.ts by `npm run types`. Not edited by hand.\n'

const [bundle] = generateDtsBundle(
  [
    {
      filePath: join(root, 'index.ts'),
      output: { noBanner: true, exportReferencedTypes: false },
    },
  ],
  { preferredConfigPath: join(root, 'tsconfig.types.json') },
)

// URL, AbortSignal and Symbol.dispose are Node's: since TypeScript 6 a consumer sees them only if it refers to them.
const reference = '/// <reference types="node" />\n'

// The build adds the default export, too (`bundle.mjs`, `build.mjs`).
const all = `
/** All exports of the package, for \`import ztensor from 'ztensor'\`. */
declare const ztensor: typeof import("./index.js");
export default ztensor;
`

const outputs = {
  'index.d.ts': `${banner}\n${bundle.includes(reference) ? '' : `${reference}\n`}${bundle}${all}`,
  'index.d.mts': `${banner}\nexport * from './index.js'\nexport { default } from './index.js'\n`,
}

function committed(name) {
  try {
    return readFileSync(join(root, name), 'utf8').replaceAll('\r\n', '\n')
  } catch {
    return ''
  }
}

if (process.argv.includes('--check')) {
  const fresh = join(root, 'build/types')
  mkdirSync(fresh, { recursive: true })
  const changed = Object.entries(outputs).filter(([name, text]) => committed(name) !== text)
  for (const [name, text] of changed) {
    writeFileSync(join(fresh, name), text)
    spawnSync('git', ['--no-pager', 'diff', '--no-index', '--', name, join('build/types', name)], {
      cwd: root,
      stdio: 'inherit',
    })
  }
  if (changed.length > 0)
    console.error('The public types differ from what is committed: run `npm run types` and commit.')
  console.log(`types: ${Object.keys(outputs).length - changed.length} passed, ${changed.length} failed`)
  process.exitCode = changed.length > 0 ? 1 : 0
} else {
  for (const [name, text] of Object.entries(outputs)) writeFileSync(join(root, name), text)
}
