// The command prints its own flag for each option that an error of the library names.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { openSync } from 'ztensor'
import { fixture, run } from '../helpers/command.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const root = fileURLToPath(new URL('../../', import.meta.url))
const one = fixture('st-dtypes.safetensors')

function* sources(folder, ending) {
  for (const name of readdirSync(join(root, folder), { recursive: true }))
    if (name.endsWith(ending)) yield readFileSync(join(root, folder, name), 'utf8')
}

const table = /const FLAGS[^{]*\{(.*?)\n\}/s.exec(readFileSync(join(root, 'cli/failure.ts'), 'utf8'))[1]
const flags = [...table.matchAll(/^ {2}'?([\w.]+)'?: '(.*)',$/gm)].map(([, option, flag]) => [option, flag])
const library = [...sources('crates', '.rs'), ...sources('src', '.rs'), ...sources('lib', '.ts')].join('\n')
const commands = [...sources('cli', '.ts')].join('\n')

test('each option of the table is one that errors name, and each flag exists', (t) => {
  t.true(flags.length > 20)
  for (const [option, flag] of flags) {
    t.true(library.includes(`'${option}'`) || library.includes(`"${option}"`), option)
    const [name] = /--[\w-]+/.exec(flag)
    t.regex(commands, new RegExp(`'${name}[ ']`), flag)
  }
})

for (const [title, args, says] of [
  [
    'a file that exists',
    ['convert', fixture('zt12-crc32c.zt'), scratchFile(Buffer.alloc(1), 'x.zt')],
    /exists already \(--overwrite\) \(ZT_EXISTS\)\n/,
  ],
  ['another format', ['ls', one, '--format', 'zt'], /this is safetensors, not zTensor \(--format\) \(ZT_BAD_MAGIC\)\n/],
  ['an unknown file', ['ls', scratchFile(Buffer.alloc(64, 0xa7), 'x.bin')], /\(--format\) \(ZT_BAD_MAGIC\)\n/],
  ['two hints at once', ['convert', one, scratchPath('x.npz')], / the source \(--skip, --cast\): /],
  [
    'an argument by its flag, and advice about another',
    ['convert', one, scratchPath('x.gguf'), '--no-checkpoint', '--requantize'],
    /^ztensor: --requantize has no effect without a quantization \(--quantize\) \(/,
  ],
  ['an argument', ['convert', one, scratchPath('x.zt'), '--skip', 'zz*'], /^ztensor: --skip: 'zz\*' matches no tensor/],
  [
    'a nested option',
    ['convert', one, scratchPath('x.npz'), '--compress', '12'],
    /^ztensor: the level of --compress must be from 1 to 9/,
  ],
  ['an option without a flag', ['ls', '~/none.zt'], /use the path of the home folder \(ZT_IO\)\n/],
]) {
  test(`an error prints flags instead of options: ${title}`, async (t) => {
    const { code, stderr } = await run(args)
    t.is(code, 2, stderr)
    t.regex(stderr, says)
    t.notRegex(stderr, /\boptions? /)
  })
}

test('each glob of --filter must match a tensor, of any of the files', async (t) => {
  const two = fixture('zt12-crc32c.zt')
  for (const args of [
    ['ls', one],
    ['ls', one, '--json'],
    ['info', one],
    ['stats', one],
    ['verify', one],
    ['verify', one, '--json'],
  ]) {
    for (const glob of ['nope', '!nope']) {
      const { code, stderr } = await run([...args, '--filter', '*', '--filter', glob])
      t.is(code, 1, args.join(' '))
      t.true(stderr.includes(`--filter '${glob}' matches no tensor`), stderr)
    }
    t.is((await run([...args, '--filter', '*'])).code, 0)
  }
  const file = openSync(one)
  const [name] = file.keys()
  file.close()
  t.is((await run(['ls', one, two, '--filter', name, '--filter', 't_*'])).code, 0)
})
