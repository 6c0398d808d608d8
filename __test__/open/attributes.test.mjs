// Attributes: free-form values of the file, as lossless JS values without a prototype.
import test from 'ava'
import fc from 'fast-check'
import { openSync } from 'ztensor'
import { encode, float16, float32, float64, openArray, openBytes, openMap, openText, pairs } from '../corpus/cbor.mjs'
import { safetensors } from '../corpus/safetensors.mjs'
import { square10, square12, zt10, zt12 } from '../corpus/zt.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { vector } from '../helpers/vectors.mjs'

/** The attributes of a 1.0 file with these values, in JS. */
function read(attributes) {
  const file = openSync(zt10({}, { root: { attributes } }))
  const value = file.metadata
  file.close()
  return value
}

test('none: returns an empty object without a prototype', (t) => {
  for (const attributes of [{}, undefined]) {
    const value = read(attributes)
    t.is(Object.getPrototypeOf(value), null)
    t.deepEqual(Object.keys(value), [])
  }
  const file = openSync(safetensors('{}'))
  t.deepEqual(Object.keys(file.metadata), [])
  file.close()
})

test('keys of Object.prototype are ordinary keys', (t) => {
  const attributes = read(
    pairs([
      ['__proto__', 'x'],
      ['constructor', 1],
      ['toString', pairs([['__proto__', pairs([['polluted', true]])]])],
    ]),
  )
  t.is(Object.getPrototypeOf(attributes), null)
  t.deepEqual(Object.keys(attributes), ['__proto__', 'constructor', 'toString'])
  t.is(attributes.__proto__, 'x')
  t.is(attributes.constructor, 1)
  t.is(Object.getPrototypeOf(attributes.toString), null)
  t.is(attributes.toString.__proto__.polluted, true)
  t.is({}.polluted, undefined)
})

test('reads every type of value', (t) => {
  const attributes = read({
    text: 'déscription 層 \u{1f600}\0',
    empty: '',
    yes: true,
    no: false,
    nothing: null,
    zero: 0,
    small: -1,
    list: [1, 'two', [3]],
    map: { a: { b: 'c' } },
    bytes: Buffer.from([1, 2, 3]),
    noBytes: Buffer.alloc(0),
    half: float16(0x3e00),
    single: float32(0.5),
    double: float64(0.1),
    whole: float64(2),
    minusZero: float64(-0),
    infinite: float16(0xfc00),
    nan: float16(0x7e00),
  })
  t.is(attributes.text, 'déscription 層 \u{1f600}\0')
  t.is(attributes.empty, '')
  t.is(attributes.yes, true)
  t.is(attributes.no, false)
  t.is(attributes.nothing, null)
  t.is(attributes.zero, 0)
  t.is(attributes.small, -1)
  t.deepEqual(attributes.list, [1, 'two', [3]])
  t.is(attributes.map.a.b, 'c')
  t.is(Object.getPrototypeOf(attributes.map.a), null)
  t.true(attributes.bytes instanceof Uint8Array)
  t.deepEqual([...attributes.bytes], [1, 2, 3])
  t.is(attributes.noBytes.length, 0)
  t.is(attributes.half, 1.5)
  t.is(attributes.single, 0.5)
  t.is(attributes.double, 0.1)
  t.is(attributes.whole, 2)
  t.is(attributes.minusZero, -0)
  t.is(attributes.infinite, -Infinity)
  t.is(attributes.nan, Number.NaN)
})

test('integers are numbers if these are exact, otherwise bigints', (t) => {
  const attributes = read({
    largest: 2 ** 53 - 1,
    above: (1n << 53n) + 1n,
    most: (1n << 64n) - 1n,
    least: -(2 ** 53 - 1),
    below: -(1n << 53n) - 1n,
    lowest: -(1n << 64n),
  })
  t.is(attributes.largest, Number.MAX_SAFE_INTEGER)
  t.is(attributes.above, (1n << 53n) + 1n)
  t.is(attributes.most, (1n << 64n) - 1n)
  t.is(attributes.least, Number.MIN_SAFE_INTEGER)
  t.is(attributes.below, -(1n << 53n) - 1n)
  t.is(attributes.lowest, -(1n << 64n))
})

