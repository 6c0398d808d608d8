// Calls that take a source take a file that is already open as well, and leave it open.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { convert, diff, open, openSync, saveFile, verify } from 'ztensor'
import { report } from 'ztensor/report'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const path = scratchPath('source.safetensors')
test.before(() => saveFile(path, { a: Float32Array.of(1, 2, 3), b: Int8Array.of(4) }))

test('convert, verify, diff and report accept an open file, and leave it open', async (t) => {
  for (const file of [openSync(path), openSync(readFileSync(path)), await open(path, { io: 'read' })]) {
    const [ours, theirs] = [scratchPath('ours.zt'), scratchPath('theirs.zt')]
    const result = await convert(file, ours, { cast: { float32: 'bfloat16' } })
    await convert(path, theirs, { cast: { float32: 'bfloat16' } })
    t.is(result.tensors, 2)
    t.true(readFileSync(ours).equals(readFileSync(theirs)))
    t.deepEqual(await verify(file), await verify(path))
    t.true((await diff(file, path)).same)
    t.regex(await report(file), /^<!doctype html>/i)
    t.false(file.closed)
    t.deepEqual(file.tensor('a').data, Float32Array.of(1, 2, 3))
    file.close()
    for (const call of [() => convert(file, scratchPath('never.zt')), () => verify(file)])
      t.is((await rejectionOf(call)).code, 'ZT_CLOSED')
  }
})

test('rejects options for opening with an open file', async (t) => {
  const file = openSync(path)
  const reason = new Error('enough')
  for (const [call, pattern] of [
    [() => verify(file, { format: 'safetensors' }), /format is an option for opening/],
    [() => convert(file, scratchPath('never.zt'), { source: { io: 'read' } }), /io is an option for opening/],
  ]) {
    const error = await rejectionOf(call)
    t.is(error.code, 'ZT_INVALID_ARG')
    t.regex(error.message, pattern)
  }
  for (const call of [
    () => verify(file, { signal: AbortSignal.abort(reason) }),
    () => convert(file, scratchPath('never.zt'), { signal: AbortSignal.abort(reason) }),
  ])
    t.is(await rejectionOf(call), reason)
  t.false(file.closed)
  file.close()
})
