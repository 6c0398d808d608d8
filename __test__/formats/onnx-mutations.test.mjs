// ONNX models, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const names = ['types-raw', 'types-typed', 'graph']

testDamaged(Object.fromEntries(names.map((name) => [name, [fixturePath(`onnx/${name}.onnx`)]])))
