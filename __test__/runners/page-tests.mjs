// `npm run test:page`: checks the page that opens files, in a real browser. Needs `npm run build` and `npm run build:page` first, and a
// chromium.
//   NAME...   only the checks with one of these in their titles
import { checks, prepare } from '../browser/open-page.mjs'
import { runChecks } from './browser-checks.mjs'

const { close } = await runChecks('page tests', checks, prepare)
close()
