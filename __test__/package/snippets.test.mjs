// Every program and every command of the README and the guides runs as pasted: page by page in an empty folder, from the first
// block to the last, and in CI once more. Programs that need packages that are not installed here are excerpts of examples/integrations.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import test from 'ava'
import { rounds } from '../helpers/campaign.mjs'
import { main } from '../helpers/command.mjs'
import { blocksOf, packagesOf, pages } from '../helpers/guides.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { CONFIG, checkpoint, HEADS } from '../helpers/tiny-checkpoint.mjs'
import { bucket } from '../remote/bucket.mjs'
import { startHub } from '../remote/hub.mjs'
import { part, serve, serveFiles } from '../remote/web.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** The page whose files come from Python: `npm run interop` runs it. */
const ELSEWHERE = 'docs/guide/python.md'
const ROUNDS = rounds(2, 1)
const run = promisify(execFile)
const { path: at } = scratchFolder()

/** Replacements for programs in shell lines: our command, and an installation from this folder. */
const SHELL = `
npx() { case "$1" in ztensor) shift; "$NODE" "$MAIN" "$@" ;; esbuild) ;; *) return 1 ;; esac; }
npm() {
  case "$*" in
    "install ztensor") "$NODE" "$INSTALL" ;;
    "install "* | ci | "ci "* | start | test) ;;
    *) return 1 ;;
  esac
}
`
const install = at('install.mjs')
writeFileSync(
  install,
  `import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
mkdirSync('node_modules', { recursive: true })
rmSync('node_modules/ztensor', { force: true })
symlinkSync(${JSON.stringify(root)}, 'node_modules/ztensor', 'junction')
for (const name of ['package.json', 'package-lock.json']) writeFileSync(name, '{ "dependencies": { "ztensor": "*" } }')
`,
)

/** Runs the program of a server, requests a row and ends it. */
async function asked(t, program, options) {
  const child = spawn(
    process.execPath,
    ['--input-type=module', '-e', program.replace('.listen(8080)', LISTEN)],
    options,
  )
  const exited = once(child, 'exit')
  const [port] = await Promise.race([once(child.stdout, 'data'), exited.then(() => [])])
  if (port === undefined) return t.fail('ended early')
  const response = await fetch(`http://127.0.0.1:${Number(port)}/0`, { headers: { connection: 'close' } })
  t.is((await response.json()).length, 64)
  child.kill()
  await exited
}
/** The server in pages that read a URL, which a local server replaces. */
const HOST = 'https://host/'
const LISTEN = ".listen(0, '127.0.0.1', function () { console.log(this.address().port) })"

/** The variables that lead to a bucket of this machine. */
async function bucketOf(t) {
  const { endpoint } = (await bucket(t)).remote.store
  const keys = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret', AWS_REGION: 'us-east-1' }
  return { AWS_ENDPOINT_URL: endpoint, AWS_ALLOW_HTTP: 'true', ...keys }
}

/** The variables that lead to a Hugging Face Hub of this machine with one model, and to an empty cache. */
async function hubWithCache(t) {
  const { folder } = await checkpoint()
  const files = Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]))
  const hub = await startHub({ 'openai-community/gpt2': { main: files } })
  t.teardown(hub.close)
  return { HF_ENDPOINT: hub.url, HF_HUB_CACHE: at('hub-cache') }
}

