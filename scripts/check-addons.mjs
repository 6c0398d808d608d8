// node scripts/check-addons.mjs FOLDER [PLATFORM...]: whether the addons in FOLDER, of all platforms or of these, may be published. Each is
// read (crates/binaries: its machine, exports, libraries, relocations, glibc and size), and loaded if there is a Node for its platform on
// this machine (scripts/machines.mjs). Needs Rust.
import { spawnSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { root } from './command.mjs'
import { nodeOf } from './machines.mjs'
import { binaryOf, glibcOf, MAX_BYTES } from './platform.mjs'
import { platformPackages } from './platform-packages.mjs'

const LOAD = 'const { formats } = require(process.argv[1]); if (!(formats().length > 0)) throw new Error("no formats")'

function outcome(program, args) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd: root, encoding: 'utf8' })
  return { failed: status !== 0, output: `${error?.message ?? ''}${stdout}${stderr}`.trim() }
}

/** Checks the addon of one platform. Returns `{ platform, problem, found }`: `problem` is undefined if it may be published. */
export function checkAddon({ platform, target }, folder, maxBytes) {
  const file = join(folder, binaryOf(platform))
  const cargo = [
    'run',
    '--quiet',
    '--locked',
    '--package',
    'ztensor-binaries',
    '--',
    target,
    glibcOf(target),
    String(maxBytes),
    file,
  ]
  const read = outcome('cargo', cargo)
  if (read.failed) return { platform, problem: read.output }
  const node = nodeOf(platform)
  if (node === undefined) return { platform, found: `${read.output}; not loaded, no Node for it here` }
  const loaded = outcome(node, ['-e', LOAD, file])
  if (loaded.failed) return { platform, problem: `${file} does not load:\n${loaded.output}` }
  return { platform, found: `${read.output}; loaded` }
}

/** Checks addons, some of any size, and prints what was found. Returns the platforms whose addon must not be published. */
export function checkAddons(packages, folder, ofAnySize = []) {
  const results = packages.map((one) =>
    checkAddon(one, folder, ofAnySize.includes(one.platform) ? Number.MAX_SAFE_INTEGER : MAX_BYTES),
  )
  for (const { platform, problem, found } of results) {
    if (problem === undefined) console.log(`${platform}: ${found}`)
    else console.error(`${platform}: ${problem}`)
  }
  return results.filter(({ problem }) => problem !== undefined).map(({ platform }) => platform)
}

if (resolve(process.argv[1] ?? '') === fileURLToPath(import.meta.url)) {
  const [folder, ...platforms] = process.argv.slice(2)
  const chosen = platformPackages.filter(({ platform }) => platforms.length === 0 || platforms.includes(platform))
  if (folder === undefined || chosen.length < platforms.length) {
    console.error(`usage: node scripts/check-addons.mjs FOLDER [PLATFORM...]`)
    process.exit(1)
  }
  process.exitCode = checkAddons(chosen, resolve(folder)).length > 0 ? 1 : 0
}
