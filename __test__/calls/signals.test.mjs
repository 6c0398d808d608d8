// Every public function that returns a promise takes a signal, and rejects with its reason: aborted before the call, and just after it.
import { getEventListeners, getMaxListeners, setMaxListeners } from 'node:events'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import test from 'ava'
import {
  append,
  compact,
  compare,
  convert,
  create,
  diff,
  editMetadata,
  loadFile,
  open,
  openSync,
  saveFile,
  verify,
} from 'ztensor'
import { download, list, listCache, removeCached, verifyCache } from 'ztensor/hub'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import { report, serveReport } from 'ztensor/report'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder, written } from '../helpers/sample-files.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { surface, titleOf, withoutSignal } from '../helpers/surface.mjs'
import { startHub } from '../remote/hub.mjs'

const VALUES = new Float32Array(2 ** 16).map((_, at) => at % 7)
const MATRIX = {
  shape: [2, 3],
  values: Float32Array.of(1, 2),
  indices: Uint32Array.of(0, 2),
  indptr: Uint32Array.of(0, 1, 2),
}
const LIST = { shape: [4], values: Float32Array.of(1, 2), coords: Uint32Array.of(1, 3) }
const BYTES = readFileSync(
  await written({ version: '2', canonical: false, compression: {} }, async (writer) => {
    await writer.add('w', VALUES)
    await writer.addCsr('m', MATRIX)
    await writer.addCoo('k', LIST)
  }),
)

const withFile = (call) => async (path, signal) => {
  const file = openSync(path)
  try {
    return await call(file, signal, path)
  } finally {
    file.close()
  }
}
/** A call of a writer created with the signal, which aborts only then. */
const withWriter = (begin) => (call) => async (path, signal) => {
  const writer = await begin(path, signal)
  try {
    await call(writer)
    await writer.finish()
  } finally {
    await writer.abort().catch(() => {})
  }
}
const creating = withWriter((path, signal) =>
  create(`${path}.new.zt`, { version: '2', canonical: false, signal, overwrite: true }),
)
const editing = withWriter((path, signal) => append(path, { signal }))
const w = (file) => file.tensor('w')

const hub = await startHub({ 'o/r': { main: { 'config.json': '{}' } } })
test.after.always(() => hub.close())
Object.assign(process.env, { HF_ENDPOINT: hub.url, HF_HUB_CACHE: scratchPath('cache') })

const CALLS = {
  download: (_path, signal) => download('hf://o/r', { to: scratchPath('to'), signal }),
  list: (path, signal) => list(dirname(path), { signal }),
  'list with headers': (path, signal) => list(dirname(path), { headers: true, signal }),
  'list of the hub': (_path, signal) => list('hf://o/r', { signal }),
  listCache: (_path, signal) => listCache({ signal }),
  verifyCache: (_path, signal) => verifyCache(undefined, { signal }),
  removeCached: async (_path, signal) => {
    const folder = scratchPath('cache')
    mkdirSync(join(folder, 'models--o--r'), { recursive: true })
    await removeCached('hf://o/r', { folder, signal })
  },
  open: async (path, signal) => (await open(path, { signal })).close(),
  'open, verifying': async (path, signal) => (await open(path, { verify: true, signal })).close(),
  'open of memory': async (_path, signal) => (await open(BYTES, { verify: true, signal })).close(),
  verify: (path, signal) => verify(path, { signal }),
  convert: (path, signal) => convert(path, `${path}.new.zt`, { overwrite: true, signal }),
  'planJob of a conversion': (path, signal) => planJob('convert', path, `${path}.new.zt`, { signal }),
  'planJob of a verification': (path, signal) => planJob('verify', path, { signal }),
  'planJob of statistics': (path, signal) => planJob('stats', path, { signal }),
  'runTask of a verification': async (path, signal) => runTask((await planJob('verify', path)).tasks[0], { signal }),
  'runTask of statistics': async (path, signal) => runTask((await planJob('stats', path)).tasks[0], { signal }),
  'runTask of a conversion': async (path, signal) =>
    runTask((await planJob('convert', path, `${path}.new.zt`)).tasks[0], { signal }),
  'finishJob of a verification': async (path, signal) => {
    const job = await planJob('verify', path)
    return finishJob(job, [await runTask(job.tasks[0])], { signal })
  },
  'finishJob of statistics': async (path, signal) => {
    const job = await planJob('stats', path)
    return finishJob(job, [await runTask(job.tasks[0])], { signal })
  },
  'finishJob of a conversion': async (path, signal) => {
    const job = await planJob('convert', path, scratchFolder().path('x.zt'))
    return finishJob(job, [await runTask(job.tasks[0])], { signal })
  },
  report: (path, signal) => report(path, { signal }),
  serveReport: async (path, signal) => (await serveReport(path, { signal })).close(),
  compact: (path, signal) => compact(path, { signal }),
  editMetadata: (path, signal) => editMetadata(path, { set: { a: 1 }, signal }),
  compare: withFile((file, signal) => compare(w(file), w(file), { signal })),
  diff: (path, signal) => diff(path, path, { signal }),
  loadFile: (path, signal) => loadFile(path, { signal }),
  saveFile: (path, signal) => saveFile(`${path}.new.zt`, { w: VALUES }, { signal, overwrite: true, format: 'zt' }),
  'tensor.load': withFile((file, signal) => w(file).load({ signal })),
  'tensor.load of a slice': withFile((file, signal) => w(file).load({ slice: [[1, 9]], signal })),
  'tensor.load as float32': withFile((file, signal) => w(file).load({ as: 'float32', signal })),
  'tensor.loadTo': withFile((file, signal) => w(file).loadTo(() => {}, { signal })),
  'tensor.take': withFile((file, signal) => w(file).take([0], { signal })),
  'tensor.loadCsr': withFile((file, signal) => file.tensor('m').loadCsr({ signal })),
  'tensor.loadCoo': withFile((file, signal) => file.tensor('k').loadCoo({ signal })),
  'tensor.verify': withFile((file, signal) => w(file).verify({ signal })),
  'tensor.stats': withFile((file, signal) => w(file).stats({ signal })),
  'tensor.nearest': withFile((file, signal) => file.tensor('m').nearest([1, 2, 3], { signal })),
  'component.load': withFile((file, signal) => w(file).components.get('data').load({ signal })),
  'file.load': withFile((file, signal) => file.load({ signal })),
  'file.verify': withFile((file, signal) => file.verify({ signal })),
  'file.verify of the form': withFile((file, signal) => file.verify({ canonical: true, signal })),
  'file.contentDigest': withFile((file, signal) => file.contentDigest('xxh3', { signal })),
  'file.prefetch': withFile((file, signal) => file.prefetch(undefined, { signal })),
  create: async (path, signal) => (await create(`${path}.new.zt`, { signal })).abort(),
  append: async (path, signal) => (await append(path, { signal })).abort(),
  'writer.add': creating((writer) => writer.add('x', VALUES)),
  'writer.addCsr': creating((writer) => writer.addCsr('x', MATRIX)),
  'writer.addCoo': creating((writer) => writer.addCoo('x', LIST)),
  'writer.addObject': creating((writer) =>
    writer.addObject('x', {
      layout: 'x.y/1',
      shape: [1],
      components: { data: { dtype: 'uint8', data: Uint8Array.of(1) } },
    }),
  ),
  'writer.link': (path, signal) =>
    withFile((file) => creating((writer) => writer.link('x', { file, tensor: 'w' }))(path, signal))(path, signal),
  'writer.finish': creating(() => {}),
  'editor.add': editing((editor) => editor.add('x', VALUES)),
  'editor.rename': editing((editor) => editor.rename('w', 'x')),
  'editor.remove': editing((editor) => editor.remove('w')),
  'editor.setMetadata': editing((editor) => editor.setMetadata({ a: 1 })),
  'editor.setTensorAttributes': editing((editor) => editor.setTensorAttributes('w', { a: 1 })),
}
/** Calls that end something have no signal. */
const ENDS = ['abort', 'close', '[Symbol.asyncDispose]']

