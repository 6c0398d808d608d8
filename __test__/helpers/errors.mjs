// Errors as values, so that a test can compare all of their fields.

/** The error that `run` throws or rejects with. Undefined if it succeeds. */
export function thrownBy(run) {
  try {
    run()
  } catch (error) {
    return error
  }
  return undefined
}

export async function rejectionOf(run) {
  try {
    await run()
  } catch (error) {
    return error
  }
  return undefined
}

/** Asserts an argument error: a TypeError or RangeError with code ZT_INVALID_ARG whose message names the argument. */
export function isArgumentError(t, error, argument) {
  t.true(error instanceof TypeError || error instanceof RangeError, `${argument}: ${error?.stack ?? 'nothing thrown'}`)
  t.is(error?.code, 'ZT_INVALID_ARG', argument)
  t.true(error?.message?.includes(argument), `"${error?.message}" does not name ${argument}`)
}
