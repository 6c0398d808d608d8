// System errors name their file: if the disk is full during a write, the target.
import { spawnSync } from 'node:child_process'
import test from 'ava'
import { scratchFolder, written } from '../helpers/sample-files.mjs'
import { traced, traceTest } from '../helpers/strace.mjs'

const add = (writer) => writer.add('a', new Float32Array(2 ** 20).fill(1))

const PROGRAMS = {
  create: `const w = await create(target); await w.add('a', new Float32Array(8)); await w.finish()`,
  convert: 'await convert(source, target)',
  'convert, the index first': `await convert(source, target, { format: 'safetensors' })`,
  merge: 'await convert([source, other], target)',
}

for (const [what, program] of Object.entries(PROGRAMS)) {
  for (const [call, inject] of [
    ['fsync', 'fsync:error=ENOSPC'],
    ['linkat', 'linkat:error=ENOSPC'],
  ]) {
    traceTest(`${what}: if ${call} finds the disk full, the error names the target`, async (t) => {
      const { path, names } = scratchFolder()
      await written({}, add, path('source.zt'))
      await written({}, (writer) => writer.add('b', Int8Array.of(1)), path('other.zt'))
      const source = `import { convert, create } from 'ztensor'
        const [target, source, other] = process.argv.slice(1)
        let outcome = 'done'
        try { ${program} } catch (error) { outcome = JSON.stringify([error.code, error.cause?.code, error.message, error.cause?.path]) }
        process.stdout.write(outcome)`
      const options = ['-e', `trace=${call}`, '-e', `inject=${inject}`]
      const { stdout } = await traced(options, source, [path('target.zt'), path('source.zt'), path('other.zt')])
      const [code, cause, message, target] = JSON.parse(stdout)
      t.is(code, 'ZT_IO')
      t.is(cause, 'ENOSPC')
      t.is(target, path('target.zt'))
      t.true(message.includes(path('target.zt')), message)
      t.false(message.includes('source.zt'))
      t.deepEqual(names(), ['other.zt', 'source.zt'])
    })
  }
}

traceTest('split: the error names the file of the set', async (t) => {
  const { path, names } = scratchFolder()
  await written({}, add, path('source.zt'))
  const source = `import { convert } from 'ztensor'
    const [source, target] = process.argv.slice(1)
    try { await convert(source, target, { format: 'safetensors', maxShardBytes: 2 ** 30 }) } catch (error) { process.stdout.write(error.message) }`
  const options = ['-e', 'trace=fsync', '-e', 'inject=fsync:error=ENOSPC']
  const { stdout } = await traced(options, source, [path('source.zt'), path('m.safetensors')])
  t.regex(stdout, /^ENOSPC: .*, fsync '.*m[^/]*\.safetensors'$/)
  t.deepEqual(names(), ['source.zt'])
})

if (process.platform === 'linux') {
  test('beyond a file size limit, the error names the target', async (t) => {
    const { path } = scratchFolder()
    await written({}, add, path('source.zt'))
    const program = `import { convert } from 'ztensor'
      const [source, target] = process.argv.slice(1)
      process.on('SIGXFSZ', () => {})
      try { await convert(source, target, { cast: { float32: 'float64' } }) } catch (error) { process.stdout.write(error.cause.code + ' ' + error.cause.path) }`
    const run = `ulimit -f 1024; exec "$0" --input-type=module -e "$1" "$2" "$3"`
    const { stdout, stderr } = spawnSync(
      'bash',
      ['-c', run, process.execPath, program, path('source.zt'), path('target.zt')],
      {
        cwd: new URL('.', import.meta.url),
        encoding: 'utf8',
      },
    )
    t.is(stdout, `EFBIG ${path('target.zt')}`, stderr)
  })
}
