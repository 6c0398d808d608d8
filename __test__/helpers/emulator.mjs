// Builds for other machines are tested under qemu-user, which runs their programs on the kernel of this one. This file lists its limits.
// The tests that need it are skipped by name.
import { readlinkSync } from 'node:fs'

/** The emulator's own program, which it hides behind /proc/self but not behind /proc/thread-self. */
function emulator() {
  try {
    return /\/(qemu-[\w-]+)$/.exec(readlinkSync('/proc/thread-self/exe'))?.[1]
  } catch {
    return undefined
  }
}

const EMULATOR = emulator()

/** The limits of the emulator, and the machines that they apply to (all: undefined). */
const LIMITS = {
  // The halves of si_addr are swapped in qemu 7.2, so the lost page is unknown.
  'the address of a SIGBUS': ['s390x'],
  'ptrace()': undefined,
}

/** Why a test that needs this cannot run here; undefined if it can. */
export function unsupported(need) {
  const machines = LIMITS[need]
  const isMissing = EMULATOR !== undefined && (machines === undefined || machines.includes(process.arch))
  return isMissing ? `${EMULATOR} does not support ${need}` : undefined
}

/** `test` of ava, or one that skips the test and adds the reason to the title, if the machine cannot run it. */
export function needing(test, need) {
  const why = unsupported(need)
  return why === undefined ? test : (title, ...rest) => test.skip(`${title} (${why})`, ...rest)
}
