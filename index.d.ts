// The public types of ztensor, rolled up from index.ts by `npm run types`. Not edited by hand.

/// <reference types="node" />

import { Readable, Writable } from 'node:stream';
import { InspectOptions, inspect } from 'node:util';

/** Why a file, or a call, was refused. The guide on errors (docs/guide/errors.md) says what to do about each. */
export type ErrorCode = "ZT_TRUNCATED" | "ZT_BAD_MAGIC" | "ZT_BAD_INDEX" | "ZT_INCOMPLETE" | "ZT_OUT_OF_BOUNDS" | "ZT_BAD_SHAPE" | "ZT_BAD_DTYPE" | "ZT_BAD_LAYOUT" | "ZT_BAD_SPARSE" | "ZT_BAD_DIGEST" | "ZT_DIGEST_MISMATCH" | "ZT_DECODE" | "ZT_UNSUPPORTED_VERSION" | "ZT_UNSUPPORTED_ENCODING" | "ZT_LIMIT" | "ZT_NOT_FOUND" | "ZT_EXISTS" | "ZT_CLOSED" | "ZT_MAPPING_LOST" | "ZT_NOT_LOCAL" | "ZT_IO" | "ZT_NOT_CANONICAL" | "ZT_INVALID_ARG" | "ZT_INTERNAL";
interface ErrorDetails {
	tensor?: string | undefined;
	component?: string | undefined;
	offset?: number | undefined;
	rule?: string | undefined;
	/** Node's own error where the system refused a call; the list of all errors where several are thrown as one. */
	cause?: unknown;
}
/**
 * A refusal: what is wrong, where, and which rule of which specification it breaks.
 *
 * A bad argument is a `TypeError` or `RangeError` instead, with the `code` `ZT_INVALID_ARG`.
 */
export declare class ZTensorError extends Error {
	/** Stable; match on this, not on the message. */
	readonly code: ErrorCode;
	/** The tensor's name, where one is concerned. */
	readonly tensor?: string;
	/** The component's role, where one is concerned. */
	readonly component?: string;
	/** The byte of the file at which the rule is broken. */
	readonly offset?: number;
	/** The section of the specification that the file breaks. */
	readonly rule?: string;
	constructor(code: ErrorCode, message: string, details?: ErrorDetails);
}
/** How far long work has come. */
export interface Progress {
	readonly bytes: number;
	readonly totalBytes: number;
	readonly tensors: number;
	readonly totalTensors: number;
}
/** What every long call takes. */
export interface JobOptions {
	/** Called now and then while the work runs, and once at its end. */
	onProgress?: ((progress: Progress) => void) | undefined;
	/** Ends the work; the call rejects with `signal.reason`. */
	signal?: AbortSignal | undefined;
}
interface DTypeArrays {
	float64: Float64Array;
	float32: Float32Array;
	/** The raw bits; `toFloat32()` and `float16()` give numbers. */
	float16: Uint16Array;
	/** The raw bits; `toFloat32()` gives numbers. */
	bfloat16: Uint16Array;
	int64: BigInt64Array;
	int32: Int32Array;
	int16: Int16Array;
	int8: Int8Array;
	uint64: BigUint64Array;
	uint32: Uint32Array;
	uint16: Uint16Array;
	uint8: Uint8Array;
	/** One byte an element, 0 or 1. */
	bool: Uint8Array;
	float8_e4m3fn: Uint8Array;
	float8_e5m2: Uint8Array;
	float8_e4m3fnuz: Uint8Array;
	float8_e5m2fnuz: Uint8Array;
	float8_e8m0fnu: Uint8Array;
	/** Packed, four elements in three bytes. */
	float6_e2m3fn: Uint8Array;
	/** Packed, four elements in three bytes. */
	float6_e3m2fn: Uint8Array;
	/** Packed, two elements a byte, the first in the low half. */
	float4_e2m1fn: Uint8Array;
	/** Interleaved real and imaginary parts. */
	complex64: Float32Array;
	/** Interleaved real and imaginary parts. */
	complex128: Float64Array;
}
/** The array of a dtype; nothing where the dtype is undefined. */
export type ArrayOf<D extends DType | undefined> = D extends DType ? DTypeArrays[D] : never;
interface OwnArrays {
	float64: ReturnType<Float64ArrayConstructor["of"]>;
	float32: ReturnType<Float32ArrayConstructor["of"]>;
	float16: ReturnType<Uint16ArrayConstructor["of"]>;
	bfloat16: ReturnType<Uint16ArrayConstructor["of"]>;
	int64: ReturnType<BigInt64ArrayConstructor["of"]>;
	int32: ReturnType<Int32ArrayConstructor["of"]>;
	int16: ReturnType<Int16ArrayConstructor["of"]>;
	int8: ReturnType<Int8ArrayConstructor["of"]>;
	uint64: ReturnType<BigUint64ArrayConstructor["of"]>;
	uint32: ReturnType<Uint32ArrayConstructor["of"]>;
	uint16: ReturnType<Uint16ArrayConstructor["of"]>;
	uint8: ReturnType<Uint8ArrayConstructor["of"]>;
	bool: ReturnType<Uint8ArrayConstructor["of"]>;
	float8_e4m3fn: ReturnType<Uint8ArrayConstructor["of"]>;
	float8_e5m2: ReturnType<Uint8ArrayConstructor["of"]>;
	float8_e4m3fnuz: ReturnType<Uint8ArrayConstructor["of"]>;
	float8_e5m2fnuz: ReturnType<Uint8ArrayConstructor["of"]>;
	float8_e8m0fnu: ReturnType<Uint8ArrayConstructor["of"]>;
	float6_e2m3fn: ReturnType<Uint8ArrayConstructor["of"]>;
	float6_e3m2fn: ReturnType<Uint8ArrayConstructor["of"]>;
	float4_e2m1fn: ReturnType<Uint8ArrayConstructor["of"]>;
	complex64: ReturnType<Float32ArrayConstructor["of"]>;
	complex128: ReturnType<Float64ArrayConstructor["of"]>;
}
/** Such an array of a dtype; nothing where the dtype is undefined. */
export type OwnArrayOf<D extends DType | undefined> = D extends DType ? OwnArrays[D] : never;
/** The type of a tensor's elements, named as NumPy and ml_dtypes name them. */
export type DType = keyof DTypeArrays;
/** Any of the arrays that hold elements. */
export type TypedArray = DTypeArrays[DType];
type IndexArray = BigInt64Array | BigUint64Array | Int32Array | Uint32Array | Int16Array | Uint16Array | Int8Array | Uint8Array;
/** Why data is a copy instead of an alias of the file. */
export type CopyReason = 
/** It is stored compressed. */
"encoded"
/** It stands at an offset that its element type does not allow. */
 | "misaligned"
/** The runtime forbids arrays over foreign memory (Electron), or ones of this size. */
 | "runtime"
/** The system refused to map the file. */
 | "map-failed"
/** The file is read, not mapped: as `open(…, { io: 'read' })` asks, or because it lies on a network file system. */
 | "io"
/** It is stored in the byte order that this machine does not have. */
 | "byte-order"
/** It is stored in another order of elements. */
 | "reordered"
/** It stands in the file's index. */
 | "inline"
/** It is a slice that is not one run of memory. */
 | "packed"
/** The data is not on this machine: `load()` fetches it, and `prefetch()` keeps it where the file was opened with a cache. */
 | "remote";
