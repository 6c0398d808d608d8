// The models that servers of interop send: written once, with numbers that do not repeat.
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { convert, create } from 'ztensor'

/** The tensors, each from its first number on, so that another version of a model differs in all of them. */
async function write(path, seed, options) {
  const writer = await create(path, options)
  const numbers = (length, at) => Float32Array.from({ length }, (_, i) => seed + at + i / 4)
  await writer.add('embed', { dtype: 'float32', shape: [2048, 1536], data: numbers(2048 * 1536, 0) })
  for (let at = 0; at < 3; at++)
    await writer.add(`layers.${at}.weight`, { dtype: 'float32', shape: [512, 1024], data: numbers(512 * 1024, at) })
  await writer.add('norm', {
    dtype: 'bfloat16',
    shape: [1024],
    data: Uint16Array.from({ length: 1024 }, (_, at) => at),
  })
  await writer.add('ids', {
    dtype: 'int64',
    shape: [8, 8],
    data: BigInt64Array.from({ length: 64 }, (_, at) => BigInt(at)),
  })
  await writer.finish()
}

/** Keys and their bytes: safetensors and zTensor 2, each in one file and, below `sharded/`, in several. */
export async function models(build) {
  const folder = join(build, 'remote-models')
  rmSync(folder, { recursive: true, force: true })
  for (const name of ['sharded', 'other']) mkdirSync(join(folder, name), { recursive: true })
  await write(join(folder, 'model.safetensors'), 1)
  await write(join(folder, 'model.zt'), 1, { version: '2', canonical: false, digest: 'sha256', compression: true })
  await write(join(folder, 'other/model.safetensors'), 1000)
  await convert(join(folder, 'model.safetensors'), join(folder, 'sharded/model.safetensors'), { maxShardBytes: 5e6 })
  const keys = readdirSync(folder, { recursive: true }).filter((name) => /\.(safetensors|zt|json)$/.test(name))
  return {
    path: (key) => join(folder, key),
    /** Those to serve: all but the other version. */
    keys: keys.map((key) => key.replaceAll('\\', '/')).filter((key) => !key.startsWith('other/')),
    bytes: (key) => readFileSync(join(folder, key)),
  }
}
