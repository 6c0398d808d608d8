// A file that is truncated while long work reads it, mapped or not, with and without views of it: the work returns the original
// data, or reports that the file is shorter now. In a separate process, because it may raise a signal.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { create } from 'ztensor'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const MIB = 2 ** 20

const path = scratchPath('whole.zt')
const writer = await create(path, { version: '1.0', digest: 'crc32c' })
const values = new Float32Array(3 * MIB).fill(1)
await writer.add('first', new Float32Array(MIB).fill(1))
await writer.add('large', values)
for (let at = 0; at < 50; at++) await writer.add(`small.${at}`, new Float32Array(1000).fill(1))
await writer.addCsr('sparse', {
  shape: [1000, 1000],
  values: new Float32Array(1000).fill(1),
  indices: Uint32Array.from({ length: 1000 }, (_, at) => at),
  indptr: Uint32Array.from({ length: 1001 }, (_, at) => at),
})
await writer.finish()
const BYTES = readFileSync(path)

/** Long work, and its result if the file stays complete. */
const WORK = {
  'verify()': '(await file.verify()).failures.length === 0',
  'load()':
    "[...(await file.load({ names: ['first', 'large', 'small.7'] })).values()].every(({ data }) => data.every((value) => value === 1))",
  'load() of a tensor': "(await file.tensor('large').load()).every((value) => value === 1)",
  'load() of a part': "(await file.tensor('large').load({ slice: [[100, 2_000_000]] })).every((value) => value === 1)",
  'load() as float32': "(await file.tensor('large').load({ as: 'float32' })).every((value) => value === 1)",
  'loadCsr()': "(await file.tensor('sparse').loadCsr()).values.every((value) => value === 1)",
  'prefetch()': '(await file.prefetch()) === undefined',
  'stats()': "(await file.tensor('large').stats()).mean === 1",
  'compare()': "(await compare(file.tensor('large'), file.tensor('large'))).identical",
  'convert()':
    "(await convert(path, path + '.out.zt', { overwrite: true })) !== undefined && (await verify(path + '.out.zt')).ok",
}

// Windows does not let a mapped file be truncated.
for (const io of process.platform === 'win32' ? ['read'] : ['mmap', 'read']) {
  for (const [what, work] of Object.entries(WORK)) {
    test(`${what} of a file that shrinks during the call, io: ${io}`, (t) => {
      const program = `
        import { copyFileSync, truncateSync } from 'node:fs'
        import { setImmediate as turn } from 'node:timers/promises'
        import { compare, convert, open, openSync, verify } from 'ztensor'
        const whole = ${JSON.stringify(path)}, path = ${JSON.stringify(scratchFile(BYTES, 'shrinking.zt'))}
        const codes = {}
        let view
        for (let round = 0; round < 12; round++) {
          copyFileSync(whole, path)
          const file = openSync(path, { io: ${JSON.stringify(io)}, onMappingLost: () => {} })
          if (round % 3 === 1) view = file.tensor('small.3').data
          const working = (async () => ${work})().then((right) => (right ? 'right' : 'wrong'), (error) => error.code ?? String(error))
          for (let i = 0; i < round % 5; i++) await turn()
          truncateSync(path, round % 2 ? 65_536 : ${BYTES.length - 100_000})
          const outcome = await working
          codes[outcome] = (codes[outcome] ?? 0) + 1
          file.close()
        }
        console.log(JSON.stringify(codes))`
      const { NODE_OPTIONS: _, ...env } = process.env
      const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
        cwd: root,
        env,
        encoding: 'utf8',
      })
      t.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' })
      const met = JSON.parse(stdout)
      t.log(stdout.trim())
      t.deepEqual(
        Object.keys(met).filter((outcome) => !['right', 'ZT_TRUNCATED', 'ZT_MAPPING_LOST'].includes(outcome)),
        [],
      )
    })
  }
}
