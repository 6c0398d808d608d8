// An edit preserves unknown content, or is rejected: for every file of the corpus and every vector.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { append, compact, openSync, ZTensorError } from 'ztensor'
import { cases as sparse } from '../corpus/cases-zt-sparse.mjs'
import { cases as stored } from '../corpus/cases-zt-stored.mjs'
import { cases as zt2container } from '../corpus/cases-zt2-container.mjs'
import { cases as zt2layouts } from '../corpus/cases-zt2-layouts.mjs'
import { cases as container } from '../corpus/cases-zt10-container.mjs'
import { cases as index } from '../corpus/cases-zt10-index.mjs'
import { cases as zt12cases } from '../corpus/cases-zt12.mjs'
import { encode, float16, openArray, openMap, openText, pairs, raw, selfDescribed, tag, wide } from '../corpus/cbor.mjs'
import { square10, square12, zt10, zt12 } from '../corpus/zt.mjs'
import { edited, facts, MODES, propertiesAt } from '../helpers/editing.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { vectors } from '../helpers/vectors.mjs'

const LIMITS = ['maxIndexBytes', 'maxRank', 'maxAttributeValues']
const named = Object.entries({ container, index, stored, zt12cases, sparse, zt2container, zt2layouts }).flatMap(
  ([corpus, cases]) => cases.map(({ name, bytes, options = {} }) => ({ name: `${corpus}: ${name}`, bytes, options })),
)
const others = vectors.map(({ name, bytes }) => ({ name, bytes, options: {} }))
// An edit uses the limits of the index, and detects the format.
const files = [...named, ...others].filter(({ options }) => Object.keys(options).every((key) => LIMITS.includes(key)))
const ADDED = Int8Array.of(1, 2, 3)

/** The content of the file, or the error of opening it. */
function reading(bytes, options) {
  let file
  const error = thrownBy(() => {
    file = openSync(bytes, options)
  })
  const found = file && facts(file, bytes)
  file?.close()
  return { error, found }
}

/** The expected error of editing a file that opens: undefined if it can be edited. */
function refusal({ format, version, warnings }) {
  // A data shard has no index.
  if (format !== 'zt' || warnings.some(({ code }) => code === 'ZT_WARN_DATA_SHARD')) return 'ZT_INVALID_ARG'
  if (version === '2') return undefined
  const newer = warnings.some(({ code }) => code === 'ZT_WARN_NEWER_VERSION')
  return newer || !version.startsWith('1') ? 'ZT_UNSUPPORTED_VERSION' : undefined
}

test('an edit preserves everything in a file of the corpus, or is rejected with the error of reading it', async (t) => {
  let kept = 0
  for (const { name, bytes: given, options } of files) {
    const bytes = Buffer.from(typeof given === 'function' ? given() : given)
    const { error, found } = reading(bytes, options)
    for (const { inPlace } of MODES) {
      const path = scratchFile(bytes)
      const editing = await rejectionOf(() =>
        edited(path, (editor) => editor.add('added by the edit', ADDED), { ...options, inPlace }),
      )
      const code = error?.code ?? refusal(found)
      t.is(editing?.code, code, `${name}: ${editing?.message}`)
      if (code !== undefined) {
        t.true(editing instanceof ZTensorError || code === 'ZT_INVALID_ARG', name)
        t.true(readFileSync(path).equals(bytes), name)
        continue
      }
      kept += 1
      const after = propertiesAt(path, options)
      // Version 2 sorts its tensors.
      const at = after.tensors.findIndex((tensor) => tensor.name === 'added by the edit')
      t.is(after.tensors.splice(at, 1)[0]?.name, 'added by the edit', name)
      t.deepEqual(after, found, name)
    }
  }
  t.true(kept > 100)
})

