// Checks before a release is published. crates/binaries/tests covers faults of single binaries.
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { isInstalled, root } from '../../scripts/command.mjs'
import { binaryOf, hostPlatform } from '../../scripts/platform.mjs'
import { platformPackages } from '../../scripts/platform-packages.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

function run(script, ...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'scripts', script), ...args], {
    encoding: 'utf8',
    env: { ...process.env, GITHUB_REF_NAME: 'main' },
  })
  return { status, stdout, stderr }
}

/** A folder with a file for each platform. */
function addons(content) {
  const folder = scratchPath('addons')
  mkdirSync(folder)
  for (const { platform } of platformPackages) writeFileSync(join(folder, binaryOf(platform)), content)
  return folder
}

const withRust = isInstalled('cargo') ? test : test.skip
const note = isInstalled('cargo') ? '' : ' (not run: it needs Rust)'

withRust(`text files named .node are not published${note}`, (t) => {
  const { status, stdout, stderr } = run('publish.mjs', addons('not an addon'), '--dry-run')
  t.is(status, 1)
  for (const { platform } of platformPackages)
    t.true(stderr.includes(`${binaryOf(platform)}: not a library that can be read`), platform)
  t.true(stderr.includes('nothing is published'))
  t.is(stdout, '')
  for (const { folder, platform } of platformPackages) {
    const file = join(folder, binaryOf(platform))
    t.true(!existsSync(file) || readFileSync(file, 'latin1') !== 'not an addon', 'no file is copied')
  }
})

withRust(`rejects an addon for another machine, and a truncated addon${note}`, (t) => {
  const built = join(root, binaryOf(hostPlatform))
  if (!existsSync(built)) return t.pass('there is only the published addon')
  const folder = addons('')
  const other = platformPackages.find(({ platform }) => platform.startsWith('win32') !== (process.platform === 'win32'))
  copyFileSync(built, join(folder, binaryOf(other.platform)))
  copyFileSync(built, join(folder, binaryOf(hostPlatform)))
  truncateSync(join(folder, binaryOf(hostPlatform)), 1 << 20)
  const { status, stderr } = run('check-addons.mjs', folder, other.platform, hostPlatform)
  t.is(status, 1)
  t.regex(stderr, new RegExp(`${other.platform}: .*: for another machine`))
  t.regex(stderr, new RegExp(`${hostPlatform}: .*(not a library that can be read|damaged)`))
})

test('a missing addon, another tag and another registry stop a release', (t) => {
  const folder = scratchPath('empty')
  mkdirSync(folder)
  t.regex(run('publish.mjs', folder, '--dry-run').stderr, /no addon in .* for linux-x64-gnu, linux-arm64-gnu/)
  t.regex(run('publish.mjs', folder).stderr, /the tag is main, package.json says/)
  t.regex(run('publish.mjs', folder, '--rehearse', 'https://registry.example/').stderr, /127\.0\.0\.1 only/)
  t.regex(run('publish.mjs').stderr, /^usage/)
})
