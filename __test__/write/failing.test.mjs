// A system call that fails while a file is replaced: an error and the old file; or no error and the new one, with a warning if its
// name may not be synced to disk. strace injects the failures, one after the other.
import { readFileSync } from 'node:fs'
import { append, openSync } from 'ztensor'
import { scratchFolder, written } from '../helpers/sample-files.mjs'
import { traced, traceTest } from '../helpers/strace.mjs'

const WRITERS = {
  create: "const w = await create(target, { overwrite: true }); await w.add('new', Int8Array.of(2)); await w.finish()",
  'create of the other kind':
    "const w = await create(target, { format: 'safetensors', overwrite: true }); await w.add('new', Int8Array.of(2)); await w.finish()",
  append: "const e = await append(target); await e.rename('old', 'new'); await e.finish()",
  compact: 'await compact(target)',
  'edit of metadata': "await editMetadata(target, { set: { title: 'x'.repeat(9000) } })",
  convert: "await convert(target, target, { format: 'zt', overwrite: true, rename: () => 'new' })",
}

/** A file with something to compact in it. */
async function oldFile(path) {
  const data = new Float32Array(2 ** 16).fill(1)
  await written({}, (writer) => Promise.all([writer.add('old', data), writer.add('gone', data)]), path)
  const editor = await append(path)
  await editor.remove('gone')
  await editor.finish()
}

async function broken(t, program, inject) {
  const { folder, names, path } = scratchFolder()
  await oldFile(path('a'))
  const before = readFileSync(path('a'))
  const source = `import { append, compact, convert, create, editMetadata } from 'ztensor'
    const [target] = process.argv.slice(1)
    process.on('warning', ({ name, code }) => console.log(name, code))
    try { ${program}; console.log('done') } catch (error) { console.log(error.code, error.cause?.code) }`
  const alone = inject.startsWith('open') ? ['-P', folder] : []
  const [call] = inject.split(':')
  const { status, stdout, lines } = await traced([...alone, '-e', `trace=${call}`, '-e', `inject=${inject}`], source, [
    path('a'),
  ])
  const output = stdout.trim().split('\n')
  const where = `${inject}: ${output}`
  t.is(status, 0, where)
  t.deepEqual(names(), ['a'], where)
  const done = output.includes('done')
  t.is(!readFileSync(path('a')).equals(before), done, where)
  if (!done) t.regex(output.join(), /^ZT_IO /, where)
  openSync(path('a')).close()
  return { injected: lines.some((line) => line.includes('INJECTED')), output }
}

for (const [name, program] of Object.entries(WRITERS)) {
  traceTest(`${name}: if any call fails, an error means that nothing changed`, async (t) => {
    t.timeout(300_000)
    for (const inject of [
      'openat:error=EMFILE',
      'open:error=EMFILE',
      'fsync:error=EIO',
      'rename:error=EIO',
      'linkat:error=ENOSPC',
      'fchmod:error=EPERM',
    ]) {
      let when = 1
      while (when < 12 && (await broken(t, program, `${inject}:when=${when}`)).injected) when += 1
      t.true(when < 12, inject)
    }
  })

  traceTest(`${name}: warns if the folder cannot be synced`, async (t) => {
    const { output } = await broken(t, program, 'fsync:error=EIO:when=2')
    t.deepEqual(output, ['done', 'ZTensorWarning ZT_WARN_NOT_SYNCED'])
  })
}
