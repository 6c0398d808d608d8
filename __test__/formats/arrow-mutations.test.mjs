// Arrow files and streams, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../damaged.mjs'
import { fixturePath } from '../vectors.mjs'

const names = ['tensors', 'sparse', 'nulls-batches', 'nulls-lists']

testDamaged(Object.fromEntries(names.map((name) => [name, [fixturePath(`arrow/${name}.arrow`)]])))