for (const [what, call] of Object.entries(CALLS)) {
  test(`${what} rejects with the signal's reason, and leaves nothing behind`, async (t) => {
    for (const reason of [new Error('enough'), 'a text', 0]) {
      const path = scratchFile(BYTES, 'signaled.zt')
      t.is(await rejectionOf(() => call(path, AbortSignal.abort(reason))), reason, 'aborted before')
      const controller = new AbortController()
      const started = call(path, controller.signal)
      controller.abort(reason)
      t.is(await rejectionOf(() => started), reason, 'aborted after')
      t.true(readFileSync(path).equals(BYTES))
      t.deepEqual(
        readdirSync(dirname(path)).filter((name) => name.startsWith('signaled.zt.')),
        [],
      )
    }
    // a signal that never aborts changes nothing
    await call(scratchFile(BYTES, 'signaled.zt'), new AbortController().signal)
  })
}

test('an abort ends the writing of a file', async (t) => {
  const { names, path } = scratchFolder()
  for (const when of ['between two calls', 'in a call', 'before its turn']) {
    const controller = new AbortController()
    const writer = await create(path('x.zt'), { signal: controller.signal })
    const first = writer.add('first', new Float32Array(2 ** 22))
    if (when === 'between two calls') await first
    const second = when === 'before its turn' ? writer.finish() : undefined
    controller.abort('enough')
    if (when !== 'between two calls') t.is(await rejectionOf(() => first), 'enough', when)
    for (const call of [() => second ?? writer.finish(), () => writer.add('second', VALUES)])
      t.is(await rejectionOf(call), 'enough', when)
    await writer.abort()
    t.deepEqual(names(), [], when)
  }
})

/** Interfaces that the caller implements. */
const OF_CALLERS = ['ByteSource']

test('the tables cover every function that returns a promise', (t) => {
  const promising = surface.calls.filter(({ promises, owner }) => promises && !OF_CALLERS.includes(owner))
  t.true(promising.length > 40)
  const tried = (title) => Object.keys(CALLS).some((what) => what.split(/[ ,]/, 1)[0] === title)
  t.deepEqual(promising.filter((call) => !ENDS.includes(call.name) && !tried(titleOf(call))).map(titleOf), [])
})

test('every function that returns a promise takes a signal, or belongs to a class created with one', (t) => {
  const bound = ['TensorWriter', 'TensorEditor', ...OF_CALLERS]
  t.deepEqual(withoutSignal(surface, { bound, ends: ENDS }), [])
})

test.serial('many calls share one signal without a warning of Node, and a limit of the caller stays', async (t) => {
  const warnings = []
  const listen = (warning) => warnings.push(warning.name)
  process.on('warning', listen)
  const file = openSync(BYTES)
  const stop = new AbortController()
  const own = new AbortController()
  setMaxListeners(100, own.signal)
  await Promise.all(Array.from({ length: 40 }, () => file.load({ signal: stop.signal })))
  await Promise.all(Array.from({ length: 40 }, () => file.load({ signal: own.signal })))
  file.close()
  await new Promise(setImmediate)
  process.off('warning', listen)
  t.deepEqual(warnings, [])
  t.is(getMaxListeners(own.signal), 100)
  t.is(getEventListeners(stop.signal, 'abort').length, 0)
})
