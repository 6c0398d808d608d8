// Converts random models to one format after the other: each stores what it supports, and lists the rest.
import { existsSync, readFileSync } from 'node:fs'
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { DTYPES, noise, sample, scratchFolder, written } from '../helpers/sample-files.mjs'

/** Pseudorandom numbers, the same for the same seed. */
function random(seed) {
  const bytes = noise(4096, seed)
  let at = 0
  const below = (limit) => {
    at = (at + 2) % 4094
    return (bytes[at] * 256 + bytes[at + 1]) % limit
  }
  return { below, of: (list) => list[below(list.length)] }
}

const all = Object.keys(DTYPES)
const whole = all.filter((dtype) => DTYPES[dtype][1] >= 8)
const PARTS = ['w', 'b', 'layer', '層', 'Ω', 'x.y', ' ', '__proto__', 'é']
const VALUES = [1, -5, 2.5, 'text', null, true, [1, [2, 'x']], { k: { l: 1 } }, 2n ** 63n, new Uint8Array([1, 2])]

function shapeOf({ below, of }, dtype) {
  const shape = Array.from({ length: below(4) }, () => below(5))
  // Whole bytes, which 0.1 to 1.2 and safetensors require.
  return DTYPES[dtype][1] < 8 ? [...shape, of([4, 8])] : shape
}

function csrOf({ below, of }, seed) {
  const [rows, columns] = [below(4) + 1, below(5) + 1]
  const indices = []
  const indptr = [0]
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) if (below(2) === 1) indices.push(column)
    indptr.push(indices.length)
  }
  const dtype = of(whole)
  return {
    shape: [rows, columns],
    dtype,
    values: sample(dtype, [indices.length], seed),
    indices: BigUint64Array.from(indices, BigInt),
    indptr: BigUint64Array.from(indptr, BigInt),
  }
}

function cooOf({ below, of }, seed) {
  const shape = [below(4) + 1, below(4) + 1, below(3) + 1]
  const cells = []
  for (let cell = 0; cell < shape[0] * shape[1] * shape[2]; cell++) if (below(3) === 1) cells.push(cell)
  const axes = [
    cells.map((cell) => Math.floor(cell / (shape[1] * shape[2]))),
    cells.map((cell) => Math.floor(cell / shape[2]) % shape[1]),
    cells.map((cell) => cell % shape[2]),
  ]
  const dtype = of(whole)
  return {
    shape,
    dtype,
    values: sample(dtype, [cells.length], seed),
    coords: BigUint64Array.from(axes.flat(), BigInt),
  }
}

/** The calls that write a model with some of `dtypes` and `kinds`. */
function model(seed, { dtypes = all, kinds = ['dense', 'csr', 'coo'], attributes = true }) {
  const dice = random(seed)
  const names = new Set(Array.from({ length: 1 + dice.below(6) }, () => `${dice.of(PARTS)}${dice.below(50)}`))
  return [...names].map((name, at) => {
    const kind = dice.of(kinds)
    const own = attributes && dice.below(2) === 1 ? { attributes: { a: dice.of(VALUES.slice(0, 8)) } } : undefined
    if (kind === 'csr') return (w) => w.addCsr(name, csrOf(dice, at), own)
    if (kind === 'coo') return (w) => w.addCoo(name, cooOf(dice, at), own)
    const dtype = dice.of(dtypes)
    const shape = shapeOf(dice, dtype)
    return (w) => w.add(name, { dtype, shape, data: sample(dtype, shape, seed + at) }, own)
  })
}

const plain = (value) =>
  JSON.parse(JSON.stringify(value, (_key, item) => (typeof item === 'bigint' ? `${item}n` : item)))

/** All properties of a file, and the bytes of each component, in order of name. */
function contents(path) {
  const file = openSync(path)
  const tensors = [...file.values()].map((tensor) => ({
    name: tensor.name,
    dtype: tensor.dtype,
    shape: [...tensor.shape],
    layout: tensor.layout,
    attributes: plain(tensor.attributes),
    components: Object.fromEntries(
      [...tensor.components].map(([role, component]) => [role, littleEndian(component.data).toString('hex')]).sort(),
    ),
  }))
  const attributes = plain(file.metadata)
  file.close()
  return { attributes, tensors: tensors.sort((a, b) => (a.name < b.name ? -1 : 1)) }
}

// What every version of zTensor supports.
const COMMON = all.slice(0, 13).filter((dtype) => DTYPES[dtype][1] >= 8)
const CHAIN = [
  { version: '0.1', compression: {} },
  { version: '1.0', digest: 'sha256' },
  { version: '1.2', compression: {}, digest: false },
  { version: '2' },
  { version: '2', canonical: false, alignment: 4096 },
  { version: '1.2' },
  { version: '0.1' },
  { version: '2' },
]