test('a file is unchanged after adding a tensor, removing it, and compacting', async (t) => {
  let compacted = 0
  for (const { name, bytes: given, options } of files) {
    const bytes = Buffer.from(typeof given === 'function' ? given() : given)
    const { error, found } = reading(bytes, options)
    if (error !== undefined || refusal(found) !== undefined) continue
    const path = scratchFile(bytes)
    await edited(path, (editor) => editor.add('x', ADDED), { ...options, inPlace: true })
    await edited(path, (editor) => editor.remove('x'), { ...options, inPlace: true })
    t.deepEqual(propertiesAt(path, options), found, name)
    const before = readFileSync(path)
    const refused = await rejectionOf(() => compact(path, options))
    if (refused !== undefined) {
      // Only if a key of the index is unknown.
      t.is(refused.code, 'ZT_UNSUPPORTED_VERSION', `${name}: ${refused.message}`)
      t.true(/unknown key/.test(refused.message), name)
      t.true(readFileSync(path).equals(before), name)
      continue
    }
    compacted += 1
    const after = propertiesAt(path, options)
    // The message of this one names the offset, which has changed.
    const normalized = (warnings) => warnings.map((w) => (w.code === 'ZT_WARN_UNALIGNED' ? { ...w, message: '' } : w))
    t.deepEqual(
      { ...after, warnings: normalized(after.warnings) },
      { ...found, warnings: normalized(found.warnings) },
      name,
    )
    t.true(readFileSync(path).length < before.length, name)
  }
  t.true(compacted > 50)
})

/** Encodings that our readers do not keep, at any place in a file. */
const ODD = [
  ['x-text', openText('a', 'b')],
  ['x-list', openArray([1, openMap([[1, 2]]), float16(0x3c00)])],
  ['x-wide', wide(7, 8)],
  ['x-tagged', tag(1234, [tag(0, 'when')])],
  ['x-undefined', raw(0xf7)],
]

