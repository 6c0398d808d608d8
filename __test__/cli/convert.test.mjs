// `ztensor convert`, run as a process.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { ended, fixture, start } from '../helpers/command.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const run = (...args) => ended(start(['convert', ...args]))

test('converts, and prints which programs read the result', async (t) => {
  const target = scratchPath('model.zt')
  const { code, stdout, stderr } = await run(fixture('st-dtypes.safetensors'), target, '--version', '1.2', '--skip')
  t.is(code, 0, stderr)
  t.regex(stdout, /^wrote {2}.*: 15 tensors\n/)
  t.true(stdout.endsWith('read by: ztensor for Python 1.0.2 to 1.2.3, ztensor\n'), stdout)
  const file = openSync(target, { verify: true })
  t.is(file.version, '1.2.0')
  file.close()
})

test('--filter, --rename, --compress and --digest', async (t) => {
  const target = scratchPath('part.zt')
  const chosen = ['--filter', 't_*', '--filter', '!*int*', '--rename', 't_bool=flag']
  const { code, stderr } = await run(fixture('zt12-dtypes.zt'), target, ...chosen, '--compress=9', '--digest', 'sha256')
  t.is(code, 0, stderr)
  const file = openSync(target, { verify: true })
  t.deepEqual([...file.keys()].sort(), ['flag', 't_bfloat16', 't_float16', 't_float32', 't_float64'])
  for (const tensor of file.values()) t.regex(tensor.components.get('data').digest, /^sha256:/)
  file.close()
})

test('--compress deflates an npz, with levels up to 9', async (t) => {
  const data = Float32Array.from({ length: 20_000 }, (_, at) => at % 7)
  const source = scratchPath('plain.npz')
  const writer = await create(source)
  await writer.add('x', data)
  await writer.finish()
  for (const [option, level] of [
    ['--compress', 'usual'],
    ['--compress=9', 9],
  ]) {
    const target = scratchPath(`${level}.npz`)
    const { code, stderr } = await run(source, target, option)
    t.is(code, 0, stderr)
    const file = openSync(target, { verify: true })
    t.is(file.tensor('x').components.get('data').encoding, 'deflate')
    t.deepEqual(file.tensor('x').data, data)
    file.close()
  }
  const refused = await run(source, scratchPath('refused.npz'), '--compress=12')
  t.is(refused.code, 2)
  t.regex(refused.stderr, /the level of --compress must be from 1 to 9 in NumPy npz.*\(ZT_INVALID_ARG\)\n/)
})

test('rejects unsupported tensors in one line, and leaves them out with --skip', async (t) => {
  const target = scratchPath('sparse.safetensors')
  const refused = await run(fixture('zt101-sparse.zt'), target)
  t.is(refused.code, 2)
  t.regex(refused.stderr, /^ztensor: safetensors cannot represent everything in the source .*\(ZT_BAD_LAYOUT\)\n/)
  // All of them are sparse.
  const nothing = await run(fixture('zt101-sparse.zt'), target, '--skip')
  t.is(nothing.code, 2)
  t.regex(nothing.stderr, /^ztensor: no tensor is left: \d+ tensors: safetensors cannot hold/)
  const { code, stdout } = await run(fixture('zt12-dtypes.zt'), target, '--skip', '--json')
  t.is(code, 0)
  const last = JSON.parse(stdout.trim().split('\n').at(-1))
  t.is(last.event, 'done')
  t.true(last.tensors > 0)
})

test('keeps an existing target without --overwrite', async (t) => {
  const target = scratchFile(Buffer.from('old'), 'there.zt')
  const refused = await run(fixture('zt100-dtypes.zt'), target)
  t.is(refused.code, 2)
  t.regex(refused.stderr, /\(ZT_EXISTS\)/)
  t.is(readFileSync(target, 'utf8'), 'old')
  t.is((await run(fixture('zt100-dtypes.zt'), target, '--overwrite')).code, 0)
  t.is(readFileSync(target).subarray(0, 8).toString(), 'ZTEN1000')
})

for (const bad of [
  ['--compress=99'],
  ['--rename', 'x'],
  ['--version', '3'],
  ['--format', 'zip'],
  ['--digest', 'md5'],
]) {
  test(`rejects ${bad.join(' ')}`, async (t) => {
    const { code, stderr } = await run(fixture('zt100-dtypes.zt'), scratchPath('x.zt'), ...bad)
    t.is(code, 2)
    t.regex(stderr, /^ztensor: .*\(ZT_INVALID_ARG\)\n/)
  })
}

test('a conversion to the default version prints which Python releases read it', async (t) => {
  const source = fixture('zt12-dtypes.zt')
  const usual = await run(source, scratchPath('usual.zt'))
  t.regex(usual.stdout, /^read by: ztensor for Python 1\.0\.0 and 1\.0\.1, ztensor$/m)
  t.regex(usual.stdout, /--version 1\.2 for 1\.0\.2 to 1\.2\.3, --version 2 for 2\.x/)
  const newer = await run(source, scratchPath('newer.zt'), '--version', '2')
  t.regex(newer.stdout, /^read by: ztensor for Python 2\.x, ztensor$/m)
  t.notRegex(newer.stdout, /Later releases/)
})
