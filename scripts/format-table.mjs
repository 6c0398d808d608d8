// `npm run formats`: writes the addon's table of formats into lib/values/format-table.ts and format-names.ts, which are committed: types are made of it, and
// `ztensor --help` needs no addon. Build the addon first.
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { root } from './command.mjs'
import { binaryOf, hostPlatform } from './platform.mjs'

const addon = createRequire(import.meta.url)(join(root, binaryOf(hostPlatform)))
const formats = addon.formats()
const writable = formats.filter(({ writes }) => writes.length > 0)
const versions = writable.flatMap(({ writes }) => writes).flatMap(({ version }) => version ?? [])
const mixtures = writable.flatMap(({ writes }) => writes).flatMap(({ model }) => Object.values(model?.mixtures ?? {}))
const union = (names) => [...names].map((name) => JSON.stringify(name)).join(' | ')

// A model is described in the other file.
const models = {}
const rows = JSON.stringify(formats, function (key, value) {
  if (key !== 'model') return value
  const { name } = formats.find(({ writes }) => writes.includes(this))
  models[name] = value
  return `MODELS.${name}`
}).replaceAll(/"(MODELS\.\w+)"/g, '$1')

const text = `// The addon's table of formats (src/values/formats.rs), by \`npm run formats\`. Not edited by hand.
import { MODELS } from './format-names.js'
import type { FormatInfo } from './formats.js'

/** The containers that files come in. */
export type Format = ${union(formats.map(({ name }) => name))}

/** Those that can be written. */
export type WritableFormat = ${union(writable.map(({ name }) => name))}

/** The versions that can be written. */
export type WritableVersion = ${union(versions)}

/** The mixtures of types that tensors of a model are quantized to, as in \`llama-quantize\`. */
export type Mixture = ${union(mixtures.map((mixture) => mixture.toLowerCase()))}

/** The block types that tensors are quantized to. */
export type BlockType = ${union(addon.blockTypes())}

export const FORMATS: readonly FormatInfo[] = ${rows}
`

/** What browsers need of the table. */
const names = `// The names of the formats, and how their files describe models, by \`npm run formats\`. Not edited by hand.
import type { Format } from './format-table.js'
import type { ModelInfo } from './formats.js'

/** The names of all formats. */
export const FORMAT_NAMES: readonly Format[] = ${JSON.stringify(formats.map(({ name }) => name))}

/** How files describe a model, by format. */
export const MODELS: { readonly [name in string]?: ModelInfo } = ${JSON.stringify(models)}
`

const files = { 'lib/values/format-table.ts': text, 'lib/values/format-names.ts': names }
const biome = createRequire(import.meta.url).resolve('@biomejs/biome/bin/biome')
for (const [name, content] of Object.entries(files)) writeFileSync(join(root, name), content)
const { status } = spawnSync(process.execPath, [biome, 'check', '--write', ...Object.keys(files)], {
  cwd: root,
  stdio: 'inherit',
})
process.exitCode = status ?? 1
