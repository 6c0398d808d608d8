import { type ErrorCode, openSync, ZTensorError } from 'ztensor'
import { type Equal, holds } from './equal.js'

try {
  openSync('model.zt')
} catch (error) {
  if (error instanceof ZTensorError) {
    error satisfies Error
    holds<Equal<typeof error.code, ErrorCode>>()
    const { tensor, component, offset, rule } = error
    tensor satisfies string | undefined
    component satisfies string | undefined
    offset satisfies number | undefined
    rule satisfies string | undefined
    holds<Equal<typeof error.option, string | undefined>>()
    holds<Equal<typeof error.hints, readonly { readonly option: string; readonly text: string }[] | undefined>>()
    for (const { option, text } of error.hints ?? []) [option, text] satisfies [string, string]
    // @ts-expect-error: hints are not changed
    error.hints?.push({ option: 'overwrite', text: '' })
    if (error.code === 'ZT_TRUNCATED') error.cause satisfies unknown
    // @ts-expect-error: no such code
    if (error.code === 'ZT_TRUNCATD') throw error
  }
}
