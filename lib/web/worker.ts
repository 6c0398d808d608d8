// The entry of worker.js: reads one file for a page, which has the file's index too, or converts it.
import type {
  BeginRequest,
  DivisionRequest,
  LoadRequest,
  NearestRequest,
  OpenRequest,
  PlanRequest,
  StatsRequest,
  TensorRange,
  WriteRequest,
} from '../native/binding.js'
import { messageOf } from '../native/realm.js'
import { Control, compareIn, type Known, type Memory, NativeFile } from './binding.js'
import { Channel } from './channel.js'
import { NativeConversion, writer } from './conversion.js'
import { urlSource } from './http.js'
import { native, reader, whenFull } from './module.js'
import { blobSource, changed, type FileSource, type FolderSource, type Posted, type Sink, type Tree } from './tree.js'

/** The names of a tree of the page, and its number there. */
export interface PostedTree {
  readonly number: number
  readonly roots: readonly string[]
  readonly request: OpenRequest
}

/** What the page answers to `find`. */
export type Found =
  | Posted
  | { readonly kind: 'folder'; readonly names: readonly string[] }
  /** The page reads it. */
  | { readonly kind: 'page'; readonly number: number; readonly byteLength: number }

/** What `start` gets. */
export interface Start {
  readonly module: WebAssembly.Module
  readonly tree: PostedTree
  readonly known: readonly Known[]
}

let file: NativeFile | undefined
let conversion: NativeConversion | undefined

function sourceOf(found: Found | undefined): FileSource | FolderSource | undefined {
  switch (found?.kind) {
    case undefined:
      return undefined
    case 'folder':
      return { names: found.names }
    case 'url':
      return urlSource(found)
    case 'blob':
      return blobSource(found.blob, (cause) =>
        Object.assign(
          native({ code: 'ZT_IO', message: `reading the file failed: ${messageOf(cause)}${changed(cause)}` }),
          { cause },
        ),
      )
    case 'page':
      return {
        byteLength: found.byteLength,
        read: async (offset, length, signal) =>
          new Uint8Array(await channel.ask<ArrayBuffer>('read', [found.number, offset, length], { signal })),
      }
  }
}

const treeOf = ({ number, roots }: PostedTree): Tree => ({
  roots,
  find: async (name, signal) => sourceOf(await channel.ask<Found | undefined>('find', [number, name], { signal })),
})

function opened(): NativeFile {
  if (file === undefined) throw native({ code: 'ZT_CLOSED', message: 'the file is closed' })
  return file
}

function converting(): NativeConversion {
  if (conversion === undefined) throw native({ code: 'ZT_INTERNAL', message: 'no conversion has begun' })
  return conversion
}

/** Passes what a conversion writes on to the page, and waits until the page has written it. */
const sinkOf = (signal: AbortSignal): Sink => ({
  write: (bytes) => channel.ask('write', [bytes.buffer], { signal }),
})

const taken = async (memory: Promise<Memory>): Promise<ArrayBuffer> => (await memory).take()

// biome-ignore lint/suspicious/noExplicitAny: each call has its own arguments
const CALLS: Record<string, (args: any, control: Control) => Promise<unknown>> = {
  async start([{ module, tree, known }]: [Start], control) {
    await reader.load(module)
    file = await NativeFile.open(treeOf(tree), tree.request, control, known)
  },
  load: ([ordinal, component, request]: [number, number, LoadRequest], control) =>
    taken(opened().load(ordinal, component, request, control)),
  dequantize: ([ordinal, ranges, deferred]: [number, number[] | null, boolean], control) =>
    taken(opened().dequantize(ordinal, ranges, deferred, control)),
  take: ([ordinal, component, widen, axis, indices]: [number, number | null, boolean, number, Float64Array], control) =>
    taken(opened().take(ordinal, component, widen, axis, indices, control)),
  loadSparse: async ([ordinal]: [number], control) =>
    (await opened().loadSparse(ordinal, control)).map((memory) => memory.take()),
  async loadBatch([ordinals, division]: [Uint32Array, DivisionRequest | null], control) {
    const { blocks, locations } = await opened().loadBatch(ordinals, 1, control, undefined, division)
    return [blocks.map((memory) => memory.take()), locations]
  },
  stats: ([ordinal, request]: [number, StatsRequest], control) => opened().stats(ordinal, request, control),
  nearest: ([ordinal, request]: [number, NearestRequest], control) => opened().nearest(ordinal, request, control),
  verify: ([ordinals]: [Uint32Array], control) => opened().verify(ordinals, control),
  canonical: (_none, control) => opened().canonical(control),
  contentDigest: ([algorithm]: [string], control) => opened().contentDigest(algorithm, control),
  compare: ([[first, second], request]: [[PostedTree, PostedTree], never], control) =>
    compareIn(
      [
        { tree: treeOf(first), request: first.request },
        { tree: treeOf(second), request: second.request },
      ],
      request,
      control,
    ),
  async conversion([module, given]: [WebAssembly.Module, ConstructorParameters<typeof NativeConversion>]) {
    await writer.load(module)
    conversion = new NativeConversion(...given)
  },
  select: async ([ordinals, names]: [Uint32Array, string[]]) => converting().select(ordinals, names),
  selectCheckpoint: ([location, isSure, set]: [string, boolean, unknown], control) =>
    converting().selectCheckpoint(opened(), location, undefined, false, isSure, set, control),
  plan: ([request]: [PlanRequest], control) => converting().plan(opened(), request, control),
  refusals: async ([attributes, bare]: [boolean, boolean]) => converting().refusals(attributes, bare),
  create: async ([request, isSized]: [WriteRequest, boolean]) => converting().create(request, isSized),
  begin: ([request]: [BeginRequest], control) => converting().begin(opened(), undefined, request, control),
  write: ([range]: [TensorRange], control) => converting().write(opened(), sinkOf(control.signal), range, control),
  finish: (_none, control) => converting().finish(sinkOf(control.signal)),
}

const channel: Channel = new Channel(globalThis as unknown as Worker, async (what, args, { signal, set }) => {
  const call = CALLS[what]
  if (call === undefined) throw new TypeError(`no such call: ${what}`)
  const control = new Control(set)
  signal.addEventListener('abort', () => control.cancel())
  return call(args, control)
})

whenFull(() => channel.ask('makeRoom', [], new Control()))

globalThis.addEventListener('message', ({ data }) => channel.take(data))
