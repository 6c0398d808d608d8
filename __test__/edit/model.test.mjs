// Any sequence of edits makes a file equal to a Map with the same edits.
import { existsSync } from 'node:fs'
import test from 'ava'
import fc from 'fast-check'
import { append, compact, openSync } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { noise, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e')
const key = fc.constantFrom('k', 'l', 'm')
const value = fc.oneof(fc.integer(), fc.string(), fc.constant(undefined))
const op = fc.oneof(
  { weight: 3, arbitrary: fc.record({ op: fc.constant('add'), name, size: fc.nat(5000), seed: fc.nat(1000) }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('rename'), name, to: name }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('remove'), name }) },
  fc.record({ op: fc.constant('set'), key, value }),
  fc.record({ op: fc.constant('setOf'), name, key, value }),
)
const session = fc.record({
  ops: fc.array(op, { maxLength: 8 }),
  inPlace: fc.boolean(),
  compressed: fc.boolean(),
  end: fc.constantFrom('finish', 'finish', 'finish', 'abort', 'compact'),
})

/** The expected content of a file: entries in index order. A Map cannot rename in place. */
class Model {
  tensors = []
  attributes = new Map()

  copy() {
    const copy = new Model()
    copy.tensors = this.tensors.map((tensor) => ({ ...tensor, attributes: new Map(tensor.attributes) }))
    copy.attributes = new Map(this.attributes)
    return copy
  }

  find(name) {
    return this.tensors.find((tensor) => tensor.name === name)
  }

  /** Applies the edit to the model, or returns the code of its rejection. */
  apply(edit) {
    const set = (map, { key, value }) => (value === undefined ? map.delete(key) : map.set(key, value))
    const found = this.find(edit.name)
    switch (edit.op) {
      case 'add':
        if (found) return 'ZT_BAD_INDEX'
        this.tensors.push({ name: edit.name, bytes: noise(edit.size, edit.seed), attributes: new Map(), added: true })
        return undefined
      case 'set':
        set(this.attributes, edit)
        return undefined
    }
    if (found?.added) return 'ZT_INVALID_ARG'
    if (!found && edit.op !== 'rename') return 'ZT_NOT_FOUND'
    if (edit.op === 'setOf') set(found.attributes, edit)
    if (edit.op === 'remove') this.tensors.splice(this.tensors.indexOf(found), 1)
    if (edit.op !== 'rename') return undefined
    if (edit.to !== edit.name && this.find(edit.to)) return 'ZT_BAD_INDEX'
    if (!found) return 'ZT_NOT_FOUND'
    found.name = edit.to
    return undefined
  }
}

const call = (editor, edit) => {
  switch (edit.op) {
    case 'add':
      return editor.add(edit.name, noise(edit.size, edit.seed))
    case 'rename':
      return editor.rename(edit.name, edit.to)
    case 'remove':
      return editor.remove(edit.name)
    case 'set':
      return editor.setMetadata({ [edit.key]: edit.value })
    default:
      return editor.setTensorAttributes(edit.name, { [edit.key]: edit.value })
  }
}

/** Version 2 sorts names and keys; the others keep the order of the calls. */
function isModel(t, path, model, sorted) {
  const file = openSync(path, { verify: true })
  const order = (items) => (sorted ? [...items].sort() : [...items])
  t.deepEqual([...file.keys()], order(model.tensors.map((tensor) => tensor.name)))
  t.deepEqual(Object.entries(file.metadata), order(model.attributes))
  for (const { name, bytes, attributes } of model.tensors) {
    t.is(Buffer.compare(littleEndian(file.tensor(name).data), bytes), 0)
    t.deepEqual(Object.entries(file.tensor(name).attributes), order(attributes))
  }
  file.close()
}

for (const version of ['1.0', '1.2', '2']) {
  test(`${version}: any sequence of edits matches the model`, async (t) => {
    const body = async (sessions) => {
      const path = scratchPath('model.zt')
      await written({ version }, () => {}, path)
      t.true(existsSync(path))
      let model = new Model()
      for (const { ops, inPlace, compressed, end } of sessions) {
        const next = model.copy()
        for (const tensor of next.tensors) tensor.added = false
        const compression = compressed ? { minSavings: 0 } : false
        const editor = await append(path, { inPlace, compression })
        for (const edit of ops) t.is((await rejectionOf(() => call(editor, edit)))?.code, next.apply(edit))
        await (end === 'abort' ? editor.abort() : editor.finish())
        if (end !== 'abort') model = next
        if (end === 'compact') await compact(path)
        isModel(t, path, model, version === '2')
      }
    }
    await fc.assert(fc.asyncProperty(fc.array(session, { minLength: 1, maxLength: 5 }), body), { numRuns: scaled(40) })
  })
}
