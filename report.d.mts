// The public types of ztensor, rolled up from report.ts by `npm run types`. Not edited by hand.

export * from './report.js'
