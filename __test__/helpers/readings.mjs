// Compares all ways of reading the tensors of an open file: all must return the same, and tensors that verify() accepts must
// load.
import { createHash } from 'node:crypto'
import { compare, ZTensorError } from 'ztensor'
import { littleEndian, numbersOf } from './bytes.mjs'
import { pick, shardRanges, sliceIndices } from './reference-implementations.mjs'
import { DTYPES } from './sample-files.mjs'

/** The components with the elements; all of them in other layouts. */
const ROLES = { dense: ['data'], sparse_csr: ['values', 'indices', 'indptr'], sparse_coo: ['values', 'coords'] }
export const ownRoles = ({ layout, components }) =>
  Object.hasOwn(ROLES, layout) ? ROLES[layout] : Array.from(components.keys())

const equal = (a, b) => a.constructor === b.constructor && Buffer.compare(littleEndian(a), littleEndian(b)) === 0
const product = (shape) => shape.reduce((total, size) => total * size, 1)
const digest = (view) => createHash('sha1').update(littleEndian(view)).digest('hex')
const shown = (value) =>
  value instanceof Error
    ? (value.code ?? value.stack)
    : ArrayBuffer.isView(value)
      ? `${value.constructor.name}(${value.length}) [${value.subarray(0, 4)}]`
      : String(value)

/** The result of `read`, or the ZTensorError that it throws. Other errors are thrown on. */
async function outcome(read) {
  try {
    return await read()
  } catch (error) {
    if (error instanceof ZTensorError && error.code !== 'ZT_INTERNAL') return error
    throw error
  }
}
const isError = (value) => value instanceof Error

/** Collects what is wrong with one tensor. */
class Judge {
  wrong = []
  constructor(name) {
    this.name = name
  }
  is(found, expected, what) {
    if (!Object.is(found, expected)) this.wrong.push(`${this.name}: ${what}: ${shown(found)}, not ${shown(expected)}`)
  }
  /** Asserts the same elements; if one way fails because of the data, so must the other. */
  same(found, expected, what) {
    if (isError(found) || isError(expected)) this.is(found?.code, expected?.code, what)
    else if (!equal(found, expected)) this.is(shown(found), `${shown(expected)} bit for bit`, what)
  }
}

/** The elements of a slice, picked byte by byte: a number that passes through JavaScript may come out as another NaN. */
function sliceOf(elements, shape, ranges, per) {
  const bytes = new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength)
  const picked = pick(bytes, sliceIndices(shape, ranges), per * elements.BYTES_PER_ELEMENT)
  return new elements.constructor(picked.buffer)
}

/** Slices of whole rows, other rectangles, single elements and nothing. */
function cutsOf(shape) {
  const cuts = [[], shape.map(() => null)]
  shape.forEach((size, dim) => {
    const all = shape.map(() => null)
    for (const range of [
      [Math.floor(size / 2), size],
      [0, Math.min(1, size)],
      [size, size],
    ])
      cuts.push(all.with(dim, range))
  })
  return cuts
}

/** Whether float32 represents every value of the type. */
const EXACT = /^(float32|float16|bfloat16|u?int8|u?int16|bool|float8)/

async function stats(judge, tensor, floats) {
  const found = await outcome(() => tensor.stats())
  if (isError(found)) return judge.is(found.code, isError(floats) ? floats.code : 'elements', 'stats()')
  judge.is(found.count, tensor.size, 'stats().count')
  if (isError(floats) || !EXACT.test(tensor.dtype)) return undefined
  const finite = floats.filter(Number.isFinite)
  const extremes = finite.reduce(([min, max], one) => [Math.min(min, one), Math.max(max, one)], [Infinity, -Infinity])
  judge.is(found.nan, floats.filter(Number.isNaN).length, 'stats().nan')
  judge.is(found.zeros, floats.filter((one) => one === 0).length, 'stats().zeros')
  if (finite.length === 0) return judge.is(Number.isNaN(found.min + found.max), true, 'stats() of no finite elements')
  // -0 and 0 are equal.
  judge.is(found.min + 0, extremes[0] + 0, 'stats().min')
  return judge.is(found.max + 0, extremes[1] + 0, 'stats().max')
}

/** The bytes of createReadStream(), in an array like `loaded`; or its error. */
async function streamed(tensor, loaded) {
  const bytes = Buffer.concat(await tensor.createReadStream({ highWaterMark: 7 }).toArray())
  return numbersOf(isError(loaded) ? Uint8Array : loaded.constructor, bytes)
}

