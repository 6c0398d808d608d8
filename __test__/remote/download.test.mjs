// Downloads from a hub to the cache of its clients. interop/hub.mjs has the same with Python and @huggingface/hub.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import test from 'ava'
import { convert, open, saveFile } from 'ztensor'
import { download, verifyCache } from 'ztensor/hub'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { startHub } from './hub.mjs'
import { withVariables } from './variables.mjs'

const MIB = 2 ** 20
const unix = process.platform !== 'win32'
/** Bytes that do not repeat within a MiB. */
const numbers = (length, seed) => Buffer.from(Uint8Array.from({ length }, (_, at) => (at * seed + (at >> 8)) & 255))
const LARGE = numbers(3 * MIB + 17, 7)
const FILES = { 'config.json': '{"a": 1}', 'model.bin': LARGE, 'sub/deep/a b#?.txt': 'text' }

/** A hub with the repository o/r, and a folder for its cache. `run` runs work with the variables of both. */
async function hubWith(t, files = FILES, options = {}) {
  const hub = await startHub({ 'o/r': { main: files } }, options)
  t.teardown(hub.close)
  const home = scratchPath('home')
  const variables = { HF_HOME: home, HF_ENDPOINT: hub.url, HF_TOKEN: 'secret' }
  const cache = join(home, 'hub')
  const repository = join(cache, 'models--o--r')
  /** The requests for files since the last call, as [path, first byte]. */
  const fetched = () =>
    hub.asked
      .splice(0)
      .filter(({ path }) => path.startsWith('/storage/') || path.includes('/resolve/'))
      .map(({ path, headers }) => [path.split('/').at(-1), Number(/=(\d+)/.exec(headers.range)?.[1])])
  return { hub, home, cache, repository, variables, fetched, run: (work) => withVariables(variables, work) }
}

const blobs = (repository) => (existsSync(join(repository, 'blobs')) ? readdirSync(join(repository, 'blobs')) : [])

test.serial('fills the cache in the layout of huggingface_hub, once', async (t) => {
  const { hub, repository, cache, run, fetched } = await hubWith(t)
  await run(async () => {
    const seen = []
    const { path, commit, files } = await download('hf://o/r', { onProgress: (progress) => seen.push(progress) })
    t.is(commit, hub.commitOf('o/r', 'main'))
    t.is(path, join(repository, 'snapshots', commit))
    t.deepEqual(
      files.map(({ name, byteLength, isNew }) => [name, byteLength, isNew]),
      Object.entries(FILES).map(([name, bytes]) => [name, bytes.length, true]),
    )
    for (const { name, path } of files) {
      t.true(readFileSync(path).equals(Buffer.from(FILES[name])))
      if (unix) t.regex(readlinkSync(path), /^(\.\.\/)+blobs\/[0-9a-f]{40,64}$/)
    }
    t.is(readFileSync(join(repository, 'refs/main'), 'utf8'), commit)
    t.is(blobs(repository).length, 3)
    t.is(readdirSync(join(cache, '.locks/models--o--r')).length, 3)
    const total = Object.values(FILES).reduce((sum, { length }) => sum + length, 0)
    t.like(seen.at(-1), { bytes: total, totalBytes: total, files: 3, totalFiles: 3, remainingMs: 0 })
    const asked = hub.asked.filter(({ path }) => path.startsWith('/storage/'))
    t.true(asked.length > 0 && asked.every(({ headers }) => headers.authorization === undefined))
    t.true(hub.asked.every(({ path, headers }) => path.startsWith('/storage/') || headers.authorization !== undefined))
    fetched()
    const again = await download('hf://o/r@main')
    t.deepEqual([again.path, again.files.some(({ isNew }) => isNew), fetched()], [path, false, []])
  })
})

