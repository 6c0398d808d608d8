// Stands for the addon where there is none: `#addon` of package.json.
import type * as Binding from '../native/binding.js'
import { binding } from './binding.js'

/** The half of the binding that reads. The wrapper of browsers contains no code that uses the other. */
export function loadAddon(): typeof Binding {
  return binding as unknown as typeof Binding
}
