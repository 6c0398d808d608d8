// Arguments of what is in neither of the other two, and a look at whether all functions are in one of the three.
import { readFileSync } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import test from 'ava'
import { diff, finishJob, globMatcher, loadFile, planJob, report, runTask, saveFile, serveReport } from 'ztensor'
import { square10, zt10 } from '../corpus/zt.mjs'
import { opened, tryHostile } from '../helpers/hostile-arguments.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const path = scratchFile(zt10({ w: square10() }))
const withFile = opened(path)
const target = scratchPath('planned.zt')
const [converting, verifying, counting] = await Promise.all([
  planJob('convert', path, target),
  planJob('verify', path),
  planJob('stats', path),
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
  ['planJob kind', ['kind'], (value) => planJob(value, path)],
  ['planJob convert source', ['source'], (value) => planJob('convert', value, target), 'path'],
  ['planJob convert target', ['path', 'target'], (value) => planJob('convert', path, value), 'path'],
  ['planJob convert options', ['options', 'option'], (value) => planJob('convert', path, target, value)],
  ['planJob convert attributes', ['attributes'], (value) => planJob('convert', path, target, { attributes: value })],
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