/** All elements, in all ways that return them. `loaded` is the result of load(). */
async function wholes(judge, file, tensor, loaded) {
  const { name, size } = tensor
  const [Class, bits] = DTYPES[tensor.dtype]
  const component = tensor.components.get('data')
  judge.same(await outcome(() => component.load()), loaded, 'component.load()')
  judge.same(await outcome(async () => (await file.load([name])).get(name).data), loaded, 'file.load()')
  const into = new Class(Math.ceil((size * bits) / 8) / Class.BYTES_PER_ELEMENT)
  judge.same(await outcome(() => tensor.load({ into })), loaded, 'load({ into })')
  const data = await outcome(() => tensor.data)
  judge.same(await outcome(async () => streamed(tensor, loaded)), loaded, 'createReadStream()')
  if (!isError(data)) judge.same(numbersOf(Class, tensor.bytes), data, 'bytes')
  judge.same(await outcome(() => component.data), data, 'component.data')
  // Data that needs no decoding is not hashed.
  if (isError(loaded)) return
  judge.is(loaded.constructor, Class, 'the array of load()')
  judge.is(loaded.byteLength, Math.ceil((size * bits) / 8), 'bytes of load()')
  judge.is(tensor.byteLength, loaded.byteLength, 'byteLength')
  judge.is(component.byteLength, loaded.byteLength, 'component.byteLength')
  judge.same(data, loaded, 'data')
  judge.is(tensor.mapped, component.mapped, 'mapped')
  judge.is(tensor.copyReason, component.copyReason, 'copyReason')
}

/** Parts of the elements, compared with a selection from all of them. */
async function parts(judge, file, tensor, loaded, cheap) {
  const { shape, dtype, name } = tensor
  const [Class, bits] = DTYPES[dtype]
  if (bits < 8) return
  const per = bits / 8 / Class.BYTES_PER_ELEMENT
  for (const ranges of cutsOf(shape)) {
    const expected = sliceOf(loaded, shape, ranges, per)
    const what = `slice(${JSON.stringify(ranges)})`
    judge.same(await outcome(() => tensor.slice(ranges).data), expected, what)
    if (cheap) continue
    judge.same(await outcome(() => tensor.load({ slice: ranges })), expected, `load of ${what}`)
    const widened = await outcome(() => tensor.load({ slice: ranges, as: 'float32' }))
    if (dtype === 'float32') judge.same(widened, expected, `load as float32 of ${what}`)
    else if (!isError(widened)) judge.is(widened.length, expected.length / per, `elements as float32 of ${what}`)
  }
  if (cheap || !/^[\w.]+$/.test(name)) return
  for (const [dim, size] of shape.entries()) {
    const worldSize = [2, 3, 5, 7].find((ranks) => size > 0 && size % ranks === 0) ?? 1
    const shard = { dim, rank: worldSize - 1, worldSize }
    const expected = sliceOf(loaded, shape, shardRanges(shape, shard), per)
    const what = `shard(${JSON.stringify(shard)})`
    judge.same(await outcome(() => tensor.shard(shard).data), expected, what)
    judge.same(await outcome(() => tensor.load({ shard })), expected, `load of ${what}`)
    const plan = file.plan({ rank: shard.rank, worldSize, rules: [[name, { dim }], ['*', 'replicate']] }) // biome-ignore format: one call
    judge.is(plan.tensors.get(name).byteLength, expected.byteLength, `bytes of a plan of ${what}`)
    judge.same((await file.load({ names: [name], plan })).get(name).data, expected, `a plan of ${what}`)
  }
}

async function dense(judge, file, tensor, cheap) {
  const loaded = await outcome(() => tensor.load())
  await wholes(judge, file, tensor, loaded)
  if (isError(loaded)) return
  await parts(judge, file, tensor, loaded, cheap)
  const floats = await outcome(() => tensor.toFloat32())
  judge.same(await outcome(() => tensor.load({ as: 'float32' })), floats, "load({ as: 'float32' })")
  if (tensor.dtype === 'float32') judge.same(floats, loaded, 'toFloat32()')
  if (!isError(floats)) judge.is(floats.length, tensor.size, 'elements of toFloat32()')
  if (cheap) return
  await stats(judge, tensor, floats)
  await comparable(judge, tensor, tensor, tensor.size)
  await comparable(judge, tensor, tensor.components.get('data'), tensor.size)
}