for (const seed of Array.from({ length: 30 }, (_, at) => at)) {
  test(`content of every version of zTensor survives all other versions, ${seed}`, async (t) => {
    const { path } = scratchFolder()
    const dtypes = COMMON
    const adds = model(seed, { dtypes }).map((add) => add)
    const from = path('from.zt')
    // Values of sparse tensors have any type: keep those that 0.1 supports.
    await written(
      { version: '1.2' },
      async (w) => {
        for (const add of adds) await add(w).catch((error) => t.is(error.code, 'ZT_BAD_DTYPE'))
      },
      from,
    )
    const first = path('0.zt')
    const { skipped } = await convert(from, first, { ...CHAIN[0], skip: true }).catch((error) => {
      t.regex(error.message, /^no tensor is left: /)
      return { skipped: error.cause }
    })
    for (const error of skipped) t.is(error.code, 'ZT_BAD_DTYPE')
    if (!existsSync(first)) return t.is(skipped.length, openSync(from).size)
    const expected = contents(first)
    for (const [at, options] of CHAIN.slice(1).entries()) {
      const [source, target] = [path(`${at}.zt`), path(`${at + 1}.zt`)]
      t.deepEqual((await convert(source, target, options)).skipped, [])
      t.deepEqual(contents(target), expected, JSON.stringify(options))
    }
    // Two canonical files of the same tensors, by different ways.
    t.true(readFileSync(path('3.zt')).equals(readFileSync(path(`${CHAIN.length - 1}.zt`))))
  })

  test(`dense tensors without attributes survive safetensors, ${seed}`, async (t) => {
    const { path } = scratchFolder()
    const adds = model(seed + 1000, {
      kinds: ['dense'],
      attributes: false,
      dtypes: all.filter((d) => d !== 'complex128' && !d.startsWith('float6')),
    })
    await written(
      { version: '2', metadata: { note: 'x' } },
      async (w) => {
        for (const add of adds) await add(w)
      },
      path('a.zt'),
    )
    const expected = contents(path('a.zt'))
    await convert(path('a.zt'), path('b.safetensors'))
    t.deepEqual(contents(path('b.safetensors')), expected)
    await convert(path('b.safetensors'), path('c.zt'), { version: '2' })
    t.true(readFileSync(path('a.zt')).equals(readFileSync(path('c.zt'))))
  })

  test(`lists everything that a format cannot store, and loses nothing else, ${seed}`, async (t) => {
    const { path, names } = scratchFolder()
    const adds = model(seed + 2000, { dtypes: all.filter((dtype) => !dtype.startsWith('float6')) })
    await written(
      { version: '2' },
      async (w) => {
        for (const add of adds) await add(w)
      },
      path('a.zt'),
    )
    const { tensors } = contents(path('a.zt'))
    const holds = {
      0.1: ({ dtype }) => COMMON.includes(dtype),
      '1.0': ({ dtype }) => COMMON.includes(dtype),
      1.2: ({ dtype }) => dtype !== 'float8_e8m0fnu' && dtype !== 'float4_e2m1fn',
      safetensors: ({ dtype, layout, attributes }) =>
        layout === 'dense' && dtype !== 'complex128' && Object.keys(attributes).length === 0,
    }
    for (const [target, held] of Object.entries(holds)) {
      const how = target === 'safetensors' ? { format: 'safetensors' } : { version: target }
      const options = { ...how, strictMetadata: true }
      const expected = tensors.filter(held)
      const lost = tensors.filter((tensor) => !held(tensor)).map(({ name }) => name)
      if (lost.length > 0) {
        const error = await rejectionOf(() => convert(path('a.zt'), path('refused.zt'), options))
        t.deepEqual(error.cause.map(({ tensor }) => tensor).sort(), [...lost].sort(), target)
        t.false(names().includes('refused'))
      }
      if (expected.length === 0) {
        const error = await rejectionOf(() => convert(path('a.zt'), path(target), { ...options, skip: true }))
        t.regex(error.message, /^no tensor is left: /)
        continue
      }
      const result = await convert(path('a.zt'), path(target), { ...options, skip: true })
      t.is(result.tensors, expected.length)
      t.deepEqual(result.skipped.map(({ tensor }) => tensor).sort(), [...lost].sort(), target)
      // Indices are u64 in all of these, like the input.
      t.deepEqual(contents(path(target)).tensors, expected, target)
    }
  })
}
