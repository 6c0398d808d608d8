// What must work in every runtime, without a test framework: `node smoke.mjs`, `bun smoke.mjs`, `deno run -A smoke.mjs`. Ends with
// `smoke: N passed, N failed`. A copy in another folder tests the package `ztensor` that is installed there, with ZTENSOR_FIXTURES.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { endianness, tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { littleEndian } from './bytes.mjs'
import { unsupported } from './emulator.mjs'

const installed = process.env.ZTENSOR_FIXTURES !== undefined
const exports = await import(installed ? 'ztensor' : '../../dist/index.mjs')
const { convert, create, open, openSync, TensorFile, toFloat32, verify, ZTensorError } = exports
const commonJs = installed ? 'ztensor' : fileURLToPath(new URL('../../dist/index.js', import.meta.url))

const fixtures = process.env.ZTENSOR_FIXTURES ?? fileURLToPath(new URL('../fixtures/', import.meta.url))
const vectors = readdirSync(fixtures).filter((name) => /\.(zt|safetensors|btf)$/.test(name))
const scratch = mkdtempSync(join(tmpdir(), 'ztensor-smoke-'))
const elements = 2 ** 18
const aliases = process.env.ZTENSOR_NO_EXTERNAL !== '1' && endianness() === 'LE'

const header = (end) => JSON.stringify({ w: { dtype: 'F32', shape: [elements], data_offsets: [0, end] } }).padEnd(120)
function ones(name) {
  const data = littleEndian(new Float32Array(elements).fill(1))
  const text = header(data.length)
  const path = join(scratch, name)
  writeFileSync(path, Buffer.concat([littleEndian(BigUint64Array.of(BigInt(text.length))), Buffer.from(text), data]))
  return path
}
const sum = (array) => array.reduce((total, value) => total + value, 0)

