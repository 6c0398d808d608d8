// XXH3 of 64 bits and XXH64, both without a seed, by their specification, with bigints: for test files, not for
// speed.

const SECRET = Buffer.from(
  'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee035' +
    '90e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04b' +
    'cdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad0' +
    '31ce45cb3a8f95160428afd7fbcabb4b407e',
  'hex',
)
const PRIME32 = [0x9e3779b1n, 0x85ebca77n, 0xc2b2ae3dn]
const PRIME64 = [
  0x9e3779b185ebca87n,
  0xc2b2ae3d27d4eb4fn,
  0x165667b19e3779f9n,
  0x85ebca77c2b2ae63n,
  0x27d4eb2f165667c5n,
]
const MIX = [0x165667919e3779f9n, 0x9fb21c651e98df25n]
const u64 = (value) => BigInt.asUintN(64, value)
const low = (value) => value & 0xffffffffn
const at = (bytes, offset) => bytes.readBigUInt64LE(offset)
const at32 = (bytes, offset) => BigInt(bytes.readUInt32LE(offset))
const secret = (offset) => at(SECRET, offset)
const shift = (value, bits) => value ^ (value >> bits)
const swap = (value, bytes) => {
  const buffer = Buffer.alloc(bytes)
  for (let i = 0; i < bytes; i++) buffer[i] = Number((value >> BigInt(8 * (bytes - 1 - i))) & 0xffn)
  return bytes === 8 ? buffer.readBigUInt64LE(0) : BigInt(buffer.readUInt32LE(0))
}
const rotate = (value, bits) => u64((value << bits) | (value >> (64n - bits)))
const folded = (a, b) => {
  const product = a * b
  return u64(product) ^ (product >> 64n)
}
const avalanche = (hash) => shift(u64(shift(hash, 37n) * MIX[0]), 32n)
const avalanche64 = (hash) => shift(u64(shift(u64(shift(hash, 33n) * PRIME64[1]), 29n) * PRIME64[2]), 32n)

function upTo16(bytes) {
  const { length } = bytes
  if (length > 8) {
    const first = at(bytes, 0) ^ (secret(24) ^ secret(32))
    const last = at(bytes, length - 8) ^ (secret(40) ^ secret(48))
    return avalanche(u64(BigInt(length) + swap(first, 8) + last + folded(first, last)))
  }
  if (length >= 4) {
    const both = at32(bytes, length - 4) | (at32(bytes, 0) << 32n)
    let hash = both ^ (secret(8) ^ secret(16))
    hash ^= rotate(hash, 49n) ^ rotate(hash, 24n)
    hash = u64(hash * MIX[1])
    hash ^= (hash >> 35n) + BigInt(length)
    return shift(u64(u64(hash) * MIX[1]), 28n)
  }
  if (length === 0) return avalanche64(secret(56) ^ secret(64))
  const combined =
    (BigInt(bytes[0]) << 16n) | (BigInt(bytes[length >> 1]) << 24n) | BigInt(bytes[length - 1]) | (BigInt(length) << 8n)
  return avalanche64(combined ^ (at32(SECRET, 0) ^ at32(SECRET, 4)))
}

const mix16 = (bytes, offset, key) => folded(at(bytes, offset) ^ secret(key), at(bytes, offset + 8) ^ secret(key + 8))

function upTo240(bytes) {
  const { length } = bytes
  let sum = u64(BigInt(length) * PRIME64[0])
  if (length <= 128) {
    for (let i = Math.floor((length - 1) / 32); i >= 0; i--) {
      sum += mix16(bytes, 16 * i, 32 * i) + mix16(bytes, length - 16 * (i + 1), 32 * i + 16)
    }
    return avalanche(u64(sum))
  }
  const rounds = Math.floor(length / 16)
  for (let i = 0; i < 8; i++) sum += mix16(bytes, 16 * i, 16 * i)
  sum = avalanche(u64(sum))
  for (let i = 8; i < rounds; i++) sum += mix16(bytes, 16 * i, 16 * (i - 8) + 3)
  return avalanche(u64(sum + mix16(bytes, length - 16, 136 - 17)))
}

function accumulate(sums, bytes, offset, key) {
  for (let lane = 0; lane < 8; lane++) {
    const value = at(bytes, offset + 8 * lane)
    const keyed = value ^ secret(key + 8 * lane)
    sums[lane ^ 1] = u64(sums[lane ^ 1] + value)
    sums[lane] = u64(sums[lane] + low(keyed) * (keyed >> 32n))
  }
}

function long(bytes) {
  const { length } = bytes
  const sums = [PRIME32[2], PRIME64[0], PRIME64[1], PRIME64[2], PRIME64[3], PRIME32[1], PRIME64[4], PRIME32[0]]
  const stripes = (SECRET.length - 64) / 8
  const blocks = Math.floor((length - 1) / (64 * stripes))
  const run = (block, count) => {
    for (let i = 0; i < count; i++) accumulate(sums, bytes, block * 64 * stripes + 64 * i, 8 * i)
  }
  for (let block = 0; block < blocks; block++) {
    run(block, stripes)
    for (let lane = 0; lane < 8; lane++) {
      const sum = shift(sums[lane], 47n) ^ secret(SECRET.length - 64 + 8 * lane)
      sums[lane] = u64(sum * PRIME32[0])
    }
  }
  run(blocks, Math.floor((length - 1 - 64 * stripes * blocks) / 64))
  accumulate(sums, bytes, length - 64, SECRET.length - 64 - 7)
  let result = u64(BigInt(length) * PRIME64[0])
  for (let i = 0; i < 4; i++) {
    result += folded(sums[2 * i] ^ secret(11 + 16 * i), sums[2 * i + 1] ^ secret(11 + 16 * i + 8))
  }
  return avalanche(u64(result))
}

/** The hash of a Buffer, as a bigint. */
export function xxh3(bytes) {
  if (bytes.length <= 16) return upTo16(bytes)
  return bytes.length <= 240 ? upTo240(bytes) : long(bytes)
}

/** XXH64 of a Buffer, as a bigint: zstd's checksum is its low half. */
export function xxh64(bytes) {
  const [one, two, three, four, five] = PRIME64
  const round = (sum, value) => u64(rotate(u64(sum + value * two), 31n) * one)
  let hash = five
  let offset = 0
  if (bytes.length >= 32) {
    const sums = [one + two, two, 0n, -one].map(u64)
    for (; offset + 32 <= bytes.length; offset += 32) {
      for (let lane = 0; lane < 4; lane++) sums[lane] = round(sums[lane], at(bytes, offset + 8 * lane))
    }
    hash = u64(rotate(sums[0], 1n) + rotate(sums[1], 7n) + rotate(sums[2], 12n) + rotate(sums[3], 18n))
    for (const sum of sums) hash = u64((hash ^ round(0n, sum)) * one + four)
  }
  hash = u64(hash + BigInt(bytes.length))
  for (; offset + 8 <= bytes.length; offset += 8) {
    hash = u64(rotate(hash ^ round(0n, at(bytes, offset)), 27n) * one + four)
  }
  for (; offset + 4 <= bytes.length; offset += 4) {
    hash = u64(rotate(hash ^ u64(at32(bytes, offset) * one), 23n) * two + three)
  }
  for (; offset < bytes.length; offset++) {
    hash = u64(rotate(hash ^ u64(BigInt(bytes[offset]) * five), 11n) * one)
  }
  return avalanche64(hash)
}
