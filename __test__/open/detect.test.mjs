// The format of a file is detected by its bytes, never by its name.
import { readFileSync } from 'node:fs'
import test from 'ava'
import fc from 'fast-check'
import { openSync, ZTensorError } from 'ztensor'
import { btf, dense, INT8 } from '../corpus/btf.mjs'
import { entry, safetensors } from '../corpus/safetensors.mjs'
import { SQUARE, square01, square10, square12, u64s, zt01, zt10, zt12 } from '../corpus/zt.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { thrownBy } from '../helpers/errors.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { vectors } from '../helpers/vectors.mjs'

const FILES = {
  zt01: ['zt', zt01([square01()])],
  zt10: ['zt', zt10({ w: square10() })],
  zt12: ['zt', zt12({ w: square12() })],
  safetensors: ['safetensors', safetensors(`{"w":${entry()}}`, SQUARE)],
  btf: ['btf', btf([dense({ data: SQUARE })])],
}

for (const [what, [format, bytes]] of Object.entries(FILES)) {
  test(`detects ${what} by its bytes, under any name`, (t) => {
    for (const name of ['a.zt', 'a.safetensors', 'a.btf', 'a.bin', 'a']) {
      const file = openSync(scratchFile(bytes, name))
      t.is(file.format, format)
      file.close()
    }
  })

  test(`${what} opens with its format, and fails with any other`, (t) => {
    openSync(bytes, { format }).close()
    for (const other of ['zt', 'safetensors', 'btf'].filter((one) => one !== format)) {
      const error = thrownBy(() => openSync(bytes, { format: other }).close())
      t.true(error instanceof ZTensorError, other)
      t.true(['ZT_BAD_MAGIC', 'ZT_TRUNCATED', 'ZT_LIMIT', 'ZT_BAD_INDEX'].includes(error?.code), `${other}: ${error}`)
    }
  })
}

test('the format zt without its magic: ZT_BAD_MAGIC', (t) => {
  for (const bytes of [FILES.safetensors[1], FILES.btf[1], Buffer.alloc(64)])
    t.is(thrownBy(() => openSync(bytes, { format: 'zt' }))?.code, 'ZT_BAD_MAGIC')
})

const OTHERS = {
  'zero bytes': Buffer.alloc(256),
  'all ones': Buffer.alloc(256, 0xff),
  'a text': Buffer.from('This is not a tensor file, but a text with a few more words.'),
  JSON: Buffer.from('{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'),
  gzip: Buffer.from(`1f8b0800${'00'.repeat(60)}`, 'hex'),
  zip: Buffer.concat([Buffer.from('PK\x03\x04'), Buffer.alloc(60)]),
  PNG: Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(60)]),
  'a zstd frame': Buffer.concat([Buffer.from('28b52ffd', 'hex'), Buffer.alloc(60)]),
  'a count of one and no record': u64s(1, 16, 0, 0, 0, 0, 0),
  'this test': readFileSync(new URL(import.meta.url)),
}
for (const [what, bytes] of Object.entries(OTHERS)) {
  test(`${what}: ZT_BAD_MAGIC`, (t) => {
    const error = thrownBy(() => openSync(bytes).close())
    t.true(error instanceof ZTensorError)
    t.is(error?.code, 'ZT_BAD_MAGIC')
  })
}

test('detects a BTF file only if every byte is accounted for', (t) => {
  const record = dense({ dtype: INT8, dims: [3], data: Buffer.from([1, 2, 3]) })
  const whole = btf([record])
  t.is(openSync(whole).format, 'btf')
  t.is(openSync(btf([record], { padLast: false })).format, 'btf')
  for (const bytes of [
    Buffer.concat([whole, Buffer.alloc(1)]),
    Buffer.concat([whole, whole]),
    whole.subarray(0, -6),
    whole.map((byte, at) => (at === 30 ? 1 : byte)),
  ]) {
    t.is(thrownBy(() => openSync(bytes))?.code, 'ZT_BAD_MAGIC')
  }
})

test('detects a BTF file whose number of tensors could be a header length', (t) => {
  const many = btf(
    Array.from({ length: 300 }, (_, i) => dense({ dtype: INT8, dims: [1], data: Buffer.from([i & 127]) })),
  )
  const file = openSync(many)
  t.is(file.format, 'btf')
  t.is(file.size, 300)
  t.is(file.tensor('299').data[0], 299 & 127)
  file.close()
})

test('random bytes are a ZTensorError, or a file', (t) => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 200 }),
      fc.constantFrom(undefined, 'zt', 'safetensors', 'btf'),
      (bytes, format) => {
        const error = thrownBy(() => openSync(bytes, { format }).close())
        t.true(error === undefined || (error instanceof ZTensorError && error.code !== 'ZT_INTERNAL'), String(error))
      },
    ),
    { numRuns: scaled(2000) },
  )
})

test('random bytes after a valid beginning are a ZTensorError, or a file', (t) => {
  const starts = vectors.filter(({ bytes }) => bytes.length < 6000)
  fc.assert(
    fc.property(
      fc.constantFrom(...starts),
      fc.nat(),
      fc.uint8Array({ minLength: 1, maxLength: 24 }),
      ({ bytes }, at, patch) => {
        const changed = Buffer.from(bytes)
        changed.set(patch.subarray(0, changed.length - (at % changed.length)), at % changed.length)
        const error = thrownBy(() => {
          const file = openSync(changed)
          // every tensor is read if it can be
          for (const tensor of file.values()) readAll(tensor)
          file.close()
        })
        t.true(
          error === undefined || (error instanceof ZTensorError && error.code !== 'ZT_INTERNAL'),
          `${error?.stack}`,
        )
      },
    ),
    { numRuns: scaled(2000) },
  )
})

function readAll(tensor) {
  for (const read of [
    () => tensor.data,
    () => tensor.csr().toDense({ maxBytes: 1 << 20 }),
    () => tensor.coo().toDense({ maxBytes: 1 << 20 }),
  ]) {
    const error = thrownBy(read)
    if (error !== undefined && !(error instanceof ZTensorError && error.code !== 'ZT_INTERNAL')) throw error
  }
}
