// node scripts/first-packages.mjs [--registry URL]: whether all packages exist in the registry. npm trusts a workflow only for a package
// that exists, so an owner publishes the first version of each manually. Prints the steps. Fails if one is missing.
import { spawnSync } from 'node:child_process'
import { npm } from './command.mjs'
import { manifest } from './platform.mjs'
import { platformPackages } from './platform-packages.mjs'

const names = [...platformPackages.map(({ name }) => name), manifest.name]

function latest(name) {
  const [program, args] = npm(['view', name, 'version', '--json', ...process.argv.slice(2)])
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  if (status === 0) return JSON.parse(stdout)
  if (/E404/.test(stdout + stderr)) return undefined
  throw new Error(`npm view ${name}:\n${stderr}`)
}

const missing = names.filter((name) => {
  const version = latest(name)
  console.log(`${name}: ${version ?? 'does not exist'}`)
  return version === undefined
})
if (missing.length === 0) console.log(`\nAll ${names.length} packages exist: a version tag releases them.`)
else {
  const repository = manifest.repository.url.replace(/^.*github\.com\/|\.git$/g, '')
  console.log(`
An owner of the organization @ztensor on npm does this once for each missing package, with two-factor authentication:

1. Download the artifacts of a run of ci.yml whose commit is to be released: addon-* into addons/, wrapper into dist/.
2. Check them:            node scripts/publish.mjs addons --dry-run
   This also copies the binaries into npm/<platform>/ and makes build/package.
3. Publish the missing ones, the main package last:
${missing.map((name) => `     npm publish ${name === manifest.name ? 'build/package' : `npm/${name.split('/')[1]}`} --access public`).join('\n')}
4. On npmjs.com, for each: Settings, Trusted publisher, GitHub Actions: repository ${repository}, workflow ci.yml, environment npm.
   Then Settings, Publishing access: require two-factor authentication and disallow tokens.`)
  process.exitCode = 1
}
