// Keras archives whose weights cannot be read: the weights come last, and contain the fault.
import { readFileSync } from 'node:fs'
import { deflateRawSync } from 'node:zlib'
import { keras, last, members } from '../helpers/keras-archives.mjs'
import { zip } from './numpy.mjs'

const WEIGHTS = readFileSync(new URL('../fixtures/hdf5/model.weights.h5', import.meta.url))
const REFUSED = {
  'a CRC-32 that is wrong': [zip(last(members(WEIGHTS, { deflate: true }), () => ({ crc: 1 }))), 'ZT_DIGEST_MISMATCH'],
  'a damaged stream': [
    zip(
      last(members(WEIGHTS, { deflate: true }), ({ data }) => {
        const stored = deflateRawSync(data)
        return { stored: stored.fill(0xff, 100, 120) }
      }),
    ),
    ['ZT_DECODE', 'ZT_DIGEST_MISMATCH'],
  ],
  'fewer bytes than the directory says': [
    zip(last(members(WEIGHTS, { deflate: true }), ({ data }) => ({ size: data.length + 1 }))),
    'ZT_DECODE',
  ],
  'more bytes than deflate can make': [
    zip(last(members(WEIGHTS, { deflate: true }), () => ({ size: 0xffff_fff0 }))),
    'ZT_BAD_INDEX',
  ],
  'no HDF5': [keras(Buffer.from('these are no weights'), { deflate: true }), 'ZT_BAD_MAGIC'],
  'another method': [zip(last(members(WEIGHTS), () => ({ method: 12 }))), 'ZT_UNSUPPORTED_ENCODING'],
  'encrypted weights': [zip(last(members(WEIGHTS), () => ({ flags: 1 }))), 'ZT_UNSUPPORTED_ENCODING'],
}

export const cases = Object.entries(REFUSED).map(([name, [bytes, code]]) => ({
  name,
  bytes,
  code,
  options: { format: 'keras' },
}))
