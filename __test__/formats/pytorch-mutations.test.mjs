// PyTorch's files, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const paths = (...names) => names.map((name) => fixturePath(`pytorch/${name}`))

testDamaged({
  archive: paths('views.pt', 'layouts.pt', 'tied.pt'),
  'NumPy arrays inside': paths('numpy2.pt', 'numpy5.pt'),
  legacy: paths('legacy.pt'),
})