test('a map with keys other than text is a Map', (t) => {
  const { labels, mixed, nested } = read({
    labels: pairs([
      [0, 'cat'],
      [1, 'dog'],
      [-1, 'none'],
    ]),
    mixed: pairs([
      ['a', 1],
      [2, 'b'],
      [true, 'c'],
    ]),
    nested: [pairs([[7, pairs([[8, 9]])]])],
  })
  t.true(labels instanceof Map)
  t.deepEqual(
    [...labels],
    [
      [0, 'cat'],
      [1, 'dog'],
      [-1, 'none'],
    ],
  )
  t.true(mixed instanceof Map)
  t.deepEqual(
    [...mixed],
    [
      ['a', 1],
      [2, 'b'],
      [true, 'c'],
    ],
  )
  t.is(nested[0].get(7).get(8), 9)
})

test('keys other than text are listed by their text, and none of two equal ones is lost', (t) => {
  const metadata = read(
    pairs([
      [1, 'one'],
      ['two', 2],
      ['1', 'text'],
      [Buffer.of(0x0a, 0xff), 'bytes'],
      [null, 'null'],
      [true, 'true'],
      [-0.5, 'half'],
      [[1, 'a'], 'list'],
      ['1~2', 'taken'],
    ]),
  )
  t.is(Object.getPrototypeOf(metadata), null)
  t.true(Object.isFrozen(metadata))
  t.deepEqual(
    { ...metadata },
    {
      ...{ 1: 'text', two: 2, '1~2': 'taken', '1~3': 'one' },
      ...{ "h'0aff'": 'bytes', null: 'null', true: 'true', '-0.5': 'half', '[1,"a"]': 'list' },
    },
  )
})

test('attributes of a tensor with keys other than text are a Map', (t) => {
  const attributes = pairs([
    [1, 'one'],
    ['two', 2],
  ])
  const { attributes: found } = openSync(zt10({ w: square10({ attributes }) })).tensor('w')
  t.true(found instanceof Map)
  t.deepEqual(
    [...found],
    [
      [1, 'one'],
      ['two', 2],
    ],
  )
})

test('keys keep their order, and may look like numbers', (t) => {
  const keys = ['b', 'a', '10', '9', '']
  const attributes = read(pairs(keys.map((key, i) => [key, i])))
  t.deepEqual(Object.keys(attributes).sort(), [...keys].sort())
  keys.forEach((key, i) => {
    t.is(attributes[key], i)
  })
  t.deepEqual(
    Object.keys(attributes).filter((key) => !/^\d/.test(key)),
    ['b', 'a', ''],
  )
})

test('indefinite lengths read the same', (t) => {
  const attributes = read(
    openMap({
      list: openArray([1, openArray([])]),
      text: openText('a', '', 'bc'),
      bytes: openBytes(Buffer.from([1]), Buffer.from([2, 3])),
    }),
  )
  t.deepEqual(attributes.list, [1, []])
  t.is(attributes.text, 'abc')
  t.deepEqual([...attributes.bytes], [1, 2, 3])
})

test('returns the same object at each access', (t) => {
  const file = openSync(zt10({}, { root: { attributes: { a: [1] } } }))
  t.is(file.metadata, file.metadata)
  t.is(file.metadata.a, file.metadata.a)
  file.close()
})

test('reads attributes of a file of 1.2, and of its objects', (t) => {
  const file = openSync(
    zt12(
      { w: square12({ attributes: { axis: 1, __note: 'x' } }), v: square12() },
      { root: { attributes: { framework: 'none' } } },
    ),
  )
  t.is(file.metadata.framework, 'none')
  t.is(file.tensor('w').attributes.axis, 1)
  t.is(Object.getPrototypeOf(file.tensor('w').attributes), null)
  t.deepEqual(Object.keys(file.tensor('v').attributes), [])
  file.close()
})

test('reads metadata of safetensors', (t) => {
  const file = openSync(vector('st-metadata.safetensors').path)
  t.is(Object.getPrototypeOf(file.metadata), null)
  t.is(file.metadata.__proto__, 'x')
  t.is(file.metadata.層, '値')
  t.is(file.metadata.json, '{"a": [1, 2]}')
  file.close()
  const escaped = openSync(safetensors('{"__metadata__":{"\\u0061\\n":"\\ud83d\\ude00\\t\\"\\\\\\/"}}'))
  t.deepEqual(Object.entries(escaped.metadata), [['a\n', '\u{1f600}\t"\\/']])
  escaped.close()
})

