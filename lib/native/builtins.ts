// Modules of Node that take a millisecond or more to load, and that most programs never need: loaded at their first use.

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
