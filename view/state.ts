// What all views share: the data, what was searched for, and what was chosen.
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { Model } from './model.js'

export const VIEWS = ['overview', 'bytes', 'layout', 'values', 'diff'] as const
export type View = (typeof VIEWS)[number]

/** The state, and how it is changed. */
export interface State {
  readonly model: Model
  /** Changes with each tensor whose statistics came later. */
  readonly learned: number
  readonly query: string
  /** The path of the module that all views are limited to. */
  readonly scope: string
  /** The numbers of the tensors that are left; undefined for all. */
  readonly rows: Uint32Array | undefined
  /** The tensor that is shown in full. */
  readonly chosen: number | undefined
  /** Whether alike blocks are shown as one. */
  readonly fold: boolean
  go(view: View): void
  setScope(path: string): void
  setFold(fold: boolean): void
  choose(tensor: number | undefined): void
  /** Statistics that came from the server. */
  learn(tensor: number, found: Model['found'][number]): void
}

export const Context = createContext<State | undefined>(undefined)

export function useReport(): State {
  const state = useContext(Context)
  if (state === undefined) throw new Error('a view stands outside of the page')
  return state
}
