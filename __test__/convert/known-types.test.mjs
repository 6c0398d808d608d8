// The names of mixtures and block types in the types of `quantize`: those of the addon, and completed by an editor.
import { fileURLToPath } from 'node:url'
import test from 'ava'
import ts from 'typescript'
import { binding } from '../helpers/binding.mjs'
import { surface } from '../helpers/surface.mjs'

const sorted = (names) => [...new Set(names)].sort()
const mixtures = binding
  .formats()
  .flatMap(({ writes }) => writes)
  .flatMap(({ model }) => Object.values(model?.mixtures ?? {}))

test('the types name all mixtures and block types of the addon, and no others', (t) => {
  t.true(mixtures.length > 30)
  t.deepEqual(sorted(surface.literals.Mixture), sorted(mixtures.map((name) => name.toLowerCase())))
  t.deepEqual(sorted(surface.literals.BlockType), sorted(binding.blockTypes()))
})

/** What an editor offers at `|` of a program. */
function completionsAt(program) {
  const path = fileURLToPath(new URL('../../completions.ts', import.meta.url)).replaceAll('\\', '/')
  const at = program.indexOf('|')
  const text = program.replace('|', '')
  const options = { module: ts.ModuleKind.Node16, moduleResolution: ts.ModuleResolutionKind.Node16, strict: true, types: ['node'] } // biome-ignore format: one line
  const host = {
    getCompilationSettings: () => options,
    getScriptFileNames: () => [path],
    getScriptVersion: () => '0',
    getScriptSnapshot: (name) => {
      const found = name === path ? text : ts.sys.readFile(name)
      return found === undefined ? undefined : ts.ScriptSnapshot.fromString(found)
    },
    getCurrentDirectory: () => fileURLToPath(new URL('../../', import.meta.url)),
    getDefaultLibFileName: ts.getDefaultLibFilePath,
    fileExists: (name) => name === path || ts.sys.fileExists(name),
    readFile: ts.sys.readFile,
    directoryExists: ts.sys.directoryExists,
    getDirectories: ts.sys.getDirectories,
  }
  const found = ts.createLanguageService(host).getCompletionsAtPosition(path, at, {})
  return found?.entries.map(({ name }) => name) ?? []
}

const PLACES = {
  'a mixture': ["convert('a', 'b.gguf', { quantize: '|' })", 'q4_k_m'],
  'a type of a rule': ["convert('a', 'b.gguf', { quantize: { '*': '|' } })", 'q6_k'],
  'the type of a tensor': ["(await create('b.gguf')).add('w', new Float32Array(256), { type: '|' })", 'q8_0'],
}
for (const [what, [program, expected]] of Object.entries(PLACES)) {
  test(`an editor completes ${what}`, (t) => {
    const names = completionsAt(`import { convert, create } from './index.d.mts'\n${program}\nexport {}\n`)
    t.true(names.includes(expected), names.join(' '))
  })
}
