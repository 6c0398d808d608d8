// `npm run test:browser`: checks reports in a real browser. Needs `npm run build` first, and a chromium.
//   NAME...   only the checks with one of these in their titles
import { checks, prepare } from '../browser/checks.mjs'
import { runChecks } from './browser-checks.mjs'

await runChecks('browser tests', checks, prepare)
