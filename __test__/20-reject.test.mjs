// Runs the corpus of malformed and near-miss files (corpus/README.md).
import { Buffer } from 'node:buffer'
import test from 'ava'
import { open, openSync, ZTensorError } from 'ztensor'
import { arrayBufferOf } from './bytes.mjs'
import { cases as btf } from './corpus/cases-btf.mjs'
import { cases as safetensors } from './corpus/cases-safetensors.mjs'
import { cases as sparse } from './corpus/cases-zt-sparse.mjs'
import { cases as stored } from './corpus/cases-zt-stored.mjs'
import { cases as zt01 } from './corpus/cases-zt01.mjs'
import { cases as container } from './corpus/cases-zt10-container.mjs'
import { cases as index } from './corpus/cases-zt10-index.mjs'
import { cases as zt12 } from './corpus/cases-zt12.mjs'
import { rejectionOf, thrownBy } from './raised.mjs'
import { scratchFile } from './scratch.mjs'
import { vectors } from './vectors.mjs'

const CORPORA = {
  'zt 1.0 container': container,
  'zt 1.0 index': index,
  'zt stored bytes': stored,
  'zt 1.2': zt12,
  'zt sparse': sparse,
  'zt 0.1': zt01,
  safetensors,
  btf,
}
const bytesOf = ({ bytes }) => (typeof bytes === 'function' ? bytes() : bytes)

function isRefusal(t, error, { code, error: fields = {} }, where) {
  t.true(error instanceof ZTensorError, `${where}: ${error?.stack ?? 'accepted'}`)
  if (error === undefined) return
  t.true([code].flat().includes(error.code), `${where}: ${error.code} in place of ${code}: ${error.message}`)
  t.true(typeof error.message === 'string' && error.message.length > 0, where)
  for (const [field, value] of Object.entries(fields)) {
    const actual = error[field]
    if (field === 'offset' && value === true)
      t.true(Number.isSafeInteger(actual) && actual >= 0, `${where}: offset ${actual}`)
    else if (field === 'rule' && value === true)
      t.true(typeof actual === 'string' && actual.length > 0, `${where}: rule ${actual}`)
    else t.is(actual, value, `${where}: ${field} of "${error.message}"`)
  }
}

function areWarnings(t, actual, expected = []) {
  t.deepEqual(actual.map((w) => w.code).sort(), expected.map((w) => w.code).sort())
  expected.forEach((want) => {
    const found = actual.some(
      (w) => Object.entries(want).every(([field, value]) => w[field] === value) && w.message.length > 0,
    )
    t.true(found, `no ${JSON.stringify(want)} among ${JSON.stringify(actual)}`)
  })
}

const RUN = {
  data: (file, { tensor }) => file.tensor(tensor).data,
  load: (file, { tensor }) => file.tensor(tensor).load(),
  component: (file, { tensor, role }) => file.tensor(tensor).components.get(role).data,
  loadComponent: (file, { tensor, role }) => file.tensor(tensor).components.get(role).load(),
  csr: (file, { tensor }) => file.tensor(tensor).csr(),
  coo: (file, { tensor }) => file.tensor(tensor).coo(),
  loadCsr: (file, { tensor }) => file.tensor(tensor).loadCsr(),
  loadCoo: (file, { tensor }) => file.tensor(tensor).loadCoo(),
  toDense: (file, { tensor, as }) => file.tensor(tensor)[as]().toDense(),
}

async function runUse(t, file, bytes, options, use) {
  const where = `${use.call} ${use.tensor ?? ''} ${use.role ?? ''}`
  if (use.call === 'verify') {
    const result = await file.verify()
    t.is(result.ok, use.code === undefined, where)
    t.is(result.failures.length, use.code === undefined ? 0 : 1, where)
    if (use.code !== undefined) isRefusal(t, result.failures[0], use, where)
    if (use.undigested !== undefined) t.is(result.undigested, use.undigested, where)
  } else if (use.call === 'openVerify') {
    isRefusal(
      t,
      thrownBy(() => openSync(bytes, { ...options, verify: true }).close()),
      use,
      where,
    )
    isRefusal(t, await rejectionOf(async () => (await open(bytes, { ...options, verify: true })).close()), use, where)
  } else if (use.code !== undefined) {
    isRefusal(t, await rejectionOf(async () => RUN[use.call](file, use)), use, where)
    // an error is no accident of the first call
    isRefusal(t, await rejectionOf(async () => RUN[use.call](file, use)), use, `${where}, again`)
  } else {
    const result = await RUN[use.call](file, use)
    if (use.value !== undefined) t.deepEqual(Array.from(result, Number), use.value, where)
  }
}

for (const [title, cases] of Object.entries(CORPORA)) {
  test(`${title}: the cases have names of their own`, (t) => {
    t.is(new Set(cases.map((c) => c.name)).size, cases.length)
  })

  for (const one of cases) {
    test(`${title}: ${one.name}`, async (t) => {
      const bytes = bytesOf(one)
      const sources = { path: scratchFile(bytes), Uint8Array: new Uint8Array(bytes), ArrayBuffer: arrayBufferOf(bytes) }
      for (const [kind, source] of Object.entries(sources)) {
        if (one.code !== undefined) {
          isRefusal(
            t,
            thrownBy(() => openSync(source, one.options).close()),
            one,
            `openSync ${kind}`,
          )
          isRefusal(t, await rejectionOf(async () => (await open(source, one.options)).close()), one, `open ${kind}`)
          continue
        }
        for (const opening of [openSync, open]) {
          const file = await opening(source, one.options)
          areWarnings(t, file.warnings, one.warnings)
          t.deepEqual([...file.keys()], one.names)
          for (const [name, elements] of Object.entries(one.data ?? {})) {
            t.deepEqual(Array.from(file.tensor(name).data, Number), elements, name)
            const refusesToLoad = one.uses?.some(
              (use) => use.call === 'load' && use.tensor === name && use.code !== undefined,
            )
            if (!refusesToLoad) t.deepEqual(Array.from(await file.tensor(name).load(), Number), elements, name)
          }
          for (const use of one.uses ?? []) await runUse(t, file, source, one.options, use)
          if (one.uses === undefined) t.true((await file.verify()).ok)
          file.close()
        }
      }
    })
  }
}

test('btf: what is refused when asked for is refused when not', async (t) => {
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
  test(`every proper prefix of ${name} is refused`, (t) => {
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

// Any one byte of the index changed gives a file that opens, or a ZTensorError: never anything else.
for (const { name, bytes } of vectors.filter((v) => v.bytes.length < 4000)) {
  test(`any one byte of ${name} changed is an error of ours or none`, (t) => {
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
