// Templates. Every value becomes a text node or a property: names from files are never parsed as HTML.
import htm from 'htm'
import { type ComponentChildren, h, type VNode } from 'preact'

export const html = htm.bind(h) as (strings: TemplateStringsArray, ...values: unknown[]) => VNode
export type { ComponentChildren, VNode }
