// The `ztensor` command: ls, info, verify, and behavior of all commands (errors, color, closed pipes). For `ztensor cat` see
// cli/cat.test.mjs, for hostile files cli/hostile.test.mjs.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { ended, fixture, json, missing, run, safetensors, start, write } from '../helpers/command.mjs'

const sidecar = (name) => JSON.parse(readFileSync(fixture(`${name}.json`), 'utf8'))
const package_ = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
const lines = (text) => text.split('\n').filter((line) => line !== '')
const controlSequence = '\x1b['

const three = write(
  'three.safetensors',
  safetensors({ b: ['F32', [4]], 'h.0.a': ['I64', [3, 2]], 'h.1.c': ['F16', [5]] }, { format: 'np' }),
)

/** A copy of a fixture with one flipped bit in the first component of `tensor`. */
async function corrupt(t, name, tensor) {
  const listed = await json(t, ['ls', fixture(name)])
  const { offset } = listed.find((one) => one.name === tensor)
  const bytes = readFileSync(fixture(name))
  bytes[offset] ^= 1
  return write(`corrupt-${name}`, bytes)
}

// ls

test('ls lists every tensor in file order, with a row of totals', async (t) => {
  const { code, stdout, stderr } = await run(['ls', three])
  t.is(code, 0)
  t.is(stderr, '')
  t.deepEqual(lines(stdout), [
    'NAME   DTYPE    SHAPE   SIZE',
    'b      float32  [4]     16 B',
    'h.0.a  int64    [3, 2]  48 B',
    'h.1.c  float16  [5]     10 B',
    'all tensors: dense, raw, no digests',
    '3 tensors, 74 B',
  ])
})

test('ls --json equals the sidecar of a zTensor file', async (t) => {
  const listed = await json(t, ['ls', fixture('zt12-crc32c.zt')])
  const byName = new Map(listed.map((one) => [one.name, one]))
  const { tensors } = sidecar('zt12-crc32c.zt')
  t.is(listed.length, tensors.length)
  for (const { name, dtype, shape, format, components } of tensors) {
    t.like(byName.get(name), { dtype, shape, layout: format, byteLength: components.data.nbytes })
  }
  for (const one of listed) {
    t.regex(one.digest, /^crc32c:/)
    t.is(typeof one.offset, 'number')
    t.true(one.encoding === 'raw' || one.encoding === 'zstd')
    t.deepEqual(Object.keys(one.components[0]), [
      'role',
      'dtype',
      'byteLength',
      'storedLength',
      'file',
      'offset',
      'encoding',
      'digest',
    ])
  }
})

test('ls --long prints all columns, and full digests', async (t) => {
  const crc = await run(['ls', '--long', fixture('zt12-crc32c.zt')])
  t.regex(crc.stdout, /^NAME +DTYPE +SHAPE +LAYOUT +SIZE +ENCODING +DIGEST +FILE$/m)
  t.regex(crc.stdout, /^t_float64 +float64 .* dense .* crc32c:0x[0-9A-F]{8} /m)
  const hashed = await run(['ls', '--long', fixture('zt10h-sha256.zt')])
  t.regex(hashed.stdout, / sha256:[0-9a-f]{64} /)
  const short = await run(['ls', fixture('zt12-crc32c.zt')])
  t.regex(short.stdout, /^all tensors: dense, crc32c digests$/m)
  const sparse = await run(['ls', fixture('zt101-sparse.zt')])
  t.regex(sparse.stdout, /^csr_float64 +float64 +\[6, 9\] +sparse_csr /m)
})

for (const [key, names] of [
  ['name', ['b', 'h.0.a', 'h.1.c']],
  ['size', ['h.0.a', 'b', 'h.1.c']],
  ['offset', ['b', 'h.0.a', 'h.1.c']],
  ['dtype', ['h.1.c', 'b', 'h.0.a']],
]) {
  test(`ls --sort ${key}`, async (t) => {
    const listed = await json(t, ['ls', three, '--sort', key])
    t.deepEqual(
      listed.map((one) => one.name),
      names,
    )
  })
}