test.serial('one file, a folder, a filter, a commit and what does not exist', async (t) => {
  const { hub, repository, run, fetched } = await hubWith(t)
  const commit = hub.commitOf('o/r', 'main')
  await run(async () => {
    const names = async (url, options) => (await download(url, options)).files.map(({ name }) => name)
    const one = await download(`hf://o/r@${commit}/config.json`)
    t.deepEqual([one.path, readFileSync(one.path, 'utf8')], [one.files[0].path, FILES['config.json']])
    t.false(existsSync(join(repository, 'refs')), 'a commit needs no reference')
    t.deepEqual(await names('hf://o/r/sub'), ['sub/deep/a b#?.txt'])
    t.deepEqual(await names('hf://o/r/sub/deep/a%20b%23%3F.txt'), ['sub/deep/a b#?.txt'])
    t.deepEqual(await names('hf://o/r', { filter: ['*.json', '*.txt'] }), ['config.json', 'sub/deep/a b#?.txt'])
    t.deepEqual(await names('hf://o/r', { filter: '!*.bin' }), ['config.json', 'sub/deep/a b#?.txt'])
    t.false(fetched().some(([name]) => name === 'model.bin'))
    const unmatched = await rejectionOf(() => download('hf://o/r', { filter: '*.gguf' }))
    t.deepEqual([unmatched.code, unmatched.message], ['ZT_INVALID_ARG', "filter: '*.gguf' matches no file"])
    const missing = await rejectionOf(() => download('hf://o/r/none.bin'))
    t.is(missing.code, 'ZT_NOT_FOUND')
    t.true(existsSync(join(repository, '.no_exist', commit, 'none.bin')))
    t.is((await rejectionOf(() => download('hf://o/r@v2'))).cause.status, 404)
    for (const url of ['https://host/x', 'o/r', 'hf://gpt2', 7])
      t.is((await rejectionOf(() => download(url))).code, 'ZT_INVALID_ARG', String(url))
    for (const options of [{ to: '' }, { filters: 'x' }, { remote: { cache: 'x' } }, { filter: 7 }])
      t.is((await rejectionOf(() => download('hf://o/r', options))).code, 'ZT_INVALID_ARG', JSON.stringify(options))
  })
})

test.serial('a branch that moves: what did not change is not fetched again, and the old commit stays', async (t) => {
  const { hub, repository, run, fetched } = await hubWith(t)
  await run(async () => {
    const old = await download('hf://o/r')
    const next = hub.commit('o/r', 'main', { ...FILES, 'config.json': '{"a": 2}' })
    fetched()
    const { path, commit, files } = await download('hf://o/r')
    t.is(commit, next)
    t.deepEqual(
      fetched().map(([name]) => name),
      ['config.json'],
    )
    t.deepEqual(files.map(({ isNew }) => isNew), [true, false, false]) // biome-ignore format: one claim
    t.is(readFileSync(join(path, 'config.json'), 'utf8'), '{"a": 2}')
    t.is(readFileSync(join(old.path, 'config.json'), 'utf8'), '{"a": 1}')
    t.is(readFileSync(join(repository, 'refs/main'), 'utf8'), next)
  })
})

test.serial('offline: what the cache has, and an error for the rest', async (t) => {
  const { hub, run, variables } = await hubWith(t)
  await run(() => download('hf://o/r', { filter: '*.json' }))
  hub.asked.length = 0
  await withVariables({ ...variables, HF_HUB_OFFLINE: '1' }, async () => {
    const { files } = await download('hf://o/r')
    t.deepEqual(
      files.map(({ name, isNew }) => [name, isNew]),
      [['config.json', false]],
    )
    for (const url of ['hf://o/r@v1', 'hf://o/other'])
      t.regex((await rejectionOf(() => download(url))).message, /not accessed .*download it once, or go online/)
  })
  await run(async () => {
    t.is((await download('hf://o/r/config.json', { remote: { offline: true } })).files.length, 1)
    t.is((await rejectionOf(() => download('hf://o/r/model.bin', { remote: { offline: true } }))).code, 'ZT_NOT_FOUND')
  })
  t.deepEqual(hub.asked, [])
})

test.serial('gated and private repositories: the status and what to do; nothing is written', async (t) => {
  let status = 401
  const onRequest = (_request, response) => {
    response.writeHead(status, { 'x-error-code': status === 403 ? 'GatedRepo' : 'RepoNotFound' })
    response.end()
    return true
  }
  const { home, run } = await hubWith(t, FILES, { onRequest })
  await run(async () => {
    for (const [code, says] of [
      [401, /token|HF_TOKEN/],
      [403, /gated.*accept its conditions/],
    ]) {
      status = code
      const error = await rejectionOf(() => download('hf://o/r'))
      t.deepEqual([error.code, error.cause.status], ['ZT_IO', code])
      t.regex(error.message, says)
      t.false(error.message.includes('secret'))
    }
    t.false(existsSync(home))
  })
})

