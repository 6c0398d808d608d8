// The public types of ztensor, rolled up from hub.ts by `npm run types`. Not edited by hand.

export * from './hub.js'
