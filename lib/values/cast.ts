// Rules for casts: which tensors get which dtype.
import { invalid } from '../native/errors.js'
import { isPlainObject } from '../native/realm.js'
import { readOptions, validateString, wrongType } from './arguments.js'
import { type DType, type DTypeInfo, dtypeInfo, dtypes } from './dtype.js'
import { noDType, validateDType } from './elements.js'
import { globMatcher } from './glob.js'

/** All floating-point dtypes including bfloat16, all signed integers, or all unsigned integers. */
export type DTypeGroup = 'float*' | 'int*' | 'uint*'

/**
 * Casts the tensors that match `name` and `dtype`; each matches everything if it is absent. With a name and without a dtype, floats are
 * only cast to floats, and integers to integers.
 */
export interface CastRule {
  /** A glob for names of the source: `*` matches any characters, `?` a single character. */
  readonly name?: string | undefined
  readonly dtype?: DType | DTypeGroup | undefined
  readonly to: DType
}

/**
 * Casts as an object, such as `{ 'lm_head.*': 'float32', 'float*': 'bfloat16' }`, or as a list of rules. The first rule that matches a tensor
 * is used. A key is a dtype, one of the groups `float*`, `int*` and `uint*`, or else a glob for names.
 */
export type CastRules = { readonly [from: string]: DType | undefined } | readonly CastRule[]

type Kind = 'float' | 'int' | 'uint' | 'other'

function kindOf({ name }: DTypeInfo): Kind {
  if (/^b?float/.test(name)) return 'float'
  return /^int/.test(name) ? 'int' : /^uint/.test(name) ? 'uint' : 'other'
}

const isInteger = (kind: Kind): boolean => kind === 'int' || kind === 'uint'

const GROUPS: ReadonlyMap<string, Kind> = new Map([
  ['float*', 'float'],
  ['int*', 'int'],
  ['uint*', 'uint'],
])

/** A rule with a name pattern. */
export interface NamedRule {
  readonly name: string
  readonly matchesName: (name: string) => boolean
  /** Whether tensors of a dtype are cast. */
  readonly casts: (dtype: DTypeInfo) => boolean
  /** Whether the rule has no dtype. */
  readonly isAnyDtype: boolean
  readonly to: DTypeInfo
}

/** A validated rule. */
interface Rule {
  /** The rule's name pattern, for messages. */
  readonly name: string | undefined
  readonly matchesName: ((name: string) => boolean) | undefined
  /** The single dtype that it casts; undefined if it casts several. */
  readonly single: DTypeInfo | undefined
  readonly matchesDtype: (dtype: DTypeInfo) => boolean
  /** Whether the rule has no dtype. */
  readonly isAnyDtype: boolean
  readonly to: DTypeInfo
}

function makeRule(name: string | undefined, dtype: string | undefined, to: DTypeInfo): Rule {
  const matchesName = name === undefined ? undefined : globMatcher(name)
  const single = dtype === undefined ? undefined : dtypeInfo(dtype)
  const isAnyDtype = dtype === undefined
  if (single !== undefined) return { name, matchesName, single, matchesDtype: (one) => one === single, isAnyDtype, to }
  if (dtype !== undefined) {
    const kind = GROUPS.get(dtype)
    return { name, matchesName, single: undefined, matchesDtype: (one) => kindOf(one) === kind, isAnyDtype, to }
  }
  const kind = kindOf(to)
  const matchesDtype = (one: DTypeInfo): boolean => kindOf(one) === kind || (isInteger(kind) && isInteger(kindOf(one)))
  return { name, matchesName, single: undefined, matchesDtype, isAnyDtype, to }
}

/** The rule of an entry of an object. */
function entryRule(from: string, value: unknown): Rule {
  const to = validateDType('a dtype of cast', value)
  if (dtypeInfo(from) !== undefined || GROUPS.has(from)) return makeRule(undefined, from, to)
  return makeRule(from, undefined, to)
}