test.serial('without links: the files are in the snapshot, and are not fetched again', async (t) => {
  const { repository, variables, fetched } = await hubWith(t)
  await withVariables({ ...variables, HF_HUB_DISABLE_SYMLINKS: '1' }, async () => {
    const { files } = await download('hf://o/r')
    for (const { name, path } of files) {
      t.true(lstatSync(path).isFile())
      t.true(readFileSync(path).equals(Buffer.from(FILES[name])))
    }
    t.deepEqual(blobs(repository), [])
    fetched()
    t.false((await download('hf://o/r')).files.some(({ isNew }) => isNew))
    t.deepEqual(fetched(), [])
  })
})

test.serial('without links: a blob that another snapshot uses is copied', async (t) => {
  const { repository, hub, run, variables, fetched } = await hubWith(t)
  const before = await run(() => download('hf://o/r'))
  hub.commit('o/r', 'main', { ...FILES, 'config.json': '{"a": 2}' })
  fetched()
  await withVariables({ ...variables, HF_HUB_DISABLE_SYMLINKS: '1' }, async () => {
    const { files } = await download('hf://o/r')
    t.deepEqual(
      fetched().map(([name]) => name),
      ['config.json'],
    )
    t.true(files.every(({ path }) => lstatSync(path).isFile()))
    t.true(readFileSync(files[1].path).equals(LARGE))
    t.is(blobs(repository).length, 3)
    t.true(readFileSync(before.files[1].path).equals(LARGE))
    t.true((await verifyCache('hf://o/r')).ok)
  })
})

/** Holds the responses for the storage from the request `from` on, until `release` is called. */
function holding(from) {
  let seen = 0
  let release
  const released = new Promise((resolve) => {
    release = resolve
  })
  let reached
  const held = new Promise((resolve) => {
    reached = resolve
  })
  const onRequest = (_request, response, path) => {
    if (!path.startsWith('/storage/') || ++seen < from) return false
    reached()
    released.then(() => response.destroy())
    return true
  }
  return { onRequest, held, release: () => release() }
}

/** Waits until the incomplete file has bytes. */
async function incompleteOf(repository) {
  for (;;) {
    const name = blobs(repository).find((blob) => blob.endsWith('.incomplete'))
    const path = name && join(repository, 'blobs', name)
    if (path !== undefined && statSync(path).size > 0) return path
    await new Promise((resolve) => setImmediate(resolve))
  }
}

const BIG = numbers(48 * MIB + 5, 11)

test.serial('a download that was killed or aborted continues after the bytes that arrived', async (t) => {
  // The requests of the second window stay without response.
  let hold = holding(10)
  const given = { onRequest: (...request) => hold?.onRequest(...request) === true }
  const { repository, variables, run, fetched } = await hubWith(t, { 'model.bin': BIG }, given)
  const code = `import { download } from ${JSON.stringify(pathToFileURL('dist/hub.mjs').href)}\nawait download('hf://o/r')`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { env: { ...process.env, ...variables } })
  await hold.held
  const path = await incompleteOf(repository)
  child.kill('SIGKILL')
  await once(child, 'exit')
  hold.release()
  const arrived = readFileSync(path)
  t.true(arrived.length < BIG.length && arrived.equals(BIG.subarray(0, arrived.length)), `${arrived.length} bytes`)
  await run(async () => {
    const stopped = AbortSignal.abort(new Error('stopped'))
    t.is((await rejectionOf(() => download('hf://o/r', { signal: stopped }))).message, 'stopped')
    const during = new AbortController()
    hold = holding(2)
    hold.held.then(() => during.abort())
    t.is(await rejectionOf(() => download('hf://o/r', { signal: during.signal })), during.signal.reason)
    hold.release()
    hold = undefined
    fetched()
    const [file] = (await download('hf://o/r')).files
    t.true(readFileSync(file.path).equals(BIG))
    const starts = fetched()
      .map(([, start]) => start)
      .filter((start) => start > 0)
    t.true(Math.min(...starts) >= arrived.length, 'only the rest is requested')
    t.deepEqual(blobs(repository).filter((name) => name.endsWith('.incomplete')), []) // biome-ignore format: one claim
  })
})

