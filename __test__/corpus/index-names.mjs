// The names of a valid file in the order of its index, read by other code than the library's: JSON.parse, and the CBOR
// that the vectors hold (text, integers, arrays, maps, indefinite lengths).

const text = (bytes) => new TextDecoder('utf-8', { fatal: true }).decode(bytes)

function readCbor(bytes, start) {
  let at = start
  const next = () => {
    const initial = bytes[at++]
    const major = initial >> 5
    const info = initial & 31
    let argument = info
    if (info >= 24 && info <= 27) {
      const width = 1 << (info - 24)
      argument = 0
      for (let i = 0; i < width; i++) argument = argument * 256 + bytes[at++]
    }
    const count = info === 31 ? Infinity : argument
    const more = (read) => (count === Infinity ? bytes[at] !== 0xff || (at++, false) : read < count)
    if (major === 0) return argument
    if (major === 7) return argument // floats, booleans and null have no names
    if (major === 3) {
      at += argument
      return text(bytes.subarray(at - argument, at))
    }
    if (major === 4) {
      const items = []
      while (more(items.length)) items.push(next())
      return items
    }
    if (major === 5) {
      const entries = []
      while (more(entries.length)) entries.push([next(), next()])
      return new Map(entries)
    }
    throw new Error(`the vectors hold no CBOR of major type ${major}`)
  }
  return next()
}

export function indexNames(fileName, bytes) {
  if (fileName.endsWith('.btf')) return Array.from({ length: Number(bytes.readBigUInt64LE(0)) }, (_, i) => String(i))
  if (fileName.endsWith('.safetensors')) {
    const header = JSON.parse(text(bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE(0)))))
    return Object.keys(header).filter((name) => name !== '__metadata__')
  }
  if (bytes[0] === 0x89) {
    const offset = Number(bytes.readBigUInt64LE(bytes.length - 40))
    return [...readCbor(bytes, offset).get('objects').keys()]
  }
  const end = bytes.subarray(-8).equals(bytes.subarray(0, 8)) ? bytes.length - 16 : bytes.length - 8
  const root = readCbor(bytes, end - Number(bytes.readBigUInt64LE(end)))
  if (Array.isArray(root)) return root.map((entry) => entry.get('name'))
  return [...(root.get('tensors') ?? root.get('objects')).keys()]
}
