// The names that a platform goes by: `linux-x64-gnu` in the package @ztensor/linux-x64-gnu and in ztensor.linux-x64-gnu.node.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './command.mjs'

export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

function abi() {
  if (process.platform === 'win32') return '-msvc'
  if (process.platform !== 'linux') return ''
  const { glibcVersionRuntime } = process.report.getReport().header
  if (process.arch === 'arm') return glibcVersionRuntime === undefined ? '-musleabihf' : '-gnueabihf'
  return glibcVersionRuntime === undefined ? '-musl' : '-gnu'
}

/** The platform that this process runs on. */
export const hostPlatform = `${process.platform}-${process.arch}${abi()}`

/** The oldest glibc that the addon of a target runs on: that of Rust's own standard library, or the oldest that zig has for ppc64le. */
export const glibcOf = (target) => (target.startsWith('powerpc64le-') ? '2.19' : '2.17')

/** The largest addon that is published. It has every format, the clients of servers, and quantization for several instruction sets; debug
 * information makes it ten times as large. */
export const MAX_BYTES = 14_336_000

export const packageOf = (platform) => `@ztensor/${platform}`
export const binaryOf = (platform) => `${manifest.napi.binaryName}.${platform}.node`