test.serial('continues what an older huggingface_hub left, and starts again if it is too long or wrong', async (t) => {
  const { repository, run } = await hubWith(t, { 'model.bin': LARGE })
  await run(async () => {
    const { files } = await download('hf://o/r')
    const [name] = blobs(repository)
    const blob = join(repository, 'blobs', name)
    for (const [start, code] of [
      [LARGE.subarray(0, 1_000_000), undefined],
      [Buffer.concat([LARGE, LARGE]), undefined],
      [LARGE, undefined],
      [Buffer.alloc(1_000_000), 'ZT_DIGEST_MISMATCH'],
    ]) {
      rmSync(blob)
      writeFileSync(`${blob}.incomplete`, start)
      if (code === undefined) await download('hf://o/r')
      else {
        const error = await rejectionOf(() => download('hf://o/r'))
        t.is(error.code, code)
        t.deepEqual(blobs(repository), [], 'nothing of it remains')
        await download('hf://o/r')
      }
      t.true(readFileSync(files[0].path).equals(LARGE))
    }
  })
})

test.serial('damaged blobs: a truncated one is fetched again, another one is found by verifyCache', async (t) => {
  const { repository, run, fetched } = await hubWith(t)
  await run(async () => {
    const { files } = await download('hf://o/r')
    t.deepEqual(await verifyCache(), { ok: true, checked: 3, unchecked: 0, failures: [] })
    const { path } = files[1]
    truncateSync(path, 1000)
    fetched()
    t.deepEqual((await download('hf://o/r')).files.map(({ isNew }) => isNew), [false, true, false]) // biome-ignore format: one claim
    t.true(readFileSync(path).equals(LARGE))
    const flipped = Buffer.from(LARGE)
    flipped[5] ^= 1
    writeFileSync(path, flipped)
    rmSync(join(repository, 'blobs', blobs(repository).find((name) => readFileSync(join(repository, 'blobs', name), 'utf8') === 'text'))) // biome-ignore format: one step
    const seen = []
    const { ok, failures } = await verifyCache('hf://o/r', { remove: true, onProgress: (all) => seen.push(all) })
    t.deepEqual(
      [ok, failures.map(({ reason, names }) => [reason, names])],
      [false, [['digest', ['model.bin']], ['link', ['sub/deep/a b#?.txt']]]], // biome-ignore format: one claim
    )
    t.is(seen.at(-1).bytes, seen.at(-1).totalBytes)
    t.deepEqual(await verifyCache('hf://o/r'), { ok: true, checked: 1, unchecked: 0, failures: [] })
    t.deepEqual((await download('hf://o/r')).files.map(({ isNew }) => isNew), [false, true, true]) // biome-ignore format: one claim
  })
})

test.serial('bytes that change or differ from the list are never stored', async (t) => {
  const other = Buffer.from(LARGE)
  other[2_000_000] ^= 1
  let answer
  const onRequest = (request, response, path) => answer?.(request, response, path) === true
  let change = (siblings) => siblings
  const { hub, repository, run } = await hubWith(t, FILES, { onRequest, list: (siblings) => change(siblings) })
  const commit = hub.commitOf('o/r', 'main')
  const field = (name, more) => (siblings) =>
    siblings.map((one) => (one.rfilename === name ? { ...one, ...more(one) } : one))
  const cases = {
    'another SHA-256': [field('model.bin', ({ lfs }) => ({ lfs: { ...lfs, sha256: '0'.repeat(64) } })), 'ZT_DIGEST_MISMATCH'],
    'another SHA-1': [field('config.json', () => ({ blobId: '0'.repeat(40) })), 'ZT_DIGEST_MISMATCH'],
    'another size': [field('config.json', () => ({ size: 7 })), 'ZT_IO'],
    'a size of a large file': [field('model.bin', ({ lfs }) => ({ lfs: { ...lfs, size: 7 } })), 'ZT_IO'],
    'no size': [field('config.json', () => ({ size: -1 })), undefined],
  } // biome-ignore format: a table
  await run(async () => {
    for (const [name, [changed, code]] of Object.entries(cases)) {
      change = changed
      rmSync(repository, { recursive: true, force: true })
      const error = await rejectionOf(() => download('hf://o/r')).catch(() => undefined)
      t.is(error?.code, code, name)
      const stored = blobs(repository).filter((blob) => !blob.endsWith('.incomplete'))
      t.false(stored.includes('0'.repeat(64)) || stored.includes('0'.repeat(40)), name)
    }
    change = (siblings) => siblings
    // The entity tag of the storage changes after the first response.
    let seen = 0
    answer = (_request, response, path) => {
      if (path.startsWith('/storage/') && ++seen === 2) {
        response.writeHead(206, { 'content-range': `bytes 524288-${LARGE.length - 1}/${LARGE.length}`, etag: '"new"' })
        response.end(other.subarray(524_288))
        return true
      }
      return false
    }
    rmSync(repository, { recursive: true, force: true })
    const error = await rejectionOf(() => download('hf://o/r/model.bin'))
    t.regex(error.message, /changed since it was opened/)
    t.false(existsSync(join(repository, 'snapshots', commit, 'model.bin')))
    answer = undefined
    t.true(readFileSync((await download('hf://o/r/model.bin')).path).equals(LARGE))
  })
})

