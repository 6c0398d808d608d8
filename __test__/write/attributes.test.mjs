// Attributes read back unchanged: of a file and of a tensor, of every kind.
import test from 'ava'
import fc from 'fast-check'
import { openSync } from 'ztensor'
import { scaled } from '../helpers/campaign.mjs'
import { WRITE_FORMATS, written } from '../helpers/sample-files.mjs'

const VERSIONS = ['1.0', '1.2']
const X = Int8Array.of(1)
/** Writes attributes of a file and of a tensor, and reads them back. */
async function there(version, attributes) {
  const path = await written({ version, metadata: attributes }, (writer) => writer.add('x', X, { attributes }))
  const file = openSync(path)
  const back = [file.metadata, file.tensor('x').attributes]
  file.close()
  return back
}

const EVERY_KIND = {
  text: 'déscription 層 \u{1f600}\0"\\',
  empty: '',
  yes: true,
  no: false,
  nothing: null,
  list: [1, 'two', [3, [], {}]],
  map: { a: { b: { c: 'd' } } },
  bytes: Uint8Array.of(0, 1, 255),
  noBytes: new Uint8Array(0),
  '': 'an empty key',
  constructor: 'x',
}
const NUMBERS = [0, -0, 1, -1, 23, 24, 255, 256, 65535, 65536, 2 ** 32, 2 ** 53 - 1, -(2 ** 53 - 1), 2 ** 53, 2 ** 60]
const FRACTIONS = [0.5, 0.1, -1.5, 65504, 65505.5, 1e300, 5e-324, Number.NaN, Infinity, -Infinity, Math.fround(0.1)]
const BIGINTS = [
  2n ** 53n,
  -(2n ** 53n),
  2n ** 63n,
  -(2n ** 63n),
  -(2n ** 63n) - 1n,
  2n ** 64n - 1n,
  2n ** 64n,
  -(2n ** 64n),
  -(2n ** 64n) - 1n,
  2n ** 200n + 1n,
  -(2n ** 200n),
  -(2n ** 128n),
]

