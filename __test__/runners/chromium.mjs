// A chromium for tests and pictures: the system's own.
import { chromium } from 'playwright-core'
import { capture } from '../../scripts/command.mjs'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

/** The path of the browser: of CHROMIUM, or one that is installed; undefined where there is none. */
export async function findChromium() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM
  for (const name of NAMES) {
    const { status, stdout } = await capture('which', [name])
    if (status === 0) return stdout.trim()
  }
  return undefined
}

/** Starts it. Ends the process where there is none, and says what to do. */
export async function startChromium() {
  const executablePath = await findChromium()
  if (executablePath === undefined) {
    console.error('there is no chromium: install it (apt-get install chromium), or name one in CHROMIUM')
    process.exit(1)
  }
  // Containers have no namespaces to make a sandbox of; the pages are ours.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--force-color-profile=srgb'] })
}