/** Asserts that compare() finds equal tensors identical. */
async function comparable(judge, a, b, elements) {
  const found = await outcome(() => compare(a, b))
  if (isError(found)) return judge.wrong.push(`${judge.name}: compare: ${found.code}`)
  judge.is(found.identical, true, 'compare().identical')
  return judge.is(found.elements, elements, 'compare().elements')
}

async function sparse(judge, file, tensor, cheap) {
  const [view, load] =
    tensor.layout === 'sparse_csr'
      ? [() => tensor.csr(), () => tensor.loadCsr()]
      : [() => tensor.coo(), () => tensor.loadCoo()]
  const loaded = await outcome(load)
  const all = await outcome(async () => (await file.load({ names: [tensor.name] })).get(tensor.name))
  if (isError(loaded) || isError(all)) return judge.is(all?.code, loaded?.code, 'file.load()')
  const mapped = await outcome(view)
  let bytes = 0
  const { rank, nnz } = { rank: tensor.shape.length, nnz: loaded.nnz }
  judge.is(mapped.nnz, nnz, 'nnz')
  if (rank > 0)
    judge.is(
      nnz,
      tensor.layout === 'sparse_csr' ? loaded.indices.length : loaded.coords.length / rank,
      'nnz by indices',
    )
  for (const role of ROLES[tensor.layout]) {
    judge.same(mapped[role], loaded[role], role)
    judge.same(all[role], loaded[role], `file.load().${role}`)
    judge.same(tensor.components.get(role).data, loaded[role], `${role} of components`)
    bytes += loaded[role].byteLength
  }
  const sized = ROLES[tensor.layout].every((role) => tensor.components.get(role).byteLength !== undefined)
  if (sized) judge.is(tensor.byteLength, bytes, 'byteLength')
  if (cheap || product(tensor.shape) > 2 ** 20) return undefined
  judge.same(mapped.toDense(), loaded.toDense(), 'toDense()')
  const floats = await outcome(() => loaded.toFloat32())
  if (!isError(floats)) judge.is(floats.values.length, nnz, 'elements of toFloat32()')
  const found = await outcome(() => tensor.stats())
  if (!isError(found)) judge.is(found.count, nnz, 'stats().count')
  return comparable(judge, tensor, tensor, loaded.nnz)
}

async function composite(judge, file, tensor, cheap) {
  const all = await outcome(async () => (await file.load({ names: [tensor.name] })).get(tensor.name))
  const loads = []
  for (const [role, component] of tensor.components) loads.push([role, await outcome(() => component.load())])
  const failed = loads.find(([, loaded]) => isError(loaded))
  if (isError(all) || failed !== undefined) return judge.is(all?.code, failed?.[1].code, 'file.load()')
  judge.is(Object.keys(all.components).join(), Array.from(tensor.components.keys()).join(), 'roles of file.load()')
  for (const [role, loaded] of loads) judge.same(all.components[role].data, loaded, `file.load() of ${role}`)
  const lengths = Array.from(tensor.components.values(), (component) => component.byteLength)
  if (!lengths.includes(undefined)) judge.is(tensor.byteLength, lengths.reduce((a, b) => a + b, 0), 'byteLength') // biome-ignore format: one sum
  if (cheap) return undefined
  const floats = await outcome(() => tensor.toFloat32())
  return judge.same(await outcome(() => tensor.load({ as: 'float32' })), floats, "load({ as: 'float32' })")
}

/** The number of elements of a component without padding: by the shape for dense data, by the indices for sparse values. */
function elementCount({ layout, shape, size, components }, role) {
  if (layout === 'dense' && role === 'data') return size
  const indices =
    role === 'values' ? components.get({ sparse_csr: 'indices', sparse_coo: 'coords' }[layout]) : undefined
  if (indices === undefined || (layout === 'sparse_coo' && shape.length === 0)) return undefined
  return indices.data.length / (layout === 'sparse_coo' ? shape.length : 1)
}

/** The components, including those that are not part of the layout. */
async function components(judge, tensor, cheap) {
  for (const [role, component] of tensor.components) {
    const loaded = await outcome(() => component.load())
    if (isError(loaded)) continue
    judge.same(await outcome(() => component.data), loaded, `data of ${role}`)
    if (component.byteLength !== undefined) judge.is(loaded.byteLength, component.byteLength, `bytes of ${role}`)
    const [, bits] = DTYPES[component.dtype ?? 'uint8']
    const elements = component.dtype ? elementCount(tensor, role) : undefined
    const fitting = Math.floor((loaded.byteLength * 8) / bits)
    if (!cheap) await comparable(judge, component, component, elements ?? fitting)
  }
}

