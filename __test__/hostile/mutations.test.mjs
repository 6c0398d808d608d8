// Every vector and the GGUF files, damaged: each byte in turn, each length in turn. Other formats: formats/mutations.test.mjs.
import { testDamaged } from '../helpers/damaged.mjs'
import { MUTATED } from '../helpers/mutated-files.mjs'

testDamaged({ ...MUTATED.zt, ...MUTATED.safetensors, ...MUTATED.btf, ...MUTATED.gguf })
