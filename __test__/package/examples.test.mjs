// Every example runs from a shell, as a user runs it.
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { openSync } from 'ztensor'
import { ended } from '../helpers/command.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const folder = fileURLToPath(new URL('../../examples/', import.meta.url))
const model = `${folder}model.safetensors`
const start = (name, ...args) => spawn(process.execPath, [`${folder}${name}.mjs`, ...args], { stdio: 'pipe' })
const run = (...args) => ended(start(...args))

test('open: lists, aliases and prints tensors', async (t) => {
  const { code, stdout, stderr } = await run('open')
  t.is(code, 0, stderr)
  t.regex(stdout, /^safetensors .*tensors, \d+ bytes\n/)
  t.regex(stdout, canMap(4) ? /aliases the file/ : /weight runtime Float32Array/)
  t.regex(stdout, /min: -?[\d.]+/)
})

test('serve: returns the rows of a matrix', async (t) => {
  const file = openSync(model)
  const matrix = [...file.values()].find(({ shape }) => shape.length === 2)
  const server = start('serve', model, matrix.name)
  t.teardown(() => server.kill())
  const over = ended(server)
  const url = await new Promise((resolve, reject) => {
    let output = ''
    server.stdout.on('data', (text) => {
      output += text
      const found = /http:\S+/.exec(output)
      if (found !== null) resolve(found[0])
    })
    over.then(({ stderr }) => reject(new Error(`ended early: ${stderr}`)))
  })
  const row = await (await fetch(`${url}1`, { headers: { connection: 'close' } })).json()
  t.deepEqual(row, [...(await matrix.load({ as: 'float32', slice: [[1, 2]] }))])
  t.is((await fetch(`${url}nope`, { headers: { connection: 'close' } })).status, 404)
  server.kill()
  await over
  file.close()
})

test('convert: writes a valid file', async (t) => {
  const target = scratchPath('model.zt')
  const { code, stdout, stderr } = await run('convert', model, target)
  t.is(code, 0, stderr)
  t.regex(stdout, /\nsound: \d+ digests\n$/)
  openSync(target, { verify: true }).close()
})

test('append: adds two tensors', async (t) => {
  const path = await written({ version: '1.0' }, (writer) => writer.add('wte', Float32Array.of(1, 2)))
  const { code, stdout, stderr } = await run('append', path)
  t.is(code, 0, stderr)
  t.deepEqual(stdout.trim().split(' ').sort(), ['lora.a', 'step', 'wte'])
})

test('every example has a test', (t) => {
  const names = readdirSync(folder).filter((name) => name.endsWith('.mjs'))
  t.deepEqual(names.sort(), ['append.mjs', 'convert.mjs', 'open.mjs', 'serve.mjs'])
})
