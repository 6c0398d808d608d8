// Makes the folder of a layer: `node layer.mjs NODE_MODULES OUT [MODEL]`. Lambda puts it at /opt, where Node finds nodejs/node_modules.
import { cpSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

const LIMIT = 250 * 1024 * 1024 // of a function and its layers, unpacked
const [packages, out, model] = process.argv.slice(2)
mkdirSync(out, { recursive: true })
cpSync(packages, join(out, 'nodejs/node_modules'), { recursive: true })
if (model !== undefined) cpSync(model, join(out, 'model.safetensors'))

const bytes = readdirSync(out, { recursive: true })
  .map((name) => statSync(join(out, name)))
  .reduce((sum, entry) => sum + (entry.isFile() ? entry.size : 0), 0)
console.log('layer:', (bytes / 1024 / 1024).toFixed(1), 'MiB of', LIMIT / 1024 / 1024)
if (bytes > LIMIT) process.exitCode = 1
