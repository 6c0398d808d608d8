// Arguments of what is in neither of the other two, and a look at whether all functions are in one of the three.
import { readFileSync } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import test from 'ava'
import {
  diff,
  finishConvert,
  finishStats,
  finishVerify,
  globMatcher,
  loadFile,
  planConvert,
  planStats,
  planVerify,
  report,
  runTask,
  saveFile,
  serveReport,
} from 'ztensor'
import { square10, zt10 } from '../corpus/zt.mjs'
import { opened, tryHostile } from '../hostile.mjs'
import { scratchFile, scratchPath } from '../scratch.mjs'

const path = scratchFile(zt10({ w: square10() }))
const withFile = opened(path)
const target = scratchPath('planned.zt')
const [converting, verifying, counting] = await Promise.all([
  planConvert(path, target),
  planVerify(path),
  planStats(path),
])
const TASK = ['task', 'plain JSON']
const JOB = ['job', 'plain JSON', 'results']

const CALLS = [
  ['file.share options', ['options', 'memory'], withFile((file, value) => file.share(value))],
  ['file.share memory', ['memory'], withFile((file, value) => file.share({ memory: value }))],
  ['tensor.at indices', ['indices', 'ind'], withFile((file, value) => file.tensor('w').at(value, 0))],
  ['tensor.toArray options', ['options', 'maxElements'], withFile((file, value) => file.tensor('w').toArray(value))],
  [
    'tensor.createReadStream options',
    ['options', 'highWaterMark', 'signal'],
    withFile((file, value) => buffer(file.tensor('w').createReadStream(value))),
  ],
  ['diff a', ['a', 'source'], (value) => diff(value, path), 'path'],
  ['diff b', ['b', 'source'], (value) => diff(path, value), 'path'],
  ['diff options', ['options'], (value) => diff(path, path, value)],
  ['saveFile path', ['path', 'target'], (value) => saveFile(value, {}), 'path'],
  ['saveFile tensors', ['tensors', 'tensor', 'options'], (value) => saveFile(scratchPath(), value)],
  ['saveFile options', ['options'], (value) => saveFile(scratchPath(), {}, value)],
  ['loadFile source', ['source'], (value) => loadFile(value), 'path'],
  ['loadFile options', ['options'], (value) => loadFile(path, value)],
  ['planConvert source', ['source'], (value) => planConvert(value, target), 'path'],
  ['planConvert target', ['path', 'target'], (value) => planConvert(path, value), 'path'],
  ['planConvert options', ['options', 'option'], (value) => planConvert(path, target, value)],
  ['planConvert attributes', ['attributes'], (value) => planConvert(path, target, { attributes: value })],
  ['planVerify source', ['source'], (value) => planVerify(value), 'path'],
  ['planVerify options', ['options'], (value) => planVerify(path, value)],
  ['planStats source', ['source'], (value) => planStats(value), 'path'],
  ['planStats options', ['options', 'bins', 'range'], (value) => planStats(path, value)],
  ['runTask task', TASK, (value) => runTask(value)],
  ['runTask options', ['options'], (value) => runTask(verifying.tasks[0], value)],
  ['finishConvert job', JOB, (value) => finishConvert(value, [])],
  ['finishConvert results', JOB, (value) => finishConvert(converting, value)],
  ['finishConvert options', ['options', 'results'], (value) => finishConvert(converting, [], value)],
  ['finishVerify job', JOB, (value) => finishVerify(value, [])],
  ['finishVerify results', JOB, (value) => finishVerify(verifying, value)],
  ['finishVerify options', ['options', 'results'], (value) => finishVerify(verifying, [], value)],
  ['finishStats job', JOB, (value) => finishStats(value, [])],
  ['finishStats results', JOB, (value) => finishStats(counting, value)],
  ['finishStats options', ['options', 'results'], (value) => finishStats(counting, [], value)],
  ['report source', ['source'], (value) => report(value), 'path'],
  ['report against', ['source'], (value) => report(path, { against: value }), 'path'],
  ['report options', ['options'], (value) => report(path, value)],
  ['report statistics', ['statistics'], (value) => report(path, { statistics: value })],
  ['serveReport source', ['source'], async (value) => (await serveReport(value)).close(), 'path'],
  ['serveReport options', ['options'], async (value) => (await serveReport(path, value)).close()],
  ['serveReport port', ['port'], async (value) => (await serveReport(path, { port: value })).close()],
  ['globMatcher pattern', ['pattern'], (value) => void globMatcher(value)('w')],
  ['globMatcher name', ['name'], (value) => void globMatcher('*')(value)],
]
tryHostile(test, CALLS)

test('every function that takes arguments is tried', (t) => {
  const text = (name) => readFileSync(new URL(name, import.meta.url), 'utf8')
  const types = text('../../index.d.ts').replace(/\/\*\*[\s\S]*?\*\//g, '')
  const functions = /^\s*(?:export declare function )?([a-z]\w*)(?:<[^(\n]*>)?\([^)]/gm
  const taking = new Set([...types.matchAll(functions)].map(([, name]) => name))
  taking.delete('constructor') // none of them is to be called: see arguments.test.mjs
  for (const name of ['read', 'sibling']) taking.delete(name) // the caller's own: see remote/byte-source.test.mjs
  const cases = ['arguments', 'arguments-edits', 'arguments-rest'].map((name) => text(`${name}.test.mjs`))
  const tried = (name) => cases.some((text) => new RegExp(`['\`](?:\\w+\\.)?${name}[ ']`).test(text))
  t.true(taking.size > 30, [...taking].join())
  t.deepEqual(
    [...taking].filter((name) => !tried(name) && !['open', 'openSync', 'verify'].includes(name)),
    [],
  )
})
