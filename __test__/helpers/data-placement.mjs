// Where t.data lies depends on the machine: this says what to expect on the one that runs the tests.
import { BIG_ENDIAN_HOST } from './bytes.mjs'

const EXTERNAL = process.env.ZTENSOR_NO_EXTERNAL !== '1'

/** Whether bytes of a mapped file can be shown without a copy: one-byte elements always, wider ones on little-endian hosts. */
export const canMap = (elementBytes = 4) => EXTERNAL && (elementBytes === 1 || !BIG_ENDIAN_HOST)

/** The reason of a copy, or where other machines alias the file, why this one does not. */
export const reasonHere = (reason, elementBytes) =>
  reason ?? (canMap(elementBytes) ? undefined : EXTERNAL ? 'byte-order' : 'runtime')

/** Asserts that a tensor or slice aliases the file, or that this machine is why it does not. */
export function isMapped(t, { mapped, copyReason }, elementBytes, where = '') {
  if (canMap(elementBytes)) {
    t.true(mapped, where)
    t.is(copyReason, undefined, where)
  } else {
    t.false(mapped, where)
    t.is(copyReason, reasonHere(undefined, elementBytes), where)
  }
}

/** Asserts that it is a copy, and why: any of the reasons. */
export function isCopied(t, { mapped, copyReason }, ...reasons) {
  t.false(mapped)
  // The byte order is looked at before the alignment.
  const here = [EXTERNAL ? [] : ['runtime'], BIG_ENDIAN_HOST && reasons.includes('misaligned') ? ['byte-order'] : []]
  const expected = [...reasons, ...here.flat()]
  t.true(expected.includes(copyReason), `${copyReason} is none of ${expected}`)
}
