// file.share({ memory: true }): SharedArrayBuffers over the mapping if the runtime supports them, otherwise only the handle. Tested
// under this runtime and those that `npm run test:runtimes` has installed.
import { execFile, execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { canMap } from '../helpers/data-placement.mjs'
import { isArgumentError, thrownBy } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const CHILD = fileURLToPath(new URL('../helpers/shared-memory.mjs', import.meta.url))
const MIB = 2 ** 20
const BYTES = 16 * MIB

async function written() {
  const path = scratchPath('shared-memory.zt')
  const writer = await create(path)
  await writer.add('a', new Uint8Array(BYTES).fill(7))
  await writer.add('b', Float32Array.of(1, 2, 3))
  await writer.finish()
  return path
}

/** Whether a Node of that version has `node_api_create_external_sharedarraybuffer`. */
function hasSharedMemory(version) {
  const [major, minor] = version.replace(/^v/, '').split('.').map(Number)
  const since = { 22: 23, 24: 21 }[major]
  return since === undefined ? major >= 26 : minor >= since
}

const installed = [20, 22, 24, 26]
  .map((version) => {
    const name = `node-${process.platform}-${process.arch}`
    return fileURLToPath(new URL(`../../build/runtimes/node-${version}/node_modules/${name}/bin/node`, import.meta.url))
  })
  .filter((program) => existsSync(program))

for (const program of new Set([process.execPath, ...installed])) {
  const { NODE_OPTIONS: _, ...env } = process.env
  const version = execFileSync(program, ['--version'], { encoding: 'utf8', env }).trim()
  test(`under ${program === process.execPath ? 'this runtime' : `Node ${version}`}`, async (t) => {
    const { stdout } = await promisify(execFile)(program, ['--expose-gc', CHILD, await written()], { env })
    const { lengths, reading, ...seen } = JSON.parse(stdout)
    if (!canMap(1) || !hasSharedMemory(version)) {
      t.deepEqual(seen, { without: true, sum: 7, left: process.platform === 'linux' ? 0 : 1 })
      return
    }
    t.true(lengths.length === 1 && lengths[0] > BYTES)
    t.is(reading.maps, 1)
    if (process.platform === 'linux') {
      // Three threads and two handles read it, and its pages are in memory once; the system may reclaim some at any time.
      t.true(reading.resident > BYTES / 2 && reading.resident < BYTES + MIB, `${reading.resident} bytes resident`)
    }
    const { sums, ...others } = seen
    t.true(sums.every((sum) => sum === (7 * BYTES) / 4096))
    t.deepEqual(others, {
      isShared: true,
      mapped: true,
      copyReason: null,
      other: [1, 2, 3],
      written: [7, 1, 2, 3],
      ofTheFile: [7, 1, 2, 3],
      onDisk: false,
      closed: [7, 1, 2, 3],
      afterClose: 1,
      left: process.platform === 'linux' ? 0 : 1,
    })
  })

  if (process.platform === 'win32') continue // where a mapped file cannot be truncated
  if (!canMap(1) || !hasSharedMemory(version)) continue
  test(`a file that is truncated, under ${process.execPath === program ? 'this runtime' : `Node ${version}`}`, async (t) => {
    const { stdout } = await promisify(execFile)(program, ['--expose-gc', CHILD, await written(), 'lost'], { env })
    const seen = { heard: ['ZT_MAPPING_LOST'], after: 'ZT_MAPPING_LOST', isCut: true, left: 0 }
    t.like(JSON.parse(stdout), process.platform === 'linux' ? seen : { ...seen, left: 1 })
  })
}

test('shares memory only on request', async (t) => {
  const file = openSync(await written())
  for (const options of [undefined, {}, { memory: false }, { memory: undefined }]) {
    t.false('memory' in file.share(options), JSON.stringify(options))
  }
  for (const [options, argument] of [
    [7, 'options'],
    [{ memory: 'yes' }, 'memory'],
  ]) {
    isArgumentError(
      t,
      thrownBy(() => file.share(options)),
      argument,
    )
  }
  file.close()
})

test('a file that is not mapped has no memory to share', async (t) => {
  const file = openSync(await written(), { io: 'read' })
  const shared = file.share({ memory: true })
  t.false('memory' in shared)
  const again = openSync(shared)
  t.deepEqual([...again.tensor('b').data], [1, 2, 3])
  again.close()
  file.close()
})

test('rejects invalid memory, and memory of another size', async (t) => {
  const file = openSync(await written())
  const shared = file.share()
  for (const memory of [7, {}, [], [new ArrayBuffer(8)], [new SharedArrayBuffer(8)], [undefined]]) {
    isArgumentError(
      t,
      thrownBy(() => openSync({ ...shared, memory })),
      'source.memory',
    )
  }
  // Memory of the right size is trusted: the sender could post any other bytes.
  const memory = [new SharedArrayBuffer(file.byteLength)]
  const other = openSync({ ...shared, memory })
  t.is(other.tensor('a').data.buffer, memory[0])
  other.close()
  file.close()
})
