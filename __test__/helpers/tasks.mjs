// Helpers of the tests of tasks: models, a set of files to compare, and tasks as JSON.
import { readFileSync } from 'node:fs'
import { create } from 'ztensor'
import { runTask } from 'ztensor/jobs'
import { sample } from './sample-files.mjs'

/** A copy by way of JSON, as another machine receives it. */
export const sent = (value) => JSON.parse(JSON.stringify(value))

/** Tensors of odd sizes and several dtypes, whose names need care in JSON; the order of the file is not that of the names. */
export async function model(path, options = {}) {
  const writer = await create(path, { metadata: { license: 'MIT' }, ...options })
  for (let at = 0; at < 30; at++) {
    const dtype = ['float32', 'bfloat16', 'int8'][at % 3]
    const shape = [at % 4, 3 + at * 7]
    await writer.add(`layers.${at}.weight`, { dtype, shape, data: sample(dtype, shape, at) })
  }
  const data = sample('float32', [100], 7)
  for (const name of ['a "quoted" \\ name\n', 'ключ', '\u{1f600}', '\uffee'])
    await writer.add(name, { shape: [100], dtype: 'float32', data })
  await writer.finish()
  return path
}

/** Every task, in an unusual order. */
export async function runAll({ tasks }, options) {
  const results = []
  for (const task of tasks.toReversed?.() ?? [...tasks].reverse())
    results.push(sent(await runTask(sent(task), options)))
  return results
}

/** The files of a folder by their names. */
export const filesOf = ({ names, path }) =>
  Object.fromEntries(names().map((name) => [name, readFileSync(path(name)).toString('base64')]))
