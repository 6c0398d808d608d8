import { create, open } from 'ztensor'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { traced, traceTest } from '../helpers/strace.mjs'

const LENGTH = 20_000
const NAMES = ['a', 'b', 'c', 'd', 'e']
const OLD = 1
const NEW = 2
/** A set of three files: of `index`, and of parts. */
const KINDS = {
  safetensors: {
    target: 'm.safetensors',
    index: 'm.safetensors.index.json',
    options: { format: 'safetensors', maxShardBytes: 2 * 4 * LENGTH },
  },
  'zTensor 2': { target: 'm.zt', index: 'm.zt', options: { version: '2', maxShardBytes: 2 * 2 ** 17 + 65536 } },
}

async function write(path, options, value) {
  const writer = await create(path, options)
  for (const name of NAMES) await writer.add(name, new Float32Array(LENGTH).fill(value))
  await writer.finish()
}

const replacing = `
  import { create } from 'ztensor'
  const [path, options] = process.argv.slice(1)
  const writer = await create(path, { ...JSON.parse(options), overwrite: true })
  for (const name of ${JSON.stringify(NAMES)}) await writer.add(name, new Float32Array(${LENGTH}).fill(${NEW}))
  await writer.finish().then(() => console.log('done'), (error) => console.log(error.code))`

/** The common value of all tensors, the code of the error, or 'mixture'. */
async function found(source) {
  let file
  try {
    file = await open(source)
  } catch (error) {
    return error.code
  }
  try {
    const values = new Set()
    for (const name of file.keys()) for (const value of file.tensor(name).data) values.add(value)
    if (file.size !== NAMES.length || values.size !== 1) return 'mixture'
    return (await file.verify()).ok ? [...values][0] : 'damaged'
  } catch (error) {
    return error.code
  } finally {
    file.close()
  }
}

const isError = (what) => typeof what === 'string' && what.startsWith('ZT_')
const leftovers = (names) => names.filter((name) => name.startsWith('.ztensor-'))

/** An old set, and its state after a fault that strace injects. */
async function broken(t, { target, index, options }, inject) {
  const { folder, names, path } = scratchFolder()
  await write(path(target), options, OLD)
  const before = names()
  const set = before.filter((name) => name.includes('-of-')).map(path)
  // The program opens other files as well.
  const alone = inject.startsWith('openat') ? ['-P', folder] : []
  const { stdout, signal, stderr, lines } = await traced(
    [...alone, '-e', `trace=${inject.split(':')[0]}`, '-e', `inject=${inject}`],
    replacing,
    [path(target), JSON.stringify(options)],
  )
  const warned = /\[ZT_WARN_(NOT_SYNCED|LEFT_OVER)\]/.test(stderr)
  const ways = { index: await found(path(index)), folder: await found(folder) }
  // The parts as a list: parts of zTensor 2 have no tensors.
  if (index !== target) ways.parts = await found(set)
  const where = `${inject}: ${JSON.stringify({ ways, output: stdout.trim(), signal, names: names() })}`
  for (const what of Object.values(ways)) t.true(what === OLD || what === NEW || isError(what), where)
  if (signal === null && stdout.trim() !== 'done') {
    // An error without any effect on the files.
    t.true(isError(stdout.trim()), where)
    t.deepEqual(Object.values(ways), Object.values(ways).fill(OLD), where)
    t.deepEqual(names(), before, where)
  } else if (signal === null) {
    t.is(ways.index, NEW, where)
    t.is(ways.folder, NEW, where)
    if (!warned) t.deepEqual(leftovers(names()), [], where)
  }
  if (!warned) t.is(stderr, '')
  // The next writer cleans up, and succeeds.
  await write(path(target), { ...options, overwrite: true }, 3)
  t.is(await found(path(index)), 3, where)
  t.deepEqual(leftovers(names()), [], where)
  return signal !== null || lines.some((line) => line.includes('INJECTED'))
}

const TIMES = 16
for (const [kind, set] of Object.entries(KINDS)) {
  for (const [call, ways] of [
    ['fsync', ['error=EIO', 'signal=SIGKILL']],
    ['rename', ['error=EIO', 'error=ENOSPC', 'signal=SIGKILL']],
    ['renameat2', ['error=EIO', 'signal=SIGKILL']],
    ['linkat', ['error=ENOSPC', 'signal=SIGKILL']],
    ['unlink', ['error=EACCES', 'signal=SIGKILL']],
    ['openat', ['error=EMFILE']],
  ]) {
    for (const way of ways) {
      traceTest(`${kind}: ${call} with ${way}, at any of these calls`, async (t) => {
        t.timeout(300_000)
        let when = 1
        while (when < TIMES && (await broken(t, set, `${call}:${way}:when=${when}`))) when += 1
        t.log(`${when - 1} of them`)
        t.true(when < TIMES)
      })
    }
  }
}
