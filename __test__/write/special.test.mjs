// Paths other than files: pipes and devices are written to, and never replaced.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, lstatSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import test from 'ava'
import { convert, create } from 'ztensor'
import { run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { bytesWritten, scratchFolder, written } from '../helpers/sample-files.mjs'

// One after the other: each reader of a pipe takes a thread of libuv until its writer comes, and there are four.
const unixTest =
  process.platform === 'win32' ? (title) => test(`not run on Windows: ${title}`, (t) => t.pass()) : test.serial
const rootTest =
  process.platform !== 'win32' && process.getuid() === 0
    ? test
    : (title) => test(`not run, since only root may: ${title}`, (t) => t.pass())

const add = async (writer) => {
  await writer.add('0', new Float32Array(2 ** 20).fill(3))
  await writer.add('1', Int8Array.of(1))
}
function pipe() {
  const scratch = scratchFolder()
  spawnSync('mkfifo', [scratch.path('pipe')])
  return { ...scratch, target: scratch.path('pipe') }
}
const reading = async (path) => Buffer.concat(await createReadStream(path).toArray())

for (const options of [
  {},
  { version: '0.1' },
  { version: '1.2' },
  { version: '2', canonical: false },
  { version: '2' },
  { format: 'safetensors' },
  { format: 'btf' },
]) {
  unixTest(`create() writes ${JSON.stringify(options)} into a pipe`, async (t) => {
    const { target, names } = pipe()
    for (const overwrite of [false, true]) {
      const read = reading(target)
      await written({ ...options, overwrite }, add, target)
      t.true((await read).equals(await bytesWritten(options, add)))
      t.true(lstatSync(target).isFIFO())
      t.deepEqual(names(), ['pipe'])
    }
  })
}

unixTest('convert() and the command write into a pipe, through a link too', async (t) => {
  const { target, path, names } = pipe()
  await written({}, add, path('a.zt'))
  symlinkSync('pipe', path('link'))
  for (const to of [target, path('link')]) {
    const read = reading(target)
    t.is((await convert(path('a.zt'), to, { overwrite: true })).tensors, 2)
    t.true((await read).equals(readFileSync(path('a.zt'))))
  }
  const read = reading(target)
  const { code, stderr } = await run(['convert', path('a.zt'), target, '--overwrite'])
  t.deepEqual({ code, stderr }, { code: 0, stderr: '' })
  t.true((await read).equals(readFileSync(path('a.zt'))))
  t.deepEqual(names(), ['a.zt', 'link', 'pipe'])
  t.true(lstatSync(target).isFIFO())
})

for (const options of [
  { version: '2', maxShardBytes: 100 },
  { format: 'safetensors', maxShardBytes: 100 },
]) {
  unixTest(`${JSON.stringify(options)} needs a file, and the error states it`, async (t) => {
    const { target, names } = pipe()
    const read = reading(target)
    const error = await rejectionOf(async () => {
      const writer = await create(target, { ...options, overwrite: true })
      await add(writer).finally(() => writer.abort())
    })
    t.is(error.code, 'ZT_INVALID_ARG')
    t.regex(error.message, /stream/)
    // A reader gets the end: of no data, or of a first shard without others.
    t.is((await read).length > 0, options.version === '2' && options.maxShardBytes !== undefined)
    t.deepEqual(names(), ['pipe'])
    t.true(lstatSync(target).isFIFO())
  })
}

unixTest('what a pipe cannot take is refused before a reader is waited for', async (t) => {
  const { target, path, names } = pipe()
  await written({}, add, path('a.zt'))
  const unnamed = await rejectionOf(() => convert(path('a.zt'), target, { format: 'gguf' }))
  t.regex(unnamed.message, /no "general.architecture"/)
  const several = await rejectionOf(() => create(target, { format: 'safetensors', maxShardBytes: 2 ** 20 }))
  t.is(several.code, 'ZT_INVALID_ARG')
  // What only the data shows, too: a bool that is 2.
  const header = JSON.stringify({ x: { dtype: 'BOOL', shape: [2], data_offsets: [0, 2] } })
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  writeFileSync(path('b.safetensors'), Buffer.concat([length, Buffer.from(header), Buffer.of(1, 2)]))
  const unfit = await rejectionOf(() => convert(path('b.safetensors'), target, { version: '2', canonical: false }))
  t.regex(unfit.message, /"x"/)
  t.deepEqual(names(), ['a.zt', 'b.safetensors', 'pipe'])
  t.true(lstatSync(target).isFIFO())
})

unixTest('waits for the reader of a pipe until the signal', async (t) => {
  const { target, path } = pipe()
  await written({}, add, path('a.zt'))
  const stop = new AbortController()
  const creating = rejectionOf(() => create(target, { signal: stop.signal }))
  const converting = rejectionOf(() => convert(path('a.zt'), target, { signal: stop.signal }))
  const reason = new Error('enough')
  stop.abort(reason)
  t.is(await creating, reason)
  t.is(await converting, reason)
  t.is(await rejectionOf(() => create(target, { signal: stop.signal })), reason)
})

unixTest('a process that writes into a pipe ends if its reader does not come, or goes away', async (t) => {
  const { target } = pipe()
  const source = `import { create } from 'ztensor'
    const [target] = process.argv.slice(1)
    const writer = create(target)
    console.log('begun')
    process.on('SIGINT', () => process.exit(7))
    const w = await writer
    try { for (;;) await w.add(Math.random().toString(), new Float32Array(2 ** 20)) } catch (error) { console.log(error.code) }`
  const child = () =>
    spawn(process.execPath, ['--input-type=module', '-e', source, target], {
      cwd: new URL('../', import.meta.url),
      stdio: ['ignore', 'pipe', 'inherit'],
    })
  const waiting = child()
  await once(waiting.stdout, 'data')
  await new Promise(setImmediate)
  waiting.kill('SIGINT')
  t.true([7, null].includes((await once(waiting, 'close'))[0]))
  const writing = child()
  const output = writing.stdout.setEncoding('utf8').toArray()
  const reader = createReadStream(target)
  await once(reader, 'data')
  reader.destroy()
  t.is((await once(writing, 'close'))[0], 0)
  t.deepEqual((await output).join('').trim().split('\n'), ['begun', 'ZT_IO'])
})

unixTest('/dev/null accepts everything and remains', async (t) => {
  await written({ overwrite: true }, add, '/dev/null')
  t.true(lstatSync('/dev/null').isCharacterDevice())
})

rootTest('writes to a device of the user, and rejects a block device', async (t) => {
  const { names, path } = scratchFolder()
  spawnSync('mknod', [path('null'), 'c', '1', '3'])
  spawnSync('mknod', [path('disk'), 'b', '7', '200'])
  t.deepEqual(names(), ['disk', 'null'])
  await written({ overwrite: true }, add, path('null'))
  t.true(lstatSync(path('null')).isCharacterDevice())
  for (const options of [{}, { format: 'safetensors' }]) {
    const error = await rejectionOf(() => create(path('disk'), { ...options, overwrite: true }))
    t.is(error.code, 'ZT_IO')
    t.regex(error.message, /block device/)
  }
  t.true(lstatSync(path('disk')).isBlockDevice())
  t.deepEqual(names(), ['disk', 'null'])
})

unixTest('rejects a socket, and keeps it', async (t) => {
  const { path } = scratchFolder()
  const server = createServer().listen(path('s'))
  await once(server, 'listening')
  const error = await rejectionOf(() => create(path('s'), { overwrite: true }))
  t.is(error.code, 'ZT_IO')
  t.regex(error.message, /socket/)
  t.true(lstatSync(path('s')).isSocket())
  server.close()
})

unixTest('a part of a set does not replace a pipe', async (t) => {
  for (const [options, target, part] of [
    [{ format: 'safetensors', maxShardBytes: 2 ** 22 }, 'm.safetensors', 'm-00002-of-00002.safetensors'],
    [{ format: 'safetensors', maxShardBytes: 2 ** 22 }, 'm.safetensors', 'm.safetensors.index.json'],
    [{ version: '2', maxShardBytes: 2 ** 22 + 2 ** 17 }, 'm.zt', 'm-00001-of-00002.zt'],
  ]) {
    const { names, path } = scratchFolder()
    spawnSync('mkfifo', [path(part)])
    const error = await rejectionOf(() =>
      written(
        { ...options, overwrite: true },
        async (writer) => {
          await writer.add('0', new Float32Array(2 ** 20))
          await writer.add('1', new Float32Array(2 ** 20))
        },
        path(target),
      ),
    )
    t.is(error?.code, 'ZT_IO')
    t.regex(error.message, /pipe/)
    t.deepEqual(names(), [part])
    t.true(lstatSync(path(part)).isFIFO())
  }
})