const cases = {
  'every vector opens and verifies, from a path and from memory': async () => {
    for (const name of vectors) {
      for (const source of [join(fixtures, name), readFileSync(join(fixtures, name))]) {
        const file = await open(source)
        const { ok, failures } = await file.verify()
        assert.ok(ok, `${name}: ${failures.join()}`)
        for (const tensor of file.values()) JSON.stringify(tensor)
        await file.load()
        file.close()
      }
    }
  },
  'data aliases the file, a write stays here, and close() empties it': async () => {
    const path = ones('alias.safetensors')
    const file = openSync(path)
    const tensor = file.tensor('w')
    assert.equal(tensor.mapped, aliases, tensor.copyReason)
    assert.equal(sum(tensor.data), elements)
    tensor.data[0] = 7
    assert.equal((await tensor.load())[0], 1)
    assert.equal(sum(tensor.slice([[0, 10]]).data), 16)
    const { data } = tensor
    file.close()
    if (aliases) assert.equal(data.length, 0)
    assert.throws(() => tensor.data, { code: 'ZT_CLOSED' })
  },
  'a ByteSource of the caller, and a web server, supply the bytes of a file': async () => {
    const bytes = readFileSync(ones('far.safetensors'))
    const reason = new Error('lost')
    const source = (fails) => ({
      byteLength: bytes.length,
      read: async (offset, length) => {
        if (fails()) throw reason
        return new Uint8Array(bytes.subarray(offset, offset + length))
      },
    })
    let lost = false
    const file = await open(source(() => lost))
    assert.equal(sum(await file.tensor('w').load()), elements)
    assert.throws(() => file.tensor('w').data, { code: 'ZT_NOT_LOCAL' })
    lost = true
    await assert.rejects(file.tensor('w').load(), (error) => error.code === 'ZT_IO' && error.cause === reason)
    file.close()
    const server = createServer((_, response) => response.end(bytes))
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
    const remote = await open(`http://127.0.0.1:${server.address().port}/remote.safetensors`)
    assert.equal(sum(await remote.tensor('w').load({ slice: [[0, 10]] })), 10)
    remote.close()
    server.closeAllConnections?.()
    server.close()
  },
  'files are written, converted and read again': async () => {
    const path = join(scratch, 'written.zt')
    const writer = await create(path, { compression: { level: 3 }, metadata: { license: 'MIT', count: 2n ** 60n } })
    await writer.add('bias', Float32Array.of(1, 2, 3))
    await writer.add('half', { dtype: 'float16', shape: [2], data: Uint16Array.of(0x3c00, 0x4000) })
    await writer.finish()
    await convert(path, join(scratch, 'written.safetensors'), { format: 'safetensors', copyMetadata: false }).catch(
      (error) => assert.equal(error.code !== 'ZT_INTERNAL', true),
    )
    const file = await open(path, { verify: true })
    assert.deepEqual([...file.tensor('bias').data], [1, 2, 3])
    assert.deepEqual([...file.tensor('half').toFloat32()], [1, 2])
    assert.equal(file.metadata.count, 2n ** 60n)
    file.close()
    assert.ok((await verify(path)).ok)
    assert.deepEqual([...toFloat32(Uint16Array.of(0x3f80), 'bfloat16')], [1])
  },
  'errors are ours': async () => {
    await assert.rejects(
      open(join(scratch, 'absent')),
      (error) => error instanceof ZTensorError && error.cause.code === 'ENOENT',
    )
    assert.throws(() => openSync(new Uint8Array(64)), { code: 'ZT_BAD_MAGIC' })
    assert.throws(() => openSync(7), { code: 'ZT_INVALID_ARG' })
    const required = createRequire(import.meta.url)(commonJs)
    assert.ok(required.TensorFile === TensorFile)
    // `import ztensor from 'ztensor'`, as an ES module and as compilers turn it into CommonJS.
    const names = Object.keys(exports).filter((name) => name !== 'default')
    for (const all of [exports.default, required.default])
      for (const name of names) assert.ok(all[name] === exports[name], name)
  },
  'jobs and reports have separate entries, with the classes of the main one': async () => {
    const [jobs, reports] = installed
      ? [await import('ztensor/jobs'), await import('ztensor/report')]
      : [await import('../../dist/jobs.mjs'), await import('../../dist/report.mjs')]
    const path = ones('entries.safetensors')
    const job = await jobs.planJob('verify', path)
    assert.ok((await jobs.finishJob(job, await Promise.all(job.tasks.map((task) => jobs.runTask(task))))).ok)
    const file = await open(path)
    assert.match(await reports.report(file), /^<!doctype html>/)
    await assert.rejects(reports.report(join(scratch, 'absent')), (error) => error instanceof ZTensorError)
    file.close()
  },
  'a signal stops a load': async () => {
    const file = openSync(ones('signal.safetensors'))
    await assert.rejects(file.load({ signal: AbortSignal.abort(new Error('enough')) }), { message: 'enough' })
    file.close()
  },
  'two thousand files opened, aliased and closed': () => {
    const path = ones('cycle.safetensors')
    for (let i = 0; i < 2000; i++) {
      const file = openSync(path)
      assert.equal(file.tensor('w').data[i], 1)
      file.close()
    }
  },
  'a worker reads, and ends with its file open': async () => {
    const path = ones('worker.safetensors')
    const code = `
      const { parentPort } = require('node:worker_threads')
      const { openSync } = require(${JSON.stringify(createRequire(import.meta.url).resolve(commonJs))})
      parentPort.postMessage(openSync(${JSON.stringify(path)}).tensor('w').data[5])`
    const worker = new Worker(code, { eval: true })
    const value = await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
    assert.equal(value, 1)
    await worker.terminate()
  },
}
const cannotLose = aliases ? unsupported('the address of a SIGBUS') : undefined
if (cannotLose !== undefined) console.log(`- a file truncated below its views: ${cannotLose}`)
else if (aliases && process.platform !== 'win32') {
  cases['a file truncated below its views is survived and reported'] = () => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [...runs(), fileURLToPath(import.meta.url), 'truncated'],
      {
        encoding: 'utf8',
      },
    )
    assert.deepEqual(
      { status, stdout: stdout.trim().split('\n') },
      { status: 0, stdout: ['ZT_MAPPING_LOST', 'ZT_MAPPING_LOST'] },
      stderr,
    )
  }
}

/** The arguments of this runtime before the path of a program. */
function runs() {
  return 'Deno' in globalThis ? ['run', '-A'] : []
}

/** The case that kills the process if it fails. */
async function truncated() {
  const path = ones('truncated.safetensors')
  const loss = new Promise((resolve) => {
    const { data } = openSync(path, { onMappingLost: resolve }).tensor('w')
    const file = openSync(path, { onMappingLost: () => {} })
    const other = file.tensor('w').data
    truncateSync(path, 8192)
    assert.equal(sum(data) < elements && sum(other) < elements, true)
    assert.throws(
      () => file.tensor('w'),
      (error) => {
        console.log(error.code)
        return true
      },
    )
  })
  const waiting = setInterval(() => {}, 1000)
  console.log((await loss).code)
  clearInterval(waiting)
}

let failed = 0
try {
  if (process.argv[2] === 'truncated') await truncated()
  else {
    for (const [name, run] of Object.entries(cases)) {
      try {
        await run()
        console.log(`✔ ${name}`)
      } catch (error) {
        failed += 1
        console.log(`✘ ${name}\n${error?.stack}`)
      }
    }
    console.log(`smoke: ${Object.keys(cases).length - failed} passed, ${failed} failed`)
  }
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
process.exitCode = failed > 0 ? 1 : 0
