// `npm run test:integrations`: the programs of examples/integrations, with the packages of their lock file in build/integrations. Names
// on the command line choose some; `guide` is the programs of docs/guide/integrations.md, as pasted. A program that cannot run here prints
// the reason and ends with 2. Needs `npm run build` first.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { capture, npm, only, root } from '../../scripts/command.mjs'
import { blocksOf } from '../helpers/guides.mjs'
import { turns } from '../helpers/turns.mjs'
import { applications, deploy } from './deployments.mjs'

const NOT_RUN = 2
const source = join(root, 'examples/integrations')
const build = join(root, 'build/integrations')

mkdirSync(build, { recursive: true })
for (const name of readdirSync(source)) cpSync(join(source, name), join(build, name), { recursive: true })
// No scripts: that of ONNX Runtime fetches libraries for CUDA.
const flags = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']
const installed = await capture(...npm(['ci', ...flags]), { cwd: build })
if (installed.status !== 0) {
  console.error(installed.output)
  console.log('integrations: 0 passed, 1 failed')
  process.exit(1)
}
const ours = join(build, 'node_modules/ztensor')
rmSync(ours, { force: true, recursive: true })
symlinkSync(root, ours, 'junction')

/**
 * A GPU in software for WebGPU: Chromium's, by Vulkan's loader out of Debian's package. Without them the program looks for one of the
 * machine.
 */
function vulkan() {
  const driver = '/usr/lib/chromium/vk_swiftshader_icd.json'
  const folder = join(build, 'vulkan')
  const libraries = join(folder, 'usr/lib/x86_64-linux-gnu')
  if (process.platform !== 'linux' || !existsSync(driver)) return {}
  if (!existsSync(libraries)) {
    mkdirSync(folder, { recursive: true })
    const fetch = 'apt-get download -q libvulkan1 || (apt-get update -q && apt-get download -q libvulkan1)'
    spawnSync('bash', ['-c', `cd '${folder}' && (${fetch}) && dpkg-deb -x libvulkan1*.deb .`], { stdio: 'ignore' })
  }
  return { LD_LIBRARY_PATH: libraries, VK_ICD_FILENAMES: driver }
}

const environments = { webgpu: vulkan }
const names = readdirSync(source)
  .filter((name) => name.endsWith('.mjs'))
  .map((name) => name.slice(0, -4))
const GUIDE = 'guide'
const chosen = only([...applications, ...names, GUIDE])

/** Runs the programs of the guide in a folder with the files that they need. */
async function startGuide() {
  const folder = join(build, GUIDE)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  cpSync(join(source, 'embeddings.onnx'), join(folder, 'embeddings.onnx'))
  const demo = await capture(process.execPath, [join(root, 'dist/cli.js'), 'demo', folder])
  if (demo.status !== 0) return { status: 1, text: demo.output }
  let ran = 0
  for (const { number, language, text } of blocksOf('docs/guide/integrations.md')) {
    if (language !== 'js') continue
    const path = join(folder, `program-${number}.mjs`)
    writeFileSync(path, text)
    const env = { ...process.env, ...(text.includes("'webgpu'") ? vulkan() : {}) }
    const { status, output } = await capture(process.execPath, [path], { cwd: folder, env })
    if (status !== 0 && status !== NOT_RUN) return { status: 1, text: `block ${number}: ${output}` }
    if (status === 0) ran++
  }
  return { status: ran > 0 ? 0 : 1, text: `guide: ${ran} programs of docs/guide/integrations.md` }
}

async function start(name) {
  const env = { ...process.env, ...environments[name]?.() }
  const { status, stdout, output } = await capture(process.execPath, [join(build, `${name}.mjs`)], { env })
  const [all, last] = [stdout.trim(), stdout.trim().split('\n').at(-1)]
  return { status, text: { 0: last, [NOT_RUN]: all }[status] ?? output }
}

const counts = { passed: 0, failed: 0 }
const inTurn = turns(availableParallelism())
const runs = chosen.map((name) =>
  inTurn(async () => {
    const { status, text } = await (applications.includes(name)
      ? deploy(name)
      : name === GUIDE
        ? startGuide()
        : start(name))
    if (status === 0) counts.passed += 1
    else if (status !== NOT_RUN) counts.failed += 1
    console.log(`${{ 0: 'ok     ', [NOT_RUN]: 'not run' }[status] ?? `FAILED  ${name}\n`} ${text}`)
  }),
)
await Promise.all(runs)
console.log(`integrations: ${counts.passed} passed, ${counts.failed} failed`)
process.exitCode = counts.failed > 0 ? 1 : 0
