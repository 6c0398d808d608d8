// After a file was truncated under its mapping, every call of every kind on it, its tensors and their components throws
// ZT_MAPPING_LOST, whichever detects it first, except those that return known values, and those that release it.
import { spawnSync } from 'node:child_process'
import { truncateSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { openSync } from 'ztensor'
import { sparse10, zt10 } from '../corpus/zt.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFile } from '../helpers/scratch.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const LARGE = Buffer.alloc(1 << 20, 1)
const large = { dtype: 'uint8', shape: [LARGE.length], format: 'dense', components: { data: { bytes: LARGE } } }
const BYTES = zt10({ ...sparse10(), w: large })

/** Members that return values known when the file was opened. */
const KNOWN = [
  'name',
  'dtype',
  'shape',
  'closed',
  'byteLength',
  'layout',
  'kind',
  'storageType',
  'size',
  'toJSON',
  'Symbol(nodejs.util.inspect.custom)',
  'Symbol(Symbol.toStringTag)',
]
/** Calls that fail for any file: a sparse tensor has no slices and no Blob, bytes are not float16, and only a table has nearest rows. */
const MISUSED = ['blob', 'float16', 'nearest', 'shard', 'slice', 'toFloat32']

if (canMap(1) && process.platform !== 'win32') {
  test('every call on a lost file, its tensors and their components reports it', (t) => {
    const program = `
      import { truncateSync } from 'node:fs'
      import { compare, openSync } from 'ztensor'
      const path = ${JSON.stringify(scratchFile(BYTES))}
      const file = openSync(path, { onMappingLost: () => {} })
      const tensors = { w: file.tensor('w'), m: file.tensor('m'), k: file.tensor('k') }
      const components = Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, [...tensor.components.values()][0]]))
      const { data } = tensors.w
      truncateSync(path, 4096)
      // The first access to a lost page; all later calls must report it.
      if (data[data.length - 1] !== 0) throw new Error('there')
      const silent = {}
      let tried = 0
      const attempt = async (what, run) => {
        tried += 1
        try {
          await run()
          silent[what] = 'nothing'
        } catch (error) {
          if (error?.code !== 'ZT_MAPPING_LOST') silent[what] = error?.code ?? String(error)
        }
      }
      const ARGUMENTS = {
        tensor: ['w'], get: ['w'], has: ['w'], forEach: [() => {}], plan: [{ rank: 0, worldSize: 1, rules: { '*': 'replicate' } }],
        [Symbol.for('ztensor.outline')]: [{ items: 0, units: 0 }], slice: [[[0, 1]]], shard: [{ dim: 0, rank: 0, worldSize: 2 }], take: [[0]],
        loadTo: [() => {}], nearest: [[1, 2, 3]],
      }
      const targets = { file, w: tensors.w, m: tensors.m, k: tensors.k, 'w.data': components.w, 'm.values': components.m }
      for (const [name, target] of Object.entries(targets)) {
        for (let prototype = Object.getPrototypeOf(target); prototype !== Object.prototype; prototype = Object.getPrototypeOf(prototype)) {
          for (const key of Reflect.ownKeys(prototype)) {
            if (key === 'constructor' || key === 'close' || key === Symbol.dispose || key === Symbol.asyncDispose) continue
            const { get, value } = Object.getOwnPropertyDescriptor(prototype, key)
            if (get === undefined && typeof value !== 'function') continue
            await attempt(name + ' ' + String(key), async () => {
              const result = get === undefined ? value.apply(target, ARGUMENTS[key] ?? []) : get.call(target)
              if (typeof result?.next === 'function') return result.next()
              return result
            })
          }
        }
      }
      await attempt('compare', () => compare(tensors.w, tensors.w))
      console.log(JSON.stringify({ tried, silent }))
      file.close()`
    const flags = ['--expose-gc', '--input-type=module', '-e', program]
    const { NODE_OPTIONS: _, ...env } = process.env
    const { status, signal, stdout, stderr } = spawnSync(process.execPath, flags, { cwd: root, env, encoding: 'utf8' })
    t.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' })
    const { tried, silent } = JSON.parse(stdout)
    t.true(tried > 80, String(tried))
    const unexpected = Object.entries(silent).filter(([what, outcome]) => {
      const call = what.slice(what.indexOf(' ') + 1)
      return outcome === 'nothing'
        ? !KNOWN.includes(call)
        : !(MISUSED.includes(call) && /^ZT_(BAD_(LAYOUT|DTYPE)|INVALID_ARG)$/.test(outcome))
    })
    t.deepEqual(unexpected, [])
  })
}

test('a file that is not mapped has no mapping to lose: existing arrays stay, reads throw ZT_TRUNCATED', async (t) => {
  const path = scratchFile(BYTES)
  const file = openSync(path, { io: 'read', onMappingLost: () => t.fail() })
  const tensor = file.tensor('w')
  const { data } = tensor
  truncateSync(path, 4096)
  t.is(data[data.length - 1], 1)
  t.is((await rejectionOf(() => tensor.load()))?.code, 'ZT_TRUNCATED')
  t.deepEqual([...file.keys()], ['m', 'k', 'w'])
  file.close()
})