/**
 * Asserts that verify() accepts a tensor exactly if its elements and all of its components load. A listed failure has the code of the
 * load that fails. An unknown encoding or a limit does not mean damage.
 */
async function verified(judge, file, tensor) {
  const loads = [await outcome(() => file.load({ names: [tensor.name] }))]
  for (const component of tensor.components.values()) loads.push(await outcome(() => component.load()))
  const codes = new Set(loads.filter(isError).map(({ code }) => code))
  if (codes.has('ZT_UNSUPPORTED_ENCODING') || codes.has('ZT_LIMIT')) return
  const found = await outcome(() => tensor.verify())
  const failures = isError(found) ? [found] : found.failures
  judge.is(failures.length === 0, codes.size === 0, `verify() finds nothing (${failures.join()}; loads: ${[...codes]})`)
  for (const { code } of failures) judge.is(codes.has(code), true, `a load fails with ${code}, as in verify()`)
}

/** The tensors of a file for which verify() and loading disagree. */
export async function verifiedAsLoaded(file) {
  const wrong = []
  for (const tensor of file.values()) {
    const judge = new Judge(tensor.name)
    await verified(judge, file, tensor)
    wrong.push(...judge.wrong)
  }
  return wrong
}

/** Formats that divide the bytes of a tensor: only the first of its offsets is reported. */
const REORDERED = ['arrow', 'flax', 'paddle', 'tensorflow']
const mayBeReordered = (file, tensor) =>
  // SciPy stores the coordinates in two members.
  (file.format === 'npz' && tensor.layout === 'sparse_coo') ||
  (REORDERED.includes(file.format) && (tensor.dtype === undefined || /reordered|encoded/.test(tensor.copyReason)))

/** The bytes that a plan of whole tensors must name: only those of the elements. */
function planned(judge, file) {
  const plan = file.plan({ rank: 0, worldSize: 1, rules: { '*': 'replicate' } })
  for (const range of plan.ranges()) {
    const inside = Array.from(file.values()).flatMap((tensor) =>
      ownRoles(tensor).map((role) => tensor.components.get(role)).filter((part) => part?.offset !== undefined)
        .map(({ offset, storedLength }) => ({ offset, end: mayBeReordered(file, tensor) ? Infinity : offset + storedLength })),
    ) // biome-ignore format: one list
    const covered = (at) => inside.some(({ offset, end }) => offset <= at && at < end)
    judge.is(
      covered(range.offset) && covered(range.offset + range.length - 1),
      true,
      'a planned range contains elements',
    )
  }
  return plan
}

/**
 * Reads every tensor in every way. Returns what is wrong: `[]` if all agree; and the properties, to compare two openings of the same
 * file. `cheap` leaves out slow checks.
 */
export async function readings(file, { cheap = false } = {}) {
  const wrong = []
  const facts = []
  for (const tensor of file.values()) {
    const judge = new Judge(tensor.name)
    const { name, dtype, shape, layout, byteLength } = tensor
    JSON.stringify(tensor)
    if (layout === 'unread') continue
    if (layout === 'dense' && dtype !== undefined) await dense(judge, file, tensor, cheap)
    else if (Object.hasOwn(ROLES, layout) && layout !== 'dense' && dtype !== undefined) {
      await sparse(judge, file, tensor, cheap)
    } else await composite(judge, file, tensor, cheap)
    await components(judge, tensor, cheap)
    await verified(judge, file, tensor)
    wrong.push(...judge.wrong)
    const loads = await Promise.all(Array.from(tensor.components.values(), (part) => outcome(() => part.load())))
    const contents = Array.from(tensor.components.keys(), (role, at) => {
      const loaded = loads[at]
      return [role, isError(loaded) ? loaded.code : digest(loaded)]
    })
    facts.push([name, dtype ?? null, [...shape], layout, byteLength, contents])
  }
  const judge = new Judge('the file')
  const plan = planned(judge, file)
  const all = await outcome(() => file.load())
  const byPlan = await outcome(() => file.load({ plan }))
  if (isError(all) || isError(byPlan)) judge.is(byPlan?.code, all?.code, 'load({ plan })')
  else {
    for (const [name, { data }] of all)
      if (data !== undefined) judge.same(byPlan.get(name).data, data, `load({ plan }) of ${name}`)
  }
  return { wrong: [...wrong, ...judge.wrong], facts }
}
