// Checks of the files on every server: the values equal those of the local file, a cache is filled, secrets stay secret,
// and the bytes of a replaced object are never mixed with the old ones.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect, isDeepStrictEqual } from 'node:util'
import { diff, open, openSync } from 'ztensor'

const ROWS = [[500, 628]]
const RULES = { embed: 'row', 'layers.*': 'column', '*': 'replicate' }

export function check(holds, message) {
  if (!holds) throw new Error(message)
}

const same = (one, other, what) => check(isDeepStrictEqual(one, other), `${what} is not that of the local file`)

/** The error that a promise rejects with. */
export async function refusalOf(work) {
  try {
    await work()
  } catch (error) {
    return error
  }
  throw new Error('it is not rejected')
}

/** Checks the code and the message of an error, and that its text shows no secret. */
export function isRefusal(error, code, says, secrets = []) {
  const text = inspect(error, { depth: 9, showHidden: true })
  check(error.code === code && says.test(error.message), `refused with ${error.code}: ${error.message}`)
  check(!secrets.some((secret) => text.includes(secret)), 'the error shows a secret')
}

/** Calls the work with a remote file and its local copy, and closes both. */
export async function both({ server, models, urlOf = server.url, remote = server.remote }, key, work) {
  const [there, here] = [await open(urlOf(key), { remote }), openSync(models.path(key))]
  try {
    return await work(there, here)
  } finally {
    there.close()
    here.close()
  }
}

async function listAndCompare(setup, key) {
  await both(setup, key, async (remoteFile, localFile) => {
    same([...remoteFile.keys()], [...localFile.keys()], 'the list')
    const { added, removed, changed, unchanged } = await diff(remoteFile, localFile)
    check(added.length + removed.length + changed.length === 0 && unchanged === localFile.size, 'tensors differ')
    const loaded = await remoteFile.load()
    for (const [name, tensor] of localFile) same(loaded.get(name).data ?? loaded.get(name), await tensor.load(), name)
    check(!remoteFile.path.includes('?') && !inspect(remoteFile).includes('?'), 'the path shows the query')
  })
}

async function slicesAndPlans(setup) {
  await both(
    { ...setup, remote: { ...setup.server.remote, pieceBytes: 2 ** 20 } },
    'model.safetensors',
    async (remoteFile, localFile) => {
      for (const name of ['embed', 'layers.1.weight']) {
        const slice = name === 'embed' ? ROWS : [null, [3, 77]]
        same(
          await remoteFile.tensor(name).load({ slice }),
          await localFile.tensor(name).load({ slice }),
          `a slice of ${name}`,
        )
      }
      for (const rank of [0, 3]) {
        const given = { rank, worldSize: 4, rules: RULES }
        const mine = await remoteFile.load({ plan: remoteFile.plan(given) })
        const theirs = await localFile.load({ plan: localFile.plan(given) })
        for (const [name, part] of theirs) same(mine.get(name), part, `the part of rank ${rank} of ${name}`)
      }
    },
  )
}

async function verifies(setup) {
  await both(setup, 'model.zt', async (remoteFile, localFile) => {
    const [there, here] = [await remoteFile.verify(), await localFile.verify()]
    check(there.ok && there.checked === here.checked && there.checked > 0, `verify() returns ${inspect(there)}`)
  })
}

