// Arguments of functions that neither of the other two files covers, and a check that the three cover all functions.
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { buffer } from 'node:stream/consumers'
import test from 'ava'
import { compare, create, diff, loadFile, saveFile } from 'ztensor'
import { download, list, listCache, removeCached, verifyCache } from 'ztensor/hub'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import { report, serveReport } from 'ztensor/report'
import { sparse10, square10, zt10 } from '../corpus/zt.mjs'
import { KEYS, opened, tryHostile } from '../helpers/hostile-arguments.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { surface, titleOf } from '../helpers/surface.mjs'

const path = scratchFile(zt10({ w: square10(), ...sparse10() }))
const withFile = opened(path)
const withWriter = (call) => async (value) => {
  const writer = await create(scratchPath('written.zt'))
  try {
    return await call(writer, value)
  } finally {
    await writer.abort()
  }
}
/** A missing repository: the hub is not accessed. */
const HUB = 'hf://o/r'
Object.assign(process.env, { HF_HUB_OFFLINE: '1', HF_HUB_CACHE: scratchPath('cache') })
const ADD = ['options', 'attributes', 'attribute']
const target = scratchPath('planned.zt')
const [converting, verifying, counting] = await Promise.all([
  planJob('convert', path, target),
  planJob('verify', path),
  planJob('stats', path),
])
const ONE = Float32Array.of(1)
const TASK = ['task', 'plain JSON']
const JOB = ['job', 'plain JSON', 'results']

const streaming = async (writer, options) => {
  const stream = writer.stream('s', { dtype: 'uint8', shape: [1] }, options)
  stream.on('error', () => {})
  stream.destroy()
}

