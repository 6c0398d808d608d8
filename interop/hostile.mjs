// Counts which peers accept the files of our corpus that must be rejected when they are opened, or when their data is read:
//   node interop/hostile.mjs NAME=PYTHON…    e.g. 1.2.3=build/interop/ztensor-1.2.3/bin/python
// Each file is read in a separate process, limited to 4 GiB and a minute. A package reads the files of the versions that it supports.
import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openSync } from 'ztensor'
import { bytesOf } from '../__test__/corpus/tables.mjs'
import { root } from '../scripts/command.mjs'

const CORPORA = {
  zt01: ['cases-zt01'],
  zt10: ['cases-zt10-container', 'cases-zt10-index', 'cases-zt-stored', 'cases-zt-sparse'],
  zt12: ['cases-zt12'],
  zt2: ['cases-zt2-container', 'cases-zt2-layouts'],
  safetensors: ['cases-safetensors'],
}
const READS = {
  '0.1.4': 'zt01',
  '1.0.0': 'zt10',
  '1.0.1': 'zt10',
  '1.1.1': 'zt12',
  '1.2.3': 'zt12',
  '2.1.2': 'zt2',
  safetensors: 'safetensors',
}
const program = fileURLToPath(new URL('hostile_peer.py', import.meta.url))
const folder = join(root, 'build/hostile')
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })

/** Files that must be rejected with any options: small ones, because several peers read each. */
async function hostile(corpus) {
  const files = []
  for (const module of CORPORA[corpus]) {
    const { cases } = await import(`../__test__/corpus/${module}.mjs`)
    for (const one of cases) {
      const bytes = one.code !== undefined && one.options === undefined ? bytesOf(one) : undefined
      if (bytes === undefined || bytes.length > 2 ** 20 || one.code === 'ZT_LIMIT') continue
      const path = join(folder, `${corpus}-${files.length}.${corpus === 'safetensors' ? corpus : 'zt'}`)
      writeFileSync(path, bytes)
      files.push({ name: one.name, path })
    }
  }
  return files
}

function ours(path) {
  try {
    openSync(path, { verify: true }).close()
    return 'accepted'
  } catch {
    return 'refused'
  }
}

const END = { 0: 'accepted', 3: 'refused', 4: 'memory', 5: 'panicked' }
function theirs(python, path) {
  const run = `ulimit -v 4194304; exec "${python}" "${program}" "${path}"`
  const { status, signal, error } = spawnSync('sh', ['-c', run], {
    timeout: 60_000,
    killSignal: 'SIGKILL',
    stdio: 'ignore',
  })
  if (error?.code === 'ETIMEDOUT') return 'hung'
  return signal === null ? (END[status] ?? `ended with ${status}`) : `crashed (${signal})`
}

const made = {}
for (const argument of process.argv.slice(2)) {
  const [name, python] = argument.split('=')
  const corpus = READS[name]
  made[corpus] ??= await hostile(corpus)
  const counts = new Map()
  const accepted = []
  for (const { name: what, path } of made[corpus]) {
    const end = theirs(python, path)
    counts.set(end, (counts.get(end) ?? 0) + 1)
    if (end !== 'refused') accepted.push(`${end}: ${what}`)
  }
  const refusedHere = made[corpus].filter(({ path }) => ours(path) === 'refused').length
  const text = [...counts].map(([end, count]) => `${count} ${end}`).join(', ')
  console.log(`${name}, ${made[corpus].length} files: ${text}; here ${refusedHere} refused`)
  if (process.env.VERBOSE) for (const line of accepted) console.log(`  ${line}`)
}
