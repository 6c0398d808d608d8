// Every vector, damaged: each byte in turn, each length in turn.
import { readdirSync } from 'node:fs'
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath, vectors } from '../helpers/vectors.mjs'

/** Files by the format and generation that their names begin with. */
const kinds = {}
for (const { name, path, bytes } of vectors) {
  if (bytes.length > 256 * 1024) continue
  const kind = /^(zt\d\d?|st|btf)/.exec(name)[0]
  kinds[kind] = [...(kinds[kind] ?? []), path]
}

const ggufs = readdirSync(fixturePath('gguf')).filter((name) => name.endsWith('.gguf') && name !== 'types.gguf')
kinds.gguf = ggufs.map((name) => fixturePath(`gguf/${name}`))

testDamaged(kinds)
