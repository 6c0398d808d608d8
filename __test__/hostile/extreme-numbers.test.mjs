// Numbers of a file at the limits of integers: no call ends the process, and errors are ZTensorErrors with exact numbers.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { endingOf, FIELDS, NUMBERS } from '../helpers/extreme-numbers.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { indexText, shard } from '../helpers/sharded.mjs'

const PROGRAM = fileURLToPath(new URL('../helpers/extreme-numbers.mjs', import.meta.url))

/** Reads these files in a separate process, which reveals an abort. */
async function touched(t, paths, openings = ['path', 'memory', 'unbounded']) {
  const child = spawn(process.execPath, [PROGRAM, openings.join(), ...paths], { timeout: 240_000 })
  const [stdout, stderr, [status, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  t.deepEqual({ status, signal, stderr: stderr.slice(0, 2000) }, { status: 0, signal: null, stderr: '' })
  return JSON.parse(stdout)
}

/** Numbers that JavaScript rounded, or created from undefined. */
const INEXACT = /\bNaN\b|\bInfinity\b|\bundefined\b|\d[eE]\+\d/

function look(t, found) {
  for (const { path, how, outcomes } of found) {
    const where = `${path} (${how})`
    t.is(outcomes[0][0], 'open')
    for (const [what, code, message] of outcomes) {
      t.regex(code, /^(ok|ZT_[A-Z_]+)$/, `${where}: ${what}`)
      if (code !== 'ok') t.notRegex(message, INEXACT, `${where}: ${what}`)
    }
  }
}

for (const [format, fields] of Object.entries(FIELDS)) {
  test(`${format}: ${Object.keys(fields).join(', ')}`, async (t) => {
    const folder = scratchPath('borders')
    mkdirSync(folder)
    const paths = Object.entries(fields).flatMap(([field, build]) =>
      NUMBERS.map((number) => {
        const path = join(folder, `${field} ${number}.${endingOf(format)}`)
        writeFileSync(path, build(number))
        return path
      }),
    )
    const found = await touched(t, paths, format === 'shards' ? ['path', 'memory', 'without shards'] : undefined)
    look(t, found)
    t.true(found.some(({ outcomes }) => outcomes[0][1] !== 'ok'))
  })
}

test('an index of safetensors: total_size and total_parameters', async (t) => {
  const { path } = scratchFolder()
  writeFileSync(path('a.safetensors'), shard({ w: [1, 2, 3] }))
  const numbers = [...NUMBERS.map(String), '-1', '1e300', '0.5', '9'.repeat(400)]
  const paths = ['total_size', 'total_parameters'].flatMap((key) =>
    numbers.map((number) => {
      const index = path(`${key}-${number.slice(0, 40)}.safetensors.index.json`)
      writeFileSync(index, indexText({ w: 'a.safetensors' }).replace('{}', `{${JSON.stringify(key)}:${number}}`))
      return index
    }),
  )
  const found = await touched(t, paths, ['path', 'without shards'])
  look(t, found)
  t.true(found.some(({ how, outcomes }) => how === 'path' && outcomes[0][1] === 'ok'))
})

test('a root whose shards claim 2^60 bytes together: the root’s tensor can be read', async (t) => {
  // 17.9 kB. V8 aborts if a change of 2^60 bytes is reported to it.
  const path = scratchFile(FIELDS.shards['the sizes of 200 shards'](2n ** 53n - 1n), 'claims.zt')
  const [found] = await touched(t, [path], ['without shards'])
  look(t, [found])
  // The first results belong to the file and to `own`, the first tensor.
  const endings = new Map([...found.outcomes].reverse().map(([what, code]) => [what, code]))
  for (const what of ['open', 'data', 'load', 'verify', 'slice', 'stats']) t.is(endings.get(what), 'ok', what)
})
