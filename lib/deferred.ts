// What lazy.ts loads at the first call of any of its functions: a file of its own in dist/.
export { compare } from './compare/compare.js'
export { diff } from './compare/diff.js'
export { makeReport } from './report/make.js'
export { startServer } from './report/server.js'
export { finishJob, planJob, runTask } from './tasks/jobs.js'
export { convert } from './write/convert.js'
export { TensorStream } from './write/tensor-stream.js'