for (const version of VERSIONS) {
  test(`${version}: writes every kind of value`, async (t) => {
    for (const back of await there(version, EVERY_KIND)) {
      t.is(Object.getPrototypeOf(back), null)
      t.deepEqual(Object.keys(back), Object.keys(EVERY_KIND))
      t.like(back, EVERY_KIND)
    }
  })

  test(`${version}: writes every kind of number, exactly`, async (t) => {
    const all = [...NUMBERS, ...FRACTIONS, ...BIGINTS]
    for (const back of await there(version, { all })) {
      all.forEach((value, i) => {
        t.is(back.all[i], value, String(value))
      })
    }
  })

  test(`${version}: bigints in the range of numbers read as numbers`, async (t) => {
    for (const back of await there(version, { a: [0n, -1n, 2n ** 53n - 1n, -(2n ** 53n - 1n)] })) {
      t.deepEqual([...back.a], [0, -1, 2 ** 53 - 1, -(2 ** 53 - 1)])
    }
  })

  test(`${version}: writes a Map with keys other than text`, async (t) => {
    const keys = [0, -7, 1.5, 2n ** 70n, true, null, 'text']
    const map = new Map(keys.map((key, i) => [key, i]))
    const [metadata, attributes] = await there(version, new Map([...map, [12, new Map([[1, map]])]]))
    t.true(attributes instanceof Map)
    for (const [key, value] of map) {
      t.is(attributes.get(key), value, String(key))
      t.is(metadata[String(key)], value, String(key))
    }
    for (const nested of [attributes.get(12), metadata[12]]) t.deepEqual([...nested.get(1).keys()], keys)
    for (const back of await there(
      version,
      new Map([
        ['a', 1],
        ['b', 2],
      ]),
    ))
      t.deepEqual({ ...back }, { a: 1, b: 2 })
  })

  test(`${version}: writes keys of Object.prototype`, async (t) => {
    const attributes = Object.fromEntries([
      ['__proto__', Object.fromEntries([['__proto__', 'x']])],
      ['toString', 1],
    ])
    for (const back of await there(version, attributes)) {
      t.deepEqual(Object.keys(back), ['__proto__', 'toString'])
      t.is(back.__proto__.__proto__, 'x')
    }
  })

  test(`${version}: writes values nested as deep as open reads, and no deeper`, async (t) => {
    const nested = (depth) => {
      let value = []
      for (let i = 1; i < depth; i++) value = i % 2 ? { a: value } : [value]
      return { value }
    }
    for (const back of await there(version, nested(60))) {
      let value = back.value
      for (let i = 59; i >= 1; i--) value = i % 2 ? value.a : value[0]
      t.deepEqual([...value], [])
    }
    let refused = 0
    for (let depth = 60; depth < 70; depth++) {
      // Everything that is written must be readable: there() opens it.
      const error = await there(version, nested(depth)).then(
        () => undefined,
        (thrown) => thrown,
      )
      if (error === undefined) t.is(refused, 0)
      else refused += 1
      if (error !== undefined) t.is(error.code, 'ZT_INVALID_ARG')
    }
    t.true(refused > 0)
  })

  test(`${version}: does not write changes that the caller makes afterwards`, async (t) => {
    const attributes = { a: [1], bytes: Uint8Array.of(1) }
    const path = await written({ version, metadata: attributes }, async (writer) => {
      attributes.a.push(2)
      attributes.bytes[0] = 2
      const added = writer.add('x', X, { attributes: { ...attributes } })
      await added
    })
    const file = openSync(path)
    t.deepEqual([...file.metadata.a], [1])
    t.deepEqual([...file.metadata.bytes], [1])
    t.deepEqual([...file.tensor('x').attributes.a], [1, 2])
    file.close()
  })

  test(`${version}: writes any value`, async (t) => {
    const text = fc.string({ unit: 'binary' })
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        text,
        fc.double(),
        fc.maxSafeInteger(),
        fc.bigInt().filter((n) => n > 2n ** 53n || n < -(2n ** 53n)),
        fc.boolean(),
        fc.constant(null),
        fc.uint8Array(),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(text, tie('value'), { maxKeys: 4, noNullPrototype: false }),
      ),
    }))
    const plain = (back) => {
      if (Array.isArray(back)) return back.map(plain)
      if (typeof back !== 'object' || back === null || back instanceof Uint8Array) return back
      return Object.fromEntries(Object.entries(back).map(([key, item]) => [key, plain(item)]))
    }
    const body = async (attributes) => {
      for (const back of await there(version, attributes)) t.deepEqual(plain(back), plain(attributes))
    }
    await fc.assert(fc.asyncProperty(fc.dictionary(text, value, { maxKeys: 5 }), body), { numRuns: scaled(60) })
  })
}

test('0.1: attributes of a tensor are separate fields', async (t) => {
  const path = await written({ version: '0.1' }, (writer) => writer.add('x', X, { attributes: EVERY_KIND }))
  const file = openSync(path)
  t.like(file.tensor('x').attributes, EVERY_KIND)
  t.deepEqual(Object.keys(file.tensor('x').attributes), Object.keys(EVERY_KIND))
  t.deepEqual(Object.keys(file.metadata), [])
  file.close()
})

test('safetensors: attributes are text', async (t) => {
  const attributes = Object.fromEntries([
    ['format', 'pt'],
    ['quotes', '"\\\n\t\0\x1f\x7f\u2028'],
    ['層', '\u{1f600}'],
    ['', ''],
    ['__proto__', 'x'],
    ['long', 'y'.repeat(100_000)],
  ])
  for (const given of [attributes, new Map(Object.entries(attributes))]) {
    for (const add of [() => {}, (writer) => writer.add('x', X)]) {
      const file = openSync(await written({ format: 'safetensors', metadata: given }, add))
      t.deepEqual(Object.entries(file.metadata), Object.entries(attributes))
      file.close()
    }
  }
})

test('an empty object writes no attributes', async (t) => {
  for (const { options } of WRITE_FORMATS) {
    const path = await written({ ...options, metadata: {} }, (writer) => writer.add('0', X, { attributes: {} }))
    const file = openSync(path)
    t.deepEqual(Object.keys(file.metadata), [])
    t.deepEqual(Object.keys(file.tensor('0').attributes), [])
    file.close()
  }
})
