// How `ls`, `stats` and `info` use the width of a terminal.
import { spawnSync } from 'node:child_process'
import test from 'ava'
import { fixture, main, run, safetensors, write } from '../helpers/command.mjs'
import { checkpoint } from '../helpers/sharded.mjs'

const lines = (text) => text.trimEnd().split('\n')

const names = Array.from({ length: 12 }, (_, at) => `model.layers.${at}.self_attn.q_proj.weight`)
const layers = write(
  'layers.safetensors',
  safetensors(Object.fromEntries(names.map((name) => [name, ['BF16', [64, 64]]]))),
)

/** Runs the command in a terminal of 80 columns. */
function inTerminal(args) {
  const command = ['stty cols 80;', process.execPath, main, ...args].map((word) =>
    word.endsWith(';') ? word : `'${word}'`,
  )
  command[0] = 'stty cols 80;'
  const { stdout } = spawnSync('script', ['-qec', command.join(' '), '/dev/null'], {
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0', TERM: 'xterm' },
  })
  return stdout.replaceAll('\r', '')
}
const hasTerminal = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0
const inATerminal = hasTerminal ? test : test.skip

test('sorts names in natural order, and JSON in file order', async (t) => {
  const path = write(
    'order.safetensors',
    safetensors({ 'h.10': ['U8', [1]], 'h.2': ['U8', [1]], 'h.02': ['U8', [1]], a: ['U8', [1]], 'h.2.b': ['U8', [1]] }),
  )
  const listed = async (...args) =>
    lines((await run(['ls', path, ...args])).stdout)
      .slice(1, 6)
      .map((line) => line.split(' ')[0])
  t.deepEqual(await listed(), ['a', 'h.02', 'h.2', 'h.2.b', 'h.10'])
  t.deepEqual(await listed('--sort', 'file'), ['h.10', 'h.2', 'h.02', 'a', 'h.2.b'])
  const json = JSON.parse((await run(['ls', path, '--json'])).stdout)
  t.is(json[0].name, 'h.10')
})

test('a column of equal cells becomes a note, and ls and stats fit 80 columns', async (t) => {
  for (const command of ['ls', 'stats']) {
    const { stdout } = await run([command, layers])
    for (const line of lines(stdout)) t.true(line.length <= 80, line)
    t.true(stdout.includes(names[11]), 'names are whole')
    t.regex(stdout, /^all tensors: bfloat16, /m)
  }
  const short = await run(['ls', layers, '--short-dtypes'])
  t.regex(short.stdout, /^all tensors: bf16, dense, raw, no digests$/m)
  const info = await run(['info', layers, '--short-dtypes'])
  t.regex(info.stdout, /^dtypes +bf16: 12 tensors/m)
})

test('lists the file of each tensor of a sharded set', async (t) => {
  const { folder, path } = checkpoint({
    'model-00001-of-00002.safetensors': { a: [1], b: [2] },
    'model-00002-of-00002.safetensors': { c: [3] },
  })
  const { stdout } = await run(['ls', folder])
  t.deepEqual(lines(stdout), [
    'NAME  SHAPE  SIZE  FILE',
    'a     [1]     4 B  00001',
    'b     [1]     4 B  00001',
    'c     [1]     4 B  00002',
    'all tensors: float32, dense, raw, no digests',
    'files: model-*-of-00002.safetensors',
    '3 tensors, 12 B',
  ])
  const long = await run(['ls', folder, '--long'])
  t.regex(long.stdout, /^c .* model-00002-of-00002\.safetensors$/m)
  const json = JSON.parse((await run(['ls', folder, '--json'])).stdout)
  t.is(json.find(({ name }) => name === 'c').file, path('model-00002-of-00002.safetensors'))
  t.is(json[0].components[0].file, path('model-00001-of-00002.safetensors'))
})

const long = `${'x'.repeat(70)}.${'y'.repeat(70)}.weight`
const wide = write('wide-names.safetensors', safetensors({ [long]: ['F32', [4]], b: ['F32', [4]] }))

test('shortens nothing outside of a terminal', async (t) => {
  for (const command of ['ls', 'stats']) t.true((await run([command, wide])).stdout.includes(long))
})

inATerminal('a terminal shows both ends of long names', (t) => {
  for (const command of ['ls', 'stats']) {
    // Without the progress bar that a terminal shows first.
    const shown = lines(inTerminal([command, wide, ...(command === 'stats' ? ['--quiet'] : [])]))
    t.true(
      shown.some((line) => /^x+…y+\.weight /.test(line)),
      shown.join('\n'),
    )
    for (const line of shown) t.true(line.length <= 80, line)
  }
})

test('info prints the bits per weight of quantized tensors', async (t) => {
  const { stdout } = await run(['info', fixture('zt2-quantized.zt')])
  t.regex(stdout, /^bits\/weight +5\.01$/m)
  t.regex(stdout, /q8_0: 1 tensor, 68 B, 8\.5 bits per weight$/m)
  const json = JSON.parse((await run(['info', fixture('zt2-quantized.zt'), '--json'])).stdout)
  t.is(json.bitsPerWeight, 5.01)
  t.is(json.storageTypes.q4_k.bitsPerWeight, 4.5)
  t.false((await run(['info', layers])).stdout.includes('bits'))
})
