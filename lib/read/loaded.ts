// The results of file.load(): copies of elements, with their dtype and shape.
import { type InspectOptions, inspect } from '#host'
import type { DType, DTypeInfo, OwnArrayOf, OwnArrays, TypedArray } from '../values/dtype.js'
import { shown } from '../values/inspect.js'
import type { CooTensor, CsrTensor } from './sparse.js'
import { type WidenOptions, widenSlice } from './widen.js'

/** The elements of a loaded dense tensor, whose digest was checked. */
export class LoadedTensor<D extends DType = DType> {
  readonly dtype: D
  /** The shape of `data`: with a plan, of the rank's part. */
  readonly shape: readonly number[]
  readonly data: OwnArrays[D]

  private constructor(dtype: D, shape: readonly number[], data: OwnArrays[D]) {
    this.dtype = dtype
    this.shape = shape
    this.data = data
  }

  /** @internal */
  static make({ name }: DTypeInfo, shape: readonly number[], data: TypedArray): AnyLoadedTensor {
    return new LoadedTensor(name, shape, data as OwnArrayOf<DType>) as AnyLoadedTensor
  }

  /** Tells the classes of loaded tensors apart, also for TypeScript. */
  get kind(): 'dense' {
    return 'dense'
  }

  get layout(): 'dense' {
    return 'dense'
  }

  /**
   * Returns the elements widened to float32, as `Tensor.toFloat32()` does.
   *
   * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_LIMIT; TypeError and RangeError ZT_INVALID_ARG
   */
  toFloat32(options?: WidenOptions): Float32Array {
    return widenSlice(this, options)
  }

  get [Symbol.toStringTag](): string {
    return 'LoadedTensor'
  }

  /** A summary without data. */
  toJSON(): object {
    return { layout: this.layout, dtype: this.dtype, shape: this.shape, byteLength: this.data.byteLength }
  }

  /** A summary without data. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return shown('LoadedTensor', this.toJSON(), options)
  }
}

/** A loaded dense tensor of any dtype. Checking `dtype` narrows the type of `data`. */
export type AnyLoadedTensor = { [D in DType]: LoadedTensor<D> }[DType]

/** One loaded component: its elements, or its bytes if the dtype is unknown. */
export interface LoadedComponent {
  readonly dtype: DType | undefined
  readonly data: TypedArray
}

/** The components of a loaded tensor that is neither dense nor sparse, or whose dtype is unknown. */
export class LoadedObject {
  /** The layout's name in the file. */
  readonly layout: string & {}
  readonly dtype: DType | undefined
  readonly shape: readonly number[]
  /** The components by role, in an object without a prototype. */
  readonly components: Readonly<Record<string, LoadedComponent>>

  /** @internal */
  constructor(
    layout: string,
    dtype: DType | undefined,
    shape: readonly number[],
    components: LoadedObject['components'],
  ) {
    this.layout = layout
    this.dtype = dtype
    this.shape = shape
    this.components = components
  }

  /** Tells the classes of loaded tensors apart, also for TypeScript. */
  get kind(): 'object' {
    return 'object'
  }

  get [Symbol.toStringTag](): string {
    return 'LoadedObject'
  }

  /** A summary without data. */
  toJSON(): object {
    const { layout, dtype, shape } = this
    return { layout, dtype, shape, components: Object.keys(this.components) }
  }

  /** A summary without data. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return shown('LoadedObject', this.toJSON(), options)
  }
}

/** A loaded tensor of any layout: dense, sparse, or the components of another layout. */
export type Loaded = AnyLoadedTensor | CsrTensor | CooTensor | LoadedObject
