// `ztensor metadata`, run as a process: what it prints, and what it edits.
import { readFileSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { openSync, saveFile } from 'ztensor'
import { json, run, safetensors } from '../helpers/command.mjs'
import { gguf } from '../helpers/gguf-writer.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const model = () =>
  scratchFile(
    gguf({
      metadata: [
        ['general.name', 'string', 'a'],
        ['general.version', 'string', '1'],
        ['llama.context_length', 'u32', 2048],
      ],
      tensors: [{ name: 'w' }, { name: 'x' }],
    }),
    'model.gguf',
  )
const attributesOf = (path) => {
  const file = openSync(path)
  const { metadata: attributes } = file
  file.close()
  return { ...attributes }
}

test('prints the metadata', async (t) => {
  const path = model()
  const { code, stdout, stderr } = await run(['metadata', path])
  t.is(code, 0, stderr)
  t.is(stdout, 'general.name: a\ngeneral.version: 1\nllama.context_length: 2048\n')
  t.deepEqual(await json(t, ['metadata', path]), {
    'general.name': 'a',
    'general.version': '1',
    'llama.context_length': 2048,
  })
})

test('prints the value of one key: a text as it is, any other value as JSON', async (t) => {
  const path = scratchFile(
    gguf({
      metadata: [
        ['template', 'string', '{% for x in y %}\n  \u001b[31m"x"'],
        ['ends', 'string', 'a\n'],
        ['count', 'u32', 7],
      ],
      tensors: [{ name: 'w' }],
    }),
    'model.gguf',
  )
  for (const [key, stdout] of [
    ['template', '{% for x in y %}\n  \u001b[31m"x"\n'],
    ['ends', 'a\n'],
    ['count', '7\n'],
  ])
    t.is((await run(['metadata', path, key])).stdout, stdout)
  t.is(await json(t, ['metadata', path, 'template']), '{% for x in y %}\n  \u001b[31m"x"')
  const { code, stderr } = await run(['metadata', path, 'cuont'])
  t.is(code, 2)
  t.regex(stderr, /the metadata has no key "cuont"[\s\S]*`ztensor metadata .*model\.gguf` lists the keys/)
  const both = await run(['metadata', path, 'count', '--set', 'count=8'])
  t.is(both.code, 2)
  t.regex(both.stderr, /'count' would be printed, but this command edits the file/)
})

test('--set key=@file takes the text of a file, and @@ is a text that begins with @', async (t) => {
  const path = model()
  const template = scratchFile(Buffer.from('{{ a }}\n=ü\n'), 't.jinja')
  const number = scratchFile(Buffer.from('7'), 'number.json')
  const { code, stderr } = await run([
    'metadata',
    path,
    '--set',
    `x=@${template}`,
    '--set',
    'y=@@a',
    '--set',
    `z=@${number}`,
  ])
  t.is(code, 0, stderr)
  t.like(attributesOf(path), { x: '{{ a }}\n=ü\n', y: '@a', z: 7 })
  const before = readFileSync(path)
  for (const [value, says] of [
    ...(process.platform === 'win32'
      ? []
      : [['@/dev/zero', /--set cannot read '\/dev\/zero': it has more than 67108864 bytes/]]),
    ['@/no/such/file', /--set cannot read '\/no\/such\/file': .*ENOENT[\s\S]*KEY=@@/],
    [`@${scratchFile(Buffer.of(0xff, 0xfe), 'bytes')}`, /is not UTF-8/],
  ]) {
    const failed = await run(['metadata', path, '--set', `x=${value}`])
    t.is(failed.code, 2)
    t.regex(failed.stderr, says)
  }
  t.deepEqual(readFileSync(path), before)
  const target = scratchPath('new.safetensors')
  const converted = await run(['convert', path, target, '--metadata', `license=@${template}`])
  t.is(converted.code, 0, converted.stderr)
  t.is(attributesOf(target).license, '{{ a }}\n=ü\n')
})

const everyValue = {
  text: 'a "quoted" \u001b ü',
  number: 1.5,
  negativeZero: -0,
  nan: NaN,
  infinite: [Infinity, -Infinity],
  unsafe: [2n ** 64n - 1n, -(2n ** 63n), 2 ** 53],
  yes: true,
  nothing: null,
  bytes: Uint8Array.of(0, 255),
  nested: { list: [1, ['b', {}]], bytes: { a: Uint8Array.of(1) } },
  looksLikeBytes: { bytes: 'YQ==' },
  looksLikeAnInteger: { integer: '5' },
  looksLikeNumber: { number: 'NaN' },
  looksLikeMap: { map: [['a', 1]] },
  keys: new Map([
    [1, 'one'],
    ['two', new Map([[null, [2n ** 60n]]])],
  ]),
  emptyMap: {},
}

test('--json prints every value so that --set @FILE sets it again, with its type', async (t) => {
  const path = scratchPath('values.zt')
  await saveFile(path, { w: new Float32Array(1) }, { metadata: everyValue, version: '2' })
  const before = attributesOf(path)
  t.deepEqual(before, { ...everyValue, emptyMap: before.emptyMap })
  const { stdout } = await run(['metadata', path, '--json'])
  t.deepEqual((await json(t, ['info', path, '--json'])).metadata, JSON.parse(stdout))
  const saved = scratchFile(Buffer.from(stdout), 'values.json')

  const other = scratchPath('other.zt')
  await saveFile(other, { w: new Float32Array(1) }, { metadata: { kept: 1, text: 'old' }, version: '2' })
  const edited = await run(['metadata', other, '--set', `@${saved}`, '--set', 'more=5'])
  t.is(edited.code, 0, edited.stderr)
  t.deepEqual(attributesOf(other), { kept: 1, ...before, more: 5 })

  const target = scratchPath('converted.zt')
  const converted = await run(['convert', other, target, '--no-copy-metadata', '--metadata', `@${saved}`])
  t.is(converted.code, 0, converted.stderr)
  t.deepEqual(attributesOf(target), before)

  t.is((await run(['metadata', path, '--set', `@${saved}`])).code, 0)
  t.deepEqual(attributesOf(path), before)
})

test('integers of more than 64 bits keep all digits', async (t) => {
  const [path, other] = [scratchPath('values.zt'), scratchPath('other.zt')]
  const metadata = { big: 10n ** 30n, list: [-(2n ** 100n)] }
  await saveFile(path, { w: new Float32Array(1) }, { metadata, version: '1.2' })
  await saveFile(other, { w: new Float32Array(1) }, { version: '1.2' })
  const saved = scratchFile(Buffer.from((await run(['metadata', path, '--json'])).stdout), 'values.json')
  const edited = await run(['metadata', other, '--set', `@${saved}`, '--set', `more=[${10n ** 25n}]`])
  t.is(edited.code, 0, edited.stderr)
  t.deepEqual(attributesOf(other), { ...metadata, more: [10n ** 25n] })
})

test('GGUF: --set @FILE sets values as --json prints them, which changes nothing', async (t) => {
  const path = model()
  const { stdout } = await run(['metadata', path, '--json'])
  const saved = scratchFile(Buffer.from(stdout), 'values.json')
  t.is((await json(t, ['metadata', path, '--set', `@${saved}`])).method, 'unchanged')
  const numbers = scratchFile(
    Buffer.from('{"big": [18446744073709551615], "of": "18446744073709551615 \\" 1"}'),
    'n.json',
  )
  const edited = await run(['metadata', path, '--set', `@${numbers}`])
  t.is(edited.code, 0, edited.stderr)
  t.like(attributesOf(path), { big: [2n ** 64n - 1n], of: '18446744073709551615 " 1' })
})

test('--set @FILE refuses what is not a JSON object, and a key that is set twice', async (t) => {
  const path = model()
  const before = readFileSync(path)
  for (const [text, says] of [
    ['{"a":', /--set cannot use '.*': it is not JSON[\s\S]*@FILE sets all keys/],
    ['[1]', /it is not a JSON object of keys and values/],
    ['"a"', /it is not a JSON object of keys and values/],
    ['null', /it is not a JSON object of keys and values/],
    ['{"map":[[1,2]]}', /it is not a JSON object of keys and values/],
    [`${'['.repeat(1e6)}${']'.repeat(1e6)}`, /it is not JSON/],
    ['{"general.name":"b"}', /--set has the key 'general\.name' twice/],
  ]) {
    const { code, stderr } = await run([
      'metadata',
      path,
      '--set',
      `@${scratchFile(Buffer.from(text), 'f.json')}`,
      '--set',
      'general.name=c',
    ])
    t.is(code, 2)
    t.regex(stderr, says)
  }
  t.deepEqual(readFileSync(path), before)
})

for (const inPlace of [[], ['--in-place']])
  test(`sets and removes keys, renames and drops tensors, ${inPlace}`, async (t) => {
    const path = model()
    const set = ['general.version=2', 'llama.context_length=4096', 'list=["a","b"]', 'text=some=text', 'flag=true']
    const args = [...set, 'typed={"type":"uint8","value":5}', 'big=18446744073709551615', 'quoted="5"', 'empty=']
    const edited = await run([
      'metadata',
      path,
      ...args.flatMap((one) => ['--set', one]),
      '--remove',
      'general.name',
      ...inPlace,
    ])
    t.is(edited.code, 0, edited.stderr)
    t.regex(edited.stdout, /^metadata {2}.*model\.gguf: .*, (written in place.*|replaced by a .*)\n$/)
    t.deepEqual(attributesOf(path), {
      'general.version': '2',
      'llama.context_length': 4096,
      list: ['a', 'b'],
      text: 'some=text',
      flag: true,
      typed: 5,
      big: 2n ** 64n - 1n,
      quoted: '5',
      empty: '',
    })
    const result = await json(t, ['metadata', path, '--rename', 'w=model.w', '--drop', 'x', ...inPlace])
    t.is(result.path, path)
    t.is(result.byteLength, readFileSync(path).length)
    t.true(['in-place', 'cloned', 'copied'].includes(result.method))
    const file = openSync(path)
    t.deepEqual([...file.keys()], ['model.w'])
    file.close()
    t.is((await json(t, ['metadata', path, '--set', 'flag=true', ...inPlace])).method, 'unchanged')
  })

test('safetensors: every value is text', async (t) => {
  const path = scratchFile(Buffer.alloc(0), 'a.safetensors')
  writeFileSync(path, safetensors({}, { a: 'b' }))
  const { code, stderr } = await run(['metadata', path, '--set', 'number=5', '--set', 'list=["a"]'])
  t.is(code, 0, stderr)
  t.deepEqual(attributesOf(path), { a: 'b', number: '5', list: '["a"]' })
})

test('prints one line for an invalid edit, and keeps the file', async (t) => {
  const path = model()
  const bytes = readFileSync(path)
  for (const [args, code, hint] of [
    [['--remove', 'none'], 'ZT_NOT_FOUND', '"general.name"'],
    [['--remove', 'none'], 'ZT_NOT_FOUND', '`ztensor metadata FILE` lists the keys.'],
    [['--set', 'none'], 'ZT_INVALID_ARG', 'KEY=VALUE'],
    [['--set', '=5'], 'ZT_INVALID_ARG', 'KEY=VALUE'],
    [['--set', 'a=1', '--set', 'a=2'], 'ZT_INVALID_ARG', 'twice'],
    [['--set', 'a={"b":1}'], 'ZT_INVALID_ARG', 'GGUF has text'],
    [['--set', 'general.alignment=64'], 'ZT_INVALID_ARG', 'cannot be changed'],
    [['--in-place'], 'ZT_INVALID_ARG', '--set'],
    [['--drop', 'none'], 'ZT_NOT_FOUND', 'no such tensor'],
  ]) {
    const { code: status, stderr, stdout } = await run(['metadata', path, ...args])
    t.is(status, 2, args.join(' '))
    t.is(stdout, '')
    t.true(stderr.startsWith('ztensor: '), stderr)
    t.true(stderr.includes(`(${code})`), stderr)
    t.true(stderr.includes(hint), stderr)
    t.true(readFileSync(path).equals(bytes))
  }
})
