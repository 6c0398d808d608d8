// Builds the MessagePack of Flax (flax.serialization) value by value.
export const ints = (bytes, value) => {
  const made = Buffer.alloc(bytes)
  made.writeUIntBE(value, 0, bytes)
  return made
}

/** A text, in its shortest form. */
export const str = (value) => {
  const text = Buffer.from(value)
  const head = text.length < 32 ? Buffer.from([0xa0 | text.length]) : Buffer.concat([Buffer.from([0xda]), ints(2, text.length)])
  return Buffer.concat([head, text])
}

export const bin = (bytes) => Buffer.concat([Buffer.from([0xc6]), ints(4, bytes.length), bytes])
export const uint = (value) => (value < 128 ? Buffer.from([value]) : Buffer.concat([Buffer.from([0xce]), ints(4, value)]))
export const array = (...items) => Buffer.concat([Buffer.from([0xdc]), ints(2, items.length), ...items])
/** A map of pairs; a key is a string, or bytes of MessagePack. */
export const map = (...entries) =>
  Buffer.concat([
    Buffer.from([0xde]),
    ints(2, entries.length),
    ...entries.flatMap(([key, value]) => [typeof key === 'string' ? str(key) : key, value]),
  ])
export const ext = (type, body) => Buffer.concat([Buffer.from([0xc9]), ints(4, body.length), Buffer.from([type]), body])

/** The contents of the extension of an array. */
export const parts = (shape, dtype, data) =>
  Buffer.concat([Buffer.from([0x93, 0x90 | shape.length]), ...shape.map(uint), str(dtype), bin(data)])
export const ndarray = (shape, dtype, data, type = 1) => ext(type, parts(shape, dtype, data))
const numbered = (values) => map(...values.map((value, at) => [String(at), value]))
export const chunked = (shape, chunks, { more = [], marker = Buffer.from([0xc3]) } = {}) =>
  map(['__msgpack_chunked_array__', marker], ['shape', numbered(shape.map(uint))], ['chunks', numbered(chunks)], ...more)
