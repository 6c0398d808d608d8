// Whether t.data is an alias depends on the machine: this is what to expect on the current one.
import { BIG_ENDIAN_HOST } from './bytes.mjs'

const EXTERNAL = process.env.ZTENSOR_NO_EXTERNAL !== '1'

/** Whether bytes of a mapped file can be aliased: one-byte elements always, wider ones on little-endian hosts. */
export const canMap = (elementBytes = 4) => EXTERNAL && (elementBytes === 1 || !BIG_ENDIAN_HOST)

/** The reason of a copy, or why this machine cannot alias the file. */
export const expectedReason = (reason, elementBytes) =>
  reason ?? (canMap(elementBytes) ? undefined : EXTERNAL ? 'byte-order' : 'runtime')

/** Asserts that a tensor or slice aliases the file, or that it cannot because of this machine. */
export function isMapped(t, { mapped, copyReason }, elementBytes, where = '') {
  if (canMap(elementBytes)) {
    t.true(mapped, where)
    t.is(copyReason, undefined, where)
  } else {
    t.false(mapped, where)
    t.is(copyReason, expectedReason(undefined, elementBytes), where)
  }
}

/** Asserts that it is a copy for one of the reasons. */
export function isCopied(t, { mapped, copyReason }, ...reasons) {
  t.false(mapped)
  // The byte order is checked before the alignment.
  const here = [EXTERNAL ? [] : ['runtime'], BIG_ENDIAN_HOST && reasons.includes('misaligned') ? ['byte-order'] : []]
  const expected = [...reasons, ...here.flat()]
  t.true(expected.includes(copyReason), `${copyReason} is not in ${expected}`)
}
