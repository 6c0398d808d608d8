// Bundles what is published into dist/: the package as a file that every program loads and one for what most never need, and the
// command beside them, since a file that is loaded costs a program more than what stands in it, and what stands in it costs
// what it takes to read. The compiler has checked the sources before.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { build, transform } from 'esbuild'
import { root } from './command.mjs'
import { manifest } from './platform.mjs'

const shared = {
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  charset: 'utf8',
  legalComments: 'inline',
  logLevel: 'warning',
}

/** Functions that most programs never call: they and what they need are read at the first call. */
const LATER = [
  'compare',
  'convert',
  'diff',
  'finishConvert',
  'finishStats',
  'finishVerify',
  'planConvert',
  'planStats',
  'planVerify',
  'report',
  'runTask',
  'serveReport',
]
/** Modules that the sources load by `require`, at their first use, and that later.js holds. */
const REQUIRED = ['report/make', 'report/server', 'write/tensor-stream']
/** What stands in a file of its own in dist/. */
const FILES = ['./later.js', './report-page.js']

/** What a module of the sources exports, for scripts and tests; its path is that from the root. */
export async function source(path) {
  const { outputFiles } = await build({ ...shared, entryPoints: [join(root, path)], write: false })
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`)
}

/** The functions and classes that index.ts exports, with the module of each. */
function surface() {
  const statements = readFileSync(join(root, 'index.ts'), 'utf8').matchAll(/^export \{([^}]*)\} from '(.*?)\.js'$/gm)
  return [...statements].flatMap(([, names, module]) =>
    names
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '' && !name.startsWith('type '))
      .map((name) => ({ name, module: `${module}.ts` })),
  )
}

/** Entry points that stand in no file, by their texts. */
const entries = (texts) => ({
  name: 'entries',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^entry:/ }, ({ path }) => ({ path: path.slice('entry:'.length), namespace: 'entry' }))
    onLoad({ filter: /./, namespace: 'entry' }, ({ path }) => ({ contents: texts[path], resolveDir: root }))
  },
})

/**
 * The package: index.js has what `open` needs and hands the rest on, later.js has the rest, and what both need is between them. esbuild
 * divides only modules, so modules they are until the end: what is required stands there by another name.
 */
async function bundlePackage(dist) {
  const from = ({ name, module }) => `export { ${name} } from '${module}'`
  const [rest, first] = [true, false].map((later) => surface().filter(({ name }) => LATER.includes(name) === later))
  assert.equal(rest.length, LATER.length)
  const hand = ({ name }) => `export function ${name}(...args) { return requireLater("./later.js").${name}(...args) }`
  const texts = {
    index: [...first.map(from), ...rest.map(hand)].join('\n'),
    later: [...rest.map(from), ...REQUIRED.map((name) => `export * from './lib/${name}.ts'`)].join('\n'),
  }
  const { outputFiles } = await build({
    ...shared,
    entryPoints: Object.keys(texts).map((name) => ({ in: `entry:${name}`, out: name })),
    plugins: [entries(texts)],
    define: { require: 'requireLater' },
    splitting: true,
    chunkNames: 'shared',
    outdir: dist,
    write: false,
  })
  for (const { path, text } of outputFiles) {
    const { code } = await transform(text, { format: 'cjs', target: shared.target, charset: 'utf8', platform: 'node' })
    const required = code.replaceAll(/\brequireLater\("(.*?)"\)/g, (_, name) => `require("${placeOf(name)}")`)
    assert.doesNotMatch(required, /requireLater/)
    writeFileSync(path, required)
  }
}

/** Which file of dist/ holds a module that is required. */
function placeOf(name) {
  if (REQUIRED.some((one) => name === `./${basename(one)}.js`)) return './later.js'
  assert(!name.startsWith('.') || FILES.includes(name), `${name} is required, and no file of dist/: add it to REQUIRED`)
  return name
}

/** Writes the package and its command into `dist`. */
export async function bundle(dist) {
  mkdirSync(dist, { recursive: true })
  await bundlePackage(dist)
  const command = {
    ...shared,
    format: 'cjs',
    outdir: dist,
    plugins: [outside, processesLater],
    define: { PACKAGE_VERSION: JSON.stringify(manifest.version) },
  }
  await build({ ...command, entryPoints: [{ in: join(root, 'cli/start.ts'), out: 'cli' }] })
  await build({
    ...command,
    entryPoints: [{ in: join(root, 'cli/main.ts'), out: 'command' }],
    external: ['cli-progress'],
    // Without the comments of commander V8 has read it 1.5 ms sooner.
    minifyWhitespace: true,
    lineLimit: 140,
    banner: { js: licenseOf('commander') },
  })
}

/** The license of a package of which dist/ has a copy, as a comment. */
function licenseOf(name) {
  const text = (file) => readFileSync(join(root, 'node_modules', name, file), 'utf8').trim()
  return `/*! ${name} ${JSON.parse(text('package.json')).version}\n\n${text('LICENSE')} */`
}

/** `command.js` requires `index.js` and holds no copy of it; `cli.js` requires `command.js`. Packages have files of these names, too. */
const outside = {
  name: 'outside',
  setup({ onResolve }) {
    const beside = { '../index.js': './index.js', './command.js': './command.js' }
    onResolve({ filter: /^\.{1,2}\/(index|command)\.js$/ }, ({ path, importer }) =>
      /[\\/]node_modules[\\/]/.test(importer) ? undefined : { path: beside[path], external: true },
    )
  },
}

/** commander can run other programs, which no command asks of it: Node's module for that takes half as long to load as commander does. */
const processesLater = {
  name: 'processes-later',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:child_process$/ }, ({ importer }) =>
      /[\\/]node_modules[\\/]commander[\\/]/.test(importer) ? { path: 'processes', namespace: 'later' } : undefined,
    )
    onLoad({ filter: /./, namespace: 'later' }, () => ({
      contents: "exports.spawn = (...args) => require('node:child_process').spawn(...args)",
    }))
  },
}
