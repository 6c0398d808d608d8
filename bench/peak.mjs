// Prints the peak memory of an operation beyond that of the idle process, in bytes.
// Usage: peak.mjs HOW WORK ARGUMENTS…, such as `ours convert SOURCE TARGET OPTIONS`.
import { readFileSync } from 'node:fs'
import * as byHand from './by-hand.mjs'
import * as ours from './ours.mjs'

const [how, work, ...args] = process.argv.slice(2)
const idle = process.memoryUsage.rss()
await { ours, 'hand-written': byHand }[how][work](...args)
const peak =
  process.platform === 'linux'
    ? Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1])
    : process.resourceUsage().maxRSS
process.stdout.write(String(peak * 1024 - idle))
