// Python and JavaScript clients of the Hugging Face Hub and this package on one cache, with a local hub.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { open } from 'ztensor'
import { download, listCache, removeCached, verifyCache } from 'ztensor/hub'
import { described, startHub } from '../__test__/remote/hub.mjs'
import { withVariables } from '../__test__/remote/variables.mjs'
import { environment } from './peers.mjs'
import { npmPackage } from './servers/programs.mjs'

const PYTHON = 'huggingface_hub==2.4.0'
/** The last one that continues a download that was killed. */
const OLDER_PYTHON = 'huggingface_hub==0.36.0'
const JAVASCRIPT = ['@huggingface/hub', '2.17.5']
const LARGE = Buffer.from(Uint8Array.from({ length: 30_000_000 }, (_, at) => (at * 7 + (at >> 8)) & 255))
const FILES = { 'config.json': '{"a": 1}', 'model.bin': LARGE, 'sub/tokenizer.json': '{}' }
const NAMES = Object.keys(FILES)

function claim(is, says) {
  if (!is) throw new Error(says)
}

const equal = (a, b, says) =>
  claim(JSON.stringify(a) === JSON.stringify(b), `${says}: ${JSON.stringify(a)}, not ${JSON.stringify(b)}`)

/** The bytes of each file below a snapshot. */
function checkFiles(folder, files = FILES) {
  for (const [name, bytes] of Object.entries(files))
    claim(readFileSync(join(folder, name)).equals(Buffer.from(bytes)), `${name} has other bytes`)
}

