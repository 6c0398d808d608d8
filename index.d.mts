// The public types of ztensor, rolled up from index.ts by `npm run types`. Not edited by hand.

export * from './index.js'
export { default } from './index.js'
