// Blobs that share bytes without being the same blob: no specification below version 2 forbids them, and a user should know.
import test from 'ava'
import { openSync } from 'ztensor'
import { f32s, square10, zt10 } from '../corpus/zt.mjs'
import { vectors } from '../helpers/vectors.mjs'

const at = (offset, length = 16) => square10({}, { offset, length })
const warnings = (tensors) => {
  const file = openSync(zt10({ first: square10({}, { bytes: f32s(1, 2, 3, 4, 5, 6, 7, 8), length: 16 }), ...tensors }))
  return file.warnings.filter(({ code }) => code === 'ZT_WARN_OVERLAP')
}

test('partly overlapping blobs: one warning, whatever the order, and the data as it stands', (t) => {
  for (const tensors of [{ other: at(72) }, { other: at(80), more: at(64), last: at(76) }]) {
    const [warning, ...more] = warnings(tensors)
    t.deepEqual(more, [])
    t.true(Object.keys(tensors).includes(warning.tensor), warning.tensor)
    t.is(warning.component, 'data')
    t.regex(warning.message, /16 bytes at offset \d+ overlap the 16 bytes at offset \d+ of tensor "/)
  }
  const file = openSync(
    zt10({ first: square10({}, { bytes: f32s(1, 2, 3, 4, 5, 6, 7, 8), length: 16 }), other: at(72) }),
  )
  t.deepEqual([...file.tensor('first').data], [1, 2, 3, 4])
  t.deepEqual([...file.tensor('other').data], [3, 4, 5, 6])
})

test('the same blob twice, one behind another, and the vectors: none', (t) => {
  t.deepEqual(warnings({ tied: at(64) }), [])
  t.deepEqual(warnings({ next: at(80) }), [])
  for (const { name, bytes } of vectors) {
    const file = openSync(bytes)
    t.false(
      file.warnings.some(({ code }) => code === 'ZT_WARN_OVERLAP'),
      name,
    )
    file.close()
  }
})
