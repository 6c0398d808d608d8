// `ztensor view`: the file that it writes, and what it never replaces.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import test from 'ava'
import { ended, missing, run, start, write } from '../helpers/command.mjs'
import { dataOf } from '../helpers/report-page.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const MODEL = 'examples/model.safetensors'

test('writes a report and prints its path', async (t) => {
  const path = scratchPath('report.html')
  const { code, stdout, stderr } = await run(['view', MODEL, '-o', path])
  t.is(stderr, '')
  t.is(code, 0)
  t.true(stdout.startsWith(`${path} (`))
  t.is(dataOf(readFileSync(path, 'utf8')).file.format, 'safetensors')
  t.deepEqual(
    readdirSync(dirname(path)).filter((name) => name.startsWith(basename(path)) && name.endsWith('.part')),
    [],
  )
})

test('replaces an existing report, and other files only with --overwrite', async (t) => {
  const path = scratchPath('report.html')
  await run(['view', MODEL, '-o', path, '--no-stats'])
  t.is((await run(['view', MODEL, '-o', path, '--no-stats'])).code, 0)
  writeFileSync(path, '<!doctype html><title>my page</title>')
  const { code, stderr } = await run(['view', MODEL, '-o', path])
  t.is(code, 2)
  t.regex(stderr, /ZT_EXISTS/)
  t.is(readFileSync(path, 'utf8'), '<!doctype html><title>my page</title>')
  t.is((await run(['view', MODEL, '-o', path, '--overwrite', '--no-stats'])).code, 0)
  t.false('found' in dataOf(readFileSync(path, 'utf8')))
})

test('compares two files, and writes to standard output', async (t) => {
  const { code, stdout } = await run(['view', MODEL, '--against', MODEL, '-o', '-'])
  t.is(code, 0)
  t.like(dataOf(stdout).diff, { changed: [], added: [], removed: [] })
})

test('fails like other commands, and leaves no file', async (t) => {
  const path = scratchPath('never.html')
  for (const [args, expected] of [
    [['view', missing(), '-o', path], /ZT_IO/],
    [['view', write('bad.zt', Buffer.from('no tensor file')), '-o', path], /ZT_BAD_MAGIC/],
    [['view', MODEL, '--against', missing(), '-o', path], /ZT_IO/],
    [['view', MODEL, '-o', '-', '--open'], /--open needs a file/],
    [['view', MODEL, '-o', `${path}/x/y.html`], /ZT_IO/],
    [['serve', MODEL, '--port', '70000'], /--port must be from 0 to 65535/],
    [['serve', MODEL, '--port', 'http'], /--port must be from 0 to 65535/],
  ]) {
    const { code, stderr } = await run(args)
    t.is(code, 2, args.join(' '))
    t.regex(stderr, expected)
  }
  t.throws(() => readFileSync(path), { code: 'ENOENT' })
})

const onPosix = process.platform === 'win32' ? test.skip : test

onPosix('Ctrl-C leaves no file', async (t) => {
  const path = scratchPath('stopped.html')
  const child = start(['view', MODEL, '-o', path])
  child.kill('SIGINT')
  const { code, signal } = await ended(child)
  // Before the command listens, the signal kills it; after its end, the work is done.
  t.true(code === 0 || code === 130 || signal === 'SIGINT')
  t.is(existsSync(path), code === 0)
})

test('--filter shows the matching tensors, and fails if there are none', async (t) => {
  const { code, stdout } = await run(['view', MODEL, '-o', '-', '--filter', 'lm_head.*', '--filter', '*.h.0.ln_1.*'])
  t.is(code, 0)
  const { tensors, file } = dataOf(stdout)
  t.deepEqual(tensors.names, ['lm_head.weight', 'transformer.h.0.ln_1.bias', 'transformer.h.0.ln_1.weight'])
  t.deepEqual(file.filter.globs, ['lm_head.*', '*.h.0.ln_1.*'])
  for (const args of [
    ['view', MODEL, '-o', scratchPath('never.html'), '--filter', 'none'],
    ['serve', MODEL, '--filter', 'none'],
  ]) {
    const none = await run(args)
    t.is(none.code, 1)
    t.regex(none.stderr, /--filter 'none' matches no tensor/)
  }
})
