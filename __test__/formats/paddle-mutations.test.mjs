// PaddlePaddle's files, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const paths = (...names) => names.map((name) => fixturePath(`paddle/${name}`))

testDamaged({
  pickles: paths('nested.pdparams', 'arrays.pdparams', 'eval.pdparams'),
  'parameters in one file': paths('unnamed.pdiparams'),
})
