// The chromium of the system, for tests and pictures.
import { chromium } from 'playwright-core'
import { capture } from '../../scripts/command.mjs'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

/** The path of the browser: from CHROMIUM, or an installed one; undefined if neither exists. */
export async function findChromium() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM
  for (const name of NAMES) {
    const { status, stdout } = await capture('which', [name])
    if (status === 0) return stdout.trim()
  }
  return undefined
}

/** Starts it, with more arguments. If there is none, prints what to do and ends the process. */
export async function startChromium(...more) {
  const executablePath = await findChromium()
  if (executablePath === undefined) {
    console.error('no chromium was found: install it (apt-get install chromium), or name one in CHROMIUM')
    process.exit(1)
  }
  // Containers have no namespaces for a sandbox, and the pages are our own.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--force-color-profile=srgb', ...more] })
}
