// Files and calls whose cost could grow faster than their bytes: each has some MiB, and takes less than a second of
// CPU time.
import { writeFileSync } from 'node:fs'
import test from 'ava'
import { editMetadata, openSync, ZTensorError } from 'ztensor'
import { btf, dense as record } from '../corpus/btf.mjs'
import { encode, raw } from '../corpus/cbor.mjs'
import { safetensors } from '../corpus/safetensors.mjs'
import { f32s, zt10 } from '../corpus/zt.mjs'
import { dense, digestOf, file as zt2 } from '../corpus/zt2.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { constant, element, holder, model as openvino } from '../helpers/openvino-writer.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint } from '../helpers/sharded.mjs'

const many = (count, make) => Array.from({ length: count }, (_, at) => make(at))
const entry = (name, start, end) => `"${name}":{"dtype":"U8","shape":[${end - start}],"data_offsets":[${start},${end}]}`
const st = (entries, bytes = 0) => safetensors(`{${entries.join()}}`, Buffer.alloc(bytes))
const lone = (shape) => safetensors(`{"a":{"dtype":"U8","shape":[${shape}],"data_offsets":[0,1]}}`, Buffer.alloc(1))
/** The head of a CBOR item of up to 2^32 - 1 entries or bytes. */
const head = (major, count) => Buffer.from([(major << 5) | 26, ...littleEndian(Uint32Array.of(count)).reverse()])
const map = (entries) => raw(Buffer.concat([head(5, entries.length), ...entries.flat().map(encode)]))
const attributes = (entries) => zt10({}, { root: { attributes: map(entries) } })
const text = (chunks, chunk) =>
  attributes([
    ['a', raw(Buffer.concat([Buffer.from([0x7f]), ...many(chunks, () => encode(chunk)), Buffer.from([0xff])]))],
  ])
const tensors = (component, format = () => 'dense') =>
  zt10(
    Object.fromEntries(
      many(20_000, (at) => [
        `t${at}`,
        {
          dtype: 'float32',
          shape: [1],
          format: format(at),
          components: { data: { bytes: f32s(1), ...component(at) } },
        },
      ]),
    ),
  )
/** Long, and equal except for a number. */
const LIKE = 'abcdefghij'.repeat(13)
const like = (at) => LIKE.slice(0, 60) + String(at).padStart(6, '0') + LIKE.slice(0, 60)

const similar = (count, row) => Object.fromEntries(many(count, (at) => [`a${row}_${like(at)}`, '']))

