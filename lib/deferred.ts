// The code that lazy.ts loads at the first call of any of its functions, and the command's writer of small files. The build bundles it into
// a separate file in dist/.
export { compare } from './compare/compare.js'
export { diff } from './compare/diff-paths.js'
export { convert } from './convert/convert.js'
export { listCache, removeCached, verifyCache } from './hub/cache.js'
export { download } from './hub/download.js'
export { list } from './read/list.js'
export { makeReport } from './report/make.js'
export { startServer } from './report/server.js'
export { finishJob, planJob, runTask } from './tasks/jobs.js'
export { editMetadata } from './write/edit-metadata.js'
export { writeWhole } from './write/whole-file.js'