for (const [glob, names] of [
  ['*', ['b', 'h.0.a', 'h.1.c']],
  ['h.*', ['h.0.a', 'h.1.c']],
  ['h.?.a', ['h.0.a']],
  ['?', ['b']],
  ['*.*.*', ['h.0.a', 'h.1.c']],
]) {
  test(`ls --filter ${glob}`, async (t) => {
    const listed = await json(t, ['ls', three, '--filter', glob])
    t.deepEqual(
      listed.map((one) => one.name),
      names,
    )
  })
}

test('every command exits with 1 if a filter matches nothing', async (t) => {
  for (const [command, ...rest] of [
    ['ls'],
    ['info'],
    ['verify'],
    ['stats'],
    ['stats', 'b'],
    ['diff', three],
    ['convert', missing()],
    ['split', missing(), '--max-shard-size', '1GB'],
  ]) {
    const { code, stderr } = await run([command, three, ...rest, '--filter', 'h[01]*'])
    t.is(code, 1, command)
    t.regex(stderr, /^ztensor: --filter 'h\[01\]\*' matches no tensor \(ZT_NOT_FOUND\)$/m)
  }
  const { code, stdout } = await run(['ls', three, '--filter', 'h', '--json'])
  t.is(code, 1)
  t.deepEqual(JSON.parse(stdout), [])
  const one = write('filtered.safetensors', safetensors({ h: ['U8', [1]] }))
  t.is((await run(['ls', three, one, '--filter', 'h'])).code, 0, 'one of the files has a match')
})

test('--filter selects in info, verify, stats and split', async (t) => {
  const info = await json(t, ['info', three, '--filter', 'h.*'])
  t.like(info, { tensors: 2, parameters: 11 })
  const crc = fixture('zt12-crc32c.zt')
  t.is((await json(t, ['verify', crc, '--filter', 't_*']))[0].checked, 13)
  t.is((await run(['verify', crc, '--filter', 't_*', '--canonical'])).code, 2)
  const nothing = await run(['verify', crc, '--filter', 'nope'])
  t.deepEqual([nothing.code, nothing.stdout], [1, `skipped  ${crc}: --filter matches no tensor\n`])
  const stats = await json(t, ['stats', three, '--filter', '!b'])
  t.deepEqual(
    stats.map(({ name }) => name),
    ['h.0.a', 'h.1.c'],
  )
})

test('ls --filter prints the number of matches and of tensors', async (t) => {
  const { stdout } = await run(['ls', three, '--filter', 'h.*'])
  t.is(lines(stdout).at(-1), '2 tensors of 3, 58 B')
})

test('ls prints only totals, or an empty array, for a file without tensors', async (t) => {
  const empty = write('empty.safetensors', safetensors({}))
  t.is((await run(['ls', empty])).stdout, '0 tensors, 0 B\n')
  t.deepEqual(await json(t, ['ls', empty]), [])
})

test('ls aligns columns after names in wide characters', async (t) => {
  const path = write(
    'wide.safetensors',
    safetensors({ 層の重み: ['U8', [1]], 'ascii-nm': ['U8', [1]], é: ['U8', [1]] }),
  )
  const { stdout } = await run(['ls', path])
  t.deepEqual(lines(stdout).slice(1, 4), ['ascii-nm  [1]     1 B', 'é         [1]     1 B', '層の重み  [1]     1 B'])
})

test('ls does not pad every row to one very long name', async (t) => {
  const long = 'x'.repeat(100_000)
  const path = write('long.safetensors', safetensors({ [long]: ['U8', [1]], short: ['U8', [1]] }))
  const { stdout } = await run(['ls', path])
  t.true(stdout.includes(long))
  t.true(lines(stdout).find((line) => line.startsWith('short')).length < 200)
})

const many = write(
  'many.safetensors',
  safetensors(Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`layer.${i}.weight`, ['U8', [1]]]))),
)

test('ls lists 100,000 tensors', async (t) => {
  const { code, stdout } = await run(['ls', many])
  t.is(code, 0)
  const listed = lines(stdout)
  t.is(listed.length, 100_003)
  t.true(listed[100_000].startsWith('layer.99999.weight'))
  t.is(listed.at(-1), '100,000 tensors, 97.7 KiB')
})

test('ls exits silently if the reader closes the pipe', async (t) => {
  for (const args of [
    ['ls', many],
    ['ls', many, '--json'],
  ]) {
    const child = start(args)
    const end = ended(child)
    child.stdout.once('data', () => child.stdout.destroy())
    const { code, signal, stderr } = await end
    t.is(stderr, '')
    t.is(signal, null)
    t.is(code, 0)
  }
})

