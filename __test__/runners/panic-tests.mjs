// `npm run test:panics`: builds the addon with panics on demand into a separate package, and checks that each one is a ZT_INTERNAL
// with its location, and that the process, other files and later calls continue to work.
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root, runOrExit } from '../../scripts/command.mjs'
import { hostPlatform } from '../../scripts/platform.mjs'
import { hostTarget } from '../../scripts/target.mjs'

const library = { win32: 'ztensor_node.dll', darwin: 'libztensor_node.dylib' }[process.platform] ?? 'libztensor_node.so'
const folder = mkdtempSync(join(tmpdir(), 'ztensor-panics-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))

// In CI the step before has compiled all of this (.ci/run); it lints, too.
const parts = process.env.CI ? ['--workspace', '--all-targets'] : []
if (process.env.CI) process.env.RUSTC_WORKSPACE_WRAPPER = 'clippy-driver'
const cargo = ['build', '--quiet', '--profile', 'quick', '--target', hostTarget, ...parts]
runOrExit('cargo', [...cargo, '--features', 'ztensor-node/fault-injection'])
for (const part of ['package.json', 'dist']) cpSync(join(root, part), join(folder, part), { recursive: true })
symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
cpSync(join(root, 'target', hostTarget, 'quick', library), join(folder, `ztensor.${hostPlatform}.node`))
const { append, compact, compare, convert, create, editMetadata, openSync, open, toFloat32, ZTensorError } =
  createRequire(join(folder, 'package.json'))(folder)

const scratch = join(folder, 'files')
mkdirSync(scratch)
const path = join(scratch, 'whole.zt')
const writer = await create(path, { version: '1.0' })
await writer.add('w', Float32Array.of(1, 2, 3))
await writer.add('x', Uint16Array.of(1))
await writer.add('t', Float32Array.of(1, 2, 3), { shape: [1, 3] })
await writer.finish()

/** Whether the file can be used afterwards: after a panic in work on its data it is rejected, otherwise it is unchanged. */
const cases = [
  ['open', 'openSync', () => openSync(path)],
  ['open', 'open', () => open(path)],
  ['open', 'open of memory', () => openSync(new Uint8Array(64))],
  ['find', 'tensor', (file) => file.tensor('x'), { usable: true }],
  ['decode', 'load', (file) => file.tensor('w').load(), { usable: false }],
  ['batch', 'file.load', (file) => file.load(), { usable: false }],
  ['verify', 'verify', (file) => file.verify(), { usable: false }],
  ['verify', 'open with verify', () => openSync(path, { verify: true })],
  ['widen', 'toFloat32', (file) => file.tensor('w').toFloat32(), { usable: true }],
  ['widen', 'toFloat32 of an array', () => toFloat32(Uint16Array.of(1), 'float16')],
  [
    'write',
    'add',
    async () => {
      const broken = await create(join(scratch, 'broken.zt'))
      try {
        await broken.add('w', Float32Array.of(1))
      } finally {
        await broken.abort()
      }
    },
  ],
  ['stats', 'stats', (file) => file.tensor('w').stats(), { usable: false }],
  ['nearest', 'nearest', (file) => file.tensor('t').nearest([1, 2, 3]), { usable: false }],
  ['compare', 'compare', (file) => compare(file.tensor('w'), file.tensor('w')), { usable: false }],
  ['prefetch', 'prefetch', (file) => file.prefetch(), { usable: true }],
  ['plan', 'plan', (file) => file.plan({ rank: 0, worldSize: 1, rules: { '*': 'replicate' } }), { usable: true }],
  ['convert', 'convert', () => convert(path, join(scratch, 'converted.zt'))],
  ['compress', 'convert, compressed', () => convert(path, join(scratch, 'converted.zt'), { compression: {} })],
  [
    'compress',
    'add, compressed by another thread',
    async () => {
      const broken = await create(join(scratch, 'broken.zt'), { compression: {} })
      try {
        await broken.add('w', new Uint8Array(2 ** 20))
        await broken.finish()
      } finally {
        await broken.abort()
      }
    },
  ],
  ['edit', 'append', () => append(path)],
  ['edit', 'append in place', () => append(path, { inPlace: true })],
  ['compact', 'compact', () => compact(path)],
  ['edit', 'editMetadata', () => editMetadata(path, { set: { a: 1 } })],
]

let failed = 0
for (const [location, name, call, after] of cases) {
  const file = openSync(path)
  for (const tensor of file.values()) tensor.shape
  process.env.ZTENSOR_PANIC = location
  let error
  try {
    await call(file)
  } catch (thrown) {
    error = thrown
  }
  delete process.env.ZTENSOR_PANIC
  const faults = []
  if (!(error instanceof ZTensorError) || error.code !== 'ZT_INTERNAL') faults.push(`gave ${error?.stack}`)
  else if (!new RegExp(`injected into ${location} \\(.*\\.rs:\\d+:\\d+\\)`).test(error.message))
    faults.push(`has the message "${error.message}"`)
  if (after !== undefined) {
    const load = async () => file.tensor('w').load()
    const values = await load().catch(({ code }) => code)
    if (String(values) !== (after.usable ? '1,2,3' : 'ZT_INTERNAL')) faults.push(`then the file gave ${values}`)
  }
  file.close()
  const other = openSync(path)
  if (String(await other.tensor('w').load()) !== '1,2,3') faults.push('another file changed')
  other.close()
  if (faults.length > 0) failed += 1
  console.log(`${faults.length === 0 ? '✔' : '✘'} ${location}: ${name} ${faults.join('; ')}`)
}
console.log(`panics: ${cases.length - failed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