async function fillsCache(setup) {
  const cache = mkdtempSync(join(tmpdir(), 'ztensor-remote-'))
  const remote = { ...setup.server.remote, cache }
  try {
    await both({ ...setup, remote }, 'model.safetensors', async (remoteFile, localFile) => {
      const tensor = remoteFile.tensor('layers.0.weight')
      const early = await refusalOf(async () => tensor.data)
      isRefusal(early, 'ZT_NOT_LOCAL', /prefetch\(\)/)
      await remoteFile.prefetch(['layers.*'])
      check(tensor.mapped || tensor.copyReason !== 'remote', `data is ${tensor.copyReason}`)
      same(tensor.data, localFile.tensor('layers.0.weight').data, 'data after prefetch')
    })
    const files = readdirSync(cache, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
    check(files.length > 0, 'nothing is in the cache')
    for (const { parentPath, path, name } of files) {
      const bytes = readFileSync(join(parentPath ?? path, name))
      check(!setup.server.secrets.some((secret) => bytes.includes(secret)), `a secret is in the cache: ${name}`)
    }
  } finally {
    rmSync(cache, { recursive: true, force: true })
  }
}

/** Replaces a file by another one of the same length: before a read, and in the middle of many. */
async function neverMixes({ server, models }) {
  const key = 'changing.safetensors'
  const [before, after] = ['model.safetensors', 'other/model.safetensors'].map((name) => models.bytes(name))
  check(before.length === after.length, 'the two versions differ in length')
  await server.put(key, before)
  const remoteFile = await open(server.url(key), { remote: { ...server.remote, pieceBytes: 2 ** 20 } })
  const localFile = openSync(models.path('model.safetensors'))
  try {
    same(
      await remoteFile.tensor('embed').load({ slice: ROWS }),
      await localFile.tensor('embed').load({ slice: ROWS }),
      'a slice',
    )
    // Some of these reads come before the change, some after it.
    const names = [...localFile.keys()].flatMap((name) => [name, name])
    const reading = names.map((name) => remoteFile.tensor(name).load())
    await Promise.race(reading)
    await server.put(key, after)
    const read = await Promise.allSettled(reading)
    for (const [at, { status, value, reason }] of read.entries()) {
      if (status === 'fulfilled')
        same(value, await localFile.tensor(names[at]).load(), `${names[at]}, during the change,`)
      else isRefusal(reason, 'ZT_IO', /changed since it was opened/, server.secrets)
    }
    const late = await refusalOf(() => remoteFile.tensor('embed').load())
    isRefusal(late, 'ZT_IO', /changed since it was opened/, server.secrets)
  } finally {
    remoteFile.close()
    localFile.close()
  }
}

/** A folder opens like the index in it. */
export function folderIsIndex(setup) {
  const urlOf = () => setup.server.url('sharded/')
  return both({ ...setup, urlOf }, 'sharded/model.safetensors.index.json', async (folder, localFile) => {
    check(folder.size === localFile.size, 'the folder has other tensors than its index')
    const { added, removed, changed } = await diff(folder, localFile)
    check(added.length + removed.length + changed.length === 0, 'tensors differ')
  })
}

/** A URL with a signature in its query opens over plain HTTP, and no text shows the query. */
export function bySignedUrl(setup, urlOf) {
  return both({ ...setup, urlOf, remote: {} }, 'model.zt', async (signed, localFile) => {
    const { ok } = await signed.verify()
    check(ok && signed.size === localFile.size, 'the signed URL has other tensors')
    const text = inspect(signed, { depth: 9, showHidden: true })
    check(!setup.server.secrets.some((secret) => text.includes(secret)), 'the query is shown')
  })
}

/**
 * Returns [{ what, error }] for each check of a server: where its files are (`url(key)`, `remote`), how to replace one
 * (`put(key, bytes)`), texts that must stay secret (`secrets`), further checks (`more`: name -> work), and `refusals`:
 * name -> [url, remote, code, pattern of the message].
 */
export async function checked(server, models) {
  const setup = { server, models }
  const work = {
    ...Object.fromEntries(
      ['model.safetensors', 'model.zt', 'sharded/model.safetensors.index.json'].map((key) => [
        `${key}: open, list, load`,
        () => listAndCompare(setup, key),
      ]),
    ),
    'slices and the parts of ranks': () => slicesAndPlans(setup),
    verify: () => verifies(setup),
    'prefetch into a cache, and data': () => fillsCache(setup),
    'a file that is replaced while it is read': () => neverMixes(setup),
    ...Object.fromEntries(
      Object.entries(server.refusals).map(([what, [url, remote, code, says]]) => [
        what,
        async () => isRefusal(await refusalOf(() => open(url, { remote })), code, says, server.secrets),
      ]),
    ),
    ...server.more?.(setup),
  }
  const results = []
  for (const [what, run] of Object.entries(work)) {
    const error = await run().then(
      () => undefined,
      (thrown) => thrown,
    )
    results.push({ what, error })
  }
  return results
}
