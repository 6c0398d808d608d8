// The public types of ztensor, rolled up from jobs.ts by `npm run types`. Not edited by hand.

export * from './jobs.js'