// info

test('info describes a file on one screen', async (t) => {
  const { code, stdout } = await run(['info', three])
  t.is(code, 0)
  t.true(stdout.includes('format      safetensors\n'))
  t.regex(stdout, /^size {8}\d+ B \(\d+ bytes\)$/m)
  t.regex(stdout, /^tensors {5}3$/m)
  t.regex(stdout, /^parameters {2}15$/m)
  t.regex(stdout, /^dtypes {6}int64: 1 tensor, 48 B\n {12}float32: 1 tensor, 16 B\n {12}float16: 1 tensor, 10 B$/m)
  t.regex(stdout, /^layouts {5}dense: 3 tensors, 74 B$/m)
  t.regex(stdout, /^encodings {3}raw: 3 tensors, 74 B$/m)
  t.regex(stdout, /^metadata\n {2}format: np$/m)
})

test('info --json', async (t) => {
  const described = await json(t, ['info', three])
  t.like(described, {
    format: 'safetensors',
    version: null,
    byteLength: readFileSync(three).length,
    tensors: 3,
    parameters: 15,
    storageTypes: { int64: { tensors: 1, parameters: 6, byteLength: 48, share: 0.4, bitsPerWeight: 64 } },
    layouts: { dense: { tensors: 3, byteLength: 74 } },
    encodings: { raw: { tensors: 3, byteLength: 74 } },
    metadata: { format: 'np' },
    warnings: [],
  })
})

test('info --json has every attribute, including a key called __proto__', async (t) => {
  const { version, metadata: attributes } = await json(t, ['info', fixture('zt10h-attributes.zt')])
  t.is(version, '1.0')
  t.deepEqual(Object.entries(attributes), Object.entries(sidecar('zt10h-attributes.zt').attributes))
})

test('info shortens a long attribute', async (t) => {
  const path = write('attribute.safetensors', safetensors({}, { vocabulary: 'v'.repeat(10_000) }))
  const { stdout } = await run(['info', path])
  t.regex(stdout, /^ {2}vocabulary: v{50,120}…$/m)
})

test('info shows the warnings of a file', async (t) => {
  const file = fixture('zt10h-extension-format.zt')
  const { stdout, stderr } = await run(['info', file])
  t.regex(stdout, /^warnings +1, on standard error$/m)
  t.regex(stderr, /^warning {2}ZT_WARN_UNKNOWN_LAYOUT {2}tensor "q": \S/m)
  const { warnings } = JSON.parse((await run(['info', file, '--json'])).stdout)
  t.like(warnings[0], { code: 'ZT_WARN_UNKNOWN_LAYOUT', tensor: 'q' })
})

// verify

test('verify accepts a valid file and counts components without a digest', async (t) => {
  const { code, stdout, stderr } = await run(['verify', fixture('zt12-crc32c.zt'), three])
  t.is(code, 0)
  t.is(stderr, '')
  const [zt, st] = lines(stdout)
  t.regex(zt, /^ok {2}.*zt12-crc32c\.zt: 26 digests checked, 0 components without one$/)
  t.regex(st, /^ok {2}.*three\.safetensors: 0 digests checked, 3 components without one$/)
})

test('verify reports failures and exits with 1', async (t) => {
  const path = await corrupt(t, 'zt12-crc32c.zt', 't_int32')
  const { code, stdout, stderr } = await run(['verify', path])
  t.is(code, 1)
  t.is(stderr, '')
  const [head, failure, ...rest] = lines(stdout)
  t.regex(head, /^FAILED {2}.*: 26 digests checked, 0 components without one, 1 failure$/)
  t.regex(failure, /^ {2}ZT_DIGEST_MISMATCH {2}tensor "t_int32", component "data": (?!tensor)\S/)
  t.deepEqual(rest, [])
})

test('verify --json', async (t) => {
  const path = await corrupt(t, 'zt12-crc32c.zt', 't_int32')
  const { code, stdout } = await run(['verify', path, three, '--json'])
  t.is(code, 1)
  const [bad, good] = JSON.parse(stdout)
  t.like(bad, { path, ok: false, undigested: 0 })
  t.is(bad.failures.length, 1)
  t.like(bad.failures[0], { code: 'ZT_DIGEST_MISMATCH', tensor: 't_int32', component: 'data' })
  t.is(typeof bad.failures[0].message, 'string')
  t.like(good, { path: three, ok: true, undigested: 3, failures: [] })
})

