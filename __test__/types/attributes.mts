import { type Attributes, type AttributeValue, openSync } from 'ztensor'

type AttributeObject = Exclude<Attributes, ReadonlyMap<unknown, unknown>>

declare const attributes: Attributes

import { type Equal, holds } from './equal.js'

const { metadata } = openSync('model.zt')
holds<Equal<typeof metadata, AttributeObject>>()
if (attributes instanceof Map) attributes satisfies Map<AttributeValue, AttributeValue>
else attributes satisfies AttributeObject

declare const object: AttributeObject
object satisfies Attributes
const { license } = object
holds<Equal<typeof license, AttributeValue | undefined>>()
if (typeof license === 'string') license.toUpperCase()
if (typeof license === 'bigint') holds<Equal<typeof license, bigint>>()
// @ts-expect-error: an attribute may be of any kind, or missing
license.toUpperCase()
