import ztensor = require('ztensor')
import equal = require('./equal.js')

const file = ztensor.openSync('model.zt')
equal.holds<equal.Equal<typeof file, ztensor.TensorFile>>()
const tensor = file.tensor('wte', { dtype: 'uint64' })
equal.holds<equal.Equal<typeof tensor, ztensor.Tensor<'uint64'>>>()
equal.holds<equal.Equal<typeof tensor.data, BigUint64Array>>()
equal.holds<equal.Equal<typeof ztensor.default.open, typeof ztensor.open>>()
