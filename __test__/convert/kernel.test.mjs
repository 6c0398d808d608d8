// convert() of raw tensors without digests, whose bytes the kernel may copy: the file equals that of add().
import { readFileSync } from 'node:fs'
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { noise, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const MiB = 2 ** 20
// Tensors that are copied, and others between them: small ones, an empty one, lengths that need padding, more than one piece of a copy.
const TENSORS = [100, MiB, MiB + 1, 0, 7, 9 * MiB + 13, 64, 2 * MiB].map((length, seed) => [
  seed.toString(),
  { dtype: 'int8', shape: [length], data: noise(length, seed) },
])
const PLAIN = [
  { version: '0.1', digest: false },
  { version: '1.0', digest: false },
  { version: '1.2', digest: false },
  { version: '1.0', digest: false, alignment: 4096 },
  { format: 'safetensors' },
  { format: 'btf' },
]
const all = (options) =>
  written(options, async (writer) => {
    for (const [name, tensor] of TENSORS) await writer.add(name, tensor)
  })

for (const from of [
  { version: '1.0', digest: false },
  { format: 'safetensors' },
  { version: '1.2', digest: 'crc32c' },
]) {
  for (const to of PLAIN) {
    test(`from ${JSON.stringify(from)} to ${JSON.stringify(to)}: writes the same bytes as add()`, async (t) => {
      const [source, added, target] = [await all(from), await all(to), scratchPath('target')]
      await convert(source, target, to)
      const file = openSync(target)
      for (const [name, { data }] of TENSORS) {
        const found = file.tensor(name).data
        t.true(littleEndian(found).equals(data), name)
      }
      file.close()
      t.true(readFileSync(target).equals(readFileSync(added)))
    })
  }
}

test('hashes data while it copies it', async (t) => {
  const [source, target] = [await all({ version: '1.0', digest: false }), scratchPath('target')]
  await convert(source, target, { version: '1.0', digest: 'crc32c' })
  t.true(readFileSync(target).equals(readFileSync(await all({ version: '1.0', digest: 'crc32c' }))))
})