for (const [version, make, square, tensors] of [
  ['1.0', zt10, square10, 'tensors'],
  ['1.2', zt12, square12, 'objects'],
]) {
  const bytes = make(
    {
      w: square(Object.fromEntries(ODD), Object.fromEntries(ODD)),
      v: square({}, { digest: 'blake9:abc', encoding: 'lz77' }),
    },
    { root: { ...Object.fromEntries(ODD), attributes: pairs([[5, openText('x')], ...ODD]) } },
  )

  test(`${version}: unknown keys, encodings and digests are preserved byte for byte`, async (t) => {
    const spelled = ODD.map(([key, value]) => Buffer.concat([encode(key), encode(value)]))
    const count = (file, part) => {
      let found = 0
      for (let at = file.indexOf(part); at >= 0; at = file.indexOf(part, at + 1)) found += 1
      return found
    }
    for (const part of spelled) t.is(count(bytes, part), 4)
    for (const { mode, inPlace } of MODES) {
      const path = scratchFile(bytes)
      const edit = async (editor) => {
        await editor.rename('w', 'renamed')
        await editor.add('new', ADDED)
        await editor.setMetadata({ known: 1 })
        await editor.setTensorAttributes('renamed', { also: 2 })
        await editor.setTensorAttributes('v', { also: 2 })
      }
      await edited(path, edit, { inPlace })
      const after = readFileSync(path)
      for (const part of spelled) t.is(count(after, part), inPlace ? 8 : 4, mode)
      const { tensors, attributes, warnings } = propertiesAt(path)
      t.deepEqual(
        tensors.map(({ name }) => name),
        ['renamed', 'v', 'new'],
      )
      t.is(attributes.known, 1)
      t.is(tensors[1].components[0].encoding, 'lz77')
      t.is(tensors[1].components[0].digest, 'blake9:abc')
      t.true(warnings.some(({ code }) => code === 'ZT_WARN_UNKNOWN_DIGEST'))
      const error = await rejectionOf(() => compact(path))
      t.is(error?.code, 'ZT_UNSUPPORTED_VERSION')
      t.true(error?.message.includes('x-text'))
    }
  })

  test(`${version}: the CBOR tag before the index is preserved`, async (t) => {
    const tags = Buffer.from('d9d9f7d9d9f7', 'hex')
    const bytes = make({ w: square(), v: square() }, { wrap: (root) => selfDescribed(root, 2) })
    const values = (path) => propertiesAt(path).tensors.map(({ name, components }) => [name, components[0].stored])
    const [[, stored]] = values(scratchFile(bytes))
    const edits = {
      add: [(editor) => editor.add('x', ADDED), ['w', 'v', 'x']],
      rename: [(editor) => editor.rename('w', 'x'), ['x', 'v']],
      remove: [(editor) => editor.remove('w'), ['v']],
      setMetadata: [(editor) => editor.setMetadata({ a: 1 }), ['w', 'v']],
    }
    for (const { mode, inPlace } of MODES) {
      for (const [what, [edit, names]] of Object.entries(edits)) {
        const path = await edited(scratchFile(bytes), edit, { inPlace })
        const footer = version === '1.0' ? 0 : 8
        for (const compacted of [false, true]) {
          if (compacted) await compact(path)
          const after = readFileSync(path)
          const size = Number(after.readBigUInt64LE(after.length - 8 - footer))
          const index = after.subarray(after.length - 8 - footer - size)
          t.true(index.subarray(0, 6).equals(tags), `${what} ${mode}`)
          t.not(index[6], tags[0], `${what} ${mode}`)
          t.deepEqual(
            values(path),
            names.map((name) => [name, name === 'x' && what === 'add' ? '010203' : stored]),
          )
        }
      }
    }
  })

  test(`${version}: tensors that share bytes still share them after they are moved`, async (t) => {
    const share = (name, offset, length, shape) => {
      const part = version === '1.0' ? { offset, length } : { offset, length, dtype: 'f32' }
      return [
        name,
        { ...(version === '1.0' ? { dtype: 'float32' } : {}), shape, format: 'dense', components: { data: part } },
      ]
    }
    const blob = Buffer.alloc(64 * 3)
    for (let i = 0; i < 48; i++) blob.writeFloatLE(i, i * 4)
    const entries = [
      share('whole', 192, 128, [32]),
      share('part', 256, 32, [8]),
      share('over', 224, 96, [24]),
      share('none', 192, 0, [0]),
    ]
    const path = scratchFile(
      make(
        { gone: square(), pad: square({ shape: [48] }, { bytes: blob }) },
        { root: { [tensors]: Object.fromEntries(entries) } },
      ),
    )
    const before = propertiesAt(path)
    t.true((await compact(path)).reclaimed > 0)
    const after = propertiesAt(path)
    t.deepEqual(after.tensors, before.tensors)
    const file = openSync(path)
    const at = (name) => file.tensor(name).components.get('data').offset
    t.is(at('whole'), 64)
    t.is(at('part'), 128)
    t.is(at('over'), 96)
    file.close()
  })
}

test('rejects a newer version: an edit could break its additions', async (t) => {
  for (const bytes of [
    zt12({ w: square12() }, { root: { version: '1.3.0' } }),
    zt10({ w: square10() }, { root: { version: '1.1' } }),
  ]) {
    const path = scratchFile(bytes)
    for (const call of [append, compact]) {
      const error = await rejectionOf(() => call(path))
      t.is(error?.code, 'ZT_UNSUPPORTED_VERSION')
      t.true(typeof error?.rule === 'string')
    }
  }
})

test('rejects an edit whose index could not be opened, and keeps the file', async (t) => {
  const bytes = zt12({ w: square12() })
  for (const { mode, inPlace } of MODES) {
    const path = scratchFile(bytes)
    const editor = await append(path, { inPlace, maxAttributeValues: 10 })
    await editor.setMetadata({ many: Array.from({ length: 20 }, (_, i) => i) })
    t.is((await rejectionOf(() => editor.finish()))?.code, 'ZT_LIMIT', mode)
    t.true(readFileSync(path).equals(bytes))
    await edited(path, (again) => again.rename('w', 'v'), { inPlace })
  }
})
