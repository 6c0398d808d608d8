import ztensor, { type open, type TensorFile } from 'ztensor'
import type { Equal } from './equal.js'
import { holds } from './equal.js'

holds<Equal<typeof ztensor.open, typeof open>>()
const file: TensorFile = ztensor.openSync('model.zt')
file.close()