function listedRule(value: unknown, at: number): Rule {
  if (!isPlainObject(value)) throw wrongType(`cast[${at}]`, '{ name, dtype, to }', value)
  const read = readOptions(value as CastRule, ['name', 'dtype', 'to'], `cast[${at}]`)
  const name = read.name === undefined ? undefined : validateString(`cast[${at}].name`, read.name)
  const { dtype } = read
  if (dtype !== undefined && (typeof dtype !== 'string' || (dtypeInfo(dtype) === undefined && !GROUPS.has(dtype))))
    throw noDType(`cast[${at}].dtype`, dtype)
  if (name === undefined && dtype === undefined)
    throw invalid(TypeError, `cast[${at}] needs a name, a dtype or both; the option dtype casts all floats`)
  return makeRule(name, dtype, validateDType(`cast[${at}].to`, read.to))
}

function rulesOf(cast: unknown): Rule[] {
  if (cast === undefined) return []
  // Unlike map(), this visits holes.
  if (Array.isArray(cast)) return Array.from(cast, listedRule)
  const what = 'an object of dtypes, such as { float32: "bfloat16" }, or a list of rules'
  if (!isPlainObject(cast)) throw wrongType('cast', what, cast)
  const entries = Object.entries(cast).filter(([, to]) => to !== undefined)
  return entries.map(([from, to]) => entryRule(from, to))
}

/** The casts of a conversion. */
export class Casts {
  readonly #rules: readonly Rule[]

  /** @throws TypeError ZT_INVALID_ARG for invalid rules */
  constructor(cast: CastRules | undefined, dtype: DType | undefined) {
    const rules = rulesOf(cast)
    if (dtype !== undefined) {
      const to = validateDType('dtype', dtype)
      if (kindOf(to) !== 'float') throw invalid(RangeError, `dtype must be a floating-point dtype, got '${to.name}'`)
      rules.push(makeRule(undefined, 'float*', to))
    }
    this.#rules = rules
  }

  /** Whether there is nothing to cast. */
  get isEmpty(): boolean {
    return this.#rules.length === 0
  }

  /** The casts as alternating dtype codes; undefined if they depend on names, or on the dtypes that a file has. */
  get pairs(): number[] | undefined {
    const known = new Map<number, number>()
    for (const { matchesName, single, to } of this.#rules) {
      if (matchesName !== undefined || single === undefined) return undefined
      if (!known.has(single.code)) known.set(single.code, to.code)
    }
    return Array.from(known).flat()
  }

  /** The new dtype of a tensor; undefined if it stays. */
  target(name: string, dtype: DTypeInfo | undefined): DTypeInfo | undefined {
    if (dtype === undefined) return undefined
    const rule = this.#rules.find(
      ({ matchesName, matchesDtype }) => matchesDtype(dtype) && (matchesName === undefined || matchesName(name)),
    )
    return rule === undefined || rule.to === dtype ? undefined : rule.to
  }

  /** The rules with name patterns. */
  get named(): NamedRule[] {
    return this.#rules.flatMap(({ name, matchesName, matchesDtype: casts, isAnyDtype, to }) =>
      name === undefined || matchesName === undefined ? [] : [{ name, matchesName, casts, isAnyDtype, to }],
    )
  }

  /** The error for a rule with a name and without a dtype that casts none of the tensors that the name matches. */
  static useless({ name, to }: NamedRule): Error {
    const message = `cast: '${name}' casts nothing to ${to.name}: a name alone casts floats to floats and integers to integers, and no other tensors`
    return invalid(RangeError, message)
  }

  /** The error for a name pattern that matches no tensor. It may be a dtype with a typo. */
  static unmatched(name: string): Error {
    if (/[*?]/.test(name)) return invalid(RangeError, `cast: '${name}' matches no tensor`)
    const known = dtypes.map((one) => one.name).join(', ')
    return invalid(RangeError, `cast: '${name}' is neither the name of a tensor nor of a dtype (${known})`)
  }
}
