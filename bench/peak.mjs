// Prints the bytes that converting a file takes at its peak beyond what this process keeps when it is idle.
import { readFileSync } from 'node:fs'
import { convert } from 'ztensor'

const [source, target, options] = process.argv.slice(2)
const idle = process.memoryUsage.rss()
await convert(source, target, { overwrite: true, ...JSON.parse(options) })
const peak =
  process.platform === 'linux'
    ? Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1])
    : process.resourceUsage().maxRSS
process.stdout.write(String(peak * 1024 - idle))