test.serial('a hub that lists no digests: the names and digests come from the headers', async (t) => {
  const { repository, run } = await hubWith(t, FILES, { isListed: false })
  await run(async () => {
    const { files } = await download('hf://o/r')
    for (const { name, path } of files) t.true(readFileSync(path).equals(Buffer.from(FILES[name])))
    t.deepEqual(blobs(repository).map((name) => name.length).sort(), [40, 40, 64]) // biome-ignore format: one claim
    t.true((await verifyCache('hf://o/r')).ok)
  })
})

test.serial('a hostile hub writes nothing outside of the folder', async (t) => {
  let lie
  let tag
  const onRequest = (_request, response, path) => {
    if (tag === undefined || !path.includes('/resolve/')) return false
    response.writeHead(206, { 'content-range': 'bytes 0-0/1', etag: tag })
    response.end('x')
    return true
  }
  const { home, repository, run } = await hubWith(t, FILES, { onRequest, isListed: false, list: (all) => lie(all) })
  mkdirSync(home)
  const before = readdirSync(join(home, '..')).sort()
  await run(async () => {
    for (const name of [
      '../x',
      '/etc/x',
      'a/../../x',
      'a//b',
      '..',
      '.',
      '',
      'a\\..\\b',
      'C:x',
      'a\0b',
      '...',
      7,
      null,
    ]) {
      lie = (all) => [...all, { rfilename: name, size: 1 }]
      for (const options of [{}, { to: join(home, 'to') }]) {
        const error = await rejectionOf(() => download('hf://o/r', options))
        t.is(error.code, 'ZT_OUT_OF_BOUNDS', JSON.stringify(name))
      }
    }
    lie = () => 'x'.repeat(17 * MIB)
    t.regex((await rejectionOf(() => download('hf://o/r'))).message, /exceeds 16777216 bytes/)
    lie = () => Array.from({ length: 50_001 }, (_, at) => ({ rfilename: `${at}` }))
    t.is((await rejectionOf(() => download('hf://o/r'))).code, 'ZT_LIMIT')
    lie = () => 'no list'
    t.regex((await rejectionOf(() => download('hf://o/r'))).message, /does not respond like a hub/)
    lie = () => [{ rfilename: 'a', size: 2 ** 52 }]
    t.regex((await rejectionOf(() => download('hf://o/r'))).message, /has space for \d+ bytes/)
    lie = () => [{ rfilename: 'a', size: 1 }]
    for (tag of ['"../../x"', '"/x"', '".."', '""', '"a b"'])
      t.regex((await rejectionOf(() => download('hf://o/r'))).message, /entity tag/, tag)
    tag = undefined
    t.deepEqual(blobs(repository), [])
  })
  t.deepEqual(readdirSync(join(home, '..')).sort(), before)
})

test.serial('several downloads at once fetch each file once', async (t) => {
  const { run, fetched } = await hubWith(t)
  await run(async () => {
    const all = await Promise.all(Array.from({ length: 4 }, () => download('hf://o/r')))
    for (const { path } of all[0].files) t.true(existsSync(path))
    t.is(all.flatMap(({ files }) => files).filter(({ name, isNew }) => name === 'model.bin' && isNew).length, 1)
    t.is(fetched().filter(([name, start]) => name === 'config.json' && start === 0).length, 1)
  })
})

