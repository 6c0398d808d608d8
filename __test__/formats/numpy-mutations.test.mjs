// NumPy's files, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { MUTATED } from '../helpers/mutated-files.mjs'

testDamaged({ ...MUTATED.npy, ...MUTATED.npz })
