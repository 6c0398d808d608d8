// TFLite models, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

testDamaged(
  Object.fromEntries(['plain', 'behind', 'sparse'].map((name) => [name, [fixturePath(`tflite/${name}.tflite`)]])),
)
