// Prints the time of loading all tensors of a file in this process, in ms: of the first load and of four more.
// Usage: first-load.mjs HOW PATH
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import * as byHand from './by-hand.mjs'
import * as ours from './ours.mjs'

let buffer
const WORK = {
  ours: ours.load,
  'hand-written': byHand.load,
  'into one buffer'(path) {
    const fd = openSync(path)
    buffer ??= Buffer.allocUnsafeSlow(fstatSync(fd).size)
    // One call reads less than 2 GiB.
    for (let at = 0; at < buffer.length; at += readSync(fd, buffer, at, Math.min(buffer.length - at, 2 ** 30), at));
    closeSync(fd)
  },
}

const [how, path] = process.argv.slice(2)
const times = []
for (let round = 0; round < 5; round++) {
  globalThis.gc?.()
  await nextTurn()
  const began = performance.now()
  await WORK[how](path)
  times.push(performance.now() - began)
}
process.stdout.write(JSON.stringify(times))
