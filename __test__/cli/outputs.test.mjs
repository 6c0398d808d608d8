// Files that commands write: never through a link, never into a pipe, and no command hangs.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import test from 'ava'
import { fixture, run } from '../helpers/command.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'

const unix = process.platform === 'win32' ? test.skip : test
const linux = process.platform === 'linux' ? test : test.skip
const MODEL = fixture('zt2-shapes.zt')

// Runs in the command's process before the command: creates links at every temporary name that the process id reveals.
const LINKS = `
  const { symlinkSync } = require('node:fs')
  const { output, folder, victim } = JSON.parse(process.env.LINKS)
  const names = Array.from({ length: 256 }, (_, at) => folder + '/.ztensor-' + process.pid + '-' + at + '.part')
  for (const name of [output + '.' + process.pid + '.part', output + '.' + process.pid + '.tmp', ...names]) symlinkSync(victim, name)
`

/** Runs a command that writes `output`, with links at temporary names that can be guessed. Returns its output and the remaining links. */
async function withLinks({ path }, output, args) {
  writeFileSync(path('victim'), 'mine')
  writeFileSync(path('links.cjs'), LINKS)
  const folder = dirname(path(output))
  const links = JSON.stringify({ output: path(output), folder, victim: path('victim') })
  const result = await run(args, { env: { NODE_OPTIONS: `--require ${path('links.cjs')}`, LINKS: links } })
  return { ...result, links: readdirSync(folder).filter((name) => name.endsWith('.part')) }
}

unix('view -o writes no file through a link at a name that can be guessed', async (t) => {
  const scratch = scratchFolder()
  for (const old of [undefined, '<!doctype html><meta name="generator" content="ztensor report">']) {
    if (old !== undefined) writeFileSync(scratch.path('r.html'), old)
    const { code, stderr, links } = await withLinks(scratch, 'r.html', ['view', MODEL, '-o', scratch.path('r.html')])
    t.is(code, 0, stderr)
    t.true(links.length > 0)
    t.is(readFileSync(scratch.path('victim'), 'utf8'), 'mine')
    t.true(readFileSync(scratch.path('r.html'), 'utf8').length > 10_000)
    t.false(lstatSync(scratch.path('r.html')).isSymbolicLink())
  }
  const written = scratch.names().filter((name) => !lstatSync(scratch.path(name)).isSymbolicLink())
  t.deepEqual(written, ['links.cjs', 'r.html', 'victim'])
})

unix('demo --overwrite writes no file through a link at a name that can be guessed', async (t) => {
  const scratch = scratchFolder()
  const { path } = scratch
  mkdirSync(path('d'))
  writeFileSync(path('d/model.zt'), 'old')
  const { code, stderr, links } = await withLinks(scratch, 'd/model.zt', ['demo', path('d'), '--overwrite'])
  t.is(code, 0, stderr)
  t.true(links.length > 0)
  t.is(readFileSync(path('victim'), 'utf8'), 'mine')
  t.false(lstatSync(path('d/model.zt')).isSymbolicLink())
  t.not(readFileSync(path('d/model.zt'), 'utf8'), 'old')
})

unix('a report keeps the access rights of the one that it replaces, and a link to it', async (t) => {
  const { path } = scratchFolder()
  for (const output of ['r.html', 'link.html']) {
    if (output === 'link.html') symlinkSync('r.html', path(output))
    t.is((await run(['view', MODEL, '-o', path(output)])).code, 0)
    if (output === 'r.html') chmodSync(path(output), 0o640)
    t.is(statSync(path('r.html')).mode & 0o777, 0o640)
  }
  t.true(lstatSync(path('link.html')).isSymbolicLink())
})

unix('a named pipe among the outputs is an error, with --overwrite too, and stays', async (t) => {
  const { path } = scratchFolder()
  mkdirSync(path('d'))
  const [found, replaced] = [
    /^ztensor: [^ ]+ is not a regular file/,
    /is a pipe, device or socket; only files can be replaced/,
  ]
  for (const [name, says, args] of [
    ['d/sparse.zt', found, ['demo', path('d')]],
    ['d/sparse.zt', found, ['demo', path('d'), '--overwrite']],
    ['r.html', found, ['view', MODEL, '-o', path('r.html')]],
    ['r.html', replaced, ['view', MODEL, '-o', path('r.html'), '--overwrite']],
  ]) {
    if (!existsSync(path(name))) execFileSync('mkfifo', [path(name)])
    const { code, stderr } = await run(args)
    t.is(code, 2, `${args}: ${stderr}`)
    t.regex(stderr, says)
    t.true(existsSync(path(name)))
  }
  t.deepEqual(readdirSync(path('d')), ['sparse.zt'])
})

linux('a folder that cannot be created is an error and does not hang: /proc', async (t) => {
  for (const args of [
    ['demo', '/proc/x'],
    ['demo', '/proc/x/y'],
    ['split', MODEL, '/proc/x/m.zt', '--max-shard-size', '1MB'],
    ['split', MODEL, '/proc/x/y/m.safetensors', '--max-shard-size', '1MB'],
  ]) {
    const { code, stderr } = await run(args)
    t.not(code, 0, args.join(' '))
    t.regex(stderr, /\/proc\/x/, args.join(' '))
  }
})

unix('folders that are missing are made, several levels of them', async (t) => {
  const { path } = scratchFolder()
  t.is((await run(['demo', join(path('a'), 'b/c')])).code, 0)
  t.true(existsSync(path('a/b/c/llama/model.safetensors.index.json')))
  t.is((await run(['split', MODEL, path('e/f/m.zt'), '--max-shard-size', '1MB'])).code, 0)
  t.true(existsSync(path('e/f/m.zt')))
})
