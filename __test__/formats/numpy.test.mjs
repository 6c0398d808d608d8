// NumPy's own files, and SciPy's: everything that stands in them, in every way.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { fingerprint } from '../bytes.mjs'
import { readings } from '../every-way.mjs'

const folder = new URL('../fixtures/numpy/', import.meta.url)
const { files } = JSON.parse(readFileSync(new URL('expected.json', folder), 'utf8'))
const pathOf = (name) => fileURLToPath(new URL(name, folder))
const printed = ({ sha256, nbytes }) => ({ sha256, nbytes })

test('every file is expected, and every expected file there', (t) => {
  const names = readdirSync(folder).filter((name) => name !== 'expected.json')
  t.deepEqual(names.sort(), Object.keys(files).sort())
})

function isTensor(t, tensor, expected) {
  const { dtype, shape, layout = 'dense', components = { data: expected } } = expected
  t.is(tensor.dtype, dtype ?? undefined, tensor.name)
  t.deepEqual([...tensor.shape], shape, tensor.name)
  t.is(tensor.layout, layout, tensor.name)
  t.deepEqual([...tensor.components.keys()].sort(), Object.keys(components).sort(), tensor.name)
  for (const [role, part] of Object.entries(components)) {
    const found = tensor.components.get(role)
    if (part.sha256 !== undefined) t.deepEqual(fingerprint(found.data), printed(part), `${tensor.name} ${role}`)
    t.is(found.dtype, part.dtype ?? undefined, `${tensor.name} ${role}`)
  }
}

for (const [name, tensors] of Object.entries(files)) {
  test(`${name}: what stands in it`, async (t) => {
    const sources = [pathOf(name), new Uint8Array(readFileSync(pathOf(name)))]
    for (const source of sources) {
      for (const opening of [open, openSync]) {
        const file = await opening(source)
        t.is(file.format, name.slice(-3))
        t.is(file.version, undefined)
        t.deepEqual([...file.keys()], Object.keys(tensors))
        for (const [key, expected] of Object.entries(tensors)) isTensor(t, file.tensor(key), expected)
        file.close()
      }
    }
  })

  test(`${name}: all ways of reading agree`, async (t) => {
    const file = openSync(pathOf(name))
    const { wrong } = await readings(file)
    t.deepEqual(wrong, [])
    const { ok, checked, undigested } = await file.verify()
    t.true(ok)
    if (name.endsWith('.npz')) t.is(undigested, 0)
    if (name.endsWith('.npz') && file.size > 0) t.true(checked > 0)
    file.close()
  })
}
