// Models of OpenVINO, damaged: each byte in turn, each length in turn.
import { testDamaged } from '../damaged.mjs'
import { fixturePath } from '../vectors.mjs'

const names = ['network', 'bodies', 'half']

testDamaged(Object.fromEntries(names.map((name) => [name, [fixturePath(`openvino/${name}.xml`)]])))
