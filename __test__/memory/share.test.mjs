// file.share(): one open file in several threads, some of which close it.
import { fork } from 'node:child_process'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import test from 'ava'
import { create, open, openSync } from 'ztensor'
import { canMap } from '../helpers/data-placement.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const ELSEWHERE = new URL('../helpers/reader-worker.mjs', import.meta.url)
const MIB = 2 ** 20

async function written(bytes = 4 * MIB, value = 7) {
  const path = scratchPath('shared.zt')
  const writer = await create(path)
  await writer.add('a', new Uint8Array(bytes).fill(value))
  await writer.add('b', Float32Array.of(1, 2, 3))
  await writer.finish()
  return path
}

/** A thread that opens the file that it receives; `ask` runs an operation on its file and returns the result. */
class Thread {
  #worker = new Worker(ELSEWHERE)
  ask(what, shared) {
    return new Promise((resolve, reject) => {
      this.#worker.once('message', resolve)
      this.#worker.once('error', reject)
      this.#worker.postMessage({ what, shared })
    })
  }
  end() {
    return this.#worker.terminate()
  }
}

/** The mapped bytes of a file in this process, and the number of mappings; only Linux reports them. */
function mapped(path) {
  const maps = readFileSync('/proc/self/smaps', 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m)
  const own = maps.filter((map) => map.split('\n')[0].endsWith(path))
  return {
    count: own.length,
    resident: own.reduce((sum, map) => sum + 1024 * Number(/^Rss:\s+(\d+)/m.exec(map)[1]), 0),
  }
}

test('threads read one mapping, whose pages are in memory once', async (t) => {
  const bytes = 16 * MIB
  const path = await written(bytes)
  const file = openSync(path)
  t.is(file.tensor('a').data.length, bytes)
  const shared = file.share()
  const threads = Array.from({ length: 3 }, () => new Thread())
  for (const thread of threads) {
    t.deepEqual(await thread.ask('open', shared), { names: ['a', 'b'], path })
    t.is(await thread.ask('sum'), (7 * bytes) / 4096)
  }
  if (process.platform === 'linux' && canMap(1)) {
    const { count, resident } = mapped(path)
    t.is(count, 1)
    t.true(resident >= bytes && resident < bytes + MIB, `${resident} bytes resident`)
  }
  await Promise.all(threads.map((thread) => thread.end()))
  t.is(file.tensor('a').data[5], 7)
  file.close()
})

test('close() empties only the views of its thread', async (t) => {
  const path = await written()
  const file = openSync(path)
  const view = file.tensor('a').data
  const [one, other] = [new Thread(), new Thread()]
  await one.ask('open', file.share())
  await other.ask('open', file.share())
  t.is(await one.ask('sum'), 7 * 1024)
  file.close()
  t.is(view.length, canMap(1) ? 0 : 4 * MIB) // a copy stays
  t.is(await one.ask('sum'), 7 * 1024)
  t.is(await other.ask('sum'), 7 * 1024)
  t.is(await one.ask('close'), 'ZT_CLOSED')
  t.is(await other.ask('load'), 7 * 1024)
  t.is(await other.ask('close'), 'ZT_CLOSED')
  if (process.platform === 'linux') t.is(mapped(path).count, 0)
  await Promise.all([one.end(), other.end()])
})

test('the same thread can open a ticket, with open and openSync', async (t) => {
  const file = openSync(await written())
  const shared = file.share()
  t.deepEqual(structuredClone(shared), shared)
  for (const again of [openSync(shared), await open(shared, { verify: true })]) {
    t.deepEqual([...again.tensor('b').data], [1, 2, 3])
    t.is(again.path, file.path)
    again.close()
  }
  t.deepEqual([...file.tensor('b').data], [1, 2, 3])
  file.close()
})

test('a ticket outlives its file: the file is opened again, with the same options', async (t) => {
  const file = openSync(await written(), { io: 'read' })
  const shared = file.share()
  file.close()
  for (const again of [openSync(shared), await open(shared)]) {
    t.deepEqual([...again.tensor('b').data], [1, 2, 3])
    t.false(again.tensor('b').mapped)
    again.close()
  }
})

// Windows keeps the name of an open file.
const replaceable = process.platform === 'win32' ? test.skip : test
replaceable('a file that was replaced meanwhile is not opened again: ZT_IO', async (t) => {
  const path = await written()
  const file = openSync(path)
  const shared = file.share()
  renameSync(await written(4 * MIB, 9), path)
  const same = openSync(shared) // the file that is still open
  t.is(same.tensor('a').data[0], 7)
  same.close()
  file.close()
  t.is(thrownBy(() => openSync(shared)).code, 'ZT_IO')
  t.is((await rejectionOf(() => open(shared))).code, 'ZT_IO')
})

test('shares a list of files as one namespace', async (t) => {
  const [one, two] = [scratchPath('one.safetensors'), scratchPath('two.safetensors')]
  for (const [path, name] of [
    [one, 'x'],
    [two, 'y'],
  ]) {
    const writer = await create(path, { format: 'safetensors' })
    await writer.add(name, Uint8Array.of(1, 2))
    await writer.finish()
  }
  const file = openSync([one, two])
  const shared = file.share()
  const inside = openSync(shared)
  t.deepEqual([...inside.keys()], ['x', 'y'])
  inside.close()
  file.close()
  const reopened = openSync(shared)
  t.deepEqual([...reopened.tensor('y').data], [1, 2])
  reopened.close()
})

test('another process opens the path', async (t) => {
  const path = await written()
  const file = openSync(path)
  const other = fork(fileURLToPath(ELSEWHERE), { stdio: 'inherit' })
  const ask = (what, shared) =>
    new Promise((resolve, reject) => {
      other.once('message', resolve)
      other.once('error', reject)
      other.send({ what, shared })
    })
  t.deepEqual(await ask('open', file.share()), { names: ['a', 'b'], path })
  t.is(await ask('sum'), 7 * 1024)
  other.kill()
  file.close()
})

test('rejects files that cannot be shared, and invalid tickets', async (t) => {
  const path = await written()
  const memory = openSync(readFileSync(path))
  isArgumentError(
    t,
    thrownBy(() => memory.share()),
    'memory',
  )
  memory.close()
  const file = openSync(path)
  const shared = file.share()
  for (const broken of [
    { ...shared, path: 7 },
    { ...shared, path: [] },
    { ...shared, ticket: undefined },
    { ...shared, ticket: { ...shared.ticket, number: 0.5 } },
    { ...shared, request: null },
    { kind: 'another' },
  ]) {
    isArgumentError(
      t,
      thrownBy(() => openSync(broken)),
      'source',
    )
    isArgumentError(t, await rejectionOf(() => open(broken)), 'source')
  }
  file.close()
  t.is(thrownBy(() => file.share()).code, 'ZT_CLOSED')
  writeFileSync(path, 'gone')
  t.true(['ZT_IO', 'ZT_TRUNCATED', 'ZT_BAD_MAGIC'].includes(thrownBy(() => openSync(shared)).code))
})