test.serial('a separate folder: files by their names, and replaced when they change', async (t) => {
  const { hub, home, cache, run, fetched } = await hubWith(t)
  const to = join(home, 'to')
  await run(async () => {
    const { path, files, commit } = await download('hf://o/r', { to })
    t.is(path, to)
    for (const [name, bytes] of Object.entries(FILES)) t.true(readFileSync(join(to, name)).equals(Buffer.from(bytes)))
    t.true(files.every(({ isNew }) => isNew))
    t.false(existsSync(cache))
    const metadata = readFileSync(join(to, '.cache/huggingface/download/config.json.metadata'), 'utf8').split('\n')
    t.deepEqual([metadata[0], metadata[1].length], [commit, 40])
    fetched()
    t.false((await download('hf://o/r', { to: pathToFileURL(to) })).files.some(({ isNew }) => isNew))
    t.deepEqual(fetched(), [])
    // The same size.
    hub.commit('o/r', 'main', { ...FILES, 'config.json': '{"b": 2}' })
    await download('hf://o/r', { to })
    t.is(readFileSync(join(to, 'config.json'), 'utf8'), '{"b": 2}')
    await download('hf://o/r')
    fetched()
    const copied = await download('hf://o/r', { to: join(home, 'copied') })
    t.true(readFileSync(join(copied.path, 'model.bin')).equals(LARGE))
    t.deepEqual(fetched(), [], 'the cache has them')
  })
})

test.serial("a cache that this user cannot write to: another user's, or read-only", async (t) => {
  if (!unix) return t.pass('permissions of Unix')
  const { home, cache, variables, run } = await hubWith(t)
  await run(() => download('hf://o/r', { filter: '*.json' }))
  const code = `
    import { download } from ${JSON.stringify(pathToFileURL('dist/hub.mjs').href)}
    const told = []
    for (const filter of ['*.json', '*.txt'])
      told.push(await download('hf://o/r', { filter }).then(({ files }) => files[0].isNew, ({ code, message }) => code + message))
    console.log(JSON.stringify(told))`
  // Root may write everywhere.
  const user = process.getuid() === 0 ? { uid: 65534, gid: 65534 } : {}
  chmodSync(join(home, '..'), 0o755)
  const folders = [cache, ...readdirSync(cache, { recursive: true }).map((name) => join(cache, name))]
  const modes = folders.filter((path) => lstatSync(path).isDirectory())
  for (const path of modes) chmodSync(path, 0o555)
  const env = { ...process.env, ...variables, HOME: home }
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { ...user, env, stdio: ['ignore', 'pipe', 'inherit'] }) // biome-ignore format: one call
  const [text] = await once(child.stdout, 'data')
  for (const path of modes) chmodSync(path, 0o755)
  const [there, refused] = JSON.parse(text)
  t.is(there, false)
  t.regex(refused, /^ZT_IO.*EACCES.*cannot write to '.*HF_HUB_CACHE/)
})

test.serial("remote.cache 'hub': opens and converts a model from files that it downloads once", async (t) => {
  const { path: at } = scratchFolder()
  const whole = at('whole.safetensors')
  await saveFile(whole, { a: new Float32Array(3000).fill(1), b: new Float32Array(3000).fill(2) })
  mkdirSync(at('model'))
  await convert(whole, at('model/model.safetensors'), { maxShardBytes: 13_000 })
  const names = readdirSync(at('model'))
  const files = Object.fromEntries(names.map((name) => [name, readFileSync(at(`model/${name}`))]))
  const more = { 'config.json': '{}', 'README.md': '# model', 'other/x.json': '{}' }
  const { hub, repository, run, fetched } = await hubWith(t, { ...files, ...more })
  const seen = []
  const remote = { cache: 'hub', onDownload: (progress) => seen.push(progress) }
  await run(async () => {
    const file = await open('hf://o/r', { remote })
    t.is(file.tensor('b').data[2999], 2, 'it is a local file')
    file.close()
    t.like(seen.at(-1), { files: 4, totalFiles: 4, remainingMs: 0 })
    const commit = hub.commitOf('o/r', 'main')
    t.deepEqual(readdirSync(join(repository, 'snapshots', commit)).sort(), [...names, 'config.json'].sort())
    fetched()
    await convert('hf://o/r', at('out.zt'), { source: { remote } })
    t.deepEqual(fetched(), [])
    const offline = await open('hf://o/r', { remote: { offline: true } })
    t.is(offline.size, 2)
    offline.close()
    // The folder of the cache opens as the model.
    const local = await open(repository)
    t.is(local.tensor('a').data[0], 1)
    local.close()
    const error = await rejectionOf(() => open(`${hub.url}/o/r/resolve/main/config.json`, { remote }))
    t.deepEqual([error.code, error.option], ['ZT_INVALID_ARG', 'remote.cache'])
  })
})
