// Blobs that share bytes without being the same blob: no specification below version 2 forbids them, so a warning reports them.
import test from 'ava'
import { openSync } from 'ztensor'
import { f32s, square10, zt10 } from '../corpus/zt.mjs'
import { vectors } from '../helpers/vectors.mjs'

const at = (offset, length = 16) => square10({}, { offset, length })
const warnings = (tensors) => {
  const file = openSync(zt10({ first: square10({}, { bytes: f32s(1, 2, 3, 4, 5, 6, 7, 8), length: 16 }), ...tensors }))
  return file.warnings.filter(({ code }) => code === 'ZT_WARN_OVERLAP')
}

test('partly overlapping blobs cause one warning in any order, and the data is returned', (t) => {
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

test('equal blobs, adjacent blobs and the vectors cause no warning', (t) => {
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
