// The content digest of zTensor 2 (§6.4), its canonical form (§6.3), and the commands that print them.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import test from 'ava'
import { create, openSync, verify } from 'ztensor'
import { seekable } from '../corpus/zstd.mjs'
import { dense, deterministic, digestOf, file, object, part } from '../corpus/zt2.mjs'
import { sameBytes } from '../helpers/bytes.mjs'
import { run, write } from '../helpers/command.mjs'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const KIB64 = 65536
const ONE = Buffer.from([1, 2, 3, 4])
const TWO = Buffer.from([0, 1, 1])
const A = { digest: digestOf(ONE) }
const B = { type: 'bool', digest: digestOf(TWO) }

/** The hash input for a tensor `a` of u8 and `b` of bool. */
const CONTENT = deterministic([
  'zt.content/1',
  {
    a: { shape: [4], layout: 'dense', parts: { data: { dtype: 'u8', digest: A.digest } } },
    b: {
      shape: [3],
      layout: 'dense',
      parts: { data: { dtype: 'u8', ...B } },
      attributes: { unit: 'm', scale: [1, 2] },
    },
  },
])
const SHA256 = `sha256:${createHash('sha256').update(CONTENT).digest('hex')}`
const attributes = { unit: 'm', scale: [1, 2] }

/** Both tensors at these offsets. */
const placed = (a, b, { root = {}, ...more } = {}) =>
  file({
    blobs: { [a]: ONE, [b]: TWO },
    manifest: { objects: { a: dense('u8', [4], a, 4, A), b: { ...dense('u8', [3], b, 3, B), attributes } }, ...root },
    ...more,
  })
const stream = seekable([ONE])
const ENCODED = file({
  blobs: { 4096: stream, 8192: TWO },
  manifest: {
    attributes: { made: 'otherwise' },
    objects: {
      a: dense('u8', [4], 4096, stream.length, { ...A, encoding: 'zt.zstd-seekable/1', decoded_length: 4 }),
      b: { ...dense('u8', [3], 8192, 3, B), attributes },
    },
  },
})
const CANONICAL = placed(KIB64, 2 * KIB64, { at: 3 * KIB64 })

async function digestIn(source, algorithm) {
  const opened = openSync(source)
  try {
    return await opened.contentDigest(algorithm)
  } finally {
    opened.close()
  }
}

test('the content digest does not depend on how and where the bytes are stored', async (t) => {
  for (const bytes of [placed(4096, 8192), placed(8192, 4096), CANONICAL, ENCODED]) {
    t.is(await digestIn(bytes), SHA256)
    t.is(await digestIn(scratchFile(bytes)), SHA256)
    t.is(await digestIn(bytes, 'xxh3'), digestOf(CONTENT))
  }
})

test('the content digest equals that of a file by create()', async (t) => {
  const path = scratchPath('written.zt')
  const writer = await create(path, { version: '2' })
  await writer.add('b', { dtype: 'bool', shape: [3], data: new Uint8Array(TWO) }, { attributes })
  await writer.add('a', new Uint8Array(ONE))
  await writer.finish()
  t.is(await digestIn(path), SHA256)
  sameBytes(t, readFileSync(path), CANONICAL)
})

test('another name, shape, type, attribute or content makes another digest', async (t) => {
  const variants = [
    { c: dense('u8', [4], 4096, 4, A) },
    { a: dense('u8', [2, 2], 4096, 4, A) },
    { a: dense('i8', [4], 4096, 4, A) },
    { a: dense('u8', [4], 4096, 4, { ...A, type: 'f8_e5m2' }) },
    { a: dense('u8', [4], 4096, 4, { digest: digestOf(TWO) }) },
    { a: object([4], 'x.y/1', { data: part('u8', 4096, 4, A) }) },
    { a: { ...dense('u8', [4], 4096, 4, A), attributes: {} } },
    { a: dense('u8', [4], 4096, 4, A) },
  ]
  const digests = variants.map((objects) => digestIn(file({ blobs: { 4096: ONE }, manifest: { objects } })))
  t.is(new Set(await Promise.all(digests)).size, variants.length)
})

