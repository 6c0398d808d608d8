// Tests of another machine's build run under qemu-user, which runs programs of that machine on the kernel of this one. What it cannot do
// is skipped by name: the title says why.
import { readlinkSync } from 'node:fs'
import test from 'ava'

/** The emulator's own program, which it hides behind /proc/self but not behind /proc/thread-self. */
function emulator() {
  try {
    return /\/(qemu-[\w-]+)$/.exec(readlinkSync('/proc/thread-self/exe'))?.[1]
  } catch {
    return undefined
  }
}

export const EMULATOR = emulator()

/** What qemu-user cannot do. */
const REASONS = {
  /** A handler gets the address of the host (arm), or one whose halves are swapped (s390x), so that the page is not found. */
  SIGBUS: ['arm', 's390x'],
  /** ptrace() is not there. */
  strace: undefined,
  /** The processes that a test starts are programs of the host, which do not know what the emulated ones are limited to. */
  programs: undefined,
  /** Memory and address space are those of the emulator. */
  memory: undefined,
}

/** Returns ava's `test`, or one that skips, with the reason in the title, under an emulator that cannot do this. */
export function testWithout(reason) {
  const only = REASONS[reason]
  const isSkipped = EMULATOR !== undefined && (only === undefined || only.includes(process.arch))
  if (!isSkipped) return test
  return (title, ...rest) => test.skip(`${title} (not under ${EMULATOR}: ${reason})`, ...rest)
}
