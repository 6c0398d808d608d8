// Models of OpenVINO, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../helpers/damaged.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const names = ['network', 'bodies', 'half']

testDamaged(Object.fromEntries(names.map((name) => [name, [fixturePath(`openvino/${name}.xml`)]])))
