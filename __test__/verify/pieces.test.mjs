// verify() of data that it reads in pieces and together with its neighbors: it finds damage at every position.
import { closeSync, openSync as openFd, readSync, truncateSync, writeSync } from 'node:fs'
import test from 'ava'
import { create, open, openSync, verify } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const MIB = 2 ** 20

/** Bytes without repetition. */
function noise(length, seed) {
  const words = new Uint32Array(Math.ceil(length / 4))
  for (let at = 0, x = seed; at < words.length; at++) words[at] = x = (Math.imul(x, 1664525) + 1013904223) >>> 0
  return new Uint8Array(words.buffer, 0, length)
}

async function written(options, tensors) {
  const path = scratchPath('pieces.zt')
  const writer = await create(path, options)
  for (const [name, bytes] of tensors) await writer.add(name, bytes)
  await writer.finish()
  return path
}

/** Changes the byte at an offset of a file. */
function flip(path, offset) {
  const fd = openFd(path, 'r+')
  const byte = Buffer.alloc(1)
  readSync(fd, byte, 0, 1, offset)
  byte[0] ^= 0x10
  writeSync(fd, byte, 0, 1, offset)
  closeSync(fd)
}

function offsetOf(path, name) {
  const file = openSync(path)
  const { offset } = file.tensor(name).components.get('data')
  file.close()
  return offset
}

const names = ({ failures }) => failures.map(({ code, tensor, component }) => [code, tensor, component])

for (const [what, options] of [
  ['CRC-32C, divided over the cores', { version: '1.0', digest: 'crc32c' }],
  ['SHA-256', { version: '1.0', digest: 'sha256' }],
  ['XXH3', { version: '2' }],
]) {
  test(`verifies a long tensor: ${what}`, async (t) => {
    const length = 34 * MIB + 12_345
    const path = await written(options, [
      ['a', noise(3 * MIB, 1)],
      ['b', noise(length, 2)],
    ])
    t.deepEqual(await verify(path), { ok: true, checked: 2, undigested: 0, failures: [], warnings: [] })
    const start = offsetOf(path, 'b')
    for (const at of [0, 8 * MIB - 1, 8 * MIB, 17 * MIB + 5, length - 1]) {
      flip(path, start + at)
      const found = await verify(path)
      t.deepEqual(names(found), [['ZT_DIGEST_MISMATCH', 'b', 'data']], `${at}`)
      t.is(found.checked, 2)
      flip(path, start + at)
    }
    t.true((await verify(path)).ok)
  })
}

for (const options of [{ version: '1.2', digest: 'crc32c' }, { version: '1.0', digest: 'sha256' }, { version: '2' }]) {
  test(`verifies small neighbors, zTensor ${options.version}`, async (t) => {
    const tensors = Array.from({ length: 1500 }, (_, at) => [
      `t${String(at).padStart(4, '0')}`,
      at % 5 === 3 ? new Uint8Array(0) : noise(1 + ((at * 37) % 3000), at),
    ])
    const path = await written(options, tensors)
    t.deepEqual(await verify(path), { ok: true, checked: 1500, undigested: 0, failures: [], warnings: [] })
    const damaged = ['t0000', 't0407', 't0801', 't1499']
    for (const name of damaged) flip(path, offsetOf(path, name))
    const expected = damaged.map((name) => ['ZT_DIGEST_MISMATCH', name, 'data'])
    const file = await open(path)
    const progress = []
    t.deepEqual(names(await file.verify({ onProgress: (now) => progress.push(now) })), expected)
    t.like(progress.at(-1), { tensors: 1500, totalTensors: 1500 })
    t.is(progress.at(-1).bytes, progress.at(-1).totalBytes)
    file.close()
  })
}

test('verifies a tensor in more frames than memory holds', async (t) => {
  const data = new Uint8Array(70 * MIB + 4321)
  const pattern = noise(100_003, 5)
  for (let at = 0; at < data.length; at += pattern.length) data.set(pattern.subarray(0, data.length - at), at)
  const path = await written({ version: '2', canonical: false, compression: { level: 1 } }, [['a', data]])
  const file = openSync(path)
  const { encoding, offset, storedLength, digest } = file.tensor('a').components.get('data')
  t.deepEqual([encoding, digest.split(':')[0]], ['zt.zstd-seekable/1', 'xxh3'])
  t.deepEqual(await file.verify(), { ok: true, checked: 1, undigested: 0, failures: [], warnings: [] })
  t.is(Buffer.compare(await file.tensor('a').load(), data), 0)
  file.close()
  for (const part of [0.1, 0.97]) {
    const at = offset + Math.floor(storedLength * part)
    flip(path, at)
    const damaged = openSync(path)
    t.deepEqual(names(await damaged.verify()), [['ZT_DECODE', 'a', 'data']], `${part}`)
    t.is((await rejectionOf(() => damaged.tensor('a').load())).code, 'ZT_DECODE')
    damaged.close()
    flip(path, at)
  }
})

test('never accepts a file that is truncated during the verification', async (t) => {
  const path = await written({ version: '1.0', digest: 'crc32c' }, [['a', noise(48 * MIB, 3)]])
  const losses = []
  const file = openSync(path, { onMappingLost: (error) => losses.push(error) })
  const found = file.verify().then(
    ({ ok, checked }) => ({ ok, checked }),
    ({ code }) => code,
  )
  truncateSync(path, 5 * MIB + 77)
  // Unless it finished before the truncation.
  const outcome = await found
  if (outcome !== 'ZT_TRUNCATED') t.deepEqual(outcome, { ok: true, checked: 1 })
  t.is((await rejectionOf(() => file.verify())).code, 'ZT_TRUNCATED')
  // Nothing was aliased, so there is no warning.
  await new Promise((resolve) => setImmediate(resolve))
  t.deepEqual(losses, [])
  file.close()
})
