// Compares files written into an object store with the same files in a folder.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { convert, create, diff, open, openSync } from 'ztensor'

/** More than two parts, without a pattern. */
const LARGE = 20 * 2 ** 20

const TARGETS = [
  ['m.zt', {}],
  ['m.zt', { version: '2' }],
  ['m.zt', { version: '2', canonical: false, compression: true }],
  ['m.safetensors', {}],
  ['m.npz', {}],
  ['m.zt', { version: '2', maxShardBytes: 6 * 2 ** 20 }, 'm.zt'],
  ['m.safetensors', { maxShardBytes: 6 * 2 ** 20 }, 'm.safetensors.index.json'],
]

async function model(path) {
  const writer = await create(path)
  for (let at = 0; at < 4; at++) {
    const data = new Float32Array(LARGE / 16).map((_, i) => Math.sin(i * (at + 1)))
    await writer.add(`layers.${at}`, data)
  }
  await writer.finish()
}

/** Returns [{ what, error }] for every way to write below the URL `root`, which ends in a slash. */
export async function compareUploads(root, remote) {
  const folder = mkdtempSync(join(tmpdir(), 'ztensor-uploads-'))
  const source = join(folder, 'source.zt')
  const compare = async (at, name, options, opened = name) => {
    const url = `${root}written/${at}/`
    await convert(source, `${url}${name}`, { ...options, remote })
    const [localFile, remoteFile] = [openSync(source), await open(`${url}${opened}`, { remote })]
    const { unchanged } = await diff(remoteFile, localFile)
    const { ok } = await remoteFile.verify()
    localFile.close()
    remoteFile.close()
    if (unchanged !== 4 || !ok) throw new Error(`${unchanged} of 4 tensors are the same, verify() is ok: ${ok}`)
    const again = await convert(source, `${url}${name}`, { ...options, remote }).catch(({ code }) => code)
    if (again !== 'ZT_EXISTS') throw new Error(`written twice: ${again}`)
  }
  try {
    await model(source)
    const results = []
    for (const [at, [name, options, opened]] of TARGETS.entries()) {
      let error
      await compare(at, name, options, opened).catch((thrown) => {
        error = thrown
      })
      results.push({ what: `writes ${opened ?? name} ${JSON.stringify(options)}`, error })
    }
    return results
  } finally {
    rmSync(folder, { recursive: true })
  }
}