const CALLS = [
  ['file.share options', ['options', 'memory'], withFile((file, value) => file.share(value))],
  ['file.share memory', ['memory'], withFile((file, value) => file.share({ memory: value }))],
  ['tensor.at indices', ['indices', 'ind'], withFile((file, value) => file.tensor('w').at(value, 0))],
  ['tensor.toArray options', ['options', 'maxElements'], withFile((file, value) => file.tensor('w').toArray(value))],
  ['tensor.loadTo write', ['write'], withFile((file, value) => file.tensor('w').loadTo(value))],
  [
    'tensor.loadTo options',
    ['options', 'as', 'signal'],
    withFile((file, value) => file.tensor('w').loadTo(() => {}, value)),
  ],
  [
    'tensor.createReadStream options',
    ['options', 'highWaterMark', 'signal'],
    withFile((file, value) => buffer(file.tensor('w').createReadStream(value))),
  ],
  [
    'tensorSlice.toFloat32 options',
    ['options', 'into'],
    withFile((file, value) =>
      file
        .tensor('w')
        .slice([[0, 1]])
        .toFloat32(value),
    ),
  ],
  [
    'loadedTensor.toFloat32 options',
    ['options', 'into'],
    withFile(async (file, value) => (await file.load(['w'])).get('w').toFloat32(value)),
  ],
  ['cooTensor.toCsr options', ['options', 'maxBytes'], withFile((file, value) => file.tensor('k').coo().toCsr(value))],
  ['file.forEach self', [], withFile((file, value) => file.forEach(() => {}, value))],
  ['file.load names', ['names', 'options', ...KEYS], withFile((file, value) => file.load(value, {}))],
  ['file.contentDigest options', ['options', ...KEYS], withFile((file, value) => file.contentDigest('xxh3', value))],
  ['file.summary options', ['options', 'filter', ...KEYS], withFile((file, value) => file.summary(value))],
  ['tensor.nearest query', ['query'], withFile((file, value) => file.tensor('w').nearest(value))],
  [
    'tensor.nearest options',
    ['options', 'k', 'metric', ...KEYS],
    withFile((file, value) => file.tensor('w').nearest([1, 2], value)),
  ],
  ['file.evict options', ['names', 'options', ...KEYS], withFile((file, value) => file.evict(value))],
  [
    'writer.addCsr options',
    ADD,
    withWriter((writer, value) =>
      writer.addCsr(
        'm',
        { shape: [1, 1], values: ONE, indices: Uint32Array.of(0), indptr: Uint32Array.of(0, 1) },
        value,
      ),
    ),
  ],
  [
    'writer.addCoo name',
    ['name'],
    withWriter((writer, value) => writer.addCoo(value, { shape: [1], values: ONE, coords: Uint32Array.of(0) })),
  ],
  [
    'writer.addCoo options',
    ADD,
    withWriter((writer, value) => writer.addCoo('k', { shape: [1], values: ONE, coords: Uint32Array.of(0) }, value)),
  ],
  [
    'writer.addObject name',
    ['name'],
    withWriter((writer, value) =>
      writer.addObject(value, {
        layout: 'x',
        shape: [1],
        components: { data: { dtype: 'uint8', data: new Uint8Array(1) } },
      }),
    ),
  ],
  ['writer.stream options', ADD, withWriter((writer, value) => streaming(writer, value))],
  ['diff a', ['a', 'source'], (value) => diff(value, path), 'path'],
  ['diff b', ['b', 'source'], (value) => diff(path, value), 'path'],
  ['diff options', ['options'], (value) => diff(path, path, value)],
  ['saveFile path', ['path', 'target'], (value) => saveFile(value, {}), 'path'],
  ['saveFile tensors', ['tensors', 'tensor', 'options'], (value) => saveFile(scratchPath(), value)],
  ['saveFile options', ['options'], (value) => saveFile(scratchPath(), {}, value)],
  ['loadFile source', ['source'], (value) => loadFile(value), 'path'],
  ['loadFile options', ['options'], (value) => loadFile(path, value)],
  ['planJob kind', ['kind'], (value) => planJob(value, path)],
  ['planJob convert source', ['source'], (value) => planJob('convert', value, target), 'path'],
  ['planJob convert target', ['path', 'target'], (value) => planJob('convert', path, value), 'path'],
  ['planJob convert options', ['options', 'option'], (value) => planJob('convert', path, target, value)],
  ['planJob convert metadata', ['metadata'], (value) => planJob('convert', path, target, { metadata: value })],
  ['planJob verify source', ['source'], (value) => planJob('verify', value), 'path'],
  ['planJob verify options', ['options'], (value) => planJob('verify', path, value)],
  ['planJob stats source', ['source'], (value) => planJob('stats', value), 'path'],
  ['planJob stats options', ['options', 'bins', 'range'], (value) => planJob('stats', path, value)],
  ['runTask task', TASK, (value) => runTask(value)],
  ['runTask options', ['options'], (value) => runTask(verifying.tasks[0], value)],
  ['finishJob convert job', JOB, (value) => finishJob(value, [])],
  ['finishJob convert results', JOB, (value) => finishJob(converting, value)],
  ['finishJob convert options', ['options', 'results'], (value) => finishJob(converting, [], value)],
  ['finishJob verify job', JOB, (value) => finishJob(value, [])],
  ['finishJob verify results', JOB, (value) => finishJob(verifying, value)],
  ['finishJob verify options', ['options', 'results'], (value) => finishJob(verifying, [], value)],
  ['finishJob stats job', JOB, (value) => finishJob(value, [])],
  ['finishJob stats results', JOB, (value) => finishJob(counting, value)],
  ['finishJob stats options', ['options', 'results'], (value) => finishJob(counting, [], value)],
  ['report source', ['source'], (value) => report(value), 'path'],
  ['report against', ['source'], (value) => report(path, { against: value }), 'path'],
  ['report options', ['options'], (value) => report(path, value)],
  ['report statistics', ['statistics'], (value) => report(path, { statistics: value })],
  ['report title', ['title'], (value) => report(path, { title: value })],
  [
    'compare norms',
    ['norms'],
    withFile((file, value) => compare(file.tensor('w'), file.tensor('w'), { norms: value })),
  ],
  ['diff norms', ['norms'], (value) => diff(path, path, { norms: value })],
  ['diff rename', ['rename', 'pattern', 'new name'], (value) => diff(path, path, { rename: value })],
  ['file.summary filter', ['filter'], withFile((file, value) => file.summary({ filter: value }))],
  ['serveReport source', ['source'], async (value) => (await serveReport(value)).close(), 'path'],
  ['serveReport options', ['options'], async (value) => (await serveReport(path, value)).close()],
  ['serveReport port', ['port'], async (value) => (await serveReport(path, { port: value })).close()],
  ['download url', ['url', 'hf:'], (value) => download(value)],
  ['download options', ['options', 'url', 'hf:'], (value) => download(HUB, value)],
  ['download filter', ['filter', 'hf:'], (value) => download(HUB, { filter: value })],
  ['download to', ['to', 'hf:'], (value) => download(HUB, { to: value })],
  ['download remote', ['remote', 'hf:'], (value) => download(HUB, { remote: value })],
  ['list source', ['source'], (value) => list(value), 'path'],
  ['list options', ['options'], (value) => list(dirname(path), value)],
  ['listCache options', ['options'], (value) => listCache(value)],
  ['listCache folder', ['folder'], (value) => listCache({ folder: value }), 'path'],
  ['removeCached url', ['url', 'hf:'], (value) => removeCached(value)],
  ['removeCached options', ['options', 'hf:'], (value) => removeCached(HUB, value)],
  ['verifyCache url', ['url', 'hf:'], (value) => verifyCache(value)],
  ['verifyCache options', ['options', 'hf:'], (value) => verifyCache(HUB, value)],
  ['verifyCache remove', ['remove', 'hf:'], (value) => verifyCache(HUB, { remove: value })],
]
tryHostile(test, CALLS)

/** They accept any value, or the caller implements them: see open/objects.test.mjs, remote/byte-source.test.mjs. */
const isLeft = (call) => call.name === '[inspect.custom]' || call.owner === 'ByteSource'

test('the tables cover every argument of every function', (t) => {
  const cases = ['arguments', 'arguments-edits', 'arguments-rest'].map((name) =>
    readFileSync(new URL(`${name}.test.mjs`, import.meta.url), 'utf8'),
  )
  const wanted = surface.calls
    .filter((call) => !isLeft(call))
    .flatMap((call) => call.parameters.map(({ name }) => [titleOf(call), name]))
  t.true(wanted.length > 60)
  // Overloads that differ in kind name it: `planJob convert source`.
  const tried = ([title, name]) => cases.some((text) => new RegExp(`['\`]${title}( \\w+)? ${name}\\b`).test(text))
  t.deepEqual([...new Set(wanted.filter((one) => !tried(one)).map((one) => one.join(' ')))], [])
})
