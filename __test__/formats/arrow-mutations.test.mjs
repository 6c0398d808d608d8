// Arrow files and streams, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const names = ['tensors', 'sparse', 'nulls-batches', 'nulls-lists']

testDamaged(Object.fromEntries(names.map((name) => [name, [fixturePath(`arrow/${name}.arrow`)]])))
