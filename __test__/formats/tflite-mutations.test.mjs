// TFLite models, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../damaged.mjs'
import { fixturePath } from '../vectors.mjs'

testDamaged(
  Object.fromEntries(['plain', 'behind', 'sparse'].map((name) => [name, [fixturePath(`tflite/${name}.tflite`)]])),
)