test('there is no content digest without a digest of each part, or in other formats', async (t) => {
  const bytes = file({ blobs: { 4096: ONE }, manifest: { objects: { a: dense('u8', [4], 4096, 4) } } })
  const undigested = await rejectionOf(() => digestIn(bytes))
  t.is(undigested.code, 'ZT_BAD_DIGEST')
  t.like(undigested, { tensor: 'a', component: 'data', rule: 'zTensor 2 §6.4 Content digest' })
  t.is((await rejectionOf(() => digestIn(fixturePath('zt12-dtypes.zt')))).code, 'ZT_UNSUPPORTED_VERSION')
  t.is((await rejectionOf(() => digestIn(fixturePath('st-dtypes.safetensors')))).code, 'ZT_UNSUPPORTED_VERSION')
  isArgumentError(t, await rejectionOf(() => digestIn(bytes, 'crc32c')), 'algorithm')
  const opened = openSync(bytes)
  opened.close()
  t.is((await rejectionOf(() => opened.contentDigest())).code, 'ZT_CLOSED')
})

test('recognizes a canonical file', async (t) => {
  for (const source of [CANONICAL, write('canonical.zt', CANONICAL)]) {
    const { ok, failures, checked } = await verify(source, { canonical: true })
    t.deepEqual(failures, [])
    t.true(ok)
    t.is(checked, 2)
  }
  t.true((await verify(file({ manifest: { objects: {} }, at: KIB64 }), { canonical: true })).ok)
  const shared = file({
    blobs: { [KIB64]: ONE },
    at: 2 * KIB64,
    manifest: { objects: { a: dense('u8', [4], KIB64, 4, A), b: dense('u8', [2, 2], KIB64, 4, A) } },
  })
  t.true((await verify(shared, { canonical: true })).ok)
})

const rule = (number) => `zTensor 2 §6.3 rule ${number}`
const nfd = 'e\u0301'
const at64 = (objects, blobs = { [KIB64]: ONE }, root = {}) => {
  const end = Math.max(0, ...Object.keys(blobs).map(Number))
  return file({ blobs, at: end + KIB64, manifest: { objects, ...root } })
}
const alone = dense('u8', [4], KIB64, 4, A)
const DEPARTURES = {
  'at 4 KiB': [placed(4096, 8192), [rule(2), rule(2), rule(2)]],
  'with a gap': [placed(KIB64, 3 * KIB64, { at: 4 * KIB64 }), [rule(2)]],
  'with a gap before the manifest': [placed(KIB64, 2 * KIB64, { at: 4 * KIB64 }), [rule(1)]],
  'in another order': [placed(2 * KIB64, KIB64, { at: 3 * KIB64 }), [rule(2), rule(3)]],
  'with equal content twice': [
    at64({ a: alone, b: dense('u8', [2, 2], 2 * KIB64, 4, A) }, { [KIB64]: ONE, [2 * KIB64]: ONE }),
    [rule(3)],
  ],
  'with bytes before its footer': [
    Buffer.concat([CANONICAL.subarray(0, -40), Buffer.alloc(8), CANONICAL.subarray(-40)]),
    [rule(3)],
  ],
  'without digests': [at64({ a: dense('u8', [4], KIB64, 4) }), [rule(4)]],
  'with sha256': [
    at64({ a: dense('u8', [4], KIB64, 4, { digest: `sha256:${createHash('sha256').update(ONE).digest('hex')}` }) }),
    [rule(4)],
  ],
  compressed: [
    at64(
      { a: dense('u8', [4], KIB64, stream.length, { ...A, encoding: 'zt.zstd-seekable/1', decoded_length: 4 }) },
      { [KIB64]: stream },
    ),
    [rule(4)],
  ],
  'of names that are not NFC': [
    at64(
      { [nfd]: { ...object([4], 'x.y/1', { [nfd]: part('u8', KIB64, 4, A) }), attributes: { [nfd]: 1 } } },
      undefined,
      { attributes: { [nfd]: 1 } },
    ),
    [rule(5), rule(5), rule(5), rule(5)],
  ],
  'with a shard table': [
    at64({ a: alone }, undefined, { shards: { base: { size: 4096, digest: 'xxh3:0011223344556677' } } }),
    [rule(6)],
  ],
  'with padding that is not zero': [
    Buffer.concat([CANONICAL.subarray(0, 70000), Buffer.from([1]), CANONICAL.subarray(70001)]),
    ['zTensor 2 §2.4 Blobs and alignment'],
  ],
  'with reserved bytes': [placed(KIB64, 2 * KIB64, { at: 3 * KIB64, reserved: 1 }), ['zTensor 2 §2.3 Footer']],
}

