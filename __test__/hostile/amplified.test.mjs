// Small files whose tensors have far more bytes than the file: their total is limited too.
import { existsSync } from 'node:fs'
import test from 'ava'
import { convert, open, openSync } from 'ztensor'
import { f32s, square10, zt10 } from '../corpus/zt.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const LENGTH = 4096

/** Two hundred tensors of 4 KiB over the same 8 KiB, the first byte of each at `offset`: 0.8 MB in 30 KB. */
function amplified(offset) {
  const whole = square10({ shape: [2048] }, { bytes: f32s(...new Array(2048).fill(1)) })
  const parts = Array.from({ length: 200 }, (_, at) => [
    `part.${at}`,
    square10({ shape: [1024] }, { bytes: undefined, offset: 64 + offset(at), length: LENGTH }),
  ])
  return zt10({ all: whole, ...Object.fromEntries(parts) })
}

const files = {
  'each a little further': amplified((at) => at * 4),
  'all the same': amplified(() => 0),
}

const refused = (t, error, what) => {
  t.is(error?.code, 'ZT_LIMIT', what)
  t.regex(error.message, /have \d+ bytes in total, but the file has \d+.*maxDecodedBytes/, what)
}

for (const [name, bytes] of Object.entries(files)) {
  for (const [kind, source] of [
    ['path', scratchFile(bytes, 'amplified.zt')],
    ['memory', bytes],
  ]) {
    test(`${name}, ${kind}: rejects loading, converting and verifying all, not some`, async (t) => {
      const low = { maxDecodedBytes: 2 * LENGTH }
      const file = await open(source, low)
      refused(t, await rejectionOf(() => file.load()), 'load')
      const some = ['all', 'part.0', 'part.199']
      t.deepEqual([...(await file.load({ names: some })).keys()], some)
      const target = scratchPath('converted.zt')
      refused(t, await rejectionOf(() => convert(source, target, { source: low })), 'convert')
      t.false(existsSync(target))
      const verified = [() => file.verify(), () => openSync(source, { ...low, verify: true })]
      for (const verify of verified) {
        const error = await rejectionOf(verify)
        // Shared bytes are hashed once.
        if (name === 'all the same') t.is(error, undefined)
        else refused(t, error, 'verify')
      }
      file.close()
      const trusted = await open(source)
      t.is((await trusted.load()).size, 201)
      trusted.close()
    })
  }
}

test('hashes shared data once for each digest, up to a limit', async (t) => {
  const digest = (at) => `crc32c:0x${at.toString(16).padStart(8, '0')}`
  const parts = Array.from({ length: 200 }, (_, at) => [
    `part.${at}`,
    square10({ shape: [1024] }, { bytes: undefined, offset: 64, length: LENGTH, digest: digest(at) }),
  ])
  const bytes = zt10({
    all: square10({ shape: [2048] }, { bytes: f32s(...new Array(2048).fill(1)) }),
    ...Object.fromEntries(parts),
  })
  const file = await open(bytes, { maxDecodedBytes: 2 * LENGTH })
  refused(t, await rejectionOf(() => file.verify()), 'verify')
  file.close()
})

test('does not load additional components, and does not count them towards the limit', async (t) => {
  const parts = Array.from({ length: 200 }, (_, at) => [`part.${at}`, { offset: 64, length: LENGTH }])
  const w = square10()
  const bytes = zt10({
    all: square10({ shape: [2048] }, { bytes: f32s(...new Array(2048).fill(1)) }),
    w: { ...w, components: { ...w.components, ...Object.fromEntries(parts) } },
  })
  const file = await open(bytes, { maxDecodedBytes: 2 * LENGTH })
  t.is((await file.load()).get('w').data.length, 4)
  file.close()
  const source = { maxDecodedBytes: 2 * LENGTH }
  refused(
    t,
    await rejectionOf(() => convert(bytes, scratchPath('converted.zt'), { version: '1.2', source })),
    'convert',
  )
})