const FILES = {
  'safetensors: one name over and over': () =>
    st(
      many(40_000, (at) => entry('x', at, at + 1)),
      40_000,
    ),
  'safetensors: the last name a second one': () =>
    st([...many(40_000, (at) => entry(`n${at}`, at, at + 1)), entry('n39999', 40_000, 40_001)], 40_001),
  'safetensors: one key over and over': () => safetensors(`{"a":{${many(100_000, () => '"dtype":"U8"').join()}}}`),
  'safetensors: keys of metadata': () =>
    safetensors(`{"__metadata__":{${many(100_000, (at) => `"k${at}":"v"`).join()},"k99999":"w"}}`),
  'safetensors: data in the opposite order': () =>
    st(
      many(40_000, (at) => entry(`n${at}`, 39_999 - at, 40_000 - at)),
      40_000,
    ),
  'safetensors: all over the same byte': () =>
    st(
      many(40_000, (at) => entry(`n${at}`, 0, 1)),
      1,
    ),
  'safetensors: each over the next thousand': () =>
    st(
      many(40_000, (at) => entry(`n${at}`, at, at + 1000)),
      41_000,
    ),
  'safetensors: nested objects': () => safetensors('{"a":'.repeat(2 ** 18)),
  'safetensors: escapes': () => safetensors(`{"${'\\u0041'.repeat(300_000)}":1}`),
  'safetensors: a number of many digits': () => lone('1'.repeat(2 ** 21)),
  'safetensors: many dimensions': () => lone(many(500_000, () => 1).join()),
  'safetensors: white space': () => safetensors(`{${' '.repeat(2 ** 21)}}`),
  'zTensor: one key over and over': () => attributes(many(100_000, () => ['k', 1])),
  'zTensor: the last key a second one': () => attributes([...many(100_000, (at) => [`k${at}`, 1]), ['k99999', 2]]),
  'zTensor: keys that are arrays': () => attributes(many(50_000, (at) => [[at], 1])),
  'zTensor: keys that are one array': () => attributes(many(50_000, () => [[7, 7, 7], 1])),
  'zTensor: keys that are maps': () => attributes(many(50_000, (at) => [new Map([[at, [at]]]), 1])),
  'zTensor: a text in many chunks': () => text(300_000, 'x'),
  'zTensor: a text in many empty chunks': () => text(2_000_000, ''),
  'zTensor: many values': () => zt10({}, { root: { attributes: { a: many(300_000, (at) => at) } } }),
  'zTensor: unknown keys of the root': () =>
    zt10({}, { root: Object.fromEntries(many(100_000, (at) => [`u${at}`, 1])) }),
  'zTensor: a warning for each tensor': () => tensors(() => ({ lead: 4 })),
  'zTensor: different labels for each tensor': () =>
    tensors(
      (at) => ({ encoding: `e${at}`, digest: `d${at}:00` }),
      (at) => `own${at}`,
    ),
  'zTensor: a failure for each tensor': () => tensors(() => ({ digest: 'crc32c:0x00000000' })),
  'zTensor 2: all over the same blob': () =>
    zt2({
      blobs: { 4096: f32s(1, 2) },
      manifest: { objects: Object.fromEntries(many(20_000, (at) => [`t${at}`, dense('f32', [2], 4096, 8)])) },
    }),
  'zTensor 2: all over the same MiB': () => {
    const whole = Buffer.alloc(1 << 20, 7)
    const digest = digestOf(whole)
    const objects = many(5000, (at) => [`t${at}`, dense('u8', [1 << 20], 4096, 1 << 20, { digest })])
    return zt2({ blobs: { 4096: whole }, manifest: { objects: Object.fromEntries(objects) } })
  },
  'zTensor 2: each over a part of the others': () =>
    zt2({
      blobs: { 4096: Buffer.alloc(3 * 4096) },
      manifest: {
        objects: Object.fromEntries(
          many(20_000, (at) => [`t${at}`, dense('u8', [4096 + (at % 4096)], 4096, 4096 + (at % 4096))]),
        ),
      },
    }),
  'BTF: small tensors': () => btf(many(10_000, () => record({ data: f32s(1, 2, 3, 4) }))),
  'OpenVINO: one name over and over': () => openvino(many(20_000, () => constant({ shape: '0', size: 0 }))),
  'OpenVINO: similar attributes': () => openvino(many(100, (row) => element('x', similar(1000, row)))),
  'OpenVINO: more attributes than may be': () => openvino([element('layer', similar(100_000, 0))]),
  'OpenVINO: keys of metadata': () =>
    openvino([], {
      more: [element('rt_info', {}, ...many(50_000, (at) => element(`k${at % 49_000}`, { value: at })))],
    }),
  'OpenVINO: characters by number': () =>
    openvino([], { name: '\0'.repeat(200_000) })
      .toString()
      .replaceAll('\0', '&#65;'),
  'OpenVINO: comments': () => openvino([], { before: '<!-- -->'.repeat(200_000) }),
  'OpenVINO: many dimensions': () => openvino([constant({ shape: many(500_000, () => 1).join() })]),
  'OpenVINO: bodies in bodies': () =>
    openvino(many(2000, (at) => many(20, () => 0).reduce((inner) => holder(`l${at}`, 'body', inner), ''))),
  'similar names': () =>
    st(
      many(50_000, (at) => entry(like(at), at, at + 1)),
      50_000,
    ),
}

/** The CPU time of a step in milliseconds, and its error. */
async function cost(run) {
  const before = process.cpuUsage()
  const error = await rejectionOf(run)
  const { user, system } = process.cpuUsage(before)
  if (error !== undefined && (!(error instanceof ZTensorError) || error.code === 'ZT_INTERNAL')) throw error
  return (user + system) / 1000
}

for (const [name, make] of Object.entries(FILES)) {
  test.serial(name, async (t) => {
    const bytes = Buffer.from(make())
    let file
    const steps = {
      open: () => {
        file = openSync(bytes)
      },
      'open and verify': () => openSync(bytes, { verify: true }).close(),
      verify: () => file?.verify(),
      'look at': () => file && JSON.stringify([file.metadata, file.warnings, ...file.values()].length),
      'look up a missing name': () => file?.tensor(like(-1)),
    }
    for (const [step, run] of Object.entries(steps)) {
      const spent = await cost(run)
      t.true(spent < 1000, `${step}: ${spent} ms for ${bytes.length} bytes`)
    }
    file?.close()
  })
}

test.serial('an edit of the names of a safetensors file', async (t) => {
  const path = scratchPath('names.safetensors')
  writeFileSync(
    path,
    st(
      many(60_000, (at) => entry(`layer.${at}`, at, at + 1)),
      60_000,
    ),
  )
  for (const changes of [
    { rename: { 'layer.*': 'l.*' } },
    { drop: ['l.1'] },
    { set: { key: 'value' }, inPlace: true },
  ]) {
    const spent = await cost(() => editMetadata(path, changes))
    t.true(spent < 2000, `${JSON.stringify(changes)}: ${spent} ms`)
  }
})

test.serial('a checkpoint without any of its files', async (t) => {
  const { index } = checkpoint(
    {},
    { index: Object.fromEntries(many(9000, (at) => [`t${at}`, `model-${at}.safetensors`])) },
  )
  const spent = await cost(() => openSync(index))
  t.true(spent < 1000, `${spent} ms`)
})
