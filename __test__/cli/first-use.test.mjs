// First commands of a new user: several files, standard input, names of dtypes, targets in missing folders.
import { spawn, spawnSync } from 'node:child_process'
import { createReadStream, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import test from 'ava'
import { openSync, saveFile } from 'ztensor'
import { ended, fixture, main, missing, run, safetensors, write } from '../helpers/command.mjs'
import { scratchFolder, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const one = write('one.safetensors', safetensors({ a: ['F32', [2], Float32Array.of(1, 2)] }))
const two = write('two.safetensors', safetensors({ b: ['F32', [1], Float32Array.of(3)] }))

/** Runs `ztensor` with bytes on standard input. */
function runWithInput(bytes, ...args) {
  const child = spawn(process.execPath, [main, ...args], { stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.on('error', () => {})
  child.stdin.end(bytes)
  return ended(child)
}

test('ls lists several files separately, and as one with --join', async (t) => {
  const each = await run(['ls', one, two])
  t.is(each.code, 0, each.stderr)
  t.regex(
    each.stdout,
    /^.*one\.safetensors:\nNAME.*\na .*\nall .*\n1 tensor, 8 B\n\n.*two\.safetensors:\nNAME.*\nb .*\nall .*\n1 tensor, 4 B\n$/,
  )
  t.deepEqual(
    JSON.parse((await run(['ls', one, two, '--json'])).stdout).map(({ path, tensors }) => [
      path,
      tensors.map(({ name }) => name),
    ]),
    [
      [one, ['a']],
      [two, ['b']],
    ],
  )
  const joined = await run(['ls', one, two, '--join', '--json'])
  t.deepEqual(
    JSON.parse(joined.stdout).map(({ name }) => name),
    ['a', 'b'],
  )
})

test('info describes several files separately, and as one with --join', async (t) => {
  const described = JSON.parse((await run(['info', one, two, '--json'])).stdout)
  t.deepEqual(
    described.map(({ path, tensors }) => [path, tensors]),
    [
      [one, 1],
      [two, 1],
    ],
  )
  t.is(JSON.parse((await run(['info', one, two, '--json', '--join'])).stdout).tensors, 2)
})

test('reports a file that cannot be opened, and lists the others', async (t) => {
  const { code, stdout, stderr } = await run(['ls', missing(), two])
  t.is(code, 2)
  t.regex(stderr, /not-there\.zt.*\(ZT_IO\)/)
  t.regex(stdout, /^.*two\.safetensors:\n/)
})

test('- reads standard input', async (t) => {
  const bytes = readFileSync(one)
  t.regex((await runWithInput(bytes, 'ls', '-')).stdout, /^a +float32/m)
  t.regex((await runWithInput(bytes, 'cat', '-', 'a')).stdout, /\[1, 2\]/)
  t.is(JSON.parse((await runWithInput(bytes, 'info', '-', '--json')).stdout).tensors, 1)
  t.is((await runWithInput(bytes, 'verify', '-')).code, 0)
  const target = scratchPath('from-stdin.zt')
  const converted = await runWithInput(bytes, 'convert', '-', target)
  t.is(converted.code, 0, converted.stderr)
  t.is(openSync(target).size, 1)
  const truncated = await runWithInput(bytes.subarray(0, 20), 'ls', '-')
  t.is(truncated.code, 2)
  t.regex(truncated.stderr, /\(ZT_TRUNCATED\)/)
  t.regex((await runWithInput(bytes, 'ls', '--join', '-', one)).stderr, /\(ZT_INVALID_ARG\)/)
})

test('accepts a file: URL', async (t) => {
  t.regex((await run(['ls', pathToFileURL(one).href])).stdout, /^a +float32/m)
})

for (const [pair, dtype] of [
  ['fp32=bf16', 'bfloat16'],
  ['F32=F16', 'float16'],
  ['float32=f8_e4m3', 'float8_e4m3fn'],
  ['float=double', 'float64'],
]) {
  test(`--cast ${pair}`, async (t) => {
    const target = scratchPath('cast.zt')
    const { code, stderr } = await run(['convert', one, target, '--version', '2', '--cast', pair])
    t.is(code, 0, stderr)
    t.is(openSync(target).tensor('a').dtype, dtype)
  })
}

test('errors name the flags and list the dtypes', async (t) => {
  const cast = await run(['convert', one, scratchPath('x.zt'), '--cast', 'fp33=bf16'])
  t.is(cast.code, 2)
  t.regex(
    cast.stderr,
    /^ztensor: --cast: 'fp33' is neither the name of a tensor nor of a dtype \(float64, .*ZT_INVALID_ARG/,
  )
  const target = await run(['convert', one, scratchPath('x.zt'), '--cast', 'f32=bf17'])
  t.regex(target.stderr, /^ztensor: --cast: bf17 is not a dtype \(ZT_INVALID_ARG\)\n {2}Dtypes are float64, /)
  const there = scratchPath('there.zt')
  t.is((await run(['convert', one, there])).code, 0)
  const exists = await run(['convert', one, there])
  t.regex(exists.stderr, /exists already \(--overwrite\) \(ZT_EXISTS\)/)
  const refused = await run(['convert', fixture('zt101-sparse.zt'), scratchPath('sparse.safetensors')])
  t.regex(refused.stderr, /everything in the source \(--skip(, --cast)?\): /)
})

test('split creates the folder of its target, and removes it after a failure', async (t) => {
  const { path, names } = scratchFolder()
  const { code, stderr } = await run(['split', one, path('new/out/model.safetensors'), '--max-shard-size', '1GB'])
  t.is(code, 0, stderr)
  t.true(readdirSync(path('new/out')).length > 0)
  t.is((await run(['split', missing(), path('gone/model.safetensors'), '--max-shard-size', '1GB'])).code, 2)
  t.deepEqual(names(), ['new'])
})

test('other commands name the missing folder of a target', async (t) => {
  const target = scratchPath(join('nowhere', 'x.zt'))
  const { code, stderr } = await run(['convert', one, target])
  t.is(code, 2)
  t.regex(stderr, /target's folder '.*' does not exist: ENOENT.*nowhere.x\.zt/)
})

test('a target that ends with a slash is rejected before anything is read', async (t) => {
  for (const args of [
    ['convert', missing(), 'out/'],
    ['merge', 'out/', missing()],
  ]) {
    const { code, stderr } = await run(args)
    t.is(code, 2)
    t.regex(stderr, /out\/ ends with a separator.*\(ZT_INVALID_ARG\)/)
  }
})

test('convert lists the programs that can read the new file', async (t) => {
  const numbers = await written({ metadata: { epoch: 3 } }, (writer) => writer.add('a', Float32Array.of(1)))
  const texts = await written({ metadata: { epoch: '3' } }, (writer) => writer.add('a', Float32Array.of(1)))
  const readers = async (...args) => (await run(['convert', ...args])).stdout.match(/^read by: (.*)$/m)?.[1]
  t.is(await readers(numbers, scratchPath('a.zt')), 'ztensor')
  t.is(await readers(numbers, scratchPath('a.zt'), '--version', '1.2'), 'ztensor for Python 1.0.2 to 1.2.3, ztensor')
  t.is(await readers(texts, scratchPath('a.zt')), 'ztensor for Python 1.0.0 and 1.0.1, ztensor')
})

if (process.platform !== 'win32') {
  test('writes to devices and pipes, and does not replace them', async (t) => {
    const { path } = scratchFolder()
    const { code, stderr } = await run(['convert', one, '/dev/null', '--overwrite'])
    t.is(code, 0, stderr)
    t.true(lstatSync('/dev/null').isCharacterDevice())
    spawnSync('mkfifo', [path('pipe')])
    const read = createReadStream(path('pipe')).toArray()
    t.is((await run(['merge', path('pipe'), one, two, '--overwrite'])).code, 0)
    t.is(openSync(Buffer.concat(await read)).size, 2)
    t.true(lstatSync(path('pipe')).isFIFO())
  })

  const has = (shell) => spawnSync(shell, ['-c', 'true']).status === 0
  for (const shell of ['bash', 'zsh', 'fish']) {
    test(`completion ${shell} prints a script of that shell${has(shell) ? '' : ' (not run: the shell is not installed)'}`, async (t) => {
      const { code, stdout } = await run(['completion', shell])
      t.is(code, 0)
      for (const name of ['ls', 'convert', 'cat']) t.true(stdout.includes(name))
      if (has(shell)) t.is(spawnSync(shell, ['-n'], { input: stdout }).status, 0)
    })
  }

  test('bash completes commands, options and their values', async (t) => {
    const script = (await run(['completion', 'bash'])).stdout
    const complete = (...words) => {
      const before = words.at(-2)
      const call = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}
        _ztensor ztensor '${words.at(-1)}' '${before}'; printf '%s\\n' "$\{COMPREPLY[@]}"`
      return spawnSync('bash', ['-c', `${script}\n${call}`], { encoding: 'utf8' })
        .stdout.trim()
        .split('\n')
    }
    t.deepEqual(complete('ztensor', 'co'), ['convert', 'compact', 'completion'])
    t.deepEqual(complete('ztensor', 'ls', '--so'), ['--sort'])
    t.deepEqual(complete('ztensor', 'ls', '--sort', 'n'), ['name'])
    t.deepEqual(complete('ztensor', 'completion', ''), ['bash', 'zsh', 'fish'])
    t.deepEqual(complete('ztensor', 'ls', 'mod'), [''])
    t.deepEqual(complete('ztensor', 'quantize', 'a.gguf', 'b.gguf', 'q4_k'), ['q4_k_s', 'q4_k_m'])
    t.deepEqual(complete('ztensor', 'convert', 'a.gguf', 'b.gguf', '--quantize', 'iq4'), ['iq4_nl', 'iq4_xs'])
  })

  test('bash completes names of tensors, and runs nothing that a name says', async (t) => {
    const { path } = scratchFolder()
    const mark = path('ran')
    const names = ['h.0.weight', 'h.1.weight', 'wte', `$(touch ${mark})`, '`touch x`', 'a;b', '*']
    await saveFile(path('m.safetensors'), Object.fromEntries(names.map((name) => [name, new Float32Array(1)])))
    const script = (await run(['completion', 'bash'])).stdout
    const complete = (word) => {
      const call = `ztensor() { ${JSON.stringify(process.execPath)} ${JSON.stringify(main)} "$@"; }
        COMP_WORDS=(ztensor cat ${JSON.stringify(path('m.safetensors'))} '${word}'); COMP_CWORD=3
        _ztensor ztensor '${word}' x; printf '%s\\n' "$\{COMPREPLY[@]}"`
      return spawnSync('bash', ['-c', `${script}\n${call}`], { encoding: 'utf8' })
        .stdout.trim()
        .split('\n')
    }
    t.deepEqual(complete('h.'), ['h.0.weight', 'h.1.weight'])
    t.deepEqual(complete(''), ['h.0.weight', 'h.1.weight', 'wte'])
    t.false(existsSync(mark))
  })

  test('an unknown shell is rejected', async (t) => {
    const { code, stderr } = await run(['completion', 'tcsh'])
    t.is(code, 2)
    t.regex(stderr, /the shell must be one of bash, zsh, fish/)
  })
}

test('writes a target in an existing folder', async (t) => {
  const { path } = scratchFolder()
  mkdirSync(path('x'))
  const { code } = await run(['convert', one, path('x/y.zt')])
  t.is(code, 0)
})

test('options before the files: the error and the usage explain their position', async (t) => {
  for (const [flags, flag] of [
    [['--compress'], '--compress'],
    [['--cast', 'float32=float16'], '--cast'],
  ]) {
    const { code, stderr } = await run(['convert', ...flags, one, scratchPath('x.zt')])
    t.is(code, 2)
    t.true(stderr.includes(`Put ${flag} after the files.`), stderr)
  }
  t.true((await run(['convert', '--help'])).stdout.startsWith('Usage: ztensor convert <source> <target> [options]\n'))
})

test('rejects names and patterns that match no tensor, and writes nothing', async (t) => {
  const { path, names } = scratchFolder()
  for (const [flags, says, exit = 2] of [
    [['--filter', 'zz*'], "--filter 'zz*' matches no tensor", 1],
    [['--rename', 'nope=b'], "--rename: there is no tensor 'nope'"],
    [['--rename', 'zz*=b*'], "--rename: 'zz*' matches no tensor"],
    [['--cast', 'zz*=bf16'], "--cast: 'zz*' matches no tensor"],
  ]) {
    const { code, stderr } = await run(['convert', one, path('x.zt'), ...flags])
    t.is(code, exit)
    t.true(stderr.includes(says), stderr)
  }
  t.deepEqual(names(), [])
})

test('split names the index that opens all shards', async (t) => {
  const { path } = scratchFolder()
  const { stdout } = await run([
    'split',
    fixture('st-dtypes.safetensors'),
    path('model.safetensors'),
    '--max-shard-size',
    '100',
  ])
  t.regex(stdout, /^wrote {2}.*model\.safetensors\.index\.json and its shards: \d+ tensors\n/)
})

test('verify reports that a file has no digests to compare', async (t) => {
  t.regex((await run(['verify', one])).stdout, /^ok .*\nThe file has no digests: /)
  const all = (await run(['verify', one, fixture('zt12-crc32c.zt'), one])).stdout
  t.regex(all, /^ok .*\nok .*\nok .*\n2 files of 3 have no digests: .*\n$/)
  t.regex((await run(['verify', one, one])).stdout, /\nThe files have no digests: /)
  t.notRegex((await run(['verify', fixture('zt12-crc32c.zt')])).stdout, /no digests/)
})

test('diff reads standard input', async (t) => {
  const { code, stdout } = await runWithInput(readFileSync(one), 'diff', '-', one)
  t.is(code, 0)
  t.is(stdout, '1 tensor the same\n')
})

if (process.platform === 'linux') {
  test('does not report a failed write to standard output as a damaged file', async (t) => {
    for (const args of [
      ['verify', one],
      ['ls', one],
      ['convert', one, '-'],
    ]) {
      const child = spawnSync('/bin/sh', ['-c', '"$0" "$@" > /dev/full', process.execPath, main, ...args])
      t.is(child.status, 2, args[0])
      t.regex(String(child.stderr), /^ztensor: standard output: ENOSPC: .* \(ZT_IO\)\n$/)
    }
  })
}

test('errors of the library name flags', async (t) => {
  const options = [
    [['--version', '2', '--compress'], /a canonical file is not compressed \(--no-canonical\) /],
    [['--format', 'npz', '--compress', '12'], /the level of --compress must be from 1 to 9/],
  ]
  for (const [flags, says] of options) {
    const { code, stderr } = await run(['convert', one, scratchPath('x.zt'), ...flags])
    t.is(code, 2)
    t.regex(stderr, says)
  }
})