test('verify continues after a damaged or missing file', async (t) => {
  const damaged = write('damaged.zt', readFileSync(fixture('zt12-crc32c.zt')).subarray(0, -1))
  const unsound = await run(['verify', damaged, three])
  t.is(unsound.code, 1)
  t.regex(unsound.stdout, /^FAILED {2}.*damaged\.zt\n {2}ZT_\w+ {2}.+\nok {2}.*three/)

  const unread = await run(['verify', missing(), damaged, three])
  t.is(unread.code, 2)
  t.regex(
    unread.stdout,
    /^FAILED {2}.*not-there\.zt\n {2}ZT_IO {2}.+\nFAILED {2}.*damaged\.zt\n {2}ZT_\w+ {2}.+\nok {2}/,
  )
})

// On Windows, SIGINT ends a process immediately.
if (process.platform !== 'win32') {
  test('Ctrl-C stops verify between two files, with exit code 130', async (t) => {
    // Their lines exceed the buffer of a pipe, which is not read until the signal is sent: it cannot come too late.
    const child = start(['verify', ...Array(5_000).fill(three)])
    const end = ended(child)
    child.stdout.once('data', () => {
      child.stdout.pause()
      child.kill('SIGINT')
      child.stdout.resume()
    })
    const { code, signal, stdout, stderr } = await end
    t.is(signal, null)
    t.is(code, 130)
    t.is(stderr, '')
    t.true(lines(stdout).length < 5_000)
  })
}

// The whole command

test('--version prints the version of the package', async (t) => {
  const { code, stdout } = await run(['--version'])
  t.is(code, 0)
  t.is(stdout, `${package_.version}\n`)
})

for (const command of [undefined, 'ls', 'info', 'verify', 'cat']) {
  const args = command === undefined ? ['--help'] : [command, '--help']
  test(`ztensor ${args.join(' ')} has examples`, async (t) => {
    const { code, stdout, stderr } = await run(args)
    t.is(code, 0)
    t.is(stderr, '')
    t.true(stdout.startsWith(`Usage: ztensor ${command ?? '[options] [command]'}`))
    t.true(stdout.includes(`\nExamples:\n  $ ztensor ${command ?? 'ls'} `))
  })
}

test('without a command, prints the help to standard error and exits with 2', async (t) => {
  const { code, stdout, stderr } = await run([])
  t.is(code, 2)
  t.is(stdout, '')
  t.true(stderr.startsWith('Usage: ztensor'))
})

for (const [what, args, pattern] of [
  ['a missing file', () => ['ls', missing()], /^ztensor: .*not-there\.zt.* \(ZT_IO\)$/],
  ['a folder', () => ['info', fixture('.')], /^ztensor: .* \(ZT_IO\)$/],
  [
    'a file of no known format',
    () => ['info', write('text.txt', 'just some text, no tensors in it')],
    /^ztensor: .* \(ZT_BAD_MAGIC\)$/,
  ],
  [
    'a truncated file',
    () => ['ls', write('cut.zt', readFileSync(fixture('zt12-dtypes.zt')).subarray(0, -1))],
    /^ztensor: .* \(ZT_TRUNCATED\)$/,
  ],
  ['a missing tensor', () => ['cat', three, 'h.0.b'], /^ztensor: .*h\.0\.b.* \(ZT_NOT_FOUND\)$/],
  ['an unknown option', () => ['ls', three, '--color'], /^ztensor: unknown option '--color' \(ZT_INVALID_ARG\)$/],
  ['an unknown command', () => ['dump', three], /^ztensor: unknown command 'dump' \(ZT_INVALID_ARG\)$/],
  ['a missing argument', () => ['rename', three], /^ztensor: missing required argument 'old' \(ZT_INVALID_ARG\)$/],
  ['a missing name', () => ['cat', three], /^ztensor: the file has 3 tensors: name one of them \(ZT_INVALID_ARG\)$/],
  [
    'an unknown sort key',
    () => ['ls', three, '--sort', 'weight'],
    /^ztensor: .*'weight' is invalid.* \(ZT_INVALID_ARG\)$/,
  ],
  ['an unknown format', () => ['ls', three, '--format', 'none'], /^ztensor: .*'none' is invalid.* \(ZT_INVALID_ARG\)$/],
  ['a file of another format than the given one', () => ['ls', three, '--format', 'btf'], /^ztensor: .* \(ZT_\w+\)$/],
]) {
  test(`${what}: prints one line with the code, and exits with 2`, async (t) => {
    const { code, stdout, stderr } = await run(args())
    t.is(code, 2)
    t.is(stdout, '')
    const [message, ...hints] = lines(stderr)
    t.regex(message, pattern)
    for (const hint of hints) t.regex(hint, /^ {2}(?!at )\S/)
  })
}

