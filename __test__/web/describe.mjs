// Describes a file by all ways of reading it, as JSON: the addon and @ztensor/web must say the same. Runs in browsers, too.

/** A hash of bytes (FNV-1a of 32-bit words, twice), and their number. */
function hash(view) {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
  let [a, b] = [0x811c9dc5, 0x1000193]
  for (let at = 0; at < bytes.length; at++) {
    a = Math.imul(a ^ bytes[at], 0x01000193)
    b = Math.imul(b ^ (bytes[at] + at), 0x85ebca6b)
  }
  return `${view.constructor.name} ${view.length} ${(a >>> 0).toString(16)}${(b >>> 0).toString(16)}`
}

/** The result of a call, or the code of its error. */
async function outcome(call) {
  try {
    return await call()
  } catch (error) {
    if (typeof error?.code === 'string' && error.code !== 'ZT_INTERNAL') return error.code
    throw error
  }
}

/** JSON of any value: NaN, infinities and bigints as text. */
export const text = (value) =>
  JSON.stringify(value, (_key, one) => {
    if (typeof one === 'bigint') return `${one}n`
    if (typeof one === 'number' && (!Number.isFinite(one) || Object.is(one, -0)))
      return `number ${Object.is(one, -0) ? '-0' : one}`
    if (one instanceof Map) return { map: [...one] }
    return one instanceof Uint8Array ? { bytes: hash(one) } : one
  })

const verified = ({ ok, checked, undigested, failures }) => [
  ok,
  checked,
  undigested,
  failures.map(({ code, tensor, component }) => [code, tensor, component]),
]

/** Loads a tensor into an array that the caller has. */
async function intoArray(tensor, as) {
  const loaded = await tensor.load({ as })
  return ArrayBuffer.isView(loaded) ? tensor.load({ as, into: new loaded.constructor(loaded.length) }) : loaded
}

async function describeTensor(tensor, counts, describe) {
  const { name, dtype, shape, layout, byteLength, kind, storageType } = tensor
  const lines = [name, dtype, shape, layout, byteLength, kind, storageType, text(tensor.attributes)]
  const read = async (call) => {
    counts.reads += 1
    lines.push(await outcome(async () => describe(await call())))
  }
  await read(() => tensor.load())
  await read(() => tensor.load({ as: 'float32' }))
  await read(() => intoArray(tensor))
  await read(() => intoArray(tensor, 'float32'))
  await read(() => tensor.load({ as: 'int32' }))
  if (shape.length > 0) {
    const [rows] = shape
    await read(() => tensor.load({ slice: [[0, Math.ceil(rows / 2)]] }))
    await read(() => tensor.load({ slice: shape.map((size) => [0, size, 2]) }))
    await read(() => tensor.load({ slice: [[Math.floor(rows / 2), rows]], as: 'float32' }))
    const last = Math.max(rows - 1, 0)
    await read(() => tensor.take([last, 0]))
    await read(() => tensor.take([0, last, 0], { as: 'float32' }))
  }
  const pieces = []
  await read(async () => {
    await tensor.loadTo((bytes, offset) => void pieces.push([offset, hash(bytes)]))
    return pieces
  })
  await read(() => tensor.loadCsr())
  await read(() => tensor.loadCoo())
  await read(() => tensor.stats({ bins: 4 }))
  await read(async () => verified(await tensor.verify()))
  for (const [role, component] of tensor.components) {
    const { encoding, digest, storedLength } = component
    lines.push([role, component.dtype, component.byteLength, storedLength, encoding, digest])
    await read(() => component.load())
  }
  return lines
}

const describe = (value) => {
  if (ArrayBuffer.isView(value)) return hash(value)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const entries = [...Object.entries(value), ['kind', value.kind]].filter(([, one]) => one !== undefined)
  return Object.fromEntries(entries.map(([key, one]) => [key, ArrayBuffer.isView(one) ? hash(one) : one]))
}

/** Describes what `open` opens. `counts` gets the number of tensors and of reads. */
export async function describeFile({ open, compare }, source, options, counts) {
  const file = await outcome(() => open(source, options))
  counts.files += 1
  if (typeof file === 'string') return text([file])
  const { format, version, size, byteLength } = file
  const lines = [format, version ?? null, size, byteLength, file.warnings.map(({ code, tensor }) => [code, tensor])]
  lines.push(text(file.metadata))
  lines.push(await outcome(async () => verified(await file.verify())))
  lines.push(await outcome(async () => Array.from(await file.load(), ([name, one]) => [name, describe(one)])))
  lines.push(await outcome(() => file.contentDigest()))
  const tensors = [...file.values()]
  for (const tensor of tensors.slice(0, 200)) {
    counts.tensors += 1
    lines.push(await describeTensor(tensor, counts, describe))
  }
  const [first, ...others] = tensors
  if (first !== undefined) {
    const same = others.find((one) => String(one.shape) === String(first.shape)) ?? first
    lines.push(await outcome(() => compare(first, same)))
  }
  file.close()
  return text(lines)
}

/** Describes how a folder is opened: what it has and what is warned of, or why it is refused. `location` is its path in messages. */
export async function describeFolder({ open }, source, location) {
  const plain = (message) =>
    message
      .replaceAll(`${location}/`, '')
      .replaceAll(`'${location}'`, "'the folder'")
      // Node's words for what the system says have the path.
      .replace(/ENOENT: no such file or directory, open ('[^']*')/, '$1: open: No such file or directory')
      .replace(/^'the folder': (?=the index .* names a file that cannot be read)/, '')
  try {
    const file = await open(source)
    const warnings = file.warnings.map(({ code, message }) => [code, plain(message)])
    const tensors = Array.from(file.values(), ({ name, storageType, shape }) => [name, storageType, shape])
    const loaded = await outcome(async () => Array.from(await file.load(), ([name, one]) => [name, describe(one)]))
    const described = [file.format, file.version ?? null, tensors, warnings, loaded]
    file.close()
    return text(described)
  } catch (error) {
    if (error.code === undefined || error.code === 'ZT_INTERNAL') return `${error.stack}`
    return text([error.code, plain(error.message), error.option ?? null])
  }
}

/** The options of `diff` that are tried in turn. */
const DIFFS = [{}, { metadata: true, norms: true }, { values: true, rtol: 0.5, atol: 1 }, { rename: { '*': '*' } }]

/** Describes the differences of two files, with options that the number of the pair selects. */
export async function describeDiff({ diff }, a, b, at, more) {
  try {
    return text(await diff(a, b, { ...DIFFS[at % DIFFS.length], ...more }))
  } catch (error) {
    if (error.code === undefined || error.code === 'ZT_INTERNAL') return `${error.stack}`
    return text([error.code, error.tensor ?? null, error.option ?? null])
  }
}
