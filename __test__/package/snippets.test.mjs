// Every program and every command of the README and the guides runs as it stands, page by page, from the first to the last.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import test from 'ava'
import { convert, create } from 'ztensor'
import { main } from '../helpers/command.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { bucket } from '../remote/bucket.mjs'
import { serveFiles } from '../remote/web.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** Pages whose lines run elsewhere: in `npm run test:bundlers`, `npm run test:integrations` and `npm run interop`. */
const ELSEWHERE = ['bundlers.md', 'integrations.md', 'python.md']
const guides = readdirSync(join(root, 'docs/guide'))
  .filter((name) => !ELSEWHERE.includes(name))
  .map((name) => `docs/guide/${name}`)
const run = promisify(execFile)

/** What the pages start from: the model of examples/ in several forms. */
const { path: at } = scratchFolder()
const prepared = at('prepared')
test.before(async () => {
  const model = join(root, 'examples/model.safetensors')
  for (const folder of ['examples', 'llama', 'node_modules']) mkdirSync(join(prepared, folder), { recursive: true })
  cpSync(model, join(prepared, 'examples/model.safetensors'))
  cpSync(model, join(prepared, 'model.safetensors'))
  await convert(model, join(prepared, 'model.zt'))
  await convert(model, join(prepared, 'llama/model.safetensors'), { maxShardBytes: 200_000 })
  const sparse = await create(join(prepared, 'sparse.zt'))
  const [values, indices, indptr] = [Float32Array.of(1, 2, 3), [0n, 2n, 1n], [0n, 2n, 2n, 3n]]
  await sparse.addCsr('graph', {
    shape: [3, 3],
    values,
    indices: BigUint64Array.from(indices),
    indptr: BigUint64Array.from(indptr),
  })
  await sparse.add('bias', Float32Array.of(1, 2, 3))
  await sparse.finish()
  const quantized = await create(join(prepared, 'quantized.zt'), { version: '2' })
  await quantized.addObject('blocks', {
    layout: 'gguf.q8_0/1',
    shape: [2, 32],
    attributes: { elems_per_block: 32, block_bytes: 34 },
    components: { data: { dtype: 'uint8', data: new Uint8Array(68) } },
  })
  await quantized.finish()
})

/** The fenced blocks of a page, in order. */
function blocksOf(page) {
  const fences = /^```(\w+)\n([\s\S]*?)^```$/gm
  return [...readFileSync(join(root, page), 'utf8').matchAll(fences)].map(([, language, text]) => ({ language, text }))
}

/** Runs a server's program, asks it for a row and ends it. */
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
/** The server of pages that read by a URL, in whose place is one of this machine. */
const HOST = 'https://host/'
const LISTEN = ".listen(0, '127.0.0.1', function () { console.log(this.address().port) })"

/** The variables that lead to a bucket of this machine. */
async function bucketOf(t) {
  const { endpoint } = (await bucket(t)).remote.store
  const keys = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret', AWS_REGION: 'us-east-1' }
  return { AWS_ENDPOINT_URL: endpoint, AWS_ALLOW_HTTP: 'true', ...keys }
}

const words = (text) => text.replaceAll(/\s+/g, ' ').trim()
/** The programs that `npm run test:integrations` runs, on a model of this name. */
const programs = readdirSync(join(root, 'examples/integrations'))
  .filter((name) => name.endsWith('.mjs'))
  .map((name) => readFileSync(join(root, 'examples/integrations', name), 'utf8'))
  .map((text) => words(text.replace("process.argv[2] ?? 'examples/model.safetensors'", "'model.safetensors'")))
/** Whether a program uses packages that are not installed here. */
const usesOthers = (text) =>
  [...text.matchAll(/from '([^']+)'/g)].some(([, name]) => name !== 'ztensor' && !name.startsWith('node:'))

for (const page of ['README.md', ...guides]) {
  test(page, async (t) => {
    const cwd = at(page.replaceAll('/', '-'))
    cpSync(prepared, cwd, { recursive: true })
    // The README starts from a fresh clone: from examples/ alone.
    if (page === 'README.md') rmSync(join(cwd, 'model.zt'))
    symlinkSync(root, join(cwd, 'node_modules/ztensor'), 'junction')
    let ran = 0
    const env = { ...process.env, ...(page.endsWith('/remote.md') ? await bucketOf(t) : {}) }
    for (const { language, text } of blocksOf(page)) {
      ran++
      if (language === 'js' && usesOthers(text)) {
        // Imports are sorted, and a test listens on another port.
        const lines = words(text.replaceAll(/^(import .*|await app\.listen.*)\n/gm, ''))
        t.true(
          programs.some((program) => program.includes(lines)),
          text,
        )
      } else if (language === 'js' && text.includes('.listen(')) await asked(t, text, { cwd })
      else if (language === 'js') {
        const served = text.includes(HOST) ? await serveFiles(t, { 'model.safetensors': readFileSync(join(cwd, 'model.safetensors')) }) : undefined // biome-ignore format: one choice
        writeFileSync(join(cwd, `${ran}.mjs`), text.replaceAll(HOST, served?.url('/') ?? HOST))
        await t.notThrowsAsync(run(process.execPath, [`${ran}.mjs`], { cwd, env }), text)
      } else if (language === 'sh' && text.includes('npx ztensor')) {
        const npx = `npx() { [ "$1" = ztensor ] && shift && "$NODE" "$MAIN" "$@"; }`
        const own = { ...env, NODE: process.execPath, MAIN: main }
        await t.notThrowsAsync(run('bash', ['-e', '-c', `${npx}\n${text}`], { cwd, env: own }), text)
      } else if (language === 'sh')
        for (const line of text.trim().split(/(?<!\\)\n/)) t.regex(line, /^(npm (install|ci)|esbuild) /)
      else ran--
    }
    t.true(ran > 0)
  })
}

test('docs/guide/integrations.md is made of lines of the programs that run', (t) => {
  const blocks = blocksOf('docs/guide/integrations.md')
  t.true(blocks.length > 0)
  for (const { text } of blocks)
    t.true(
      programs.some((program) => program.includes(words(text))),
      text,
    )
})
