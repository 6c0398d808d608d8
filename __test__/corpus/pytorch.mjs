// Builds pickles opcode by opcode, and the containers that PyTorch puts them into.
import { crc32 } from 'node:zlib'
import { zip } from './numpy.mjs'

const le = (bytes, value) => {
  const made = Buffer.alloc(8)
  made.writeBigInt64LE(BigInt(value))
  return made.subarray(0, bytes)
}
const cat = (...parts) => Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)))

export const NONE = cat('N')
export const TRUE = cat('\x88')
export const FALSE = cat('\x89')
export const int = (value) => cat('\x8a\x08', le(8, value))
export const float = (value) => {
  const made = Buffer.alloc(9, 'G')
  made.writeDoubleBE(value, 1)
  return made
}
export const text = (value) => {
  const bytes = Buffer.from(value)
  return cat('X', le(4, bytes.length), bytes)
}
export const bytes = (value) => cat('B', le(4, value.length), value)
export const tuple = (...items) => cat('(', ...items, 't')
export const list = (...items) => cat('](', ...items, 'e')
/** A dict of alternating keys and values. */
export const dict = (...entries) => cat('}(', ...entries.map((entry) => (Array.isArray(entry) ? cat(...entry) : entry)), 'u')
export const global = (module, name) => `c${module}\n${name}\n`
export const call = (module, name, ...args) => cat(global(module, name), tuple(...args), 'R')
export const build = (object, state) => cat(object, state, 'b')
export const pickle = (...parts) => cat('\x80\x02', ...parts, '.')
export const ordered = () => call('collections', 'OrderedDict')

/** A storage by its id; `view` makes it a part of another. */
export const storage = (key, { type = 'FloatStorage', module = 'torch', numel = 4, view } = {}) =>
  cat(tuple(text('storage'), global(module, type), text(key), text('cpu'), int(numel), ...(view ? [view] : [])), 'Q')

/** `torch._utils._rebuild_tensor_v2`. */
export const tensor = (key, shape, strides, { offset = 0, metadata, ...more } = {}) =>
  call(
    'torch._utils',
    '_rebuild_tensor_v2',
    storage(key, more),
    int(offset),
    tuple(...shape.map(int)),
    tuple(...strides.map(int)),
    FALSE,
    ordered(),
    ...(metadata ? [metadata] : []),
  )

/** An archive as torch.save writes it; `records` by name. */
export const archive = (main, records = {}, { folder = 'archive/', byteorder, more = [], ...how } = {}) =>
  zip(
    [
      { name: `${folder}data.pkl`, data: main, ...how },
      ...(byteorder === undefined ? [] : [{ name: `${folder}byteorder`, data: Buffer.from(byteorder) }]),
      ...Object.entries(records).map(([name, data]) => ({ name: folder + name, ...(Buffer.isBuffer(data) ? { data } : data) })),
      { name: `${folder}version`, data: Buffer.from('3\n') },
      ...more,
    ],
  )

export const MAGIC = cat('\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.')

/** A file as torch.save wrote it before 1.6; storages as `[key, elements, bytes]`. */
export const legacy = (main, storages = [], { magic = MAGIC, protocol = pickle(int(1001)), keys } = {}) =>
  cat(
    magic,
    protocol,
    pickle(dict([text('little_endian'), TRUE])),
    main,
    keys ?? pickle(list(...storages.map(([key]) => text(key)))),
    ...storages.flatMap(([, count, data]) => [le(8, count), data]),
  )

export { cat, crc32, le }
