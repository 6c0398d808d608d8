// Runs corpora of malformed and near-miss files (README.md).
import test from 'ava'
import { open, openSync, ZTensorError } from 'ztensor'
import { arrayBufferOf } from '../helpers/bytes.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { bytesOf } from './tables.mjs'

export function isRefusal(t, error, { code, error: fields = {} }, where) {
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
    // a second call has the same error
    isRefusal(t, await rejectionOf(async () => RUN[use.call](file, use)), use, `${where}, again`)
  } else {
    const result = await RUN[use.call](file, use)
    if (use.value !== undefined) t.deepEqual(Array.from(result, Number), use.value, where)
  }
}

/** A test for each case of each corpus, by title. */
export function testCorpora(corpora) {
  for (const [title, cases] of Object.entries(corpora)) {
    test(`${title}: the cases have different names`, (t) => {
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
}
