// Files of the hub that its clients have downloaded: opened in the cache, as local files, in the layout that
// https://huggingface.co/docs/huggingface_hub/guides/manage-cache describes.
import { mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import test from 'ava'
import { convert, open, saveFile } from 'ztensor'
import { isCopied, isMapped } from '../helpers/data-placement.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { withVariables } from './variables.mjs'
import { part, serve } from './web.mjs'

const COMMIT = '0123456789abcdef0123456789abcdef01234567'
const OTHER = 'f'.repeat(40)

/** A sharded model in a cache, and a hub with that model. */
async function cached(t) {
  const { path: at } = scratchFolder()
  const whole = at('whole.safetensors')
  await saveFile(whole, {
    a: new Float32Array(3000).map((_, i) => i),
    b: new Float32Array(3000).map((_, i) => -i),
  })
  mkdirSync(at('model'))
  await convert(whole, at('model/model.safetensors'), { maxShardBytes: 13_000 })
  const names = ['model.safetensors.index.json', 'model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']
  const files = Object.fromEntries(names.map((name) => [name, readFileSync(at(`model/${name}`))]))
  const root = at('cache')
  const repository = join(root, 'models--o--r')
  const write = (path, bytes) => {
    mkdirSync(dirname(join(repository, path)), { recursive: true })
    writeFileSync(join(repository, path), bytes)
  }
  const keep = (commit, name, bytes) => {
    const blob = `blobs/${name.replaceAll(/\W/g, '')}-${commit.slice(0, 4)}`
    write(blob, bytes)
    const link = join(repository, 'snapshots', commit, name)
    mkdirSync(dirname(link), { recursive: true })
    if (process.platform === 'win32') writeFileSync(link, bytes)
    else symlinkSync(join(repository, blob), link)
    return join(repository, blob)
  }
  const hub = await serve(t, (request, response) => {
    const { pathname } = new URL(request.url, 'http://hub')
    if (pathname.includes('/revision/')) {
      const siblings = names.map((name) => ({ rfilename: name, size: files[name].length }))
      return response.end(JSON.stringify({ sha: COMMIT, siblings }))
    }
    const bytes = files[pathname.split('/').at(-1)]
    if (bytes !== undefined) return part(request, response, bytes, { etag: '"1"' })
    response.writeHead(404)
    return response.end()
  })
  const variables = { HF_HUB_CACHE: root, HF_ENDPOINT: hub.url('') }
  return { files, names, write, keep, hub, variables }
}

test.serial(
  'a cached model opens as a local file, all shards: by commit, by branch, and without the hub',
  async (t) => {
    const { files, names, write, keep, hub, variables } = await cached(t)
    for (const name of names) keep(COMMIT, name, files[name])
    write('refs/main', COMMIT)
    await withVariables(variables, async () => {
      for (const [url, remote, requests] of [
        [`hf://o/r@${COMMIT}`, undefined, 1],
        [`hf://o/r@${COMMIT}`, { offline: true }, 0],
        [`hf://o/r@${COMMIT}/model.safetensors.index.json`, undefined, 0],
        ['hf://o/r', undefined, 1],
        ['hf://o/r', { offline: true }, 0],
      ]) {
        hub.asked.length = 0
        const file = await open(url, { remote })
        const [a, b] = [file.tensor('a'), file.tensor('b')]
        isMapped(t, a, 4, url)
        t.is(a.data[2999], 2999)
        t.is(b.slice([[1]]).data[0], -1)
        t.is(hub.asked.length, requests, url)
        t.regex(file.path, new RegExp(`^hf://o/r@${COMMIT}`))
        // Without the hub, its list of files is not known.
        const isUnsure = remote?.offline === true
        t.deepEqual(
          file.warnings.map(({ code }) => code),
          isUnsure ? ['ZT_WARN_INCOMPLETE_SET'] : [],
          url,
        )
        if (isUnsure) t.regex(file.warnings[0].message, /HF_HUB_OFFLINE.*may not have all files/)
        file.close()
      }
      const remote = await open(`hf://o/r@${COMMIT}`, { remote: { cache: false } })
      isCopied(t, remote.tensor('a'), 'remote')
      t.true(hub.asked.length > 1)
      remote.close()
    })
  },
)

test.serial('reads a shard that is not cached from the hub, and the others from the cache', async (t) => {
  const { files, names, keep, hub, variables } = await cached(t)
  for (const name of names.slice(0, 2)) keep(COMMIT, name, files[name])
  await withVariables(variables, async () => {
    const file = await open('hf://o/r')
    t.deepEqual([(await file.tensor('a').load())[7], (await file.tensor('b').load())[7]], [7, -7])
    t.true(hub.asked.some(({ url }) => url.endsWith(names[2])))
    t.false(hub.asked.some(({ url }) => url.endsWith(names[1])))
    file.close()
    const error = await rejectionOf(() => open('hf://o/r@main', { remote: { offline: true } }))
    t.is(error.code, 'ZT_IO')
    t.regex(error.message, /not accessed/)
  })
})

test.serial('does not use a damaged blob: reads it from the hub, or names it in the error', async (t) => {
  const { files, names, write, keep, variables } = await cached(t)
  write('refs/main', COMMIT)
  const blobs = names.map((name) => keep(COMMIT, name, files[name]))
  truncateSync(blobs[1], 5000)
  await withVariables(variables, async () => {
    for (const url of ['hf://o/r', `hf://o/r@${COMMIT}`]) {
      const file = await open(url)
      t.is((await file.tensor('a').load())[2999], 2999, url)
      file.close()
    }
    const error = await rejectionOf(() => open('hf://o/r', { remote: { offline: true } }))
    t.true(error.code.startsWith('ZT_'), error.code)
    t.true(error.message.includes(names[1]), error.message)
  })
})

test.serial('another commit, no commit and invalid options', async (t) => {
  const { files, names, write, keep, hub, variables } = await cached(t)
  write('refs/main', OTHER)
  for (const name of names) keep(OTHER, name, files[name])
  await withVariables(variables, async () => {
    // The branch has a new commit: the cache contains an older one.
    const file = await open('hf://o/r/model-00001-of-00002.safetensors')
    t.true(hub.asked.some(({ url }) => url.endsWith(names[1])))
    file.close()
    const old = await open('hf://o/r/model-00001-of-00002.safetensors', { remote: { offline: true } })
    t.true(old.path.includes(OTHER))
    old.close()
    for (const remote of [{ offline: 1 }, { cache: true }, { cache: 0 }])
      t.is((await rejectionOf(() => open('hf://o/r', { remote }))).code, 'ZT_INVALID_ARG')
  })
})

test.serial(
  'opens a folder by its commit: all files that the hub lists, or the cached ones with a warning',
  async (t) => {
    const { files, names, keep, hub, variables } = await cached(t)
    // The index is not cached: without the list there are only two shards, which look like a set.
    for (const name of names.slice(1)) keep(COMMIT, name, files[name])
    const url = `hf://o/r@${COMMIT}`
    await withVariables(variables, async () => {
      const file = await open(url)
      t.is(file.path, `hf://o/r@${COMMIT}`)
      t.deepEqual([file.warnings, [...file.keys()].sort()], [[], ['a', 'b']])
      t.true(
        hub.asked.some(({ url }) => url.endsWith(names[0])),
        'the index is read from the hub',
      )
      file.close()
    })
    await withVariables({ ...variables, HF_ENDPOINT: 'http://127.0.0.1:9' }, async () => {
      const file = await open(url, { remote: { retries: 0 } })
      t.deepEqual([...file.keys()].sort(), ['a', 'b'])
      t.like(file.warnings[0], { code: 'ZT_WARN_INCOMPLETE_SET' })
      t.regex(file.warnings[0].message, /the hub did not list the files of this commit: .*may not have all files/)
      file.close()
    })
  },
)

test.serial('variables select the path of the cache', async (t) => {
  const { files, names, keep, variables } = await cached(t)
  for (const name of names) keep(COMMIT, name, files[name])
  const [folder, last] = [dirname(variables.HF_HUB_CACHE), 'cache']
  for (const value of ['$ZT_TEST_FOLDER/$ZT_TEST_LAST', '~/$ZT_TEST_LAST']) {
    const named = { ...variables, HF_HUB_CACHE: value, HOME: folder, ZT_TEST_FOLDER: folder, ZT_TEST_LAST: last } // biome-ignore format: one list
    await withVariables(named, async () => {
      const file = await open(`hf://o/r@${COMMIT}`, { remote: { offline: true } })
      t.is(file.size, 2, value)
      file.close()
    })
  }
})
