// What a program sees of @ztensor/web: types that need no types of Node, examples that compile, names of classes.
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { capture, root } from '../../scripts/command.mjs'
import { webFolder } from '../../scripts/web.mjs'
import { blocksOf } from '../helpers/guides.mjs'

const require = createRequire(import.meta.url)
const COMPILERS = ['typescript-5.4', 'typescript-5.7', 'typescript', 'typescript-7']
const folder = join(root, 'build/page-types')

/** What the examples get from elsewhere: the element of the first example, and what TypeScript does not know. */
const ELSEWHERE = `declare const input: HTMLInputElement
declare function showSaveFilePicker(options: { suggestedName: string }): Promise<FileSystemFileHandle>
declare const GPUBufferUsage: { readonly STORAGE: number; readonly COPY_DST: number }
interface Navigator {
  // biome-ignore lint/suspicious/noExplicitAny: WebGPU
  readonly gpu: any
}
declare module '@wllama/wllama' {
  class Wllama {
    constructor(paths: { default: string })
    loadModel(files: Blob[]): Promise<void>
  }
}
`

/** Writes a project of a page, with the package installed. */
function project(name, options, files) {
  const path = join(folder, name)
  const installed = join(path, 'node_modules/@ztensor/web')
  rmSync(path, { recursive: true, force: true })
  mkdirSync(installed, { recursive: true })
  for (const one of readdirSync(webFolder).filter((one) => /\.d\.ts$|\.json$/.test(one)))
    cpSync(join(webFolder, one), join(installed, one))
  for (const [one, text] of Object.entries(files)) writeFileSync(join(path, one), text)
  const compilerOptions = {
    target: 'es2022',
    lib: ['es2022', 'dom', 'dom.iterable'],
    types: [],
    module: 'esnext',
    moduleResolution: 'bundler',
    noEmit: true,
    ...options,
  }
  writeFileSync(join(path, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: Object.keys(files) }))
  return path
}

async function compile(compiler, cwd) {
  const script = join(dirname(require.resolve(`${compiler}/package.json`)), 'lib/tsc.js')
  const { output } = await capture(process.execPath, [script, '--project', '.', '--pretty', 'false'], { cwd })
  assert.equal(output, '')
}

const read = (name) => readFileSync(join(root, '__test__/types', name), 'utf8')

export const packageChecks = {
  async 'exported classes have their names'(...modules) {
    const classes = modules
      .flatMap((module) => Object.entries(module))
      .filter(([, value]) => /^class\b/.test(String(value)))
    assert.ok(classes.length > 8, `${classes.length} classes`)
    for (const [name, value] of classes) assert.equal(value.name, name)
    const writer = await modules[1].create(undefined, { format: 'zt' })
    assert.equal(writer.constructor.name, 'WebTensorWriter')
    await writer.abort()
  },

  async 'the JavaScript has lines that a terminal can show'() {
    for (const name of readdirSync(webFolder).filter((name) => name.endsWith('.js')))
      for (const line of readFileSync(join(webFolder, name), 'utf8').split('\n'))
        assert.ok(line.length < 3000, `${name}: a line of ${line.length} characters`)
  },

  ...Object.fromEntries(
    COMPILERS.map((compiler) => [
      `a strict page compiles with ${compiler}`,
      async () => {
        const files = {
          'page.mts': read('web/page.mts').replace('../equal.js', './equal.js'),
          'equal.d.ts': read('equal.d.ts'),
        }
        await compile(compiler, project(compiler, { strict: true, exactOptionalPropertyTypes: true }, files))
      },
    ]),
  ),

  async 'the examples of the guide compile'() {
    const texts = blocksOf('docs/guide/browser.md').flatMap(({ language, text }) =>
      language === 'html' ? (/<script type="module">\n([\s\S]*)<\/script>/.exec(text)?.slice(1) ?? []) : [],
    )
    assert.ok(texts.length > 8, `${texts.length} examples`)
    const programs = texts.map((text, at) => [`example-${at + 1}.mts`, text])
    await compile(
      'typescript-7',
      project('guide', { strict: false }, { 'elsewhere.d.ts': ELSEWHERE, ...Object.fromEntries(programs) }),
    )
  },
}