/** The decoded form of an encoded JS value: objects without a prototype, otherwise the same. */
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.string({ unit: 'binary' }),
    fc.integer(),
    fc.double({ noNaN: true }).filter((x) => !Number.isInteger(x)),
    fc.boolean(),
    fc.constant(null),
    fc.bigInt({ min: (1n << 53n) + 1n, max: (1n << 64n) - 1n }),
    fc.array(tie('any'), { maxLength: 4 }),
    fc.dictionary(fc.string(), tie('any'), { maxKeys: 4, noNullPrototype: false }),
  ),
})).any

test('any attribute value reads back unchanged', (t) => {
  fc.assert(
    fc.property(value, (given) => {
      // encode() writes own keys including __proto__, which an assignment would not
      t.deepEqual(plain(read(pairs([['value', given]])).value), plain(given))
      t.true(encode(given).length > 0)
    }),
    { numRuns: scaled(500) },
  )
})

/** The value with every object as its entries, so that prototypes and the order of number-like keys do not matter. */
function plain(given) {
  if (Array.isArray(given)) return given.map(plain)
  if (given === null || typeof given !== 'object') return given
  return new Map(
    Object.entries(given)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, plain(inner)]),
  )
}

test('many strings and numbers stay unchanged across the borders of their transfer buffers', (t) => {
  const count = 100_000
  const tokens = Array.from({ length: count }, (_, at) => ['', 'a', `Ġtoken ${at}`, `😀${'x'.repeat(at % 40)}`][at % 4])
  const scores = Array.from({ length: count }, (_, at) => (at % 3 === 0 ? -1 - at : at / 7))
  const long = 'é'.repeat(3 << 20)
  const value = read({
    tokens,
    long,
    scores: scores.map((score) => (Number.isInteger(score) ? score : float64(score))),
  })
  t.deepEqual(value.tokens, tokens)
  t.deepEqual(value.scores, scores)
  t.is(value.long, long)
  t.true(Object.isFrozen(value.tokens) && Object.isFrozen(value.scores))
})

test('creates attributes once, and again after each opening', (t) => {
  const bytes = zt10({}, { root: { attributes: { list: [1, { two: [] }] } } })
  const [one, other] = [openSync(bytes), openSync(bytes)]
  t.is(one.metadata, one.metadata)
  t.deepEqual(one.metadata, other.metadata)
  t.not(one.metadata, other.metadata)
  one.close()
  t.throws(() => one.metadata, { code: 'ZT_CLOSED' })
  other.close()
})

test('byte strings share one buffer, and empty ones are one array', (t) => {
  const [a, b] = [Buffer.from([1, 2, 3]), Buffer.from([4])]
  const { list, one, mixed } = read({ list: [a, b, Buffer.alloc(0)], one: b, mixed: [1, a, 'x', b] })
  t.deepEqual(list, [new Uint8Array(a), new Uint8Array(b), new Uint8Array(0)])
  t.deepEqual(one, new Uint8Array(b))
  t.deepEqual(mixed, [1, new Uint8Array(a), 'x', new Uint8Array(b)])
  t.is(list[0].buffer, list[1].buffer)
  t.is(list[0].buffer, one.buffer)
  const many = read({ list: Array.from({ length: 10_000 }, () => Buffer.alloc(0)) }).list
  t.is(new Set(many).size, 1)
})

test('byte strings count by their size for maxAttributeValues', (t) => {
  const open = (list) => openSync(zt10({}, { root: { attributes: { list } } }), { maxAttributeValues: 40 }).close()
  const strings = (count, length) => Array.from({ length: count }, () => Buffer.alloc(length))
  open(strings(36, 0))
  open(strings(9, 1))
  t.throws(() => open(strings(10, 1)), { code: 'ZT_LIMIT' })
  t.throws(() => open(strings(38, 0)), { code: 'ZT_LIMIT' })
})
