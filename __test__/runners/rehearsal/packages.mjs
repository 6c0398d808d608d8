// Checks the packages before they are published: files, sizes, and the results of publint and attw.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { capture, npm, root } from '../../../scripts/command.mjs'
import { ENTRIES, TYPES } from '../../../scripts/entries.mjs'
import { createMainPackage } from '../../../scripts/main-package.mjs'
import { binaryOf } from '../../../scripts/platform.mjs'
import { addAddon } from '../../../scripts/platform-packages.mjs'

const KIB = 1024
/** The wrapper is text, far smaller than this. A larger package contains something by mistake. */
const MAIN_LIMIT = 512 * KIB
const PLATFORM_LIMIT = 7 * 1024 * KIB

async function succeed(program, args) {
  const { status, output } = await capture(program, args)
  assert.equal(status, 0, `${program} ${args.join(' ')} ended with ${status}:\n${output}`)
}

/** Packs a folder into `to`. Returns npm's own report: filename, size, files. */
async function pack(folder, to) {
  const [program, args] = npm(['pack', '--json', '--pack-destination', to])
  const { status, stdout, output } = await capture(program, args, { cwd: folder })
  assert.equal(status, 0, output)
  const [report] = Object.values(JSON.parse(stdout))
  console.log(`${report.filename}: ${Math.ceil(report.size / KIB)} KiB, ${report.files.length} files`)
  return { ...report, tarball: join(to, report.filename), paths: report.files.map(({ path }) => path).sort() }
}

/** Packs the main package and those of `platforms`, whose addons are in `addons`, into `work`, and checks them. */
export async function checkPackages(check, platforms, addons, work, { quick }) {
  const main = await pack(createMainPackage(), work)
  await check('the main package contains only the compiled wrapper, its types and its documents', () => {
    const tooOld = 'ztensor-needs-typescript-5.4-or-newer.d.ts'
    const documents = [
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      ...TYPES,
      'web.d.mts',
      'web-convert.d.mts',
      'package.json',
      tooOld,
    ]
    const rest = main.paths.filter((path) => !documents.includes(path))
    const missing = documents.filter((path) => !main.paths.includes(path))
    const modules = [...ENTRIES, 'shared', 'deferred', 'cli', 'command', 'report-page'].map((name) => `dist/${name}.js`)
    const dist = [...modules, ...[...ENTRIES, 'browser', 'web', 'web-convert'].map((name) => `dist/${name}.mjs`)]
    const unexpected = rest.filter((path) => !dist.includes(path))
    assert.deepEqual({ missing, unexpected }, { missing: [], unexpected: [] })
    for (const path of dist) assert.ok(rest.includes(path), path)
  })
  await check(`the main package is at most ${MAIN_LIMIT / KIB} KiB`, () => assert.ok(main.size <= MAIN_LIMIT))
  await check('npm corrects nothing in the manifest', async () => {
    const [program, args] = npm(['publish', '--dry-run', '--tag', 'none', join(root, 'build/package')])
    const { output } = await capture(program, args)
    assert.doesNotMatch(output, /auto-corrected|errors corrected/)
  })
  await check('publint finds nothing', () =>
    succeed(process.execPath, [join(root, 'node_modules/publint/src/cli.js'), '--strict', main.tarball]),
  )
  const attw = (...args) =>
    succeed(process.execPath, [
      join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js'),
      ...['--no-color', main.tarball, ...args],
    ])
  await check('the types resolve in every module system (attw)', () =>
    attw('--profile', 'node16', '--exclude-entrypoints', './web', './web/convert'),
  )
  // It is an ES module, as @ztensor/web is.
  await check('the types of ztensor/web resolve in ES modules (attw)', () =>
    attw('--profile', 'esm-only', '--entrypoints', './web', './web/convert'),
  )
  for (const one of platforms) {
    assert.ok(addAddon(one, addons), `no addon for ${one.platform}: run \`npm run build\``)
    const addon = await pack(one.folder, work)
    await check(`${one.name} contains only the addon`, () => {
      assert.deepEqual(addon.paths, ['LICENSE', 'README.md', 'package.json', binaryOf(one.platform)])
    })
    if (!quick.has(one.platform))
      await check(`${one.name} is at most ${PLATFORM_LIMIT / KIB} KiB packed`, () =>
        assert.ok(addon.size <= PLATFORM_LIMIT, `packed ${addon.size}`),
      )
  }
}
