// `npm run formats`: writes the addon's table of formats into lib/values/format-table.ts, which is committed: types are made of it, and
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

const text = `// The addon's table of formats (src/values/formats.rs), by \`npm run formats\`. Not edited by hand.
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

export const FORMATS: readonly FormatInfo[] = ${JSON.stringify(formats)}
`

const name = 'lib/values/format-table.ts'
const biome = createRequire(import.meta.url).resolve('@biomejs/biome/bin/biome')
writeFileSync(join(root, name), text)
const { status } = spawnSync(process.execPath, [biome, 'check', '--write', name], { cwd: root, stdio: 'inherit' })
process.exitCode = status ?? 1
