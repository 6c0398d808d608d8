// Files of Flax (fixtures/flax-files.py): every array, read in every way.
import { closeSync, ftruncateSync, openSync as openFile, writeSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, open, openSync } from 'ztensor'
import { chunked, ext, ints, map, ndarray, str } from '../corpus/flax.mjs'
import { littleEndian, sameBytes } from '../helpers/bytes.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { testExpected } from '../helpers/foreign-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const folder = fixturePath('flax')
const path = (name) => join(folder, name)
const using = (name, look) => {
  const file = openSync(path(name))
  try {
    return look(file)
  } finally {
    file.close()
  }
}

testExpected(folder, {
  same(t, file) {
    t.is(file.format, 'flax')
    t.is(file.version, undefined)
  },
  verified(t, { checked, undigested }, _, file) {
    // Files of Flax have no digests.
    t.deepEqual([checked, undigested], [0, file.size])
  },
})

for (const name of ['dtypes.msgpack', 'state.msgpack', 'chunked.msgpack', 'values.msgpack'])
  test(`${name}: every tensor has the same elements after a conversion`, async (t) => {
    const target = scratchPath('2.zt')
    await convert(path(name), target, { version: '2', skip: true })
    const [from, to] = [openSync(path(name)), openSync(target)]
    const typed = [...from.values()].filter(({ dtype }) => dtype !== undefined)
    t.true(typed.length > 3)
    for (const tensor of typed) {
      const found = to.tensor(tensor.name)
      t.deepEqual([found.dtype, found.shape], [tensor.dtype, tensor.shape], tensor.name)
      sameBytes(t, littleEndian(await found.load()), littleEndian(await tensor.load()), tensor.name)
    }
    from.close()
    to.close()
  })

test('plain values become attributes, without the arrays next to them', (t) => {
  using('values.msgpack', ({ metadata: attributes, warnings }) => {
    t.is(attributes.name, 'tiny ü')
    t.is(attributes.step, 7)
    t.is(attributes.large, 2n ** 63n + 5n)
    t.is(attributes.negative, -(2 ** 40))
    t.is(attributes.rate, 0.125)
    t.is(attributes.yes, true)
    t.is(attributes.nothing, null)
    t.deepEqual(attributes.complex, [1.5, -2.5])
    t.deepEqual(attributes.bytes, new Uint8Array([0, 255]))
    t.deepEqual(attributes.list, [1, 'two', [3, null]])
    t.deepEqual({ ...attributes.empty }, {})
    t.deepEqual(attributes.none, [])
    t.false('scalar' in attributes)
    // A list that contains arrays keeps the numbers of its items.
    t.deepEqual(
      [...attributes.mixed].map(([key, value]) => [key, typeof value === 'object' ? { ...value } : value]),
      [
        [0, 1],
        [2, { note: 'x' }],
      ],
    )
    t.deepEqual([...attributes.numbered], [[-1, 'minus']])
    t.deepEqual(warnings, [])
  })
  using('state.msgpack', ({ metadata: attributes }) => {
    t.is(attributes.step, 12345)
    t.deepEqual(Object.keys(attributes), ['opt_state', 'step'])
    t.is(attributes.opt_state['2'], null)
  })
})

test('lists types that zTensor does not have, and names them in warnings', (t) => {
  using('odd.msgpack', (file) => {
    t.deepEqual(
      file.warnings.map(({ code, tensor }) => [code, tensor]),
      ['bytes', 'dates', 'texts', 'void'].map((name) => ['ZT_WARN_UNKNOWN_TYPE', name]),
    )
    t.regex(file.warnings.at(-1).message, /bfloat16/)
    t.is(file.tensor('bytes').components.get('data').data.length, 4)
  })
  using('dtypes.msgpack', (file) => {
    // One byte for each element, like ml_dtypes.
    t.is(file.tensor('int4').components.get('data').byteLength, 12)
    t.is(file.tensor('int4').dtype, undefined)
  })
})

test('renames the second of two tensors with one name, with a warning', (t) => {
  using('renamed.msgpack', (file) => {
    t.deepEqual([...file.keys()], ['a.b', 'a.b~2'])
    t.deepEqual(
      file.warnings.map(({ code, tensor }) => [code, tensor]),
      [['ZT_WARN_RENAMED', 'a.b~2']],
    )
  })
})

