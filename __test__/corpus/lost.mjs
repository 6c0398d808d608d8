// Cases of items that are damaged, while the rest of the file is read.

/** The code of the warning of a failure. */
export const warningOf = (code) => (code === 'ZT_TRUNCATED' ? 'ZT_WARN_TRUNCATED' : 'ZT_WARN_DAMAGED')

/** Uses in which verify() has one failure. */
export const failing = (code, tensor) =>
  ['verify', 'openVerify'].map((call) => ({ call, code, ...(tensor && { error: { tensor } }) }))

/** An item that cannot be listed: a warning, and a failure of verify(). */
export const lost = (name, bytes, code, more) => ({
  name,
  bytes,
  names: [],
  warnings: [{ code: warningOf(code) }],
  uses: failing(code),
  ...more,
})