/** Starts a Python that answers calls. */
function startPython(python, script, env) {
  const child = spawn(python, [script], { stdio: ['pipe', 'pipe', 'ignore'], env: { ...process.env, ...env } })
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const answer = async () => {
    const { value, done } = await lines.next()
    if (done) throw new Error('Python ended early')
    return JSON.parse(value)
  }
  const send = (line) => child.stdin.write(`${JSON.stringify(line)}\n`)
  return {
    send,
    answer,
    call: async (name, given = {}) => {
      send([name, given])
      const { result, error } = await answer()
      if (error !== undefined) throw new Error(error)
      return result
    },
    kill: async () => {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
    stop: async () => {
      child.stdin.end()
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    },
  }
}

/** A hub, a cache and the clients. */
async function setup(given, options = {}) {
  const hub = await startHub({ 'o/r': { main: FILES } }, options)
  const home = mkdtempSync(join(tmpdir(), 'ztensor-hub-'))
  const variables = {
    HF_HOME: home,
    HF_ENDPOINT: hub.url,
    HF_HUB_DISABLE_TELEMETRY: '1',
    HF_HUB_DISABLE_PROGRESS_BARS: '1',
    ...given.variables,
  }
  const started = []
  const pythonOf = (python) => {
    const one = startPython(python, join(given.interop, 'hub_peer.py'), variables)
    started.push(one)
    return one
  }
  const cache = join(home, 'hub')
  return {
    hub,
    home,
    cache,
    variables,
    repository: join(cache, 'models--o--r'),
    python: pythonOf(given.python),
    older: () => pythonOf(given.older),
    run: (work) => withVariables(variables, work),
    /** Downloads all files with the JavaScript client. */
    javascript: async () => {
      const { snapshotDownload } = given.javascript
      const debug = console.debug
      console.debug = () => {}
      try {
        return await snapshotDownload({ repo: 'o/r', hubUrl: hub.url, cacheDir: cache })
      } finally {
        console.debug = debug
      }
    },
    /** Names of files whose bytes were requested since the last call. */
    fetched: () => [
      ...new Set(
        hub.asked
          .splice(0)
          .filter(({ method, path }) => method === 'GET' && /\/resolve\/|^\/storage\//.test(path))
          .map(({ path }) => path.split('/').at(-1)),
      ),
    ],
    stop: async () => {
      for (const one of started) await one.stop()
      await hub.close()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** The incomplete file of model.bin once it has bytes. */
async function incompleteOf(repository) {
  const deadline = Date.now() + 60_000
  for (;;) {
    const folder = join(repository, 'blobs')
    const names = existsSync(folder) ? readdirSync(folder).filter((blob) => blob.endsWith('.incomplete')) : []
    // A small file is renamed soon.
    const path = names
      .map((name) => join(folder, name))
      .find((one) => (statSync(one, { throwIfNoEntry: false })?.size ?? 0) > 1000)
    if (path !== undefined) return path
    if (Date.now() > deadline) throw new Error('no download has begun')
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** The entity tag of the large file in the storage. */
const TAG = `"${described('model.bin', LARGE).stored}"`

/** Answers requests for the storage with the first half of what they ask, and then nothing until `release` is called. */
function halving() {
  const held = []
  let isHolding = true
  const onRequest = (request, response, path) => {
    if (!isHolding || !path.startsWith('/storage/') || request.method !== 'GET') return false
    const [, first = '0', last = ''] = /(\d+)-(\d*)/.exec(request.headers.range ?? '') ?? []
    const end = last === '' ? LARGE.length : Number(last) + 1
    if (end - Number(first) < 2 ** 20) return false
    const headers = { 'content-length': end - Number(first), etag: TAG }
    if (request.headers.range === undefined) response.writeHead(200, headers)
    else {
      const range = `bytes ${first}-${end - 1}/${LARGE.length}`
      response.writeHead(206, { ...headers, 'content-range': range })
    }
    response.write(LARGE.subarray(Number(first), (Number(first) + end) >> 1))
    held.push(response)
    return true
  }
  const release = () => {
    isHolding = false
    for (const response of held) response.destroy()
  }
  return { onRequest, release }
}

const repo = { repo_id: 'o/r' }
const local = { ...repo, local_files_only: true }

/** What both sides must find, by name. Each gets its own setup. */
const SCENARIOS = {
  'Python finds what we downloaded, without the hub': async ({ python, run }) => {
    const { path } = await run(() => download('hf://o/r'))
    equal(await python.call('snapshot', local), path, 'the snapshot')
    checkFiles(path)
  },
  'Python fetches nothing that we downloaded': async ({ python, run, fetched }) => {
    const { path } = await run(() => download('hf://o/r'))
    fetched()
    equal(await python.call('snapshot', repo), path, 'the snapshot')
    equal(fetched(), [], 'fetched')
  },
  'we find what Python downloaded, online and offline': async ({ python, run, fetched }) => {
    const snapshot = await python.call('snapshot', repo)
    fetched()
    await run(async () => {
      const { path, files } = await download('hf://o/r')
      equal([path, files.filter(({ isNew }) => isNew)], [snapshot, []], 'the download')
      equal(fetched(), [], 'fetched')
      equal((await download('hf://o/r', { remote: { offline: true } })).path, snapshot, 'offline')
      equal((await verifyCache()).checked, 3, 'checked')
    })
  },
  'Python sees the cache as we do, without warnings': async ({ python, run, cache }) => {
    await run(async () => {
      await download('hf://o/r')
      const { repositories, warnings } = await python.call('scan', { folder: cache })
      const [{ byteLength, revisions }] = await listCache()
      equal(repositories, [['o/r', byteLength, revisions[0].files]], 'repositories')
      equal(warnings, [], 'warnings')
    })
  },
  'a filter: Python has these files, and not the others': async ({ python, run }) => {
    const { path } = await run(() => download('hf://o/r', { filter: '*.json' }))
    equal(await python.call('file', { ...local, filename: 'config.json' }), join(path, 'config.json'), 'the file')
    const error = await python.call('file', { ...local, filename: 'model.bin' }).catch(({ message }) => message)
    claim(error.startsWith('LocalEntryNotFoundError'), error)
  },
  'a branch that moves, downloaded by Python and then by us': async ({ python, run, hub, fetched }) => {
    await python.call('snapshot', repo)
    const files = { ...FILES, 'config.json': '{"a": 2}' }
    const commit = hub.commit('o/r', 'main', files)
    fetched()
    const { path } = await run(() => download('hf://o/r'))
    equal(fetched(), ['config.json'], 'fetched')
    equal(await python.call('snapshot', local), path, 'the snapshot')
    claim(path.endsWith(commit), 'another commit')
    checkFiles(path, files)
  },
  'a branch that moves, downloaded by us and then by Python': async ({ python, run, hub, fetched }) => {
    await run(() => download('hf://o/r'))
    const files = { ...FILES, 'sub/tokenizer.json': '{"b": 2}' }
    hub.commit('o/r', 'main', files)
    fetched()
    const snapshot = await python.call('snapshot', repo)
    equal(fetched(), ['tokenizer.json'], 'fetched')
    equal((await run(() => download('hf://o/r', { remote: { offline: true } }))).path, snapshot, 'offline')
    checkFiles(snapshot, files)
  },
  'a commit': async ({ python, run, hub }) => {
    const commit = hub.commitOf('o/r', 'main')
    const { path } = await run(() => download(`hf://o/r@${commit}`))
    equal(await python.call('snapshot', { ...local, revision: commit }), path, 'the snapshot')
  },
  'a tag, which has its own reference': async ({ python, run, hub }) => {
    hub.commit('o/r', 'v1.0', { 'config.json': '{}' })
    const { path } = await run(() => download('hf://o/r@v1.0'))
    equal(await python.call('snapshot', { ...local, revision: 'v1.0' }), path, 'the snapshot')
  },
  'a file that a commit does not have': async ({ python, run, cache }) => {
    await run(() => download('hf://o/r/config.json'))
    await run(() => download('hf://o/r/none.json')).catch(() => {})
    const given = { ...repo, filename: 'none.json', cache_dir: cache }
    equal(await python.call('missing', given), true, 'Python knows it')
  },
  'a separate folder, by us and then by Python': async ({ python, run, home, fetched }) => {
    const to = join(home, 'to')
    await run(() => download('hf://o/r', { to }))
    fetched()
    await python.call('snapshot', { ...repo, local_dir: to })
    equal(fetched(), [], 'fetched')
    checkFiles(to)
  },
  'a separate folder, by Python and then by us': async ({ python, run, home, fetched }) => {
    const to = join(home, 'to')
    await python.call('snapshot', { ...repo, local_dir: to })
    fetched()
    const { files } = await run(() => download('hf://o/r', { to }))
    equal([files.filter(({ isNew }) => isNew), fetched()], [[], []], 'fetched')
  },
  'we wait for a lock of Python, and use the blob that it wrote': async ({
    python,
    run,
    hub,
    repository,
    cache,
    fetched,
  }) => {
    await run(() => download('hf://o/r', { filter: 'model.bin' }))
    const files = await (await fetch(`${hub.url}/api/models/o/r/tree/main`)).json()
    const { oid } = files.find(({ path }) => path === 'config.json')
    python.send(['hold', { lock: join(cache, '.locks/models--o--r', `${oid}.lock`) }])
    equal(await python.answer(), 'locked', 'the lock')
    fetched()
    let isDone = false
    const downloading = run(() => download('hf://o/r/config.json')).then((result) => {
      isDone = true
      return result
    })
    // Two requests of the hub later it still waits.
    for (let at = 0; at < 2; at++) await (await fetch(`${hub.url}/api/models/o/r`)).text()
    claim(!isDone, 'it did not wait')
    python.send([join(repository, 'blobs', oid), FILES['config.json']])
    equal(await python.answer(), { result: 'released' }, 'the lock')
    const { files: done } = await downloading
    equal([done[0].isNew, fetched()], [false, []], 'fetched')
  },
  'Python waits for our lock, and fetches nothing': async ({ python, run, repository, fetched, release }) => {
    const ours = run(() => download('hf://o/r/model.bin'))
    await incompleteOf(repository)
    python.send(['file', { ...repo, filename: 'model.bin' }])
    release()
    const { path } = await ours
    equal((await python.answer()).result, path, 'the file')
    checkFiles(join(path, '..'), { 'model.bin': LARGE })
    fetched()
  },
  'both download at the same time': async ({ python, run }) => {
    python.send(['snapshot', repo])
    const { path } = await run(() => download('hf://o/r'))
    equal((await python.answer()).result, path, 'the snapshot')
    checkFiles(path)
  },
  'without links, by us': async ({ python, run }) => {
    const { path } = await run(() => download('hf://o/r'))
    claim(lstatSync(join(path, 'model.bin')).isFile(), 'a link')
    equal(await python.call('snapshot', local), path, 'the snapshot')
  },
  'without links, by Python': async ({ python, run, fetched }) => {
    const snapshot = await python.call('snapshot', repo)
    claim(lstatSync(join(snapshot, 'model.bin')).isFile(), 'a link')
    fetched()
    equal(
      (await run(() => download('hf://o/r'))).files.filter(({ isNew }) => isNew),
      [],
      'new files',
    )
    equal(fetched(), [], 'fetched')
  },
  'we continue a download of an older Python that was killed': async ({ older, run, repository, fetched, release }) => {
    const python = older()
    python.send(['file', { ...repo, filename: 'model.bin' }])
    const path = await incompleteOf(repository)
    await python.kill()
    release()
    const { length } = readFileSync(path)
    claim(length > 0 && length < LARGE.length, `${length} bytes`)
    fetched()
    checkFiles(join((await run(() => download('hf://o/r/model.bin'))).path, '..'), { 'model.bin': LARGE })
  },
  'an older Python continues a download of ours that was killed': async ({ older, variables, repository, release }) => {
    const code = `import { download } from ${JSON.stringify(pathToFileURL('dist/hub.mjs').href)}\nawait download('hf://o/r')`
    const env = { ...process.env, ...variables }
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], { env, stdio: 'ignore' })
    const path = await incompleteOf(repository)
    child.kill('SIGKILL')
    await once(child, 'exit')
    release()
    const arrived = readFileSync(path)
    claim(LARGE.subarray(0, arrived.length).equals(arrived), `the ${arrived.length} bytes are no prefix`)
    const python = older()
    checkFiles(join(await python.call('file', { ...repo, filename: 'model.bin' }), '..'), { 'model.bin': LARGE })
    claim(!existsSync(path), 'it did not continue')
  },
  'we remove a commit, and Python uses the other': async ({ python, run, hub, cache }) => {
    const old = hub.commitOf('o/r', 'main')
    await run(async () => {
      await download('hf://o/r')
      hub.commit('o/r', 'main', { ...FILES, 'config.json': '{"a": 2}' })
      const { path } = await download('hf://o/r')
      await removeCached(`hf://o/r@${old}`)
      equal(await python.call('snapshot', local), path, 'the snapshot')
      equal((await python.call('scan', { folder: cache })).warnings, [], 'warnings')
    })
  },
  'Python removes a commit, and we see the other': async ({ python, run, hub, cache }) => {
    const old = hub.commitOf('o/r', 'main')
    await run(async () => {
      await download('hf://o/r')
      const commit = hub.commit('o/r', 'main', { ...FILES, 'config.json': '{"a": 2}' })
      await download('hf://o/r')
      await python.call('delete', { folder: cache, commit: old })
      const [{ revisions }] = await listCache()
      equal(
        revisions.map((one) => one.commit),
        [commit],
        'commits',
      )
      equal((await verifyCache()).ok, true, 'verified')
    })
  },
  'JavaScript fetches nothing that we downloaded': async ({ javascript, run, fetched }) => {
    const { path } = await run(() => download('hf://o/r'))
    fetched()
    equal([await javascript(), fetched()], [path, []], 'the snapshot and what was fetched')
  },
  'we fetch nothing that JavaScript downloaded': async ({ javascript, run, fetched }) => {
    const snapshot = await javascript()
    fetched()
    const { path, files } = await run(() => download('hf://o/r'))
    equal([path, files.filter(({ isNew }) => isNew), fetched()], [snapshot, [], []], 'the download')
  },
  'a model that Python downloaded opens by its URL and by its folder in the cache': async ({
    python,
    run,
    repository,
  }) => {
    const snapshot = await python.call('snapshot', repo)
    await run(async () => {
      for (const source of ['hf://o/r/config.json', repository]) {
        const error = await open(source).catch((thrown) => thrown)
        claim(/config\.json|no tensor file|tensor/.test(error.message), error.message)
      }
    })
    claim(
      NAMES.every((name) => existsSync(join(snapshot, name))),
      'files',
    )
  },
}
/** Scenarios without links, and those for which the hub holds its responses. */
const WITHOUT_LINKS = ['without links, by us', 'without links, by Python']
const HELD = [
  'Python waits for our lock, and fetches nothing',
  'we continue a download of an older Python that was killed',
  'an older Python continues a download of ours that was killed',
]

/** Returns [{ what, error }] for each scenario. */
export async function compareHub({ build, python, interop }) {
  const current = await environment(join(build, 'venv-hub'), python, [PYTHON])
  const older = await environment(join(build, 'venv-hub-older'), python, [OLDER_PYTHON])
  const folder = await npmPackage(build, ...JAVASCRIPT)
  const javascript = await import(pathToFileURL(join(folder, 'dist/index.mjs')).href)
  const results = []
  for (const [what, scenario] of Object.entries(SCENARIOS)) {
    const variables = WITHOUT_LINKS.includes(what) ? { HF_HUB_DISABLE_SYMLINKS: '1' } : {}
    const holding = HELD.includes(what) ? halving() : undefined
    const given = { python: current, older, javascript, interop, variables }
    const made = await setup(given, holding === undefined ? {} : { onRequest: holding.onRequest })
    const release = () => holding?.release()
    let error
    await scenario({ ...made, release }).catch((thrown) => {
      error = thrown
    })
    await made.stop()
    results.push({ what, error })
  }
  return results
}
