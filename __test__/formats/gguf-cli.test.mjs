// What the command shows of a GGUF file.
import test from 'ava'
import { fixture, run } from '../helpers/command.mjs'

test('info shows the architecture, the context, the mix of types and the first line of the chat template', async (t) => {
  const { stdout, code } = await run(['info', fixture('gguf/types.gguf')])
  t.is(code, 0)
  t.regex(stdout, /^format +gguf 3$/m)
  t.regex(stdout, /^arch +llama$/m)
  t.regex(stdout, /^context +4,096$/m)
  t.regex(stdout, /^types +q2_k \d+ %, /m)
  t.regex(stdout, /^template +\{\{ bos_token \}\}\{% for message in messages %\}$/m)
})

test('ls lists block types with their shapes in elements', async (t) => {
  const { stdout, code } = await run(['ls', fixture('gguf/types.gguf')])
  t.is(code, 0)
  t.regex(stdout, /blk\.0\.iq2_xxs\.weight +iq2_xxs +\[3, 512\]/)
})
