// The internals of the package.
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { root } from '../../scripts/command.mjs'
import { binaryOf, hostPlatform, packageOf } from '../../scripts/platform.mjs'

const require = createRequire(import.meta.url)
const built = join(root, binaryOf(hostPlatform))

/** The addon that the package has loaded: the same object. */
export const binding = require(existsSync(built) ? built : packageOf(hostPlatform))
