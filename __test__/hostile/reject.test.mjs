// Runs the corpus of malformed and near-miss files (corpus/README.md).
import { Buffer } from 'node:buffer'
import test from 'ava'
import { open, openSync, ZTensorError } from 'ztensor'
import { isRefusal, testCorpora } from '../corpus/run.mjs'
import { bytesOf, tables } from '../corpus/tables.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { vectors } from '../helpers/vectors.mjs'

const all = await tables()
const btf = all.get('btf')
/** Those of zTensor 2 are run by zt2/conformance, those of other projects' formats by formats/reject. */
const isOurs = ([name]) => /^(?:zt[01]|zt-|safetensors$|btf$)/.test(name)

testCorpora(Object.fromEntries([...all].filter(isOurs)))

test('btf: rejects the same files with and without the option format', async (t) => {
  for (const one of btf.filter((c) => c.code !== undefined && c.options?.format === 'btf')) {
    const { format, ...options } = one.options
    const error = await rejectionOf(async () => (await open(bytesOf(one), options)).close())
    isRefusal(t, error, { code: [one.code, 'ZT_BAD_MAGIC', 'ZT_TRUNCATED'].flat() }, one.name)
  }
})

// Every proper prefix of a file lacks its end, which all of these formats need.
const PREFIXED = [
  'zt01-shapes.zt',
  'zt101-shapes.zt',
  'zt111-shapes.zt',
  'st-empty-tensors.safetensors',
  'btf-dense.btf',
]
for (const { name, bytes } of vectors.filter((v) => PREFIXED.includes(v.name))) {
  test(`rejects every proper prefix of ${name}`, (t) => {
    const format = name.slice(name.lastIndexOf('.') + 1)
    const accepted = []
    const codes = new Set()
    // the last of BTF's padding may be left out
    const end = format === 'btf' ? bytes.length - 8 : bytes.length
    for (let length = 0; length < end; length++) {
      const error = thrownBy(() => openSync(bytes.subarray(0, length), { format }).close())
      if (error instanceof ZTensorError) codes.add(error.code)
      else accepted.push(`${length}: ${error}`)
    }
    t.deepEqual(accepted, [])
    for (const code of codes) {
      t.true(['ZT_TRUNCATED', 'ZT_BAD_INDEX', 'ZT_BAD_MAGIC', 'ZT_LIMIT', 'ZT_OUT_OF_BOUNDS'].includes(code), code)
    }
  })
}

// A file with one changed byte of the index opens, or throws a ZTensorError.
for (const { name, bytes } of vectors.filter((v) => v.bytes.length < 4000)) {
  test(`changing any one byte of ${name} causes a ZTensorError or none`, (t) => {
    const changed = Buffer.from(bytes)
    const strangers = []
    for (let at = 0; at < bytes.length; at++) {
      for (const flip of [0x01, 0x80, 0xff]) {
        changed[at] = bytes[at] ^ flip
        const error = thrownBy(() => {
          const file = openSync(changed)
          for (const tensor of file.values()) tensor.toJSON?.()
          file.close()
        })
        if (error !== undefined && (!(error instanceof ZTensorError) || error.code === 'ZT_INTERNAL'))
          strangers.push(`${at} ^ ${flip}: ${error}`)
      }
      changed[at] = bytes[at]
    }
    t.deepEqual(strangers, [])
  })
}
