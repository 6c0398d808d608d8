// Names, attributes and messages from hostile files: `ztensor` prints no control characters.
import test from 'ava'
import { SQUARE, zt12 } from '../corpus/zt.mjs'
import { json, run, safetensors, write } from '../helpers/command.mjs'

const lines = (text) => text.split('\n').filter((line) => line !== '')

const hostile = [
  '\x1b[2J\x1b[31mred',
  'forged\nrow  float32  [1]',
  'a\u202egnp.exe',
  'bell\x07\x08\x7f',
  '\x9b31m',
  'zero\u200bwidth\ufeff',
  '\u2028line',
  '\u{e0041}tag',
  'tab\tand"quote"',
  'back\\slash\\x1b',
  '',
  ' ',
  `pile${'\u0301'.repeat(40)}`,
  '__proto__',
]
const hostileTensors = Object.create(null)
for (const name of hostile) hostileTensors[name] = ['U8', [2]]
const hostileFile = write(
  'hostile.safetensors',
  safetensors(hostileTensors, { '\x1b]0;title\x07': '\x1b[2J\u202e', plain: 'line\nline' }),
)
// All characters that a terminal interprets or hides, except the newline at the end of our own lines.
const obeyed = /(?!\n)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|\p{M}{5}/u

test('no command prints control characters from a file', async (t) => {
  const commands = [
    ['ls', hostileFile],
    ['ls', hostileFile, '--json'],
    ['info', hostileFile],
    ['info', hostileFile, '--json'],
    ['verify', hostileFile],
    ['cat', hostileFile, hostile[0]],
    ['cat', hostileFile, hostile[0], '--json'],
  ]
  for (const args of commands) {
    const { code, stdout, stderr } = await run(args)
    t.is(code, 0, args.join(' '))
    t.notRegex(stdout, obeyed)
    t.is(stderr, '')
  }
  const { stderr } = await run(['cat', hostileFile, '\x1b[2J\x1b[31mreb'])
  t.notRegex(stderr, obeyed)
  t.regex(stderr, /\(ZT_NOT_FOUND\)/)
})

test('a failure prints the name of a hostile tensor escaped', async (t) => {
  const name = 'w\x1b[2J\n'
  const object = {
    shape: [2, 2],
    format: 'dense',
    components: { data: { dtype: 'f32', bytes: SQUARE, digest: 'crc32c:0x00000000' } },
  }
  const path = write('hostile-digest.zt', zt12({ [name]: object }))
  const { code, stdout } = await run(['verify', path])
  t.is(code, 1)
  t.notRegex(stdout, obeyed)
  t.is(lines(stdout).length, 2)
  const report = await run(['verify', path, '--json'])
  t.notRegex(report.stdout, obeyed)
  t.is(JSON.parse(report.stdout)[0].failures[0].tensor, name)
})

test('--json keeps hostile names exactly, and a row stays one line', async (t) => {
  const listed = await json(t, ['ls', hostileFile])
  t.deepEqual(
    listed.map((one) => one.name),
    hostile,
  )
  const { stdout } = await run(['ls', hostileFile])
  t.is(lines(stdout).length, hostile.length + 3)
})

test('cat accepts a name as ls prints it', async (t) => {
  const { stdout } = await run(['ls', hostileFile, '--sort', 'file'])
  const rows = lines(stdout).slice(1, -2)
  for (const [at, row] of rows.entries()) {
    const [, shown] = /^("(?:[^"\\]|\\.)*"|\S+) /.exec(row)
    const { name } = await json(t, ['cat', hostileFile, shown])
    t.is(name, hostile[at])
  }
})
