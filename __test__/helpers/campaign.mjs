// How much of a campaign runs: all of it in CI, and a part elsewhere, so that `npm test` stays short. PROPTEST_CASES scales the number of
// random cases, like for the Rust tests: CI runs 256.

const inCi = Boolean(process.env.CI)
const factor = process.env.PROPTEST_CASES ? Number(process.env.PROPTEST_CASES) / 256 : inCi ? 1 : 0.25

/** Returns `all` in CI, and `few` elsewhere. */
export const rounds = (all, few) => (inCi ? all : few)

/** Returns the number of random cases of a property, given that of CI. */
export const scaled = (count) => Math.max(5, Math.round(count * factor))

/**
 * Returns the whole list in CI, and elsewhere every `step`th of its items. `turn` shifts the first one, so that other tests of a matrix
 * use other items.
 */
export const some = (list, step, turn = 0) => (inCi ? list : list.filter((_, at) => at % step === turn % step))
