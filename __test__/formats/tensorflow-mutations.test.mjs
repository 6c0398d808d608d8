// Indexes of TensorFlow checkpoints, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { MUTATED } from '../helpers/mutated-files.mjs'

testDamaged(MUTATED.tensorflow)
