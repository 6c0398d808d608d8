// `convert --rename`, `--cast` and `--dtype`: rules over names and dtypes.
import test from 'ava'
import { openSync } from 'ztensor'
import { run, safetensors, write } from '../helpers/command.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const source = write(
  'rules.safetensors',
  safetensors({
    'model.layers.0.norm': ['F32', [2], Float32Array.of(1, 2)],
    'model.layers.1.q': ['F32', [2], Float32Array.of(3, 4)],
    'model.head': ['F64', [1], Float64Array.of(5)],
    'model.half': ['BF16', [2]],
    'model.ids': ['I32', [1]],
  }),
)

/** Converts the source; the dtypes by name. */
async function converted(t, ...flags) {
  const target = scratchPath('rules.zt')
  const { code, stderr } = await run(['convert', source, target, ...flags])
  t.is(code, 0, stderr)
  const file = openSync(target)
  const found = Object.fromEntries([...file.values()].map(({ name, dtype }) => [name, dtype]))
  file.close()
  return found
}

async function refused(...flags) {
  const { code, stderr } = await run(['convert', source, scratchPath('rules.zt'), ...flags])
  return `${code} ${stderr}`
}

test('--rename inserts the text that each * matched; the first match wins', async (t) => {
  t.deepEqual(Object.keys(await converted(t, '--rename', 'model.layers.*.*=h.*.*', 'model.*=*')).sort(), [
    'h.0.norm',
    'h.1.q',
    'half',
    'head',
    'ids',
  ])
  t.true('m.head' in (await converted(t, '--rename', 'model.head=m.head')))
})

test('a collision of new names names both tensors', async (t) => {
  const message = await refused('--rename', 'model.layers.*=x')
  t.regex(message, /^2 .*"model\.layers\.0\.norm" and "model\.layers\.1\.q" would both be called "x" \(--rename\)/)
})

test('--dtype casts all floats, and --cast takes precedence', async (t) => {
  t.deepEqual(await converted(t, '--dtype', 'bf16'), {
    'model.layers.0.norm': 'bfloat16',
    'model.layers.1.q': 'bfloat16',
    'model.head': 'bfloat16',
    'model.half': 'bfloat16',
    'model.ids': 'int32',
  })
  t.like(await converted(t, '--dtype', 'f16', '--cast', '*.norm=f32', '--cast', 'f64=f32'), {
    'model.layers.0.norm': 'float32',
    'model.layers.1.q': 'float16',
    'model.head': 'float32',
  })
})

test('--cast takes dtypes, groups and names; the first match wins', async (t) => {
  t.like(await converted(t, '--cast', 'model.layers.*=f16', '--cast', 'float*=bf16', '--cast', 'int*=i64'), {
    'model.layers.0.norm': 'float16',
    'model.head': 'bfloat16',
    'model.ids': 'int64',
  })
  // A pattern of names that would match integers does not make them floats.
  t.like(await converted(t, '--cast', 'name:*=bf16'), { 'model.head': 'bfloat16', 'model.ids': 'int32' })
})

test('rejects invalid rules', async (t) => {
  for (const [flags, pattern] of [
    [['--cast', 'zz*=bf16'], /^2 ztensor: --cast: 'zz\*' matches no tensor/],
    [['--cast', 'flaot32=bf16'], /^2 ztensor: --cast: 'flaot32' is neither the name of a tensor nor of a dtype/],
    [['--cast', 'int32=bool'], /^2 ztensor: (tensor "model\.ids": )?int32 cannot be cast to bool/],
    [['--dtype', 'i64'], /^2 ztensor: .*dtype must be a floating-point dtype/],
    [['--rename', 'model.*=*.*'], /^2 ztensor: --rename model\.\*=\*\.\*: the new name has 2 \*, but the old one 1/],
    [['--rename', 'zz*=y*'], /^2 ztensor: --rename: 'zz\*' matches no tensor/],
  ]) {
    t.regex(await refused(...flags), pattern)
  }
})
