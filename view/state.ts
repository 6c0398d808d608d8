// The state that all views share: the data, the search, and the selection.
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { Model } from './model.js'
import type { Tree } from './tree.js'

export const VIEWS = ['overview', 'bytes', 'map', 'values', 'diff'] as const
export type View = (typeof VIEWS)[number]

export type ValuesTab = 'table' | 'suspects' | 'layers' | 'heat'

/** The state and its setters. */
export interface State {
  readonly model: Model
  /** Increments when statistics of a tensor arrive. */
  readonly learned: number
  readonly query: string
  /** The path of the selected module, to which all views are limited. */
  readonly scope: string
  /** The ordinals of the filtered tensors; undefined for all. */
  readonly rows: Uint32Array | undefined
  /** The tree of the tensors that match the search, in all modules. */
  readonly tree: Tree
  /** The tensor whose panel is open. */
  readonly chosen: number | undefined
  /** Whether identical blocks are folded. */
  readonly fold: boolean
  /** What the view of the values shows. */
  readonly tab: ValuesTab
  go(view: View): void
  setScope(path: string): void
  setFold(fold: boolean): void
  setTab(tab: ValuesTab): void
  choose(tensor: number | undefined): void
  /** Statistics from the server. */
  learn(tensor: number, found: Model['found'][number]): void
}

export const Context = createContext<State | undefined>(undefined)

export function useReport(): State {
  const state = useContext(Context)
  if (state === undefined) throw new Error('a view must be inside the page')
  return state
}
