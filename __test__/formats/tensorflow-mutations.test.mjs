// Indexes of TensorFlow checkpoints, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const names = ['manager/ckpt-1', 'partitioned/model-12', 'sharded/model']

testDamaged(Object.fromEntries(names.map((name) => [name, [fixturePath(`tensorflow/${name}.index`)]])))
