// Files of every format that other projects define, damaged: each byte in turn, each length in turn. hostile/mutations has the others.
import { testDamaged } from '../helpers/damaged.mjs'
import { MUTATED } from '../helpers/mutated-files.mjs'

const { zt: _zt, safetensors: _safetensors, btf: _btf, gguf: _gguf, ...others } = MUTATED
for (const [format, kinds] of Object.entries(others))
  testDamaged(Object.fromEntries(Object.entries(kinds).map(([kind, paths]) => [`${format}, ${kind}`, paths])))
