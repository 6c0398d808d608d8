// The search for functions that the guards check, on types in every notation.
import test from 'ava'
import { surfaceOf, titleOf, withoutSignal } from '../helpers/surface.mjs'

const TYPES = `
export interface JobOptions { readonly signal?: AbortSignal | undefined; readonly onProgress?: () => void }
interface Own { readonly threads?: number }
export type Kind = "a" | "b";
type Hidden = "c" | "d";
export declare class Reader {
  #private;
  private constructor();
  private secret(): Promise<void>;
  /** A comment; with (brackets): Promise<void>. */
  named(options?: JobOptions): Promise<void>;
  inline(at: number, options?: { readonly signal?: AbortSignal }): Promise<number>;
  bare(options?: { readonly threads?: number; on(done: () => Promise<void>): void }): Promise<number>;
  now(): number;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
export declare function picked(options?: Pick<JobOptions, "signal"> & Own): Promise<void>;
export declare function omitted(options?: Omit<JobOptions, "signal">): Promise<void>;
export declare function either(options: string | JobOptions): Promise<void>;
export declare function overloaded(a: 1, options?: JobOptions): Promise<void>;
export declare function overloaded(a: 2, options?: { threads: number }): Promise<void>;
export declare function maybe(
  options?: {
    readonly threads?: number;
  },
): void | Promise<void>;
declare function internal(): Promise<void>;
export {};
`
const found = surfaceOf(TYPES)

test('finds functions and methods with their parameters', (t) => {
  t.deepEqual(
    [...new Set(found.calls.map(titleOf))].sort(),
    [
      ...['bare', 'close', 'inline', 'named', 'now', '[Symbol.asyncDispose]'].map((name) => `reader.${name}`),
      ...['either', 'maybe', 'omitted', 'overloaded', 'picked'],
    ].sort(),
  )
  const call = (name) => found.calls.find((one) => one.name === name)
  t.deepEqual(call('inline').parameters, [
    { name: 'at', optional: false, properties: [] },
    { name: 'options', optional: true, properties: ['signal'] },
  ])
  t.deepEqual(call('picked').parameters[0].properties.sort(), ['signal', 'threads'])
  t.deepEqual(call('omitted').parameters[0].properties, ['onProgress'])
  t.deepEqual(call('either').parameters[0].properties.sort(), ['onProgress', 'signal'])
  t.false(call('now').promises)
  t.deepEqual(found.literals, { Kind: ['a', 'b'], Hidden: ['c', 'd'] })
})

test('finds promises without a signal, also if the options have no name', (t) => {
  const ends = ['close', '[Symbol.asyncDispose]']
  t.deepEqual(withoutSignal(found, { ends }), ['reader.bare', 'omitted', 'overloaded', 'maybe'].sort(byPlace))
  t.deepEqual(withoutSignal(found, { ends, bound: ['Reader'] }), ['omitted', 'overloaded', 'maybe'])
})

/** In the order of the text. */
function byPlace(a, b) {
  const titles = found.calls.map(titleOf)
  return titles.indexOf(a) - titles.indexOf(b)
}

test('rejects types that do not compile', (t) => {
  t.throws(() => surfaceOf('export declare function f(a: Missing): void;'), { message: /Missing/ })
})
