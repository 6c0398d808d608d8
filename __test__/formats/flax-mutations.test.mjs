// Flax' checkpoints, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../damaged.mjs'
import { fixturePath } from '../vectors.mjs'

const paths = (...names) => names.map((name) => fixturePath(`flax/${name}.msgpack`))

testDamaged({
  values: paths('values', 'dtypes'),
  chunks: paths('chunks', 'alone-chunked', 'alone'),
})