/** One of the files that hold the tensors. */
export interface FilePart {
	/** Undefined for a file in memory, and for one that was not looked for. */
	readonly path: string | undefined;
	/** What the shard table of a zTensor 2 file calls it. */
	readonly name?: string;
	readonly byteLength: number;
}
/** One stored part of a tensor, such as the `data` of a dense one or the `indices` of a sparse one. */
export declare class Component {
	#private;
	readonly role: string;
	/** Undefined where only the layout knows what the bytes are, or the type is not known here. */
	readonly dtype: DType | undefined;
	/** Bytes after decoding; undefined where only decoding can tell. */
	readonly byteLength: number | undefined;
	/** Bytes in the file. */
	readonly storedLength: number;
	/** The file that holds it; undefined for a file in memory. */
	readonly path: string | undefined;
	/** Where they stand in the file; undefined for elements that stand in the index. */
	readonly offset: number | undefined;
	/** `raw`, `zstd`, `inline`, or the file's own label. */
	readonly encoding: string;
	/**
	 * As it stands in the file: `crc32c:…` or `sha256:…` over the stored bytes, in zTensor 2 `xxh3:…` or `sha256:…` over the decoded ones.
	 * In a zip archive `crc32:…`, over all of the member decoded: of an npz, the array's header too.
	 */
	readonly digest: string | undefined;
	private constructor();
	/**
	 * The elements, over the mapping where they are stored as they are in memory, otherwise decoded on this
	 * thread. The same array at each access. Bytes where the dtype is undefined.
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_DECODE, ZT_DIGEST_MISMATCH (of data that has to be decoded),
	 * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	get data(): TypedArray;
	/** Whether `data` aliases the file. */
	get mapped(): boolean;
	/** Why `data` is a copy; undefined where it aliases the file. */
	get copyReason(): CopyReason | undefined;
	/**
	 * The elements as a copy that you own, decoded, after the digest was checked, off the event loop.
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO,
	 * ZT_TRUNCATED; the signal's reason
	 */
	load(options?: {
		/** Whether the array can be moved to another thread, as for `Tensor.load`. */
		transferable?: boolean | undefined;
		signal?: AbortSignal | undefined;
	}): Promise<TypedArray>;
	get [Symbol.toStringTag](): string;
	/** Never touches data. */
	toJSON(): object;
	/** Never touches data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/** A value of a file's or a tensor's attributes. Integers beyond 2^53 - 1 are bigints. */
export type AttributeValue = string | number | bigint | boolean | null | Uint8Array | readonly AttributeValue[] | AttributeObject | Map<AttributeValue, AttributeValue>;
interface AttributeObject {
	readonly [key: string]: AttributeValue;
}
/** Attributes: an object without a prototype, or a Map where keys are not text; `instanceof Map` tells them apart. */
export type Attributes = AttributeObject | Map<AttributeValue, AttributeValue>;
type AttributeValueInput = string | number | bigint | boolean | null | Uint8Array | readonly AttributeValueInput[] | AttributeInput;
/** Attributes to write: an object, or a Map where keys are not text. */
export type AttributeInput = {
	readonly [key: string]: AttributeValueInput;
} | ReadonlyMap<AttributeValueInput, AttributeValueInput>;
/** Attributes to change: what has a value is set, what is undefined is taken out, all else stays. */
export type AttributeChanges = {
	readonly [key: string]: AttributeValueInput | undefined;
} | ReadonlyMap<AttributeValueInput, AttributeValueInput | undefined>;
/** What one element is: int64 and uint64 are bigints, bool a boolean, complex numbers `[real, imaginary]`, all others numbers. */
export type ElementOf<D extends DType = DType> = D extends "int64" | "uint64" ? bigint : D extends "bool" ? boolean : D extends "complex64" | "complex128" ? readonly [
	real: number,
	imaginary: number
] : number;
/** Elements in as many nested arrays as there are dimensions; the element itself where there are none. */
export type Nested<E> = E | readonly Nested<E>[];
/** How to read a tensor as a stream. */
export interface ReadStreamOptions {
	/** Bytes of a piece, and of what is read ahead of the consumer: 1 MiB by default. */
	highWaterMark?: number | undefined;
	/** Destroys the stream, with `signal.reason`. */
	signal?: AbortSignal | undefined;
}
/** Where widened elements go. */
export interface WidenOptions {
	/** An array to fill, with one float for each element. */
	into?: Float32Array | undefined;
}
/**
 * Elements widened to float32: exactly for the 8- and 16-bit types and bool, to the nearest (ties to even) for
 * wider integers and float64. For the data of a slice, of a sparse tensor or of a component; a dense tensor has
 * `toFloat32()` of its own.
 *
 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_LIMIT; TypeError and RangeError ZT_INVALID_ARG
 */
export declare function toFloat32<D extends DType>(values: DTypeArrays[D], dtype: D, options?: WidenOptions): Float32Array;
/**
 * Which indices of a dimension, as NumPy slices: `[start, stop]`, `[start, stop, step]`, one of them as `[index]`, or null for all.
 * Negative numbers count from the end, and null stands for an end. A single index takes the dimension out of the shape.
 * Unlike NumPy's, bounds beyond the dimension are refused, and a step is 1 or more.
 */
export type Range = readonly [
	index: number
] | readonly [
	start: number | null,
	stop: number | null
] | readonly [
	start: number | null,
	stop: number | null,
	step: number
] | null;
/** One rank's even share of a dimension. */
export interface Shard {
	/** The dimension that is divided. */
	readonly dim: number;
	/** From 0 to `worldSize - 1`. */
	readonly rank: number;
	readonly worldSize: number;
}
/** A rectangular part of a dense tensor. */
export declare class TensorSlice<D extends DType = DType> {
	readonly dtype: D;
	readonly shape: readonly number[];
	readonly data: DTypeArrays[D];
	/** Why `data` is a copy; undefined where it aliases the file. */
	readonly copyReason: CopyReason | undefined;
	private constructor();
	/** Whether `data` aliases the file. */
	get mapped(): boolean;
	/**
	 * The elements widened to float32, as `Tensor.toFloat32()` does.
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_LIMIT; TypeError and RangeError ZT_INVALID_ARG
	 */
	toFloat32(options?: WidenOptions): Float32Array;
	get [Symbol.toStringTag](): string;
	/** Says what it is, and has no data. */
	toJSON(): object;
	/** Says what it is, and shows no data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/** How large a converted tensor may become. */
export interface ToDenseOptions {
	/** Bytes that the dense elements, or the row pointers, may take up; 1 GiB by default. */
	maxBytes?: number | undefined;
}
/**
 * A matrix by its rows: the values of row `r` are `values[indptr[r]]` up to `values[indptr[r + 1]]`, their
 * columns the `indices` at the same places.
 */
export declare class CsrTensor<D extends DType = DType> {
	#private;
	readonly shape: readonly [
		rows: number,
		columns: number
	];
	readonly dtype: D;
	readonly values: DTypeArrays[D];
	readonly indices: IndexArray;
	readonly indptr: IndexArray;
	/** Stored values. */
	readonly nnz: number;
	private constructor();
	get layout(): "sparse_csr";
	get [Symbol.toStringTag](): string;
	/** Says what it is, and has no data. */
	toJSON(): object;
	/** Says what it is, and shows no data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
	/**
	 * All elements in row-major order; values at the same place are added.
	 *
	 * @throws ZTensorError ZT_LIMIT beyond `maxBytes`, ZT_BAD_SPARSE where the arrays were changed to nonsense
	 */
	toDense(options?: ToDenseOptions): DTypeArrays[D];
	/**
	 * The same matrix with its values widened to float32; the index arrays are shared.
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex types
	 */
	toFloat32(): CsrTensor<"float32">;
	/** Converts to COO. Both share the values. */
	toCoo(): CooTensor<D>;
}
/**
 * A tensor by the coordinates of its values. `coords` is dimension-major: `nnz` indices into dimension 0, then
 * `nnz` into dimension 1, and so on.
 */
export declare class CooTensor<D extends DType = DType> {
	#private;
	readonly shape: readonly number[];
	readonly dtype: D;
	readonly values: DTypeArrays[D];
	readonly coords: IndexArray;
	/** Stored values. */
	readonly nnz: number;
	private constructor();
	get layout(): "sparse_coo";
	get [Symbol.toStringTag](): string;
	/** Says what it is, and has no data. */
	toJSON(): object;
	/** Says what it is, and shows no data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
	/**
	 * All elements in row-major order; values at the same place are added.
	 *
	 * @throws ZTensorError ZT_LIMIT beyond `maxBytes`, ZT_BAD_SPARSE where the arrays were changed to nonsense
	 */
	toDense(options?: ToDenseOptions): DTypeArrays[D];
	/**
	 * The same values by rows, sorted by row and column; values at the same place stay apart.
	 *
	 * @throws ZTensorError ZT_BAD_LAYOUT unless the tensor has 2 dimensions, ZT_LIMIT
	 */
	toCsr(options?: ToDenseOptions): CsrTensor<D>;
	/**
	 * The same tensor with its values widened to float32; the coordinates are shared.
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex types
	 */
	toFloat32(): CooTensor<"float32">;
}
/** What to find out of a tensor's elements. */
export interface StatsOptions {
	/** Bins of a histogram, up to 4096; none unless asked for. */
	bins?: number | undefined;
	/**
	 * First and last edge of the bins; elements beyond are in none. That of the finite elements unless given, which
	 * takes a second pass over the data.
	 */
	range?: readonly [
		first: number,
		last: number
	] | undefined;
	signal?: AbortSignal | undefined;
}
/** How many finite elements lie between one edge and the next, as NumPy's `histogram` counts them. */
export interface Histogram {
	/** One more than there are bins, evenly spaced. A bin holds its lower edge, the last one its upper edge too. */
	readonly edges: readonly number[];
	readonly counts: readonly number[];
}
/** What a tensor's elements are like. Extremes, mean and spread are those of the finite ones; NaN without any. */
export interface TensorStats {
	/** Elements: of a sparse tensor the stored values. */
	readonly count: number;
	readonly nan: number;
	readonly positiveInfinite: number;
	readonly negativeInfinite: number;
	readonly zeros: number;
	/** 64-bit integers beyond 2^53 as the nearest number. */
	readonly min: number;
	readonly max: number;
	readonly mean: number;
	/** The standard deviation of the population, as NumPy's `std` gives it. */
	readonly std: number;
	readonly histogram: Histogram | undefined;
}
/** Something about a file that a user should know, and that does not make it unreadable. */
export interface Warning {
	/** Stable: `ZT_WARN_UNALIGNED`, `ZT_WARN_NEWER_VERSION`, `ZT_WARN_UNKNOWN_LAYOUT`, … */
	readonly code: string;
	readonly message: string;
	readonly tensor?: string;
	readonly component?: string;
	/** The file, where several were opened as one. */
	readonly path?: string;
}
/** What a verification found. */
export interface VerifyResult {
	/** Whether nothing failed. */
	readonly ok: boolean;
	/** Components whose digest was compared. */
	readonly checked: number;
	/** Components without a digest, or with one of an algorithm that is not known here. */
	readonly undigested: number;
	/** What failed; of very many the first thousand, and a last one that says how many more there are. */
	readonly failures: readonly ZTensorError[];
	/** What else a user should know, as `file.warnings` has it; of one tensor its own. None of them makes `ok` false. */
	readonly warnings: readonly Warning[];
}
/** What to verify beyond digests and data rules. */
export interface VerifyOptions extends JobOptions {
	/** Whether the file is in zTensor 2's canonical form as well (§6.3): each rule that it breaks is a ZT_NOT_CANONICAL. */
	canonical?: boolean | undefined;
}
/** How the components of a tensor make it up: one of these in every format, otherwise the file's own label. */
export type Layout = "dense" | "sparse_csr" | "sparse_coo" | (string & {});
/** What to load of a dense or quantized tensor, and where to. */
export interface LoadOptions {
	/** Widen the elements to float32; a quantized tensor has no other elements to give. */
	as?: "float32" | undefined;
	/** Only a rectangular part. Where the data is stored raw only that part is read, and no digest checked. */
	slice?: readonly Range[] | undefined;
	/** Only one rank's share of a dimension. */
	shard?: Shard | undefined;
	/** An array to fill, of exactly the length and of the type that would be made. */
	into?: ArrayBufferView | undefined;
	/**
	 * Whether the array can be moved to another thread: `postMessage(array, [array.buffer])`. The memory of other arrays belongs to native
	 * code, and runtimes copy it or throw. Costs one more copy.
	 */
	transferable?: boolean | undefined;
	signal?: AbortSignal | undefined;
}
/** How to load the arrays of a sparse tensor. */
export interface LoadSparseOptions {
	/** Whether the arrays can be moved to another thread, as for `load`. */
	transferable?: boolean | undefined;
	signal?: AbortSignal | undefined;
}
type Float16Elements = typeof globalThis extends {
	Float16Array: {
		prototype: infer A;
	};
} ? A : unknown;
/** A tensor of an open file. Making one reads nothing; its data is read when asked for. */
export declare class Tensor<D extends DType | undefined = DType | undefined> {
	#private;
	private constructor();
	get name(): string;
	/** The type of the elements, or of a sparse tensor's values. Undefined for a type or a composite that is not known here. */
	get dtype(): D;
	get shape(): readonly number[];
	/** Elements: the product of the shape. */
	get size(): number;
	/**
	 * Bytes of the elements after decoding: of `data` of a dense tensor, of all arrays of a sparse one, of all components of
	 * any other layout. Components beside those of the layout do not count. Of a component whose size only decoding can
	 * tell, the stored bytes.
	 */
	get byteLength(): number;
	get layout(): Layout;
	/** The tensor's own attributes; empty in formats that have none. */
	get attributes(): Attributes;
	/** The stored parts by their roles. */
	get components(): ReadonlyMap<string, Component>;
	/**
	 * The elements of a dense tensor: a typed array over the mapping where the file stores them as they are in
	 * memory, otherwise a copy (see `mapped` and `copyReason`). The same array at each access; empty after the
	 * file's `close()`. Writing to it changes this process's view only, never the file. Digests of data that
	 * need not be decoded are not checked here: `load()` and `verify()` do.
	 *
	 * @example
	 * const { data, shape } = file.tensor('wte') // a Float32Array over the file, and [50257, 768]
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE of an unknown type, ZT_DECODE,
	 * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT beyond what one array can hold, ZT_IO, ZT_TRUNCATED
	 */
	get data(): ArrayOf<D>;
	/**
	 * The bytes of `data`, over the same memory: for HTTP, hashes and other libraries. Of a dense tensor whose type is not known
	 * here, its bytes.
	 *
	 * @example response.end(tensor.bytes)
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING,
	 * ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	get bytes(): Uint8Array;
	/** Whether the data aliases the file; of a sparse or composite tensor, whether that of each of its components does. */
	get mapped(): boolean;
	/** Why the data is a copy; undefined where it aliases the file. */
	get copyReason(): CopyReason | undefined;
	/**
	 * The elements of a dense tensor, or with `as: 'float32'` of a quantized one, as a copy that you own: read off the event loop, decoded, their digest
	 * checked. Never touches the mapping, so a file truncated meanwhile is an error and no signal.
	 *
	 * @example
	 * const weights = await tensor.load()
	 * const floats = await tensor.load({ as: 'float32', slice: [[0, 128]] }) // the first 128 rows
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT, ZT_BAD_DTYPE, ZT_DIGEST_MISMATCH, ZT_DECODE,
	 * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG; the
	 * signal's reason
	 */
	load<A extends ArrayBufferView>(options: LoadOptions & {
		into: A;
	}): Promise<A>;
	load(options: LoadOptions & {
		as: "float32";
	}): Promise<OwnArrays["float32"]>;
	load(options?: LoadOptions & {
		as?: undefined;
	}): Promise<OwnArrayOf<D>>;
	load(options?: LoadOptions): Promise<OwnArrayOf<D> | OwnArrays["float32"]>;
	/**
	 * The elements widened to float32: exactly for the 8- and 16-bit types and bool, to the nearest (ties to
	 * even) for wider integers and float64. `load({ as: 'float32' })` does the same off the event loop.
	 *
	 * A quantized tensor (`zt.quant_group/1`, `zt.mx/1`, `tflite.quantized/1`, and `gguf.<type>/1` of the types that docs/formats.md lists) is read from its file, its digests checked, and decoded on all cores.
	 *
	 * @example const floats = tensor.toFloat32()
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense or quantized, ZT_BAD_DTYPE for complex, 6-bit and unknown types,
	 * ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG for
	 * `into`
	 */
	toFloat32(options?: WidenOptions): Float32Array;
	/**
	 * The elements of a float16 tensor as a Float16Array over the same memory, where the runtime has one.
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for other types and where there is no Float16Array, ZT_CLOSED, ZT_BAD_LAYOUT unless dense,
	 * ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	float16(): Float16Elements;
	/**
	 * A part: `[start, stop]`, `[start, stop, step]`, `[index]` or null for each dimension, the missing ones whole. A slice that
	 * is one run of memory (whole rows) shares the tensor's; others are packed into memory of their own. Where `data` would be a copy
	 * that is not made yet, only the bytes, frames or chunks that the slice touches are read and decoded.
	 *
	 * @example
	 * tensor.slice([[0, 128], null]) // the first 128 rows: no copy
	 * tensor.slice([[-1]]) // the last row, as one dimension less
	 * tensor.slice([null, [0, null, 2]]) // every other column
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE of an unknown type, ZT_DECODE,
	 * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG
	 */
	slice(ranges: readonly Range[]): TensorSlice<D & DType>;
	/**
	 * One element of a dense tensor, by an index for each dimension; negative ones count from the end. Where `data` would be a
	 * copy that is not made yet, only this element is read, or the frame or chunk that it is in. Many elements are faster in `data`,
	 * or `toFloat32()`.
	 *
	 * @example tensor.at(0, -1) // the last element of the first row
	 *
	 * @throws TypeError and RangeError ZT_INVALID_ARG for indices of another number or outside the shape; ZTensorError ZT_CLOSED,
	 * ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for 6-bit and unknown types, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	at(...indices: number[]): ElementOf<D & DType>;
	/**
	 * The elements of a dense tensor in nested arrays, as NumPy's `tolist()` gives them: bigints for int64 and uint64, booleans for
	 * bool, `[real, imaginary]` for complex numbers, else numbers.
	 *
	 * @example tensor.toArray() // [[1, 2], [3, 4]]
	 *
	 * @throws ZTensorError ZT_LIMIT for more than `maxElements` (1,048,576 by default), ZT_CLOSED, ZT_BAD_LAYOUT unless dense,
	 * ZT_BAD_DTYPE for 6-bit and unknown types, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and
	 * RangeError ZT_INVALID_ARG
	 */
	toArray(options?: {
		readonly maxElements?: number | undefined;
	}): Nested<ElementOf<D & DType>>;
	/**
	 * The bytes of a dense tensor as a stream, read off the event loop in pieces as they are wanted: those that `load()` gives. What
	 * is stored compressed, without frames, is decoded whole first, its digest checked; of what is stored raw no digest is.
	 *
	 * @example await pipeline(tensor.createReadStream(), response)
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE of an unknown type; TypeError and RangeError
	 * ZT_INVALID_ARG. The stream is destroyed with ZT_CLOSED where the file is closed meanwhile, with the signal's reason, or with
	 * ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	createReadStream(options?: ReadStreamOptions): Readable;
	/**
	 * One rank's even share of a dimension.
	 *
	 * @example tensor.shard({ dim: 0, rank: 1, worldSize: 4 }) // the second quarter of the rows
	 *
	 * @throws RangeError ZT_INVALID_ARG where the dimension does not divide, TypeError ZT_INVALID_ARG; ZTensorError ZT_CLOSED,
	 * ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE of an unknown type, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	shard(spec: Shard): TensorSlice<D & DType>;
	/**
	 * A sparse matrix stored by rows, over the mapping where it can be, after its arrays were checked.
	 *
	 * @example
	 * const { indptr, indices, values } = tensor.csr()
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless it is one, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE where
	 * the arrays break the layout's rules, ZT_DECODE, ZT_DIGEST_MISMATCH (of encoded arrays), ZT_UNSUPPORTED_ENCODING, ZT_LIMIT,
	 * ZT_IO, ZT_TRUNCATED
	 */
	csr(): CsrTensor<D & DType>;
	/**
	 * A sparse tensor stored by coordinates, over the mapping where it can be, after its arrays were checked.
	 *
	 * @example
	 * const { coords, values, nnz } = tensor.coo()
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless it is one, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE where
	 * the arrays break the layout's rules, ZT_DECODE, ZT_DIGEST_MISMATCH (of encoded arrays), ZT_UNSUPPORTED_ENCODING, ZT_LIMIT,
	 * ZT_IO, ZT_TRUNCATED
	 */
	coo(): CooTensor<D & DType>;
	/**
	 * What `csr()` gives, as a copy that you own, digests checked, off the event loop.
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless it is one, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE,
	 * ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError ZT_INVALID_ARG; the signal's
	 * reason
	 */
	loadCsr(options?: LoadSparseOptions): Promise<CsrTensor<D & DType>>;
	/**
	 * What `coo()` gives, as a copy that you own, digests checked, off the event loop.
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless it is one, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE,
	 * ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError ZT_INVALID_ARG; the signal's
	 * reason
	 */
	loadCoo(options?: LoadSparseOptions): Promise<CooTensor<D & DType>>;
	/**
	 * Checks this tensor's digests, decoded lengths and data rules. Resolves with what failed.
	 *
	 * @example if (!(await tensor.verify()).ok) throw new Error('damaged')
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_IO, ZT_LIMIT; TypeError ZT_INVALID_ARG; the signal's reason
	 */
	verify(options?: JobOptions): Promise<VerifyResult>;
	/**
	 * Counts, extremes, mean, standard deviation and perhaps a histogram of the elements, on all cores, off the event loop:
	 * of the stored values of a sparse tensor, of the float32 values of a quantized one. Sums are kept in float64, and the
	 * result is the same for any number of cores. Digests of data that need not be decoded are not checked.
	 *
	 * @example const { min, max, mean, nan } = await tensor.stats()
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_BAD_LAYOUT for layouts without numbers, ZT_CLOSED, ZT_DECODE,
	 * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG; the signal's
	 * reason
	 */
	stats(options?: StatsOptions): Promise<TensorStats>;
	get [Symbol.toStringTag](): string;
	/** Never touches data. */
	toJSON(): object;
	/** Never touches data. */
	[inspect.custom](_depth: number, options: import("node:util").InspectOptions): string;
}
/** A tensor of any dtype, or of none that is known here: checking `dtype` narrows `data`. */
export type AnyTensor = {
	[D in DType]: Tensor<D>;
}[DType] | Tensor<undefined>;
/** How far apart elements may be and still count as equal: `|a - b| <= atol + rtol * max(|a|, |b|)`. */
export interface CompareOptions extends JobOptions {
	/** Absolute; 0 unless given. */
	atol?: number | undefined;
	/** Relative to the larger magnitude of the two; 0 unless given. */
	rtol?: number | undefined;
}
/** How far two tensors are apart. */
export interface Comparison {
	/** The same dtype and, bit for bit, the same elements. */
	readonly identical: boolean;
	/** No element differs by more than the tolerance. NaN equals NaN, and 0 equals -0. */
	readonly equal: boolean;
	/** How many were compared: of two sparse tensors with the same pattern, the stored values. */
	readonly elements: number;
	/** How many differ by more than the tolerance. */
	readonly differing: number;
	/** The flat, row-major index of the first that does. */
	readonly firstDifference: number | undefined;
	/** How many are NaN on one side alone. */
	readonly unmatchedNaN: number;
	/** The largest `|a - b|`. */
	readonly maxAbsolute: number;
	/** The largest `|a - b| / max(|a|, |b|)`. */
	readonly maxRelative: number;
}
/** The containers that files come in. */
export type Format = "zt" | "safetensors" | "btf" | "npy" | "npz" | "gguf" | "onnx" | "pytorch" | "hdf5" | "keras" | "tensorflow" | "flax" | "paddle" | "arrow" | "tflite" | "openvino";
type WritableFormat = "zt" | "safetensors" | "btf" | "npy" | "npz";
type WritableVersion = "0.1" | "1.0" | "1.2" | "2";
type Entries<T> = ReturnType<ReadonlyMap<T, unknown>["keys"]>;
/** The elements of a dense tensor, its digest checked. */
export declare class LoadedTensor<D extends DType = DType> {
	readonly dtype: D;
	/** Of what was loaded: with a plan the rank's part. */
	readonly shape: readonly number[];
	readonly data: OwnArrays[D];
	private constructor();
	get layout(): "dense";
	/**
	 * The elements widened to float32, as `Tensor.toFloat32()` does.
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_LIMIT; TypeError and RangeError ZT_INVALID_ARG
	 */
	toFloat32(options?: WidenOptions): Float32Array;
	get [Symbol.toStringTag](): string;
	/** Says what it is, and has no data. */
	toJSON(): object;
	/** Says what it is, and shows no data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/** A loaded dense tensor of any dtype: checking `dtype` narrows `data`. */
export type AnyLoadedTensor = {
	[D in DType]: LoadedTensor<D>;
}[DType];
interface LoadedComponent {
	readonly dtype: DType | undefined;
	readonly data: TypedArray;
}
/** The components of a tensor that is neither dense nor sparse, or whose dtype is not known. */
export declare class LoadedObject {
	/** The file's own label. */
	readonly layout: string & {};
	readonly dtype: DType | undefined;
	readonly shape: readonly number[];
	/** By their roles; an object without a prototype. */
	readonly components: Readonly<Record<string, LoadedComponent>>;
	get [Symbol.toStringTag](): string;
	/** Says what it is, and has no data. */
	toJSON(): object;
	/** Says what it is, and shows no data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/** A loaded tensor, by its layout: its elements, its sparse form, or the components of any other layout. */
export type Loaded = AnyLoadedTensor | CsrTensor | CooTensor | LoadedObject;
/**
 * How a tensor is divided among the ranks. `'column'`: its second-to-last dimension, the outputs of a weight of shape
 * `[out, in]`; the only dimension of a vector, such as its bias. `'row'`: its last dimension, the inputs; a vector
 * is replicated, as frameworks have it. `{ dim }`: that dimension. `'replicate'`: not at all, every rank has it whole.
 */
export type Placement = "column" | "row" | "replicate" | {
	readonly dim: number;
};
/** Who asks, and how tensors are divided. */
export interface PlanOptions {
	/** From 0 to `worldSize - 1`. */
	readonly rank: number;
	readonly worldSize: number;
	/**
	 * The placement of the tensors whose names match a pattern, where `*` is any run of characters and `?` any single one.
	 * The first pattern that matches counts, and each tensor must be matched by one: end with `'*'` to say what happens to
	 * the rest.
	 */
	readonly rules: Readonly<Record<string, Placement>> | readonly (readonly [
		pattern: string,
		placement: Placement
	])[];
}
interface PlannedTensor {
	readonly name: string;
	/** The dimension that is divided; undefined for a tensor that every rank has whole. */
	readonly dim: number | undefined;
	/** `[start, stop]` of each dimension. */
	readonly ranges: readonly (readonly [
		start: number,
		stop: number
	])[];
	/** Of the rank's part. */
	readonly shape: readonly number[];
	/** Bytes of the rank's part, decoded. */
	readonly byteLength: number;
}
interface ByteRange {
	/** The number of the file in `file.files`. */
	readonly file: number;
	/** Undefined for a file in memory. */
	readonly path: string | undefined;
	readonly offset: number;
	readonly length: number;
}
/** What one rank of a tensor-parallel group needs of a file. */
export declare class Plan {
	#private;
	readonly rank: number;
	readonly worldSize: number;
	/** The rank's part of every tensor, in the order of the file. */
	readonly tensors: ReadonlyMap<string, PlannedTensor>;
	/** Bytes of all ranges: what is read. */
	readonly byteLength: number;
	/** How many ranges there are. */
	readonly rangeCount: number;
	private constructor();
	/**
	 * The bytes that the rank needs, in the order of the files and of their bytes, joined where they touch. Of a tensor that
	 * is stored encoded that is all of it, whatever part the rank has.
	 */
	ranges(): Generator<ByteRange>;
	get [Symbol.toStringTag](): string;
	toJSON(): object;
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/**
 * An open file on its way to another thread: it can be cloned and posted, and `open` and `openSync` take it. In a
 * thread of the same process they give the very file that was shared, its index and its mapping, without reading anything
 * again; elsewhere, or once it is closed everywhere, they open the path and see to it that it is still the same file.
 */
export interface SharedFile {
	readonly kind: "ztensor.SharedFile";
	/** The path, or the paths of a list. */
	readonly path: string | readonly string[];
	readonly ticket: {
		readonly process: string;
		readonly number: number;
		readonly identity: string;
	};
	/** The options that it was opened with. */
	readonly request: object;
	/** The bytes of each file of `file.files`, where they were asked for and the runtime can show them. */
	readonly memory?: readonly SharedArrayBuffer[];
}
interface ShareOptions {
	/** Give `memory` as well: SharedArrayBuffers over the mapping, which threads can use without this package. */
	readonly memory?: boolean | undefined;
}
/** What to load of a file. */
export interface LoadFileOptions extends JobOptions {
	/** The tensors to load; all of them by default. */
	names?: Iterable<string> | undefined;
	/** Load one rank's parts of them, as `plan()` of this file divides them; `plan.tensors` has their shapes. */
	plan?: Plan | undefined;
	/** Tensors under way at once; by default as many as suit the machine and where the file lies. */
	concurrency?: number | undefined;
	/** Whether each array can be moved to another thread, as for `Tensor.load`: it then has a buffer of its own. */
	transferable?: boolean | undefined;
}
interface EvictOptions {
	/** The tensors; all of them by default. */
	names?: Iterable<string> | undefined;
}
/** How to prefetch. */
export interface PrefetchOptions extends JobOptions {
	/** The tensors to prefetch; all of them by default. */
	names?: Iterable<string> | undefined;
	/** Bytes under way at once: 64 MiB by default. */
	maxBytes?: number | undefined;
}
/** An open file: its tensors by name, in the order of its index. */
export declare class TensorFile implements ReadonlyMap<string, AnyTensor> {
	#private;
	/** `'mixed'` where files of several containers were opened as one. */
	readonly format: Format | "mixed";
	/** As the file has it: `'0.1'`, `'1.0'`, `'1.2.0'`, `'2'` for zTensor, `'3'` for GGUF …; undefined for formats without versions. */
	readonly version: string | undefined;
	/** What wrote the file, where it says. */
	readonly generator: string | undefined;
	/** As it was opened: of a file, an index or a folder. Undefined for a list of files and for a file in memory. */
	readonly path: string | undefined;
	/** Bytes of the whole file, of all files together. */
	readonly byteLength: number;
	/** Tensors in the file. */
	readonly size: number;
	private constructor();
	/** The file's metadata. */
	get attributes(): Attributes;
	/**
	 * The attributes that are text under a text: all of them in formats that have no others, such as safetensors. An object without
	 * a prototype.
	 *
	 * @example file.metadata.license
	 */
	get metadata(): Readonly<Record<string, string>>;
	/** What a user should know about the file and what does not make it unreadable. */
	get warnings(): readonly Warning[];
	/** The files that hold the tensors, one unless it was opened as several. */
	get files(): readonly FilePart[];
	get closed(): boolean;
	/**
	 * The tensor called `name`.
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, naming close matches; ZT_BAD_DTYPE unless it is of the dtype asked for;
	 * ZT_CLOSED
	 */
	tensor<D extends DType>(name: string, options: {
		readonly dtype: D;
	}): Tensor<D>;
	tensor(name: string, options?: {
		readonly dtype?: undefined;
	}): AnyTensor;
	get(name: string): AnyTensor | undefined;
	has(name: string): boolean;
	keys(): Entries<string>;
	values(): Entries<AnyTensor>;
	entries(): Entries<[
		string,
		AnyTensor
	]>;
	[Symbol.iterator](): Entries<[
		string,
		AnyTensor
	]>;
	forEach(callback: (tensor: AnyTensor, name: string, file: ReadonlyMap<string, AnyTensor>) => void, self?: unknown): void;
	/**
	 * Loads tensors as copies that you own, several at once, off the event loop, their digests checked.
	 * Gives them by name, in the order asked for, with their dtypes and shapes. Dense ones of up to 64 KiB that are neighbours share an ArrayBuffer.
	 *
	 * @example
	 * const tensors = await file.load(['wte', 'wpe'])
	 * const wte = tensors.get('wte')
	 * if (wte?.layout === 'dense') console.log(wte.dtype, wte.shape, wte.data)
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED, ZT_BAD_DTYPE, ZT_BAD_SPARSE, ZT_DECODE,
	 * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_IO, ZT_TRUNCATED, ZT_LIMIT where all of it would be more than 16 times the file and
	 * `maxDecodedBytes`; TypeError and RangeError ZT_INVALID_ARG; the signal's reason. One failure ends all.
	 */
	load(names: Iterable<string> | undefined, options?: Omit<LoadFileOptions, "names">): Promise<Map<string, Loaded>>;
	load(options?: LoadFileOptions): Promise<Map<string, Loaded>>;
	/**
	 * Which bytes one rank of a tensor-parallel group needs, and which part of each tensor it has. `load({ plan })` loads these
	 * parts alone.
	 *
	 * @example
	 * const plan = file.plan({ rank: 0, worldSize: 4, rules: { '*.weight': 'column', '*': 'replicate' } })
	 * const parts = await file.load({ plan })
	 *
	 * @throws RangeError and TypeError ZT_INVALID_ARG for a dimension that does not divide evenly, for tensors that no rule
	 * names; ZTensorError ZT_BAD_LAYOUT for one that is divided and not dense, ZT_LIMIT, ZT_CLOSED
	 */
	plan(options: PlanOptions): Plan;
	/**
	 * Checks every digest, decoded length and data rule. Damage that opening the file warned of (`ZT_WARN_DAMAGED`,
	 * `ZT_WARN_TRUNCATED`) fails too. Resolves with what failed; rejects only where the file cannot be read, would take far
	 * more work than its size tells (ZT_LIMIT, as `load`), or the signal says so.
	 *
	 * @example
	 * const { ok, failures } = await file.verify()
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_IO, ZT_LIMIT; TypeError ZT_INVALID_ARG; the signal's reason
	 */
	verify(options?: VerifyOptions): Promise<VerifyResult>;
	/**
	 * The content digest of a zTensor 2 file (§6.4), `sha256:…` or `xxh3:…`: the same for the same tensors however they are
	 * laid out, split or compressed. It is made from the index alone, out of the digests that stand there.
	 *
	 * @throws ZTensorError ZT_UNSUPPORTED_VERSION of any other format, ZT_BAD_DIGEST where a component has no digest,
	 * ZT_CLOSED, ZT_IO; the signal's reason
	 */
	contentDigest(algorithm?: "sha256" | "xxh3", options?: {
		signal?: AbortSignal | undefined;
	}): Promise<string>;
	/**
	 * Brings tensors' pages into memory, several pieces at once, so that touching their data does not wait for the
	 * disk. What is on another machine is brought into the cache of `open(url, { remote: { cache } })`; then `data` is an alias of the
	 * copy there.
	 *
	 * A name may be a pattern: `*` is any run of characters, `?` any single one.
	 *
	 * @example await file.prefetch(['wte', 'h.0.*'])
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED, ZT_IO, ZT_NOT_LOCAL of a file of another machine without a cache, ZT_LIMIT beyond
	 * `maxCacheBytes`; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
	 */
	prefetch(names: Iterable<string> | undefined, options?: Omit<PrefetchOptions, "names">): Promise<void>;
	prefetch(options?: PrefetchOptions): Promise<void>;
	/**
	 * Tells the system that tensors' pages will not be needed soon, in the mapping and in its page cache. What
	 * JavaScript wrote to them stays.
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; TypeError ZT_INVALID_ARG
	 */
	evict(names: Iterable<string> | undefined): void;
	evict(options?: EvictOptions): void;
	/**
	 * What to post to another thread for `open` or `openSync` there: all threads then read one mapping, which is in
	 * memory once. What one writes into `data`, all see; `close()` empties the views of its own thread, and the mapping
	 * goes with the last. Of a list of files, or after `close()`, other threads open the files again.
	 *
	 * With `{ memory: true }` it holds `memory` too, a SharedArrayBuffer over the mapping of each file, if the runtime can make
	 * them (Node from 22.23, 24.21 and 26 on, Bun 1.4; not Node 20, Deno and Electron, and not of a file that is not
	 * mapped). A file that is opened from it, in this or another thread, has its `data` over these: such arrays can be posted
	 * to threads that know nothing of this package. Nobody can empty them: they and the mapping live until every
	 * thread has dropped them, whoever calls `close()`. Other processes cannot be sent memory.
	 *
	 * @example
	 * new Worker('./worker.js', { workerData: file.share() }) // there: const file = await open(workerData)
	 *
	 * @throws ZTensorError ZT_CLOSED, and with memory ZT_IO, ZT_MAPPING_LOST; TypeError ZT_INVALID_ARG of a file in memory: open
	 * a SharedArrayBuffer there
	 */
	share(options?: ShareOptions): SharedFile;
	/**
	 * Ends the file: views become empty, work under way rejects with ZT_CLOSED, the mapping goes. Wait for other
	 * native code that still reads a view (a compression, a write) first: it would read zeros. Closing twice is
	 * fine.
	 */
	close(): void;
	[Symbol.dispose](): void;
	[Symbol.asyncDispose](): Promise<void>;
	get [Symbol.toStringTag](): string;
	/** Never touches data. */
	toJSON(): object;
	/** Never touches data. */
	[inspect.custom](_depth: number, options: import("node:util").InspectOptions): string;
}
/**
 * A file whose bytes your own code reads: from a bucket, a `Blob`, an encrypted file. Its index is read when it is opened, tensors
 * when they are loaded, several ranges at once and neighbors together. There is nothing to alias: `data` throws ZT_NOT_LOCAL,
 * `load()` works.
 *
 * @example
 * const blob = await openAsBlob('model.safetensors')
 * const file = await open({
 *   byteLength: blob.size,
 *   read: async (offset, length) => new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer()),
 * })
 */
export interface ByteSource {
	/** Bytes of the whole file. */
	readonly byteLength: number;
	/** The name of the file, such as `model.safetensors.index.json` of an index: messages have it. */
	readonly name?: string | undefined;
	/**
	 * Gives exactly `length` bytes from `offset` on, which lie inside of the file. Up to 16 calls of up to 8 MiB are under way at once.
	 * `signal` is aborted where nobody wants the bytes any more. What it throws is the `cause` of ZT_IO.
	 */
	read(offset: number, length: number, options: {
		readonly signal: AbortSignal;
	}): Uint8Array | PromiseLike<Uint8Array>;
	/**
	 * Gives the file of a name that the index wants: a shard, external data. The name is a relative path with `/` that never leads out
	 * of the folder. Undefined where there is none.
	 */
	sibling?(name: string): ByteSource | undefined | PromiseLike<ByteSource | undefined>;
}
/**
 * A path or file: URL of a tensor file, of the index of a sharded checkpoint (`model.safetensors.index.json`) or of a
 * folder with one; a list of paths of tensor files, opened as one; a file that is in memory already; or, in calls that give a
 * promise, a file that code of yours reads.
 */
export type Source = string | URL | readonly (string | URL)[] | Uint8Array | ArrayBuffer | SharedFile | ByteSource;
/** What of two files to compare. */
export interface DiffOptions extends CompareOptions {
	/** The tensors whose names match a pattern (`*` and `?`); all by default. */
	filter?: string | undefined;
	/** Whether values alone count, and neither dtypes nor layouts. */
	values?: boolean | undefined;
	/** Whether attributes count, those of the file and of tensors. */
	attributes?: boolean | undefined;
}
type Pair<T> = readonly [
	a: T,
	b: T
];
interface DiffTensor {
	readonly name: string;
	readonly dtype: DType | undefined;
	readonly shape: readonly number[];
	readonly layout: Layout;
}
interface ChangedAttribute {
	readonly key: unknown;
	readonly values: Pair<unknown>;
}
/** How two tensors of one name differ. */
export interface TensorChange {
	readonly name: string;
	/** Where they differ. */
	readonly dtype: Pair<DType | undefined> | undefined;
	readonly shape: Pair<readonly number[]> | undefined;
	readonly layout: Pair<Layout> | undefined;
	/**
	 * How the values differ: by number, or where there are no numbers to compare, which components are not the same bytes. Undefined
	 * where the values are the same, or the shapes differ.
	 */
	readonly values: {
		readonly comparison: Comparison;
	} | {
		readonly components: readonly string[];
	} | undefined;
	/** The components beside the values that are not the same bytes, or not on both sides. */
	readonly components: readonly string[];
	readonly attributes: readonly ChangedAttribute[];
}
/** What differs between two files. */
export interface FileDiff {
	/** Whether nothing does. */
	readonly same: boolean;
	/** The tensors of the second file alone. */
	readonly added: readonly DiffTensor[];
	/** The tensors of the first file alone. */
	readonly removed: readonly DiffTensor[];
	/** Those that both have, and that differ, in the order of the first file. */
	readonly changed: readonly TensorChange[];
	/** How many both have and that are the same. */
	readonly unchanged: number;
	/** Attributes of the files that differ, if they count. */
	readonly attributes: readonly ChangedAttribute[];
}
/** What to show of a file. */
export interface ReportOptions extends JobOptions {
	/** The file to compare with, such as the base of a fine-tune. */
	against?: Source | TensorFile | undefined;
	/**
	 * Whether to read the values of all tensors for their statistics. By default of files on this machine: of others that would
	 * be a download of all.
	 */
	statistics?: boolean | undefined;
}
/** How to serve a report. Statistics are made as they are looked at; `statistics: true` makes all of them first. */
export interface ServeReportOptions extends ReportOptions {
	/** 0, any that is free, by default. */
	port?: number | undefined;
	/** 127.0.0.1 by default. On any other address, whoever has the URL can read the file. */
	host?: string | undefined;
}
/** A report that is being served. */
export interface ReportServer {
	/** Where it is, with the token without which nothing is answered. */
	readonly url: string;
	readonly port: number;
	/** Ends it, and closes the files that were opened for it. */
	close(): Promise<void>;
	[Symbol.asyncDispose](): Promise<void>;
}
/** How to reach a store of objects, where the environment does not say. */
export interface StoreOptions {
	/** Of S3: the region of the bucket. */
	region?: string | undefined;
	/** The URL of a store that speaks as S3, Google Cloud Storage or Azure do: MinIO, Ceph, R2, an emulator. */
	endpoint?: string | undefined;
	/** Allow an endpoint with `http:`. */
	allowHttp?: boolean | undefined;
	/** Of S3: the bucket is a part of the host's name, not of the path. */
	virtualHostedStyle?: boolean | undefined;
	/** Sign nothing, for objects that everybody may read. */
	anonymous?: boolean | undefined;
	/** Of S3. */
	accessKeyId?: string | undefined;
	secretAccessKey?: string | undefined;
	sessionToken?: string | undefined;
	/** Of Azure. */
	account?: string | undefined;
	accountKey?: string | undefined;
}
/** How files of other machines are read. */
export interface RemoteOptions {
	/** Headers of each request to the server of the URL, such as `authorization`. No other server gets them. */
	headers?: Readonly<Record<string, string>> | undefined;
	/** Requests under way at once: 16 by default. */
	concurrency?: number | undefined;
	/** Bytes that one request asks for at most: 8 MiB by default. */
	pieceBytes?: number | undefined;
	/**
	 * Milliseconds that a server may send nothing, or less than 1 KiB, before the request is made again: 30,000 by default. A store has ten
	 * times as long to take a part of an upload.
	 */
	timeout?: number | undefined;
	/** How often a request that failed for the moment is made again: 5 by default. */
	retries?: number | undefined;
	/** Bytes of a file that is read whole, from a server that sends no parts of files: 64 MiB by default. */
	maxWholeBytes?: number | undefined;
	/** Follow redirects of public web servers to addresses of private networks and of this machine. Those of stores are never followed. */
	allowPrivate?: boolean | undefined;
	/** How to reach a store of objects: of `s3:`, `gs:` and `az:` URLs. */
	store?: StoreOptions | undefined;
	/**
	 * The folder that `prefetch()` and `load()` keep a copy in. Several processes may have the same one. None by default. It must belong to this
	 * user, and no other user may be able to write to it: otherwise `prefetch()` fails with `ZT_IO`, and `load()` goes on without it.
	 */
	cache?: string | URL | undefined;
	/** Bytes of disk that all copies in the folder take together: 64 GiB by default. The ones used least recently go. */
	maxCacheBytes?: number | undefined;
}
/** Where the file of a shard is; undefined for the place where it is by convention. */
export type ShardResolver = (name: string) => string | URL | undefined | Promise<string | URL | undefined>;
/** How to open a file. The limits bound what a hostile one may make us do. */
export interface OpenOptions {
	/** The container, where its bytes are not to tell. */
	format?: Format | undefined;
	/**
	 * Where the files are that an index names: beside it by default. A function gives the path of each by its name (a
	 * promise of it only in `open`). Nothing is beside a file in memory: the function gives all of its files, and the file itself is
	 * copied. `'none'` looks for none of them: of the index of a safetensors checkpoint only the
	 * names of its tensors are known then, all with the layout `unread` and without a dtype.
	 */
	shards?: "none" | ShardResolver | undefined;
	/**
	 * Whether raw data that an index names (of ONNX, OpenVINO, TensorFlow, Paddle) may be a link out of its folder: false by default, since
	 * the bytes of any file would be taken for elements. Files that say themselves what they are (safetensors, GGUF, zTensor, PyTorch,
	 * HDF5) may always be links, as DVC, git-annex and Bazel lay them out.
	 */
	followLinks?: boolean | undefined;
	/**
	 * How the bytes come into memory. `mmap`: the file is mapped. `read`: it never is, so that `data` is always a copy
	 * and no page fault can hang on a lost connection. `direct`: it is mapped, and `load()` reads past the page cache
	 * where the system can do that. `auto`, the default: `read` on NFS, SMB, FUSE, 9p and the like, `mmap` elsewhere, and
	 * `direct` for what is loaded of a file that is larger than the memory and not in the page cache.
	 */
	io?: "auto" | "mmap" | "read" | "direct" | undefined;
	/** How files of other machines are read: of `https:`, `http:`, `hf:`, `s3:`, `gs:` and `az:` URLs. */
	remote?: RemoteOptions | undefined;
	/** Check every digest and data rule before the file is handed out. */
	verify?: boolean | undefined;
	/** Bytes of the index: 1 GiB for zTensor, 100 MB for safetensors by default. */
	maxIndexBytes?: number | undefined;
	/**
	 * Bytes that one component may decode to: 16 GiB by default. Elements that a file repeats (stride 0, `expand()` in PyTorch) come to
	 * at most 16 times the file unless this is set.
	 */
	maxDecodedBytes?: number | undefined;
	/** Dimensions of a tensor: 64 by default. */
	maxRank?: number | undefined;
	/** Attribute values in the index, nested ones included: 16,777,216 by default. */
	maxAttributeValues?: number | undefined;
	/**
	 * Called once, on the event loop, where somebody truncated the file while it was mapped and a view was read there:
	 * what was lost reads as zeros, and every further call throws the same ZT_MAPPING_LOST. Without it that error is
	 * thrown on the event loop, as an uncaught one, unless a call has thrown it before.
	 */
	onMappingLost?: ((error: ZTensorError) => void) | undefined;
}
/**
 * Opens a file on this thread: reads and checks its index. No data is read, whatever the file's size.
 *
 * @example
 * const file = openSync('model.safetensors')
 * const { data } = file.tensor('wte')
 * file.close()
 *
 * @throws ZTensorError every code but ZT_NOT_FOUND and ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG
 */
export declare function openSync(source: Source, options?: OpenOptions): TensorFile;
/**
 * Opens a file off the event loop: reads and checks its index. No data is read, whatever the file's size,
 * unless `verify` asks for it. Of a large file in memory the index is copied, in pieces between which the event loop gets its turn.
 *
 * @example
 * const file = await open('model.safetensors')
 * for (const [name, { dtype, shape }] of file) console.log(name, dtype, shape)
 * file.close()
 *
 * @throws ZTensorError every code but ZT_NOT_FOUND and ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
 */
export declare function open(source: Source, options?: OpenOptions & JobOptions): Promise<TensorFile>;
/**
 * Opens a file, checks every digest and data rule, and closes it. Resolves with what failed.
 *
 * @example
 * const { ok, failures } = await verify('model.zt')
 *
 * @throws ZTensorError every code but ZT_NOT_FOUND and ZT_CLOSED, of a file that cannot be opened or read; TypeError and RangeError
 * ZT_INVALID_ARG; the signal's reason
 */
export declare function verify(source: Source, options?: Omit<OpenOptions, "verify"> & VerifyOptions): Promise<VerifyResult>;
/** How to write a file. */
export interface CreateOptions {
	/** The container: by default the one that the path ends in (`.zt`, `.safetensors`, …), zTensor without such an ending. */
	format?: WritableFormat | undefined;
	/**
	 * The zTensor version: `'1.0'` by default; other formats have none. 1.0 is read by Python 1.0.0 and 1.0.1, 1.2 by 1.0.2 to 1.2.3, 2 by 2.x.
	 */
	version?: WritableVersion | undefined;
	/**
	 * zTensor 2: whether the same tensors give the same bytes, whatever the order in which they are added (§6.3); true by
	 * default. Such a file is aligned to 64 KiB, has xxh3 digests, is not compressed, and holds equal tensors once.
	 */
	canonical?: boolean | undefined;
	/**
	 * A digest of each component, zTensor only: by default crc32c over what is stored up to 1.2, xxh3 over the content in 2
	 * (or sha256, in a file that is not canonical).
	 */
	digest?: "crc32c" | "sha256" | "xxh3" | false | undefined;
	/**
	 * For blobs that it makes smaller by the part `minSavings` (0.05 by default); off by default. zTensor has zstd of a `level`
	 * from 1 to 22 (3 by default), npz deflate of one from 1 to 9 (6 by default); the others have none. `true` takes the
	 * defaults. The first 256 KiB of a blob decide whether it is tried; one that then saves less as a whole is stored raw after
	 * all, except where the blob is larger than 8 MiB and goes into a stream, an npz or a file that is appended to.
	 * zTensor 2 compresses in frames of `frameSize` bytes (1 MiB by default, from 4096 to 2^24), of which a slice decodes only those
	 * that it needs.
	 */
	compression?: true | {
		readonly level?: number | undefined;
		readonly minSavings?: number | undefined;
		readonly frameSize?: number | undefined;
	} | false | undefined;
	/** The file's metadata: text only in safetensors, none in BTF and zTensor 0.1. */
	attributes?: AttributeInput | undefined;
	/** What 1.0 names as its writer. */
	generator?: string | undefined;
	/**
	 * Blobs begin at multiples of this, zTensor only: a power of two from 64 to 2^24; in version 2 any multiple of 4096 up to
	 * that, 65536 by default.
	 */
	alignment?: number | undefined;
	/**
	 * zTensor 2 and safetensors: bytes that a file may have before the next tensor goes into another one; where all fits into
	 * one file, that is all there is. zTensor 2: `model.zt` then has the index, and `model-00001-of-00003.zt` and so on the
	 * data; such a model is not canonical. safetensors: `model-00001-of-00003.safetensors` and so on, of so many bytes of
	 * tensors, and `model.safetensors.index.json`, which is put there last. A tensor that is larger has a file of its own.
	 */
	maxShardBytes?: number | undefined;
	/**
	 * Replace a file that is there; otherwise that is ZT_EXISTS. Owner, group, permissions and, on Linux, access lists of the old
	 * file are kept as far as the writer may give them; other hard links to it stay what they were. Of a set of files the old one
	 * goes as a whole. Only files are replaced: a pipe or a character device is written to, as a stream is.
	 */
	overwrite?: boolean | undefined;
	/** How to reach the store that the file goes to: of `s3:`, `gs:` and `az:` URLs. */
	remote?: RemoteOptions | undefined;
	/** Gives the file up, as `abort()` does; what is called after it rejects with `signal.reason`. */
	signal?: AbortSignal | undefined;
}
/** What to convert, and into what. The file's own attributes and generator go along unless others are given. */
export interface ConvertOptions extends CreateOptions, JobOptions {
	/** How to open the source. */
	source?: OpenOptions | undefined;
	/** Which tensors to take; all by default. */
	filter?: ((tensor: AnyTensor) => boolean) | undefined;
	/** New names. BTF has none: there tensors are numbered. */
	rename?: ((name: string) => string) | undefined;
	/**
	 * Which dtypes become which, in dense tensors and in the values of sparse ones: `{ float32: 'bfloat16' }`. Floats (float64,
	 * float32, float16, bfloat16, float8_e4m3fn, float8_e5m2) among each other, whatever widens to float32 into them, integers
	 * into wider ones. Rounds to the nearest, ties to even; what is too large becomes infinite, in float8_e4m3fn NaN. Other
	 * dtypes, and the components of any other layout, stay as they are.
	 */
	cast?: {
		readonly [From in DType]?: DType | undefined;
	} | undefined;
	/**
	 * Leave out what the target cannot hold, rather than refuse the whole: tensors, for their type, layout, name or data, and the
	 * attributes of the file.
	 */
	skip?: boolean | undefined;
}
/** What was converted. */
export interface ConvertResult {
	/** Tensors written. */
	readonly tensors: number;
	/** What was left out, and why. Empty unless `skip` was given. */
	readonly skipped: readonly ZTensorError[];
	/** What a user should know about the source, as `file.warnings` has it. */
	readonly warnings: readonly Warning[];
	/** Which programs read this very file: zTensor 1.0 is read by Python as long as its attributes are text. */
	readonly readers: readonly string[];
}
declare const TASK_VERSION = 1;
type TaskKind = "convert" | "verify" | "stats";
/** The source of a job, as each task opens it. */
export interface TaskSource {
	/** The absolute path or the URL of the file, index or folder, or a list of them. */
	readonly path: string | readonly string[];
	/** What the source was when the job was planned: its lengths, its index and, if `checkModified`, its times. */
	readonly identity: string;
	/** Whether another modification time makes it another source. */
	readonly checkModified: boolean;
	readonly format?: Format;
	readonly maxIndexBytes?: number;
	readonly maxDecodedBytes?: number;
	readonly maxRank?: number;
	readonly maxAttributeValues?: number;
}
/** One part of a job. It is complete in itself: send it to any machine that reaches the source and the target. */
export interface Task {
	/** The version of this JSON. */
	readonly ztensor: typeof TASK_VERSION;
	readonly kind: TaskKind;
	/** The job's id. */
	readonly job: string;
	/** Its place in `job.tasks`, from 0 on. */
	readonly task: number;
	/** How many tasks the job has. */
	readonly count: number;
	readonly source: TaskSource;
	/** Its tensors: ranges `[from, end)` of their places in the source, in rising order. */
	readonly ordinals: readonly (readonly [
		from: number,
		end: number
	])[];
	/** About how many bytes it works on. */
	readonly byteLength: number;
	/** Over all else that the task says, its job's id included. A task that was changed is not run. */
	readonly digest: string;
}
/** Work that is divided into tasks: plain JSON, which can be stored, and sent anywhere. */
export interface Job<T extends Task = Task> {
	/** The version of this JSON. */
	readonly ztensor: typeof TASK_VERSION;
	readonly kind: T["kind"];
	/** A digest of all that the job says. */
	readonly id: string;
	readonly source: TaskSource;
	readonly tasks: readonly T[];
	/** What a user should know about the source, as `file.warnings` had it when the job was planned. */
	readonly warnings: readonly Warning[];
}
/** What a task did: plain JSON. */
export interface TaskResult {
	/** The version of this JSON. */
	readonly ztensor: typeof TASK_VERSION;
	readonly kind: TaskKind;
	readonly job: string;
	readonly task: number;
}
/** An error as JSON. */
export interface TaskError {
	readonly code: string;
	readonly message: string;
	readonly tensor?: string;
	readonly component?: string;
	readonly offset?: number;
	readonly rule?: string;
}
type ConvertTaskOptions = Pick<ConvertOptions, "format" | "version" | "canonical" | "digest" | "compression" | "alignment" | "attributes" | "cast" | "skip">;
/** One output file of a conversion. */
export interface ConvertTask extends Task {
	readonly kind: "convert";
	/** The absolute path of the whole, or its URL in a store, after which its files are named. */
	readonly target: string;
	readonly options: ConvertTaskOptions;
	/** New names of tensors, by their places in the source. */
	readonly renamed: readonly (readonly [
		ordinal: number,
		name: string
	])[];
}
/** What became of one output file. */
export interface ConvertTaskResult extends TaskResult {
	readonly kind: "convert";
	/** The name of the file, in the folder of the target. */
	readonly file: string;
	readonly byteLength: number;
	/** Of the whole file. */
	readonly digest: string;
	readonly tensors: number;
	/** What was left out, and why. */
	readonly skipped: readonly TaskError[];
}
/** How to finish a conversion. */
export interface FinishConvertOptions {
	/** Read every file again and compare its digest. */
	verify?: boolean | undefined;
	/** How to open the source, as for `runTask`. */
	source?: OpenOptions | undefined;
	/** How to reach the store that the target is in. */
	remote?: RemoteOptions | undefined;
	signal?: AbortSignal | undefined;
}
/** What was converted. */
export interface FinishConvertResult {
	/** The path to open: the root, the index, or the only file. */
	readonly path: string;
	/** The other files, in order; none where there is only one. */
	readonly files: readonly string[];
	readonly tensors: number;
	/** Bytes of all files, without the root or index. */
	readonly byteLength: number;
	/** What was left out, and why. */
	readonly skipped: readonly TaskError[];
	/** What a user should know about the source, as `file.warnings` has it. */
	readonly warnings: readonly Warning[];
	/** Which programs read the files. */
	readonly readers: readonly string[];
}
/** A source that other machines can open too. */
export type RemoteSource = string | URL | readonly (string | URL)[];
interface TaskSourceOptions {
	/**
	 * How to open the source. A job keeps the format and the limits; what it cannot or should not hold (`shards`, `remote`, whose headers
	 * may be secret) is given to `runTask` and `finish…` again.
	 */
	source?: OpenOptions | undefined;
	/**
	 * Whether a source with another modification time is another source: true by default. With false each machine may have a copy of
	 * its own, and a change that keeps every length and the whole index goes unnoticed.
	 */
	checkModified?: boolean | undefined;
}
/** What to convert, and into what, as `convert` takes it. The functions are called while the job is planned. */
export interface PlanConvertOptions extends Omit<ConvertOptions, "source" | "onProgress">, TaskSourceOptions {
	/** Bytes of an output file, and so of a task: 5 GB by default. One tensor is never divided. */
	maxShardBytes?: number | undefined;
	/** Replace the shards of an earlier job that was given up. A target that is there is ZT_EXISTS all the same. */
	overwrite?: boolean | undefined;
}
/** How work that reads a file is divided. */
export interface PlanReadingOptions extends TaskSourceOptions {
	/** Bytes of the tensors of a task: 5 GB by default. One tensor is never divided. */
	maxTaskBytes?: number | undefined;
	signal?: AbortSignal | undefined;
}
/** Some tensors to verify. */
export interface VerifyTask extends Task {
	readonly kind: "verify";
}
/** What one task of a verification found. */
export interface VerifyTaskResult extends TaskResult {
	readonly kind: "verify";
	readonly checked: number;
	readonly undigested: number;
	readonly failures: readonly TaskError[];
}
interface FinishOptions {
	signal?: AbortSignal | undefined;
}
/** What to find out, and how it is divided. */
export interface PlanStatsOptions extends PlanReadingOptions, Pick<StatsOptions, "bins" | "range"> {
}
/** Some tensors whose statistics are wanted. */
export interface StatsTask extends Task {
	readonly kind: "stats";
	readonly options: {
		readonly bins?: number;
		readonly range?: readonly [
			first: number,
			last: number
		];
	};
}
type JsonNumber = number | "NaN" | "Infinity" | "-Infinity" | "-0";
interface JsonStats {
	readonly name: string;
	/** In the order of `TensorStats`, from `count` to `std`. */
	readonly numbers: readonly JsonNumber[];
	readonly histogram?: {
		readonly edges: readonly JsonNumber[];
		readonly counts: readonly JsonNumber[];
	};
}
/** What one task found. */
export interface StatsTaskResult extends TaskResult {
	readonly kind: "stats";
	readonly stats: readonly JsonStats[];
	/** Tensors that have no statistics, and why. */
	readonly skipped: readonly TaskError[];
}
/** What was found of all tensors. */
export interface FinishStatsResult {
	/** Statistics by the names of the tensors, in the order of the source. */
	readonly stats: ReadonlyMap<string, TensorStats>;
	/** Tensors that have none: of complex numbers, or of an unknown layout. */
	readonly skipped: readonly ZTensorError[];
}
/** How to run a task. */
export interface RunTaskOptions extends JobOptions {
	/** How to open the source, beyond what the task says: `remote` with its headers, `io`, `shards`. */
	source?: OpenOptions | undefined;
	/** Of a conversion: how to reach the store that its target is in. */
	remote?: RemoteOptions | undefined;
}
/**
 * Compares the elements of two tensors of the same shape, of one file or of two, in pieces, off the event loop. Tensors of
 * different dtypes, encodings and layouts are compared by value: as float64, or exactly where both are integers; a
 * quantized tensor by its float32 values; sparse ones by their values where the pattern is the same, otherwise with all
 * their elements, up to 1 GiB. Components are compared by their elements, by their bytes where the dtype is unknown.
 * Digests of data that need not be decoded are not checked.
 *
 * @example
 * const { equal, maxAbsolute } = await compare(before.tensor('wte'), after.tensor('wte'), { rtol: 0.01 })
 *
 * @throws ZTensorError ZT_BAD_SHAPE where the shapes differ, ZT_BAD_DTYPE and ZT_BAD_LAYOUT where the numbers cannot be compared,
 * ZT_CLOSED, ZT_BAD_SPARSE, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and
 * RangeError ZT_INVALID_ARG; the signal's reason
 */
export declare function compare(a: AnyTensor | Component, b: AnyTensor | Component, options?: CompareOptions): Promise<Comparison>;
/**
 * What differs between two files, tensor by tensor, whatever their formats: names, dtypes, shapes, layouts and, as `compare` tells,
 * values. Files that are given open stay open.
 *
 * @example
 * const { same, added, removed, changed } = await diff('before.safetensors', 'after.zt', { rtol: 0.01 })
 *
 * @throws ZTensorError what `open` throws of either file; ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_BAD_SPARSE, ZT_UNSUPPORTED_ENCODING,
 * ZT_LIMIT, ZT_TRUNCATED, ZT_MAPPING_LOST and ZT_IO of data that cannot be read; ZT_CLOSED of a file that was given closed. TypeError
 * and RangeError ZT_INVALID_ARG; the signal's reason
 */
export declare function diff(a: Source | TensorFile, b: Source | TensorFile, options?: DiffOptions): Promise<FileDiff>;
/**
 * Writes the tensors of a file into a new file of any format that can be written. Raw data passes in pieces, whatever
 * its size; digests of the source are checked on the way. Into a Node Writable, formats whose index comes first
 * (safetensors, BTF) and canonical zTensor 2 cannot be written; it is ended, or destroyed where the work fails halfway. An `s3:`, `gs:`
 * or `az:` URL is an object of a store, which appears whole at the end; `remote` says how to reach it, `source.remote` is the source's.
 *
 * @example await convert('model.safetensors', 'model.zt', { cast: { float32: 'bfloat16' } })
 *
 * @throws ZTensorError what `open` throws of the source; ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_BAD_SPARSE, ZT_UNSUPPORTED_ENCODING,
 * ZT_LIMIT, ZT_TRUNCATED and ZT_MAPPING_LOST of data that cannot be read; where the target cannot hold something, ZT_BAD_DTYPE,
 * ZT_BAD_LAYOUT or ZT_BAD_SHAPE with all of it in `cause`, before anything is written; ZT_EXISTS unless `overwrite`; ZT_IO. TypeError
 * and RangeError ZT_INVALID_ARG; the signal's reason. The target is then as it was.
 */
export declare function convert(source: Source, target: string | URL | Writable, options?: ConvertOptions): Promise<ConvertResult>;
/**
 * A page that shows a tensor file, of any format: what it is, where its bytes are, what its values are like, and how it differs
 * from another. It is one HTML file that opens from a disk and makes no network requests. Files that are given open stay open.
 *
 * Resolves with the HTML. Histograms are in it up to 4,096 tensors; `serveReport` makes them for more, as they are looked at.
 *
 * @example await writeFile('report.html', await report('model.safetensors', { against: 'base.safetensors' }))
 *
 * @throws ZTensorError what `open` throws of either file; ZT_IO, ZT_MAPPING_LOST and ZT_CLOSED of values that cannot be read, and with
 * `against` what `diff` throws. A tensor whose values are damaged is shown with its error. TypeError ZT_INVALID_ARG; the signal's reason
 */
export declare function report(source: Source | TensorFile, options?: ReportOptions): Promise<string>;
/**
 * Serves the report of a tensor file on this machine: the page of `report`, with statistics and heat maps of slices made as they are
 * looked at. The URL bears a random token, and requests of other sites are refused; nothing can be changed. Files that are given open
 * stay open, and have to until `close()`.
 *
 * @example
 * await using server = await serveReport('model.safetensors')
 * console.log(server.url)
 *
 * @throws what `report` throws; RangeError ZT_INVALID_ARG of a port that is none; ZTensorError ZT_IO where nothing can listen there
 */
export declare function serveReport(source: Source | TensorFile, options?: ServeReportOptions): Promise<ReportServer>;
/**
 * Divides work on a large model into tasks: plain JSON, which any queue or scheduler can send to any machine. Nothing is written yet.
 *
 * - `'convert'`: one task for each output file. The target is zTensor 2 or safetensors, in a folder that all machines share or in a
 *   store of objects.
 * - `'verify'` and `'stats'`: tasks of about `maxTaskBytes` each.
 *
 * @example
 * const job = await planJob('convert', 'model.safetensors', '/shared/model.zt', { cast: { float32: 'bfloat16' }, maxShardBytes: 2e9 })
 * const results = await Promise.all(job.tasks.map((task) => runTask(task))) // or on other machines
 * await finishJob(job, results)
 *
 * @throws ZTensorError what `open` throws of the source; of a conversion, what `convert` throws of what the target cannot hold, as far as
 * the index tells, and ZT_EXISTS where the target is there, or one of its files unless `overwrite`. TypeError and RangeError
 * ZT_INVALID_ARG; the signal's reason
 */
export declare function planJob(kind: "convert", source: RemoteSource, target: string | URL, options?: PlanConvertOptions): Promise<Job<ConvertTask>>;
export declare function planJob(kind: "verify", source: RemoteSource, options?: PlanReadingOptions): Promise<Job<VerifyTask>>;
export declare function planJob(kind: "stats", source: RemoteSource, options?: PlanStatsOptions): Promise<Job<StatsTask>>;
/**
 * Runs one task of a job, on any machine that reaches the source and the target's folder. It can run any number of times, even at
 * once: each time it writes the same bytes, atomically. Once the job is finished it writes nothing. The task is checked field by field:
 * it writes only the file that its place in the job names, beside its target.
 *
 * @example
 * const result = await runTask(JSON.parse(message)) // plain JSON, for finishJob
 *
 * @throws ZTensorError ZT_IO of a source that is not the one that was planned, and what `convert`, `verify` and `stats` throw; TypeError
 * and RangeError ZT_INVALID_ARG, naming the field; the signal's reason
 */
export declare function runTask(task: ConvertTask, options?: RunTaskOptions): Promise<ConvertTaskResult>;
export declare function runTask(task: VerifyTask, options?: RunTaskOptions): Promise<VerifyTaskResult>;
export declare function runTask(task: StatsTask, options?: RunTaskOptions): Promise<StatsTaskResult>;
export declare function runTask(task: Task, options?: RunTaskOptions): Promise<TaskResult>;
/**
 * Finishes a job: checks that every task has a result, and puts the results together.
 *
 * - Of a conversion, checks that the file of each task is there, and writes the root (zTensor 2) or the index (safetensors) last. Before
 *   that nobody sees a model, only its shards. Finishing again gives the same. No data is read, unless `verify` asks for it.
 * - Of a verification, gives what `verify` gives.
 * - Of statistics, gives them by the names of the tensors.
 *
 * @example
 * const { path, tensors } = await finishJob(job, results)
 *
 * @throws TypeError and RangeError ZT_INVALID_ARG of a job that was changed, of results that are missing (all are named), of another job, or
 * contradict each other. Of a conversion also ZTensorError ZT_IO of a source that changed, or a file that is not there or has another
 * length, ZT_DIGEST_MISMATCH with `verify`, ZT_NOT_FOUND and ZT_BAD_INDEX of a file with other tensors, ZT_EXISTS where the target is
 * another file. The signal's reason
 */
export declare function finishJob(job: Job<ConvertTask>, results: readonly TaskResult[], options?: FinishConvertOptions): Promise<FinishConvertResult>;
export declare function finishJob(job: Job<VerifyTask>, results: readonly TaskResult[], options?: FinishOptions): Promise<VerifyResult>;
export declare function finishJob(job: Job<StatsTask>, results: readonly TaskResult[], options?: FinishOptions): Promise<FinishStatsResult>;
/** How to open a file, and which tensors of it to load. */
export interface LoadWholeOptions extends OpenOptions, JobOptions {
	/** The tensors to load; all of them by default. */
	names?: Iterable<string> | undefined;
	/** Whether each array can be moved to another thread, as for `Tensor.load`: it then has a buffer of its own. */
	transferable?: boolean | undefined;
}
/**
 * Loads the tensors of a file as copies that you own, digests checked, and closes it. `saveFile` takes what it gives.
 *
 * @example
 * const tensors = await loadFile('model.safetensors')
 * const bias = tensors.get('bias')
 * if (bias?.layout === 'dense') console.log(bias.dtype, bias.shape, bias.data)
 *
 * @throws ZTensorError what `open` throws; ZT_NOT_FOUND where a name is of no tensor; ZT_DIGEST_MISMATCH, ZT_DECODE,
 * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_TRUNCATED and ZT_IO of data that cannot be read. TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
 */
export declare function loadFile(source: Source, options?: LoadWholeOptions): Promise<Map<string, Loaded>>;
/** What tells whether a whole name matches `pattern`. Goes back to the last `*` alone, so time is at most |name| × |pattern|. */
export declare function globMatcher(pattern: string): (name: string) => boolean;
/** Elements with their type and shape. A dense `Tensor`, a `TensorSlice` and what `file.load()` gives are such, too. */
export interface TensorInput {
	/** That of the array by default; bytes need it. */
	readonly dtype?: DType | undefined;
	/** One dimension by default. */
	readonly shape?: readonly number[] | undefined;
	/**
	 * The elements: the array of the dtype (float16 and bfloat16 by their bits), or its bytes as a Uint8Array. For float16,
	 * bfloat16, float8_e4m3fn and float8_e5m2 also numbers, in a Float32Array, Float64Array or Float16Array: they are rounded to
	 * the nearest, ties to even.
	 */
	readonly data: ArrayBufferView;
}
/** A matrix by rows, as `CsrTensor` has it. */
export interface CsrInput {
	readonly shape: readonly [
		rows: number,
		columns: number
	];
	readonly dtype?: DType | undefined;
	readonly values: TypedArray;
	readonly indices: IndexArray;
	readonly indptr: IndexArray;
}
/** A tensor by coordinates, as `CooTensor` has it: `coords` is dimension-major. */
export interface CooInput {
	readonly shape: readonly number[];
	readonly dtype?: DType | undefined;
	readonly values: TypedArray;
	readonly coords: IndexArray;
}
/** A tensor of any layout, by its components. */
export interface ObjectInput {
	readonly layout: string;
	readonly shape: readonly number[];
	/** 1.0 asks for one; uint8 where there is none. */
	readonly dtype?: DType | undefined;
	readonly attributes?: AttributeInput | undefined;
	readonly components: Readonly<Record<string, {
		readonly dtype?: DType | undefined;
		readonly data: ArrayBufferView;
	}>>;
}
/** What goes with a tensor. */
export interface AddOptions {
	readonly attributes?: AttributeInput | undefined;
}
interface AddDenseOptions extends AddOptions {
	/** For an array that is given alone. */
	readonly shape?: readonly number[] | undefined;
}
interface LinkInput {
	/** An open zTensor 2 file, which must stay open until the link is made. */
	readonly file: TensorFile;
	/** The tensor's name there; the new name by default. */
	readonly tensor?: string | undefined;
	/**
	 * What the new file calls the other one: by default `x` where that is `model-x.zt` beside a new `model.zt`, so that it is
	 * found by its name, and else its name without the ending; readers then look for it by size and digest.
	 */
	readonly shard?: string | undefined;
}
/** A file being written. Nothing is at its path before `finish()`; calls may overlap and are done in their order. */
export declare class TensorWriter {
	#private;
	/** Undefined for a file that is written into a stream. */
	readonly path: string | undefined;
	protected constructor(internals: unknown);
	/**
	 * Adds a dense tensor: a typed array, or `{ dtype, shape, data }`. The array is read when the call has its turn: do not
	 * change it before the promise resolves. An error that nobody waits for fails `finish()`.
	 *
	 * @example
	 * await writer.add('bias', new Float32Array(64))
	 * await writer.add('weight', floats, { shape: [256, 64] })
	 * await writer.add('half', { dtype: 'bfloat16', shape: [256, 64], data: floats }) // rounds to the nearest
	 *
	 * @throws ZTensorError ZT_BAD_SHAPE where the array does not fill the shape, ZT_BAD_DTYPE for a type that the format cannot
	 * hold, ZT_BAD_INDEX where the name is taken, ZT_LIMIT, ZT_IO, ZT_CLOSED after an error in the middle of a tensor (its
	 * `cause`) or the end of the writer; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
	 */
	add(name: string, tensor: TypedArray | TensorInput, options?: AddDenseOptions): Promise<void>;
	/**
	 * Adds a sparse matrix by rows, after checking that it is one. Version 2 asks for rows whose columns rise: they are
	 * sorted, and a column that stands twice in a row is refused.
	 *
	 * @throws ZTensorError ZT_BAD_SPARSE where the arrays break the layout's rules, ZT_BAD_SHAPE where the arrays do not fit the shape, ZT_BAD_DTYPE and ZT_BAD_LAYOUT for what the format
	 * cannot hold, ZT_BAD_INDEX where the name is taken, ZT_LIMIT, ZT_IO, ZT_CLOSED after an error in the middle of a tensor (its
	 * `cause`) or the end of the writer; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
	 */
	addCsr(name: string, matrix: CsrInput, options?: AddOptions): Promise<void>;
	/**
	 * Adds a sparse tensor by coordinates, after checking that it is one. Version 2 refuses a cell that stands twice.
	 *
	 * @throws ZTensorError ZT_BAD_SPARSE where the arrays break the layout's rules, ZT_BAD_SHAPE where the arrays do not fit the shape, ZT_BAD_DTYPE and ZT_BAD_LAYOUT for what the format
	 * cannot hold, ZT_BAD_INDEX where the name is taken, ZT_LIMIT, ZT_IO, ZT_CLOSED after an error in the middle of a tensor (its
	 * `cause`) or the end of the writer; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
	 */
	addCoo(name: string, tensor: CooInput, options?: AddOptions): Promise<void>;
	/**
	 * Adds a tensor of any layout by its components. Those of `dense`, `sparse_csr` and `sparse_coo` are checked
	 * against the layout's rules on sizes.
	 *
	 * @throws ZTensorError ZT_BAD_SHAPE where the arrays do not fit the shape, ZT_BAD_DTYPE and ZT_BAD_LAYOUT for what the format
	 * cannot hold, ZT_BAD_INDEX where the name is taken, ZT_LIMIT, ZT_IO, ZT_CLOSED after an error in the middle of a tensor (its
	 * `cause`) or the end of the writer; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
	 */
	addObject(name: string, object: ObjectInput): Promise<void>;
	/**
	 * Adds a tensor whose bytes stay in another zTensor 2 file: zTensor 2 only, with `canonical: false`. The other file is
	 * read once, for the digest by which readers know it.
	 *
	 * @example
	 * const base = await open('base.zt')
	 * await writer.link('embedding', { file: base, tensor: 'model.embed_tokens.weight' })
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_BAD_INDEX (the name is there), ZT_UNSUPPORTED_ENCODING, ZT_IO; TypeError
	 * ZT_INVALID_ARG
	 */
	link(name: string, tensor: LinkInput): Promise<void>;
	/**
	 * A stream into a dense tensor: bytes as they come, as many as the shape asks for by its end. Other calls wait
	 * until it has ended. Its errors, and the death of a source that is piped into it, fail `finish()`, and never the process.
	 *
	 * @example
	 * await pipeline(createReadStream('weights.raw'), writer.stream('weights', { dtype: 'float32', shape: [4096, 4096] }))
	 *
	 * @throws TypeError and RangeError ZT_INVALID_ARG. The stream is destroyed with ZT_BAD_SHAPE where the bytes are not as many as the
	 * shape takes, ZT_BAD_DTYPE, ZT_BAD_INDEX where the name is taken, ZT_LIMIT, ZT_IO, ZT_CLOSED, or the signal's reason
	 */
	stream(name: string, tensor: {
		readonly dtype: DType;
		readonly shape: readonly number[];
	}, options?: AddOptions): Writable;
	/**
	 * Writes the index, puts file and folder on the disk, and moves the file to its path: from then on it is there
	 * whole. A stream is ended, and has taken everything when this resolves. An error means that the path leads to what it led to
	 * before; what goes wrong once the file is there is a warning of the process (`ZTensorWarning`).
	 *
	 * @throws ZTensorError ZT_EXISTS where somebody took the path meanwhile, ZT_IO, ZT_CLOSED
	 */
	finish(): Promise<void>;
	/** Gives the file up: nothing is left behind, and what was at the path stays. A stream is destroyed, at once. */
	abort(): Promise<void>;
	[Symbol.asyncDispose](): Promise<void>;
	get [Symbol.toStringTag](): string;
	toJSON(): object;
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/**
 * Begins a file: written beside its path, it appears there with `finish()`. Or into a Node Writable, a pipe or a character device,
 * which get the same bytes as they come; formats whose index comes first (safetensors, BTF) cannot be written so. A pipe that nobody
 * reads is waited for. Or into a store of objects, by an `s3:`, `gs:` or `az:` URL: the object appears with `finish()`.
 *
 * @example
 * const writer = await create('model.zt')
 * await writer.add('weight', new Float32Array(6), { shape: [2, 3] })
 * await writer.finish() // the file appears only now
 *
 * @throws ZTensorError ZT_EXISTS unless `overwrite`, ZT_IO; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
 */
export declare function create(target: string | URL | Writable, options?: CreateOptions): Promise<TensorWriter>;
interface IndexLimits {
	/** Bytes of the index: 1 GiB by default. */
	maxIndexBytes?: number | undefined;
	/** Dimensions of a tensor: 64 by default. */
	maxRank?: number | undefined;
	/** Attribute values in the index, nested ones included: 16,777,216 by default. */
	maxAttributeValues?: number | undefined;
}
/**
 * How to add to a file. Digest, compression and alignment are those of the new tensors, as for a new file of its version
 * (the alignment in version 2: a power of two from 4096); `frameSize` is for version 2 alone.
 */
export interface AppendOptions extends Pick<CreateOptions, "digest" | "compression" | "alignment">, IndexLimits {
	/**
	 * Write to the file itself. That costs only what is added, and any error or `abort()` restores the old file; but where
	 * the process is killed in the middle, or the machine stops, the file has no valid end and cannot be opened. By default a
	 * clone of the file is written and put in its place, so that at any time the whole old or the whole new one is there. The clone
	 * keeps owner and permissions; further hard links lead to the old file then, while `inPlace` changes them all.
	 */
	inPlace?: boolean | undefined;
	/** Gives the edit up, as `abort()` does; what is called after it rejects with `signal.reason`. */
	signal?: AbortSignal | undefined;
}
/**
 * A file being edited. New tensors are added as to a new file; those that are there can be renamed, removed, and their
 * attributes changed. Nothing of it can be seen at the path before `finish()`.
 */
export declare class TensorEditor extends TensorWriter {
	readonly path: string;
	get [Symbol.toStringTag](): string;
	/**
	 * Gives a tensor another name. It keeps its place in the index.
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_BAD_INDEX (the new name is taken), ZT_CLOSED; TypeError and RangeError
	 * ZT_INVALID_ARG, also for tensors that this edit added
	 */
	rename(name: string, to: string): Promise<void>;
	/**
	 * Takes a tensor out of the index; its name is free again. Its bytes stay in the file until `compact()`.
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; RangeError ZT_INVALID_ARG for tensors that this edit added
	 */
	remove(name: string): Promise<void>;
	/**
	 * Sets attributes of the file, and takes out those that are undefined. The others stay as they are.
	 *
	 * @example await editor.setAttributes({ license: 'apache-2.0', draft: undefined })
	 *
	 * @throws ZTensorError ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG for a value that the format cannot hold
	 */
	setAttributes(attributes: AttributeChanges): Promise<void>;
	/**
	 * The same for a tensor of the file.
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; RangeError ZT_INVALID_ARG for tensors that this edit added
	 */
	setTensorAttributes(name: string, attributes: AttributeChanges): Promise<void>;
}
/**
 * Begins to add to a zTensor file of version 1.0 to 1.2 or 2 and to change it. The file keeps its version, and whatever in
 * its index is not known here. In version 2 it gets another generation (§2.5): old bytes stay, old indexes too, so that it is not
 * canonical until `compact()`; components in shards or linked files stay there, and what is added goes into the root. Other writers of
 * the same file are refused meanwhile.
 *
 * @example
 * const editor = await append('model.zt')
 * await editor.add('lora.a', new Float32Array(64))
 * await editor.remove('unused')
 * await editor.finish()
 *
 * @throws ZTensorError ZT_BAD_MAGIC, ZT_TRUNCATED, ZT_BAD_INDEX and the other codes of a file that breaks its format;
 * ZT_UNSUPPORTED_VERSION for a file that must be converted first; ZT_IO, also where
 * another edit is under way, and from `finish()` where somebody else changed the file; TypeError and RangeError
 * ZT_INVALID_ARG
 */
export declare function append(path: string | URL, options?: AppendOptions): Promise<TensorEditor>;
/** What compacting a file came to. */
export interface CompactResult {
	/** Bytes of the file now. */
	readonly byteLength: number;
	/** Bytes that it is shorter than before. */
	readonly reclaimed: number;
}
/**
 * Writes a zTensor file of version 1.0 to 1.2 or 2 anew without the bytes of removed tensors and old indexes, and puts it in
 * the old one's place. A file that would not become shorter stays as it is. One of version 2 that is raw, in one file, at
 * 64 KiB and with xxh3 digests becomes canonical (§6.3); any other keeps the order of its blobs. Shards are not touched.
 *
 * @example const { byteLength, reclaimed } = await compact('model.zt')
 *
 * @throws ZTensorError ZT_BAD_MAGIC, ZT_TRUNCATED, ZT_BAD_INDEX and the other codes of a file that breaks its format; ZT_IO, also
 * where another edit is under way; TypeError and RangeError ZT_INVALID_ARG; ZT_UNSUPPORTED_VERSION where the index has keys that are not known here, since they
 * might name places in the file; the signal's reason
 */
export declare function compact(path: string | URL, options?: JobOptions & IndexLimits): Promise<CompactResult>;
/**
 * What is written under a name: an array, elements with their dtype and shape (a `TensorSlice` is such), a sparse tensor, components of
 * any layout, a tensor of an open file, or what `file.load()` and `loadFile()` give.
 */
export type AnyInput = TypedArray | TensorInput | CsrInput | CooInput | ObjectInput | AnyTensor | Loaded;
/** Tensors by their names: an object, a Map, or whatever gives such pairs. */
export type Tensors = Readonly<Record<string, AnyInput>> | Iterable<readonly [
	name: string,
	tensor: AnyInput
]>;
/**
 * Writes tensors into a file in one call. It appears whole or not at all.
 *
 * @example
 * await saveFile('model.safetensors', { bias: new Float32Array(64), weight: { shape: [64, 2], data } })
 *
 * @throws ZTensorError ZT_EXISTS unless `overwrite`, ZT_BAD_SHAPE, ZT_BAD_DTYPE, ZT_BAD_LAYOUT, ZT_BAD_SPARSE, ZT_BAD_INDEX for what the
 * format cannot hold, ZT_LIMIT, ZT_IO, and where a tensor comes from a file, what its `load` rejects with; TypeError and RangeError
 * ZT_INVALID_ARG; the signal's reason
 */
export declare function saveFile(path: string | URL, tensors: Tensors, options?: CreateOptions): Promise<void>;

export {};