/** The variables that lead to a Hugging Face Hub of this machine, where every model is a tiny Qwen3. */
async function hubOf(t) {
  const { hidden_size: width, num_hidden_layers: layers } = CONFIG
  const head = width / HEADS
  const norm = { dtype: 'bfloat16', shape: [head], data: new Float32Array(head).fill(1) }
  const norms = Array.from({ length: layers }, (_, at) => ['q', 'k'].map((name) => [`model.layers.${at}.self_attn.${name}_norm.weight`, norm])).flat() // biome-ignore format: one list
  const { folder } = await checkpoint({
    config: { ...CONFIG, architectures: ['Qwen3ForCausalLM'], model_type: 'qwen3', head_dim: head },
    change: (tensors) => ({ ...tensors, ...Object.fromEntries(norms) }),
  })
  const files = new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]))
  const hub = await serve(t, (request, response) => {
    const { pathname } = new URL(request.url, 'http://hub')
    if (pathname.includes('/revision/')) {
      const siblings = [...files].map(([rfilename, { length: size }]) => ({ rfilename, size }))
      return response.end(JSON.stringify({ sha: '0123456789abcdef0123456789abcdef01234567', siblings }))
    }
    const bytes = files.get(pathname.split('/').at(-1))
    if (bytes !== undefined) return part(request, response, bytes, { etag: '"1"' })
    return response.writeHead(404).end()
  })
  return { HF_ENDPOINT: hub.url(''), HF_HUB_CACHE: at('no-cache') }
}

const linesOf = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean) // biome-ignore format: one chain
/** The programs that `npm run test:integrations` runs or builds, on a model of this name. */
const programs = readdirSync(join(root, 'examples/integrations'), { recursive: true })
  .filter((name) => /\.(m?js|ts)$/.test(name))
  .map((name) => readFileSync(join(root, 'examples/integrations', name), 'utf8'))
  .map((text) => linesOf(text.replace("process.argv[2] ?? 'examples/model.safetensors'", "'model.safetensors'")))

/** Whether a program needs packages that are not installed here, a compiler, or Electron. */
function runsElsewhere({ language, text }) {
  if (language === 'ts') return true
  return language === 'js' && (packagesOf(text).length > 0 || text.includes('process.parentPort'))
}

/** Whether all lines are in a program, in this order. */
function isExcerpt(lines, program) {
  let from = 0
  return lines.every((line) => {
    from = program.indexOf(line, from) + 1
    return from > 0
  })
}

/** The lines of a program except imports, comments, prints, and the port of a server. */
const own = (text) =>
  linesOf(text.replaceAll(/^import [^']*'[^']*'$/gm, '')).filter(
    (line) => !/^(\/\/|console\.log|await app\.listen)/.test(line),
  )

for (const page of pages.filter((name) => name !== ELSEWHERE)) {
  test(page, async (t) => {
    const cwd = at(page.replaceAll('/', '-'))
    mkdirSync(cwd)
    const env = { ...process.env, NODE: process.execPath, MAIN: main, INSTALL: install }
    if (page.endsWith('/remote.md')) Object.assign(env, await bucketOf(t))
    if (page.endsWith('/hub.md')) Object.assign(env, await hubWithCache(t))
    if (page === 'README.md') Object.assign(env, await hubOf(t))
    let ran = 0
    for (const round of Array.from({ length: ROUNDS }, (_, index) => index + 1)) {
      for (const { number, language, text } of blocksOf(page)) {
        const where = `block ${number}, round ${round}:\n${text}`
        if (runsElsewhere({ language, text })) {
          t.true(
            programs.some((program) => isExcerpt(own(text), program)),
            where,
          )
        } else if (language === 'js' && text.includes('.listen(')) await asked(t, text, { cwd })
        else if (language === 'js') {
          const served = text.includes(HOST) ? await serveFiles(t, { 'model.safetensors': readFileSync(join(cwd, 'model.safetensors')) }) : undefined // biome-ignore format: one choice
          const [, name = `program-${number}.mjs`] = /^\/\/ (\S+\.m?js)\n/.exec(text) ?? []
          writeFileSync(join(cwd, name), text.replaceAll(HOST, served?.url('/') ?? HOST))
          await t.notThrowsAsync(run(process.execPath, [name], { cwd, env }), where)
        } else if (language === 'sh') {
          // zsh has no comments at its prompt, and no globs that match nothing.
          t.notRegex(text, /(^|\s)#/m, where)
          await t.notThrowsAsync(run('bash', ['-O', 'failglob', '-e', '-c', `${SHELL}\n${text}`], { cwd, env }), where)
        } else continue
        ran++
      }
    }
    t.true(ran > 0)
  })
}
