// The output of the command for a GGUF file.
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { create } from 'ztensor'
import { fixture, run } from '../helpers/command.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint } from '../helpers/tiny-checkpoint.mjs'

test('info prints the architecture, the context, the mix of types and the first line of the chat template', async (t) => {
  const { stdout, code } = await run(['info', fixture('gguf/types.gguf')])
  t.is(code, 0)
  t.regex(stdout, /^every type, llama, 3\.3 bits per weight\npath /)
  t.regex(stdout, /^format +gguf 3$/m)
  t.regex(stdout, /^arch +llama$/m)
  t.regex(stdout, /^context +4,096$/m)
  t.regex(stdout, /^types +q6_k \d+ %, .*\(of the parameters\)$/m)
  t.regex(stdout, /^template +\{\{ bos_token \}\}\{% for message in messages %\}$/m)
})

test('ls lists block types with their shapes in elements', async (t) => {
  const { stdout, code } = await run(['ls', fixture('gguf/types.gguf')])
  t.is(code, 0)
  t.regex(stdout, /blk\.0\.iq2_xxs\.weight +iq2_xxs +\[3, 512\]/)
})

test('quantize takes the type after the target, like llama-quantize', async (t) => {
  const source = scratchPath('floats.gguf')
  const writer = await create(source, { metadata: { 'general.architecture': 'llama' } })
  await writer.add(
    'blk.0.ffn_up.weight',
    Float32Array.from({ length: 256 }, (_, at) => at),
    { shape: [4, 64] },
  )
  await writer.finish()
  const targets = []
  for (const args of [['q8_0'], ['Q8_0'], ['--type', 'q8_0']]) {
    const target = scratchPath(`${args.join('')}.gguf`)
    const { code, stderr } = await run(['quantize', source, target, ...args])
    t.is(code, 0, stderr)
    targets.push(readFileSync(target))
  }
  t.true(targets[0].equals(targets[1]) && targets[0].equals(targets[2]))
  for (const [args, says] of [
    [[], /no type to quantize to: ztensor quantize .* q4_k_m/],
    [['q8_0', '--type', 'q4_0'], /two types/],
    [['nothing'], /nothing/],
  ]) {
    const { code, stderr } = await run(['quantize', source, scratchPath('x.gguf'), ...args])
    t.is(code, 2)
    t.regex(stderr, says)
  }
})

test('the error of a missing tokenizer gives no advice about names of tensors', async (t) => {
  const { folder } = await checkpoint({ tokenizer: undefined })
  rmSync(join(folder, 'tokenizer.json'), { force: true })
  const { code, stderr } = await run(['convert', folder, scratchPath('x.gguf')])
  t.is(code, 2)
  t.regex(stderr, /tokenizer/)
  t.notRegex(stderr, /lists the names/)
})