test('--format reads a file as the given format', async (t) => {
  const listed = await json(t, ['ls', fixture('btf-dense.btf'), '--format', 'btf'])
  t.is(listed.length, sidecar('btf-dense.btf').tensors.length)
  t.is((await json(t, ['info', fixture('btf-dense.btf'), '--format', 'btf'])).format, 'btf')
  const { code } = await run(['verify', fixture('btf-dense.btf'), '--format', 'btf'])
  t.is(code, 0)
})

for (const [env, colored] of [
  [{}, false],
  [{ FORCE_COLOR: '1' }, true],
  [{ FORCE_COLOR: '0' }, false],
  [{ NO_COLOR: '1' }, false],
  [{ NO_COLOR: '1', FORCE_COLOR: '1' }, true],
]) {
  test(`color with ${JSON.stringify(env)} and no terminal: ${colored}`, async (t) => {
    for (const args of [
      ['ls', three],
      ['info', three],
      ['verify', three],
      ['cat', three, 'b'],
    ]) {
      const { stdout } = await run(args, { env })
      t.is(stdout.includes(controlSequence), colored, args[0])
    }
    const { stderr } = await run(['ls', missing()], { env })
    t.is(stderr.includes(controlSequence), colored)
    const { stdout } = await run(['ls', three, '--json'], { env })
    t.false(stdout.includes(controlSequence))
  })
}

test('stats --csv prints a table with a header, in full precision', async (t) => {
  const path = write(
    'csv.safetensors',
    safetensors({ 'a,"b"': ['F32', [3], Float32Array.of(0, 0.1, Number.NaN)], c: ['I64', [1], BigInt64Array.of(7n)] }),
  )
  const { code, stdout, stderr } = await run(['stats', path, '--csv'])
  t.is(code, 0, stderr)
  const half = Math.fround(0.1) / 2
  t.deepEqual(stdout.split('\n'), [
    'name,type,count,zeros,nan,positiveInfinite,negativeInfinite,min,max,mean,std,error',
    `"a,""b""",float32,3,1,1,0,0,0,${2 * half},${half},${half},`,
    'c,int64,1,0,0,0,0,7,7,7,0,',
    '',
  ])
  for (const flags of [['--json'], ['--bins', '2']]) t.is((await run(['stats', path, '--csv', ...flags])).code, 2)
})

test('stats --csv writes no formula and no control characters that a file names', async (t) => {
  const names = ['=1+1', '+a', '-a', '@a', '\u001b[31m']
  const one = ['F32', [1], Float32Array.of(-1)]
  const path = write('formulas.safetensors', safetensors(Object.fromEntries(names.map((name) => [name, one]))))
  const { stdout } = await run(['stats', path, '--csv'])
  const cells = stdout
    .split('\n')
    .slice(1, -1)
    .map((line) => line.split(','))
  t.deepEqual(new Set(cells.map(([name]) => name)), new Set(["'=1+1", "'+a", "'-a", "'@a", '\\x1b[31m']))
  for (const [, , , , , , , min] of cells) t.is(min, '-1')
})

test('ls --names prints only names, and --help lists every command in a group', async (t) => {
  t.is((await run(['ls', three, '--names'])).stdout, 'b\nh.0.a\nh.1.c\n')
  t.is((await run(['ls', three, '--names', '--filter', 'b'])).stdout, 'b\n')
  const { stdout } = await run(['--help'])
  const groups = ['Options:', 'Look:', 'Convert:', 'Edit:', 'Many machines:', 'Help:', 'Examples:']
  t.deepEqual(stdout.match(/^[A-Z][a-z ]+:$/gm), groups)
})
