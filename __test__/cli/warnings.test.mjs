// Every command prints the warnings of its files on standard error, and does not change standard output.
import { copyFileSync } from 'node:fs'
import test from 'ava'
import { convert, verify } from 'ztensor'
import { fixture, run } from '../helpers/command.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const file = fixture('zt10h-extension-format.zt')
const warning = /^(?:\S+: )?warning {2}ZT_WARN_UNKNOWN_LAYOUT {2}.*tensor "q": /m

for (const [command, ...args] of [
  ['ls', file],
  ['ls', file, '--json'],
  ['info', file],
  ['info', file, '--json'],
  ['verify', file],
  ['verify', file, '--json'],
  ['cat', file, 'q'],
  ['cat', file],
  ['stats', file],
  ['view', file, '-o', scratchPath('report.html')],
  ['diff', file, file],
  ['convert', file, scratchPath('copy.zt')],
  ['verify', file, '--plan'],
  ['stats', file, '--plan'],
]) {
  test(`${command} ${args.slice(1).join(' ').replaceAll(/\S*\//g, '')} prints warnings`, async (t) => {
    const { code, stdout, stderr } = await run([command, ...args])
    t.is(code, 0, stderr)
    t.regex(stderr, warning)
    t.notRegex(stdout, /^warning {2}/m)
  })
}

test('commands that edit print warnings', async (t) => {
  const path = scratchPath('edited.zt')
  copyFileSync(file, path)
  for (const args of [
    ['rename', path, 'q', 'q'],
    ['compact', path],
    ['remove', path, 'q'],
  ]) {
    const { stderr } = await run(args)
    t.regex(stderr, warning, args[0])
  }
})

test('prints the file before its warning for several files', async (t) => {
  for (const command of ['ls', 'info', 'verify', 'diff']) {
    const { stderr } = await run([command, file, fixture('zt12-dtypes.zt')])
    t.true(stderr.startsWith(`${file}: warning  ZT_WARN_UNKNOWN_LAYOUT`), command)
  }
})

test('warns about a part of a set', async (t) => {
  const { path } = scratchFolder()
  const part = path('m-00001-of-00002.zt')
  copyFileSync(fixture('zt12-dtypes.zt'), part)
  const { code, stderr } = await run(['ls', part])
  t.is(code, 0)
  t.regex(stderr, /^warning {2}ZT_WARN_INCOMPLETE_SET {2}.*m-00002-of-00002\.zt/m)
})

test('JSON results contain the warnings', async (t) => {
  const code = 'ZT_WARN_UNKNOWN_LAYOUT'
  t.is((await verify(file)).warnings[0].code, code)
  t.is((await convert(file, scratchPath('again.zt'))).warnings[0].code, code)
  const { stdout } = await run(['convert', file, scratchPath('third.zt'), '--json'])
  t.is(JSON.parse(stdout.trim().split('\n').at(-1)).warnings[0].code, code)
})
