// Lazily loaded modules of Node: they take a millisecond or more to load, and most programs never need them.

export const builtins = {
  get crypto() {
    return require('node:crypto') as typeof import('node:crypto')
  },
  get net() {
    return require('node:net') as typeof import('node:net')
  },
  get os() {
    return require('node:os') as typeof import('node:os')
  },
  get stream() {
    return require('node:stream') as typeof import('node:stream')
  },
}