test('joins several chunks, and reads a single one in place', (t) => {
  using('chunked.msgpack', (file) => {
    const large = file.tensor('large')
    t.false(large.mapped)
    t.is(large.copyReason, 'reordered')
    t.deepEqual([...large.data.subarray(0, 3), large.data.at(-1)], [0, 1, 2, 4999])
    t.deepEqual(
      [
        ...large.slice([
          [49, 50],
          [98, 100],
        ]).data,
      ],
      [4998, 4999],
    )
    t.is(file.tensor('small').components.get('data').storedLength, 80)
  })
})

test('chunks of any length make the same array', async (t) => {
  const values = Float32Array.from({ length: 24 }, (_, at) => at / 8)
  const bytes = littleEndian(values)
  for (let length = 1; length <= 24; length++) {
    const chunks = []
    for (let at = 0; at < 24; at += length) {
      const part = bytes.subarray(4 * at, 4 * (at + length))
      chunks.push(ndarray([part.length / 4], 'float32', part))
    }
    const file = await open(map(['w', chunked([2, 3, 4], chunks)]))
    const w = file.tensor('w')
    t.deepEqual([w.data, await w.load()], [values, values])
    t.deepEqual(await w.load({ slice: [[1], [1, 3]] }), values.slice(16, 24))
    t.deepEqual(
      w.slice([null, null, [3, 4]]).data,
      values.filter((_, at) => at % 4 === 3),
    )
    file.close()
  }
})

test('aliases data that is aligned', (t) => {
  using('dtypes.msgpack', (file) => {
    for (const tensor of file.values()) {
      if (tensor.dtype === undefined || !canMap(tensor.data.BYTES_PER_ELEMENT)) continue
      t.is(tensor.copyReason, tensor.mapped ? undefined : 'misaligned', tensor.name)
    }
    t.true(file.tensor('int8').mapped)
    if (canMap(4)) t.true([...file.values()].some(({ copyReason }) => copyReason === 'misaligned'))
  })
})

// A file of 6 GiB without one byte of data on the disk: nothing of an array is read to list it.
test('skips the bodies of arrays', async (t) => {
  const large = scratchPath('large.msgpack')
  const gibibyte = 2 ** 30
  const header = (count) =>
    Buffer.concat([Buffer.from([0x93, 0x91, 0xce]), ints(4, count), str('uint8'), Buffer.from([0xc6]), ints(4, count)])
  const descriptor = openFile(large, 'w')
  let at = writeSync(descriptor, Buffer.from([0x86]))
  for (let nth = 0; nth < 6; nth++) {
    const head = header(gibibyte)
    const key = Buffer.concat([
      str(`w${nth}`),
      Buffer.from([0xc9]),
      ints(4, head.length + gibibyte),
      Buffer.from([1]),
      head,
    ])
    writeSync(descriptor, key, 0, key.length, at)
    at += key.length + gibibyte
  }
  ftruncateSync(descriptor, at)
  closeSync(descriptor)
  const file = await open(large)
  t.is(file.format, 'flax')
  t.deepEqual([...file.keys()], ['w0', 'w1', 'w2', 'w3', 'w4', 'w5'])
  t.deepEqual([...file.tensor('w5').slice([[gibibyte - 2, gibibyte]]).data], [0, 0])
  file.close()
})

test('other MessagePack is not a Flax file, unless the format is given', async (t) => {
  for (const bytes of [
    map(['name', str('plain')], ['values', Buffer.from([0x93, 1, 2, 3])]),
    map(['name', str('another extension')], ['x', ext(5, Buffer.alloc(20))]),
    map(['name', str('no array')], ['x', ext(1, Buffer.alloc(20))]),
    map(['w', ndarray([3], 'float32', Buffer.alloc(8))], ['name', str('a shape that does not fit')]),
  ])
    t.is((await rejectionOf(() => open(bytes))).code, 'ZT_BAD_MAGIC')
  const file = await open(map(['name', str('plain')]), { format: 'flax' })
  t.is(file.size, 0)
  t.is(file.metadata.name, 'plain')
  file.close()
})

test('limits attributes, and still lists arrays', async (t) => {
  const many = map(
    ['list', Buffer.from([0x98, 1, 2, 3, 4, 5, 6, 7, 8])],
    ['w', ndarray([1], 'uint8', Buffer.from([7]))],
  )
  const file = await open(many, { maxAttributeValues: 8 })
  t.deepEqual([...file.keys()], ['w'])
  t.deepEqual(
    file.warnings.map(({ code }) => code),
    ['ZT_WARN_SKIPPED'],
  )
  t.regex(file.warnings[0].message, /maxAttributeValues/)
  file.close()
})
