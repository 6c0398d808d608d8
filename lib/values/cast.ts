// Rules for casts: which tensors get which dtype.
import { invalid, optionHint } from '../native/errors.js'
import { isPlainObject } from '../native/realm.js'
import { readOptions, validateString, wrongType } from './arguments.js'
import { type DType, type DTypeInfo, dtypeInfo, dtypes } from './dtype.js'
import { noDType, validateDType } from './dtype-argument.js'
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

/** A validated rule. */
export interface Rule {
  /** The option that it comes from. */
  readonly option: 'cast' | 'dtype'
  /** The rule's name pattern, for messages. */
  readonly name: string | undefined
  /** The dtype or the group of dtypes that it names, for messages. */
  readonly dtype: string | undefined
  readonly matchesName: ((name: string) => boolean) | undefined
  /** The single dtype that it casts; undefined if it casts several. */
  readonly single: DTypeInfo | undefined
  readonly matchesDtype: (dtype: DTypeInfo) => boolean
  readonly to: DTypeInfo
}

/** What was found of the tensors of a rule that casts none of them. */
export interface Idle {
  /** Whether a tensor has a name that it matches, and whether one has also a dtype that it matches. */
  readonly isNamed: boolean
  readonly isMatched: boolean
  /** The layout of a tensor with such a name that is neither dense nor sparse. */
  readonly layout?: string | undefined
  /** A tensor that stays float32 in a model. */
  readonly fixed?: string | undefined
  /** Whether `quantize` takes a tensor of it. */
  readonly isQuantized: boolean
}

function makeRule(
  name: string | undefined,
  dtype: string | undefined,
  to: DTypeInfo,
  option: Rule['option'] = 'cast',
): Rule {
  const matchesName = name === undefined ? undefined : globMatcher(name)
  const single = dtype === undefined ? undefined : dtypeInfo(dtype)
  const rule = { option, name, dtype, matchesName, single, to }
  if (single !== undefined) return { ...rule, matchesDtype: (one) => one === single }
  if (dtype !== undefined) {
    const kind = GROUPS.get(dtype)
    return { ...rule, matchesDtype: (one) => kindOf(one) === kind }
  }
  const kind = kindOf(to)
  return { ...rule, matchesDtype: (one) => kindOf(one) === kind || (isInteger(kind) && isInteger(kindOf(one))) }
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
  if (name === undefined && dtype === undefined) {
    const hint = optionHint('dtype', '; the option dtype casts all floats')
    throw invalid(TypeError, `cast[${at}] needs a name, a dtype or both${hint.text}`, { option: 'cast', hints: [hint] })
  }
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
      if (kindOf(to) !== 'float')
        throw invalid(RangeError, `dtype must be a floating-point dtype, got '${to.name}'`, { option: 'dtype' })
      rules.push(makeRule(undefined, 'float*', to, 'dtype'))
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

  /** The rule that is used for a tensor: the first that matches it. */
  rule(name: string, dtype: DTypeInfo): Rule | undefined {
    return this.#rules.find(
      ({ matchesName, matchesDtype }) => matchesDtype(dtype) && (matchesName === undefined || matchesName(name)),
    )
  }

  /** The new dtype of a tensor; undefined if it stays. */
  target(name: string, dtype: DTypeInfo | undefined): DTypeInfo | undefined {
    const rule = dtype === undefined ? undefined : this.rule(name, dtype)
    return rule === undefined || rule.to === dtype ? undefined : rule.to
  }

  /** All rules, in their order. */
  get rules(): readonly Rule[] {
    return this.#rules
  }

  /** The error for a rule that casts no tensor. `names` says which names count, if they are not those of the source. */
  static idle(
    { option, name, dtype, to }: Rule,
    { isNamed, isMatched, layout, fixed, isQuantized }: Idle,
    names: string | undefined,
  ): Error {
    const error = (message: string): Error => invalid(RangeError, `${option}${message}`, { option })
    if (name !== undefined && !isNamed) return unmatched(name, names)
    const rule = option === 'dtype' ? '' : `: '${name ?? dtype}'`
    if (fixed !== undefined)
      return error(
        `${rule} casts nothing to ${to.name}: ${JSON.stringify(fixed)} stays float32, as every norm, bias and router of a model, because programs compute with no other type of them`,
      )
    if (isQuantized) return error(`${rule} casts nothing to ${to.name}: quantize takes the tensors that it matches`)
    if (isMatched)
      return error(`${rule} casts nothing to ${to.name}: earlier rules of cast match every tensor that it matches`)
    if (option === 'dtype')
      return error(` casts nothing to ${to.name}: no dense or sparse tensor has a floating-point dtype`)
    if (dtype === undefined && layout !== undefined)
      return error(`${rule} casts nothing to ${to.name}: only dense and sparse tensors are cast, and none of ${layout}`)
    if (dtype === undefined)
      return error(
        `${rule} casts nothing to ${to.name}: a name alone casts floats to floats and integers to integers, and no other tensors`,
      )
    const which = name === undefined ? 'no dense or sparse tensor' : 'no dense or sparse tensor of that name'
    return error(`${rule} casts nothing to ${to.name}: ${which} has the dtype ${dtype}`)
  }
}

/** The error for a name pattern that matches no tensor. It may be a dtype with a typo. */
function unmatched(name: string, names: string | undefined): Error {
  if (/[*?.]/.test(name)) {
    const which = names === undefined ? '' : `: ${names}`
    return invalid(RangeError, `cast: '${name}' matches no tensor${which}`, { option: 'cast' })
  }
  const known = dtypes.map((one) => one.name).join(', ')
  return invalid(RangeError, `cast: '${name}' is neither the name of a tensor nor of a dtype (${known})`, {
    option: 'cast',
  })
}
