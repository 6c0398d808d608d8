// Flax' checkpoints, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const paths = (...names) => names.map((name) => fixturePath(`flax/${name}.msgpack`))

testDamaged({
  values: paths('values', 'dtypes'),
  chunks: paths('chunks', 'alone-chunked', 'alone'),
})
