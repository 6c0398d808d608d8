// Closed files and used buffers free addresses and memory: V8 ends the process if it gets none. The addresses are freed after a
// while, because native code may still read there.
import { spawnSync } from 'node:child_process'
import { truncateSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { safetensors } from '../corpus/safetensors.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { scratchFile } from '../helpers/scratch.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const GIB = 2 ** 30

/** A file with a tensor of a GiB of zeros that takes no disk space. */
function sparse() {
  const header = `{"w":{"dtype":"U8","shape":[${GIB}],"data_offsets":[0,${GIB}]}}`.padEnd(120)
  const bytes = safetensors(header, Buffer.alloc(0))
  const path = scratchFile(bytes)
  truncateSync(path, bytes.length + GIB)
  return path
}

/** Runs a module under a limit of the shell, in KiB. */
function limited(limit, source) {
  const program = `
    import { openSync } from 'ztensor'
    const path = ${JSON.stringify(sparse())}
    const garbage = []
    /** A few MiB of the heap, of which the last 40 remain. */
    const fill = (round) => {
      for (let i = 0; i < 50; i++) garbage[(round * 50 + i) % 500] = new Array(10_000).fill(round)
    }
    ${source}
    console.log('alive')`
  const { NODE_OPTIONS: _, ...env } = process.env
  const shell = `ulimit ${limit}; exec "$0" --input-type=module -e "$1"`
  const { status, signal, stdout, stderr } = spawnSync('sh', ['-c', shell, process.execPath, program], {
    cwd: root,
    env,
    encoding: 'utf8',
  })
  return { status, signal, stdout, stderr: stderr.slice(0, 2000) }
}

const LIVES = { status: 0, signal: null, stdout: 'alive\n', stderr: '' }

if (canMap(1) && process.platform === 'linux') {
  for (const [what, limit] of [
    ['addresses', '-v 8388608'],
    ['memory that can be written', '-d 4194304'],
  ]) {
    test(`opens and closes files in a process with few ${what}`, (t) => {
      const ended = limited(
        limit,
        `for (let round = 0; round < 24; round++) {
          const file = openSync(path)
          const tensor = file.tensor('w')
          if (!tensor.mapped || tensor.data[${GIB / 2}] !== 0) throw new Error('round ' + round)
          fill(round)
          file.close()
          fill(round)
        }`,
      )
      t.deepEqual(ended, LIVES)
    })
  }
} else {
  test.skip('needs limits of the addresses of a process', () => {})
}