for (const [name, [bytes, rules]] of Object.entries(DEPARTURES)) {
  test(`not canonical: ${name}`, async (t) => {
    for (const source of [bytes, scratchFile(bytes)]) {
      const { ok, failures } = await verify(source, { canonical: true, shards: 'none' })
      t.false(ok)
      t.deepEqual(
        failures.map((failure) => failure.rule),
        rules,
      )
      for (const failure of failures) t.is(failure.code, 'ZT_NOT_CANONICAL')
      t.true((await verify(source, { shards: 'none' })).ok)
    }
  })
}

test('an equal hash of other bytes is not a duplicate', async (t) => {
  // The digests are claims until verify() compares them: here one of them is false, and the blobs differ.
  const bytes = at64(
    { a: alone, b: dense('u8', [4], 2 * KIB64, 4, A) },
    { [KIB64]: ONE, [2 * KIB64]: Buffer.from([1, 2, 3, 5]) },
  )
  const { failures } = await verify(bytes, { canonical: true })
  t.deepEqual(
    failures.map((failure) => failure.code),
    ['ZT_DIGEST_MISMATCH'],
  )
})

test('files of other formats have no canonical form', async (t) => {
  const { ok, failures } = await verify(fixturePath('zt12-dtypes.zt'), { canonical: true })
  t.false(ok)
  t.deepEqual(
    failures.map((failure) => failure.code),
    ['ZT_NOT_CANONICAL'],
  )
  isArgumentError(t, await rejectionOf(() => verify(CANONICAL, { canonical: 'yes' })), 'canonical')
})

test('ztensor id prints the content digest', async (t) => {
  const [one, other] = [write('one.zt', CANONICAL), write('other.zt', ENCODED)]
  t.like(await run(['id', one]), { code: 0, stdout: `${SHA256}\n`, stderr: '' })
  t.like(await run(['id', '--algorithm', 'xxh3', one]), { code: 0, stdout: `${digestOf(CONTENT)}\n` })
  t.like(await run(['id', one, other]), { code: 0, stdout: `${SHA256}  ${one}\n${SHA256}  ${other}\n` })
  const { code, stdout, stderr } = await run(['id', fixturePath('zt12-dtypes.zt')])
  t.is(code, 2)
  t.is(stdout, '')
  t.regex(stderr, /not a zTensor 2 file/)
})

test('ztensor verify --canonical prints the rules that a file breaks', async (t) => {
  const canonical = await run(['verify', '--canonical', write('canonical.zt', CANONICAL)])
  t.is(canonical.code, 0)
  const { code, stdout } = await run(['verify', '--canonical', '--json', write('paged.zt', placed(4096, 8192))])
  t.is(code, 1)
  const [report] = JSON.parse(stdout)
  t.deepEqual(
    report.failures.map((failure) => [failure.code, failure.rule, failure.tensor]),
    [
      ['ZT_NOT_CANONICAL', rule(2), 'a'],
      ['ZT_NOT_CANONICAL', rule(2), 'b'],
      ['ZT_NOT_CANONICAL', rule(2), null],
    ],
  )
  t.is((await run(['verify', write('paged.zt', placed(4096, 8192))])).code, 0)
})
