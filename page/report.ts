// The data of a report about a file that is open in the page.

import { everything } from '../lib/read/batches.js'
import { TensorFile } from '../lib/read/file.js'
import { columns, nameOf } from '../lib/report/columns.js'
import { BINS, tensorFound } from '../lib/report/numbers.js'
import { sliceOf } from '../lib/report/slice.js'
import type { Values } from '../view/live.js'
import { Model } from '../view/model.js'

/** Reads values of an open file. */
function valuesOf(file: TensorFile): Values {
  return {
    stats: (tensor, signal) => tensorFound(TensorFile.at(file, tensor), BINS, signal),
    slice: (tensor, index, signal) => sliceOf(TensorFile.at(file, tensor), index, signal),
  }
}

/** Returns what the views show of a file. `name` is that of a folder, which the file does not know. */
export async function modelOf(file: TensorFile, name: string | undefined, signal: AbortSignal): Promise<Model> {
  const data = await columns(file, everything(file.size), { name: name ?? nameOf(file) }, true, signal)
  return new Model(data, valuesOf(file))
}
