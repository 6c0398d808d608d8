// Fills fuzz/corpus/ from vectors, the committed ones and those of other folders: whole files, and of each its index.
//   node fuzz/seeds.mjs [FOLDER…]
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const folders = [join(here, '../__test__/fixtures'), ...process.argv.slice(2)]

function seed(target, name, bytes) {
  const folder = join(here, 'corpus', target)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, name), bytes)
}

/** The index of a file below version 2, which ends `footer` bytes before the file does. */
function trailing(bytes, footer) {
  const end = bytes.length - footer
  return bytes.subarray(end - Number(bytes.readBigUInt64LE(end)), end)
}

for (const folder of folders) {
  for (const name of readdirSync(folder).filter((name) => /\.(zt|safetensors|btf)$/.test(name))) {
    const bytes = readFileSync(join(folder, name))
    seed('read', name, bytes)
    const magic = bytes.toString('latin1', 0, 8)
    if (name.endsWith('.btf')) seed('btf', name, bytes)
    else if (name.endsWith('.safetensors')) {
      const header = bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE(0)))
      const data = bytes.length - 8 - header.length
      // The target takes the header, then the bytes of data in two.
      if (data < 65536) seed('safetensors', name, Buffer.concat([Buffer.from([data & 255, data >> 8]), header]))
    } else if (magic === 'ZTEN0001') seed('zt01', name, trailing(bytes, 8))
    else if (magic === 'ZTEN1000' && bytes.toString('latin1', bytes.length - 8) === magic)
      seed('zt12', name, trailing(bytes, 16))
    else if (magic === 'ZTEN1000') seed('zt10', name, trailing(bytes, 8))
    else {
      const footer = bytes.length - 40
      const offset = Number(bytes.readBigUInt64LE(footer))
      seed('zt2', name, bytes.subarray(offset, offset + Number(bytes.readBigUInt64LE(footer + 8))))
    }
    for (let at = bytes.indexOf('28b52ffd', 'hex'); at >= 0; at = bytes.indexOf('28b52ffd', at + 1, 'hex'))
      seed('zstd', `${name}-${at}`, bytes.subarray(at))
  }
}
