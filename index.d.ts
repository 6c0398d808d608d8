// The public types of ztensor, rolled up from index.ts by `npm run types`. Not edited by hand.

/// <reference types="node" />

import { Readable, Writable } from 'node:stream';
import { InspectOptions, inspect } from 'node:util';

/** The error codes. The guide on errors (docs/guide/errors.md) explains each of them. */
export type ErrorCode = "ZT_TRUNCATED" | "ZT_BAD_MAGIC" | "ZT_BAD_INDEX" | "ZT_INCOMPLETE" | "ZT_OUT_OF_BOUNDS" | "ZT_BAD_SHAPE" | "ZT_BAD_DTYPE" | "ZT_BAD_LAYOUT" | "ZT_BAD_SPARSE" | "ZT_BAD_DIGEST" | "ZT_DIGEST_MISMATCH" | "ZT_DECODE" | "ZT_UNSUPPORTED_VERSION" | "ZT_UNSUPPORTED_ENCODING" | "ZT_LIMIT" | "ZT_NOT_FOUND" | "ZT_EXISTS" | "ZT_CLOSED" | "ZT_MAPPING_LOST" | "ZT_NOT_LOCAL" | "ZT_IO" | "ZT_NOT_CANONICAL" | "ZT_INVALID_ARG" | "ZT_INTERNAL";
interface OptionHint {
	/** The option, as in `error.option`. */
	readonly option: string;
	/** The part of the message, as it stands there. The rest of the message makes sense without it. */
	readonly text: string;
}
interface ErrorDetails {
	tensor?: string | undefined;
	component?: string | undefined;
	offset?: number | undefined;
	rule?: string | undefined;
	/** The first of `hints` by default. */
	option?: string | undefined;
	/** The parts of the message that name options. */
	hints?: readonly OptionHint[] | undefined;
	/** Node's error for a failed system call, or the list of errors if several are thrown as one. */
	cause?: unknown;
}
/**
 * An error of this package, with a stable code, the location in the file, and the violated rule of the format's specification.
 *
 * Invalid arguments throw a `TypeError` or `RangeError` with the `code` `ZT_INVALID_ARG` instead. It has `option` and `hints` too, if it
 * names an option or an argument.
 */
export declare class ZTensorError extends Error {
	/** Stable: match on this, not on the message. */
	readonly code: ErrorCode;
	/** The name of the tensor, if the error concerns one. */
	readonly tensor?: string;
	/** The role of the component, if the error concerns one. */
	readonly component?: string;
	/** The byte offset in the file. */
	readonly offset?: number;
	/** The section of the specification that the file violates. */
	readonly rule?: string;
	/**
	 * The option that changes the outcome, if there is one: `'overwrite'` if the file exists. A dot separates an option from the object that
	 * contains it: `'remote.timeout'`.
	 */
	readonly option?: string;
	/**
	 * The parts of `message` that name options: ` (option overwrite)`. A program whose users do not write JavaScript can replace them by its
	 * own words. Not enumerable.
	 */
	readonly hints?: readonly OptionHint[];
	constructor(code: ErrorCode, message: string, details?: ErrorDetails);
}
/** The progress of a long-running call. */
export interface Progress {
	/** Bytes processed so far. */
	readonly bytes: number;
	/** Bytes to process. */
	readonly totalBytes: number;
	/** Tensors processed so far. */
	readonly tensors: number;
	/** Tensors to process. */
	readonly totalTensors: number;
	/** Bytes per second since the call began; undefined before the first bytes. */
	readonly bytesPerSecond: number | undefined;
	/**
	 * Estimate of the remaining milliseconds at this rate; 0 at the end. Undefined during the first 2 seconds and the first 2 % of the
	 * bytes, which may come from a cache or wait for a server.
	 */
	readonly remainingMs: number | undefined;
}
/** The options of every long-running call. */
export interface JobOptions {
	/** Called about every 100 ms while the work runs, and once at its end. */
	onProgress?: ((progress: Progress) => void) | undefined;
	/** Cancels the work: the call rejects with `signal.reason`. */
	signal?: AbortSignal | undefined;
}
/** A value of a file's metadata or a tensor's attributes. Integers beyond 2^53 - 1 are bigints. */
export type AttributeValue = string | number | bigint | boolean | null | Uint8Array | readonly AttributeValue[] | AttributeObject | Map<AttributeValue, AttributeValue>;
interface AttributeObject {
	readonly [key: string]: AttributeValue;
}
/** Attributes of a tensor: an object without a prototype, or a Map if any key is not a string. Distinguish them with `instanceof Map`. */
export type Attributes = AttributeObject | Map<AttributeValue, AttributeValue>;
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
/** The typed array of a dtype; `never` for an undefined dtype. */
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
/** The typed array of a dtype over an ArrayBuffer; `never` for an undefined dtype. */
export type OwnArrayOf<D extends DType | undefined> = D extends DType ? OwnArrays[D] : never;
/** The type of a tensor's elements, named as NumPy and ml_dtypes name them. */
export type DType = keyof DTypeArrays;
/** A typed array of any dtype. */
export type TypedArray = DTypeArrays[DType];
type IndexArray = BigInt64Array | BigUint64Array | Int32Array | Uint32Array | Int16Array | Uint16Array | Int8Array | Uint8Array;
/**
 * Selects tensors: a glob (`*` matches any characters, `?` a single character), a list of globs, or a function. A glob that begins with
 * `!` excludes what it matches; a list of only such globs selects everything else.
 */
export type Filter<T> = string | readonly string[] | ((tensor: T) => boolean);
/** The containers that files come in. */
export type Format = "zt" | "safetensors" | "btf" | "gguf" | "npy" | "npz" | "onnx" | "pytorch" | "hdf5" | "keras" | "tensorflow" | "flax" | "paddle" | "arrow" | "tflite" | "openvino";
type WritableFormat = "zt" | "safetensors" | "btf" | "gguf" | "npy" | "npz";
type WritableVersion = "0.1" | "1.0" | "1.2" | "2";
/** The mixtures of types that tensors of a model are quantized to, as in `llama-quantize`. */
export type Mixture = "f32" | "f16" | "q4_0" | "q4_1" | "q8_0" | "q5_0" | "q5_1" | "q2_k" | "q3_k_s" | "q3_k_m" | "q3_k_l" | "q4_k_s" | "q4_k_m" | "q5_k_s" | "q5_k_m" | "q6_k" | "iq2_xxs" | "iq2_xs" | "q2_k_s" | "iq3_xs" | "iq3_xxs" | "iq1_s" | "iq4_nl" | "iq3_s" | "iq3_m" | "iq2_s" | "iq2_m" | "iq4_xs" | "iq1_m" | "bf16" | "tq1_0" | "tq2_0" | "mxfp4_moe";
/** The block types that tensors are quantized to. */
export type BlockType = "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q8_0" | "q2_k" | "q3_k" | "q4_k" | "q5_k" | "q6_k" | "q8_k" | "iq4_nl" | "iq4_xs" | "iq2_xxs" | "iq2_xs" | "iq2_s" | "iq3_xxs" | "iq3_s" | "iq1_s" | "iq1_m" | "tq1_0" | "tq2_0" | "mxfp4" | "nvfp4";
/** A problem of a file that does not prevent reading it. */
export interface Warning {
	/** The stable code: `ZT_WARN_UNALIGNED`, `ZT_WARN_NEWER_VERSION`, `ZT_WARN_UNKNOWN_LAYOUT`, … */
	readonly code: string;
	readonly message: string;
	readonly tensor?: string;
	readonly component?: string;
	/** The path of the file, if several files were opened as one. */
	readonly path?: string;
}
interface Message {
	/** The path or URL, without query and credentials. Undefined for a list of files, memory and a ByteSource. */
	readonly source: string | undefined;
	/** The format; undefined if the file could not be opened. */
	readonly format: string | undefined;
	/** Duration of the call. */
	readonly milliseconds: number;
}
/** The message of `ztensor:open`: a file was opened, or could not be opened. */
export interface OpenMessage extends Message {
	/** Size of the file, or of all files together; 0 if it could not be opened. */
	readonly bytes: number;
	/** Number of tensors; 0 if it could not be opened. */
	readonly tensors: number;
	/** The error that the call threw. */
	readonly error: unknown;
}
/** The message of `ztensor:read`: a call that reads tensors has ended. */
export interface ReadMessage extends Message {
	/** The call. `stream` is `createReadStream`, from its creation until it closes. */
	readonly call: "load" | "take" | "stream" | "prefetch" | "verify" | "nearest" | "stats" | "compare";
	/** Bytes of the result for `load`, `take` and `stream`; otherwise stored bytes of the tensors, of `compare` those of the first one. 0 if the call failed. */
	readonly bytes: number;
	/** The error that the call threw. */
	readonly error: unknown;
}
/** The message of `ztensor:remote`: a call on a remote file has ended. */
export interface RemoteMessage extends Message {
	readonly call: "open" | ReadMessage["call"];
	/** Bytes as in `ztensor:read`; 0 for `open`. */
	readonly bytes: number;
	/** Whether all data was in the cache when the call began. False for `open`. */
	readonly cached: boolean;
	/** The error that the call threw. */
	readonly error: unknown;
}
/** The message of `ztensor:close`: a file was closed. */
export interface CloseMessage extends Message {
	/** Size of the file, or of all files together. */
	readonly bytes: number;
	/** Number of calls that were stopped. 0 after a drain. */
	readonly stopped: number;
}
type CopyReason = 
/** It is stored compressed. */
"encoded"
/** Its offset is not a multiple of its element size. */
 | "misaligned"
/** The runtime does not allow external ArrayBuffers (Electron), or not of this size. */
 | "runtime"
/** The system refused to map the file. */
 | "map-failed"
/** The file is read, not mapped: because of `open(…, { io: 'read' })`, or because it is on a network file system. */
 | "io"
/** It is stored in the other byte order. */
 | "byte-order"
/** It is stored in another element order, such as column-major. */
 | "reordered"
/** It is stored in the index. */
 | "inline"
/** It is a slice that is not contiguous in memory. */
 | "packed"
/** The file is remote: `load()` fetches the data, and `prefetch()` stores it in the cache, if `open` was given one. */
 | "remote";
/** One of the files that hold the tensors. */
export interface FilePart {
	/** The path; undefined for a file in memory, and with `shards: 'none'`. */
	readonly path: string | undefined;
	/** Its name in the shard table of a zTensor 2 file. */
	readonly name?: string;
	readonly byteLength: number;
}
type Entries<T> = ReturnType<ReadonlyMap<T, unknown>["keys"]>;
interface ToDenseOptions {
	/** Maximum size in bytes of the dense elements, or of the row pointers: 1 GiB by default. */
	maxBytes?: number | undefined;
}
/**
 * A matrix in compressed sparse row form, as in SciPy: row `r` has the values `values[indptr[r]:indptr[r + 1]]` in the columns
 * `indices[indptr[r]:indptr[r + 1]]`.
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
	/** Number of stored values. */
	readonly nnz: number;
	private constructor();
	/** Tells the classes of loaded tensors apart, also for TypeScript. */
	get kind(): "csr";
	get layout(): "sparse_csr";
	get [Symbol.toStringTag](): string;
	/** A summary without data. */
	toJSON(): object;
	/** A summary without data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
	/**
	 * Returns all elements in row-major order. Values with the same coordinates are summed.
	 *
	 * @throws ZTensorError ZT_LIMIT beyond `maxBytes`, ZT_BAD_SPARSE if the arrays were modified and are no longer valid
	 */
	toDense(options?: ToDenseOptions): DTypeArrays[D];
	/**
	 * Returns a matrix with the values widened to float32. It shares the index arrays.
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex types
	 */
	toFloat32(): CsrTensor<"float32">;
	/** Converts to COO. The result shares the values. */
	toCoo(): CooTensor<D>;
}
/**
 * A sparse tensor in coordinate form. `coords` is a `[ndim, nnz]` matrix in row-major order: `nnz` indices into dimension 0, then
 * `nnz` indices into dimension 1, and so on.
 */
export declare class CooTensor<D extends DType = DType> {
	#private;
	readonly shape: readonly number[];
	readonly dtype: D;
	readonly values: DTypeArrays[D];
	readonly coords: IndexArray;
	/** Number of stored values. */
	readonly nnz: number;
	private constructor();
	/** Tells the classes of loaded tensors apart, also for TypeScript. */
	get kind(): "coo";
	get layout(): "sparse_coo";
	get [Symbol.toStringTag](): string;
	/** A summary without data. */
	toJSON(): object;
	/** A summary without data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
	/**
	 * Returns all elements in row-major order. Values with the same coordinates are summed.
	 *
	 * @throws ZTensorError ZT_LIMIT beyond `maxBytes`, ZT_BAD_SPARSE if the arrays were modified and are no longer valid
	 */
	toDense(options?: ToDenseOptions): DTypeArrays[D];
	/**
	 * Converts to CSR, sorted by row and column. Duplicate coordinates are not summed.
	 *
	 * @throws ZTensorError ZT_BAD_LAYOUT unless the tensor has 2 dimensions, ZT_LIMIT beyond `maxBytes`
	 */
	toCsr(options?: ToDenseOptions): CsrTensor<D>;
	/**
	 * Returns a tensor with the values widened to float32. It shares the coordinates.
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex types
	 */
	toFloat32(): CooTensor<"float32">;
}
interface WidenOptions {
	/** A Float32Array to fill, with one float for each element. */
	into?: Float32Array | undefined;
}
/**
 * Widens elements to float32: exactly for 8- and 16-bit types and bool, rounded to nearest (ties to even) for wider integers and
 * float64. Use it for the values of a sparse tensor or a component; dense tensors and slices have a `toFloat32()` method.
 *
 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_LIMIT; TypeError and RangeError ZT_INVALID_ARG
 */
export declare function toFloat32<D extends DType>(values: DTypeArrays[D], dtype: D, options?: WidenOptions): Float32Array;
/** The elements of a loaded dense tensor, whose digest was checked. */
export declare class LoadedTensor<D extends DType = DType> {
	readonly dtype: D;
	/** The shape of `data`: with a plan, of the rank's part. */
	readonly shape: readonly number[];
	readonly data: OwnArrays[D];
	private constructor();
	/** Tells the classes of loaded tensors apart, also for TypeScript. */
	get kind(): "dense";
	get layout(): "dense";
	/**
	 * Returns the elements widened to float32, as `Tensor.toFloat32()` does.
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_LIMIT; TypeError and RangeError ZT_INVALID_ARG
	 */
	toFloat32(options?: WidenOptions): Float32Array;
	get [Symbol.toStringTag](): string;
	/** A summary without data. */
	toJSON(): object;
	/** A summary without data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/** A loaded dense tensor of any dtype. Checking `dtype` narrows the type of `data`. */
export type AnyLoadedTensor = {
	[D in DType]: LoadedTensor<D>;
}[DType];
interface LoadedComponent {
	readonly dtype: DType | undefined;
	readonly data: TypedArray;
}
/** The components of a loaded tensor that is neither dense nor sparse, or whose dtype is unknown. */
export declare class LoadedObject {
	/** The layout's name in the file. */
	readonly layout: string & {};
	readonly dtype: DType | undefined;
	readonly shape: readonly number[];
	/** The components by role, in an object without a prototype. */
	readonly components: Readonly<Record<string, LoadedComponent>>;
	/** Tells the classes of loaded tensors apart, also for TypeScript. */
	get kind(): "object";
	get [Symbol.toStringTag](): string;
	/** A summary without data. */
	toJSON(): object;
	/** A summary without data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/** A loaded tensor of any layout: dense, sparse, or the components of another layout. */
export type Loaded = AnyLoadedTensor | CsrTensor | CooTensor | LoadedObject;
type IntegerDType = "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64";
/** The types of `as`. */
export type LoadDType = "float32" | IntegerDType;
/**
 * How a tensor is divided among the ranks. `'column'` divides the second-to-last dimension: the outputs of a weight of shape
 * `[out, in]`, or the only dimension of a vector such as its bias. `'row'` divides the last dimension, the inputs; vectors are
 * replicated. `{ dim }` divides that dimension. `'replicate'` gives every rank the whole tensor.
 */
export type Placement = "column" | "row" | "replicate" | {
	readonly dim: number;
};
interface PlanOptions {
	/** From 0 to `worldSize - 1`. */
	readonly rank: number;
	readonly worldSize: number;
	/**
	 * Placements by name pattern: `*` matches any characters, `?` a single character. The first match applies. Every tensor must match
	 * a pattern; a final `'*'` matches the rest, if there is any. Any other pattern that is used for no tensor is an error.
	 */
	readonly rules: Readonly<Record<string, Placement>> | readonly (readonly [
		pattern: string,
		placement: Placement
	])[];
}
interface PlannedTensor {
	readonly name: string;
	/** The divided dimension; undefined for a replicated tensor. */
	readonly dim: number | undefined;
	/** `[start, stop]` of each dimension. */
	readonly ranges: readonly (readonly [
		start: number,
		stop: number
	])[];
	/** The shape of the rank's part. */
	readonly shape: readonly number[];
	/** Decoded size of the rank's part in bytes. */
	readonly byteLength: number;
}
interface ByteRange {
	/** Index of the file in `file.files`. */
	readonly file: number;
	/** The path of the file; undefined for a file in memory. */
	readonly path: string | undefined;
	readonly offset: number;
	readonly length: number;
}
/** The parts of a file that one rank of a tensor-parallel group needs. */
export declare class Plan {
	#private;
	readonly rank: number;
	readonly worldSize: number;
	/** The rank's part of every tensor, in the order of the file. */
	readonly tensors: ReadonlyMap<string, PlannedTensor>;
	/** Total length of all ranges: the bytes to read. */
	readonly byteLength: number;
	/** Number of ranges. */
	readonly rangeCount: number;
	private constructor();
	/**
	 * Yields the byte ranges that the rank needs, sorted by file and offset. Adjacent ranges are merged. An encoded tensor is always
	 * read as a whole.
	 */
	ranges(): Generator<ByteRange>;
	get [Symbol.toStringTag](): string;
	toJSON(): object;
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/**
 * An open file that can be posted to another thread with `postMessage`, and passed to `open` or `openSync` there. In a thread of the
 * same process they share its index and mapping, without I/O. In another process, or after all threads have closed the file, they
 * open the path and check that the file has not changed.
 */
export interface SharedFile {
	readonly kind: "ztensor.SharedFile";
	/** The path, or a list of paths. */
	readonly path: string | readonly string[];
	readonly ticket: {
		readonly process: string;
		readonly number: number;
		readonly identity: string;
	};
	/** The options that it was opened with. */
	readonly request: object;
	/** The bytes of each file of `file.files`, if requested and supported by the runtime. */
	readonly memory?: readonly SharedArrayBuffer[];
}
interface ShareOptions {
	/** Also return `memory`: SharedArrayBuffers over the mapping, which threads can use without this package. */
	readonly memory?: boolean | undefined;
}
/** What the metadata says of a model. A property is undefined where the metadata does not say it. Texts may be cut after 4,096 characters. */
export interface ModelSummary {
	readonly name?: string | undefined;
	/** The architecture, such as `'llama'`. */
	readonly architecture?: string | undefined;
	/** Maximum number of tokens of a sequence. */
	readonly contextLength?: number | undefined;
	/** Number of tokens of the vocabulary. */
	readonly vocabularySize?: number | undefined;
	/** The mixture of types that the file states, as llama.cpp writes it: `'Q4_K_M'`. */
	readonly mixture?: string | undefined;
	readonly hasChatTemplate: boolean;
	/** Whether the embeddings of tokens are the output, too; undefined if there are none. */
	readonly tiedEmbeddings?: boolean | undefined;
	readonly license?: string | undefined;
}
interface StorageTypeSummary {
	/** Number of tensors. */
	readonly tensors: number;
	/** Number of elements. */
	readonly parameters: number;
	/** Size in bytes, decoded: the sum of `byteLength` of the tensors. */
	readonly byteLength: number;
	/** The share of all parameters, from 0 to 1. */
	readonly share: number;
	/** Average bits of an element; undefined if there are no elements. */
	readonly bitsPerWeight?: number | undefined;
}
/** A file in numbers, from its index and metadata: `file.summary()`, and the beginning of `ztensor info --json`. */
export interface FileSummary {
	readonly path?: string | undefined;
	readonly format: TensorFile["format"];
	readonly version?: string | undefined;
	readonly generator?: string | undefined;
	/** Size in bytes of all files. */
	readonly byteLength: number;
	/** Number of files. */
	readonly files: number;
	/** Number of tensors. */
	readonly tensors: number;
	/** Number of elements. Beyond 2^53 it is approximate. */
	readonly parameters: number;
	/** Average bits of an element, without compression; undefined if there are no elements. */
	readonly bitsPerWeight?: number | undefined;
	/** The tensors by storage type, that of most bytes first. */
	readonly storageTypes: Readonly<Record<string, StorageTypeSummary>>;
	/** The model of a file whose format describes models: GGUF. */
	readonly model?: ModelSummary | undefined;
}
/** One stored array of a tensor, such as the `data` of a dense tensor or the `indices` of a sparse one. */
export declare class Component {
	#private;
	readonly role: string;
	/** The element type; undefined if it is unknown, or if only the layout defines the meaning of the bytes. */
	readonly dtype: DType | undefined;
	/** Size in bytes after decoding; undefined if it is not known before decoding. */
	readonly byteLength: number | undefined;
	/** Size in the file, in bytes. */
	readonly storedLength: number;
	/** The path of the file that holds it; undefined for a file in memory. */
	readonly path: string | undefined;
	/** Offset of the bytes in the file; undefined for elements that are stored in the index. */
	readonly offset: number | undefined;
	/** `raw`, `zstd`, `inline`, or the file's own label. */
	readonly encoding: string;
	/**
	 * The digest in the file: `crc32c:…` or `sha256:…` of the stored bytes, in zTensor 2 `xxh3:…` or `sha256:…` of the decoded bytes.
	 * In a zip archive it is `crc32:…` of the decoded member, which in an npz includes the array's header.
	 */
	readonly digest: string | undefined;
	private constructor();
	/**
	 * The elements: a view of the mapping if they are stored as in memory, otherwise a copy that is decoded on this
	 * thread. Each access returns the same array. It holds bytes if the dtype is undefined.
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_DECODE, ZT_DIGEST_MISMATCH (if the data must be decoded),
	 * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	get data(): TypedArray;
	/** Whether `data` aliases the file. */
	get mapped(): boolean;
	/** Why `data` is a copy; undefined if it aliases the file. */
	get copyReason(): CopyReason | undefined;
	/**
	 * Loads the elements off the event loop: decodes them, checks the digest, and returns a copy that you own.
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO,
	 * ZT_TRUNCATED; the signal's reason
	 */
	load(options?: {
		/** Whether the array can be transferred to another thread, as for `Tensor.load`. */
		transferable?: boolean | undefined;
		signal?: AbortSignal | undefined;
	}): Promise<TypedArray>;
	get [Symbol.toStringTag](): string;
	/** Reads no data. */
	toJSON(): object;
	/** Reads no data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
type Indices = readonly number[] | IndexNumbers | BigInt64Array | BigUint64Array;
type IndexNumbers = Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array | Float64Array;
declare const METRICS: readonly [
	"dot",
	"cosine",
	"euclidean"
];
/** How many rows to find, and what near means. */
export interface NearestOptions extends JobOptions {
	/** The number of rows, up to 65,536. By default 10. */
	k?: number | undefined;
	/**
	 * - `'dot'`, the default: the inner product. The nearest row has the largest one.
	 * - `'cosine'`: the cosine of the angle. The nearest row has the largest one.
	 * - `'euclidean'`: the length of the difference. The nearest row has the smallest one.
	 */
	metric?: (typeof METRICS)[number] | undefined;
}
/** A row of a table that is near a vector. */
export interface Neighbor {
	readonly row: number;
	/** The inner product, the cosine or the Euclidean distance. */
	readonly score: number;
}
type ElementOf<D extends DType = DType> = D extends "int64" | "uint64" ? bigint : D extends "bool" ? boolean : D extends "complex64" | "complex128" ? readonly [
	real: number,
	imaginary: number
] : number;
/** Nested arrays, one level for each dimension; a single element for a scalar. */
export type Nested<E> = E | readonly Nested<E>[];
interface ReadStreamOptions {
	/** Size of a chunk and of the read-ahead buffer in bytes: 1 MiB by default. */
	highWaterMark?: number | undefined;
	/** Destroys the stream, with `signal.reason`. */
	signal?: AbortSignal | undefined;
}
/**
 * Selects indices of one dimension, like a NumPy slice: `[start, stop]`, `[start, stop, step]`, a single `[index]`, or null for all.
 * Negative numbers count from the end. A bound of null means that end of the dimension. A single index removes the dimension from the
 * shape. Unlike in NumPy, bounds beyond the dimension are errors, and the step must be 1 or more.
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
	/** The dimension to divide. */
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
	/** Why `data` is a copy; undefined if it aliases the file. */
	readonly copyReason: CopyReason | undefined;
	private constructor();
	/** Whether `data` aliases the file. */
	get mapped(): boolean;
	/**
	 * Returns the elements widened to float32, as `Tensor.toFloat32()` does.
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_LIMIT; TypeError and RangeError ZT_INVALID_ARG
	 */
	toFloat32(options?: WidenOptions): Float32Array;
	get [Symbol.toStringTag](): string;
	/** A summary without data. */
	toJSON(): object;
	/** A summary without data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/** Which statistics to compute. The progress counts the bytes of each pass, and those that are decoded before. */
export interface StatsOptions extends JobOptions {
	/** Number of histogram bins, up to 4096. Without it there is no histogram. */
	bins?: number | undefined;
	/**
	 * First and last edge of the bins. Elements outside are not counted. By default the range of the finite elements, which needs a
	 * second pass over the data.
	 */
	range?: readonly [
		first: number,
		last: number
	] | undefined;
}
/** A histogram of the finite elements, as NumPy's `histogram` computes it. */
export interface Histogram {
	/** The bin edges, evenly spaced: one more than bins. Bins are half-open, `[lower, upper)`, except for the last one. */
	readonly edges: readonly number[];
	readonly counts: readonly number[];
}
/** Statistics of a tensor's elements. `min`, `max`, `mean` and `std` are those of the finite elements, or NaN without any. */
export interface TensorStats {
	/** Number of elements; of a sparse tensor, number of stored values. */
	readonly count: number;
	readonly nan: number;
	readonly positiveInfinite: number;
	readonly negativeInfinite: number;
	readonly zeros: number;
	/** The smallest finite element. 64-bit integers beyond 2^53 are rounded to the nearest number. */
	readonly min: number;
	/** The largest finite element, rounded like `min`. */
	readonly max: number;
	readonly mean: number;
	/** The population standard deviation, as NumPy's `std` computes it. */
	readonly std: number;
	readonly histogram: Histogram | undefined;
}
/** The result of a verification. */
export interface VerifyResult {
	/** Whether nothing failed. */
	readonly ok: boolean;
	/** Number of components whose digest was checked. */
	readonly checked: number;
	/** Number of components without a digest, or with one of an unknown algorithm. */
	readonly undigested: number;
	/** The failures. If there are more than a thousand, the last entry gives the number of the others. */
	readonly failures: readonly ZTensorError[];
	/** The warnings of the file, as in `file.warnings`, or of the tensor. They do not affect `ok`. */
	readonly warnings: readonly Warning[];
}
/** How to verify a file. */
export interface VerifyOptions extends JobOptions {
	/** Also check zTensor 2's canonical form (§6.3): each violation is a ZT_NOT_CANONICAL. */
	canonical?: boolean | undefined;
	/** Selects the tensors to check, all by default: a glob, a list of globs (`!` excludes), or a function. Not with `canonical`. */
	filter?: Filter<AnyTensor> | undefined;
}
/** How a tensor is stored: one of these names, or the file's own name for any other layout. */
export type Layout = "dense" | "sparse_csr" | "sparse_coo" | (string & {});
/** How to load a dense or quantized tensor. */
export interface LoadOptions {
	/**
	 * `'float32'` widens the elements to float32. Quantized tensors need this. An integer dtype converts integers; one that does not fit is
	 * an error, which names its index in the result.
	 */
	as?: LoadDType | undefined;
	/** Load only a rectangular part. If the data is stored raw, only that part is read, and its digest is not checked. */
	slice?: readonly Range[] | undefined;
	/** Load only one rank's share of a dimension. */
	shard?: Shard | undefined;
	/**
	 * An array to fill: of the type of the result, or a Uint8Array for its bytes, little-endian, and with exactly the byte length of the
	 * result.
	 */
	into?: ArrayBufferView | undefined;
	/**
	 * Whether the array can be transferred to another thread: `postMessage(array, [array.buffer])`. Other arrays have external memory,
	 * which runtimes copy or refuse to transfer. Costs one additional copy.
	 */
	transferable?: boolean | undefined;
	signal?: AbortSignal | undefined;
}
interface TakeOptions {
	/** The dimension that the indices are for: 0 by default. Negative numbers count from the last. */
	axis?: number | undefined;
	/** The type of the result, as for `load`. */
	as?: LoadDType | undefined;
	/**
	 * An array to fill: of the type of the result, or a Uint8Array for its bytes, little-endian, and with exactly the byte length of the
	 * result.
	 */
	into?: ArrayBufferView | undefined;
	/** Whether the array can be transferred to another thread, as for `load`. */
	transferable?: boolean | undefined;
	signal?: AbortSignal | undefined;
}
interface LoadToOptions {
	/** The type of the result, as for `load`. */
	as?: LoadDType | undefined;
	signal?: AbortSignal | undefined;
}
interface LoadSparseOptions {
	/** Whether the arrays can be transferred to another thread, as for `load`. */
	transferable?: boolean | undefined;
	signal?: AbortSignal | undefined;
}
type Float16Elements = typeof globalThis extends {
	Float16Array: {
		prototype: infer A;
	};
} ? A : unknown;
/** A tensor of an open file. Its data is read lazily. */
export declare class Tensor<D extends DType | undefined = DType | undefined> {
	#private;
	private constructor();
	get name(): string;
	/** The element type; of a sparse tensor, the type of its values. Undefined for unknown types and layouts. */
	get dtype(): D;
	get shape(): readonly number[];
	/** Number of elements: the product of the shape. */
	get size(): number;
	/**
	 * Decoded size in bytes: of `data` for a dense tensor, of all arrays for a sparse tensor, of all components for any other layout.
	 * Components that the layout does not define are not counted. If the decoded size of a component is unknown, its stored size counts.
	 */
	get byteLength(): number;
	/**
	 * The type in which the elements are stored, for people: the dtype (`bfloat16`), the block type of a GGUF tensor (`q4_k`), or the name of
	 * any other layout.
	 */
	get storageType(): string;
	/** How the tensor loads: as a dense tensor, in one of two sparse forms, or as the components of any other layout. */
	get kind(): "dense" | "csr" | "coo" | "object";
	get layout(): Layout;
	/** The tensor's attributes; empty in formats without tensor attributes. */
	get attributes(): Attributes;
	/** The stored components by role. */
	get components(): ReadonlyMap<string, Component>;
	/**
	 * The elements of a dense tensor: a typed array over the mapping if the file stores them as in memory, otherwise a copy (see
	 * `mapped` and `copyReason`). Each access returns the same array, which `file.close()` empties. Writes to it are private to this
	 * process and never change the file. The digest is checked only if the data must be decoded; `load()` and `verify()` always
	 * check it.
	 *
	 * @example
	 * const { data, shape } = file.tensor('wte') // a Float32Array over the file, and [50257, 768]
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for an unknown type, ZT_DECODE,
	 * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT beyond the maximum size of an array, ZT_NOT_LOCAL for a remote file, ZT_IO,
	 * ZT_TRUNCATED
	 */
	get data(): ArrayOf<D>;
	/**
	 * The bytes of `data` as in a file, little-endian, over the same memory: for HTTP, hashes and other libraries. It also works for a dense
	 * tensor of an unknown type. On a big-endian machine they are a copy, a new one at each access.
	 *
	 * @example response.end(tensor.bytes)
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING,
	 * ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	get bytes(): OwnArrays["uint8"];
	/** Whether the data aliases the file; of a sparse or composite tensor, whether all of its components do. */
	get mapped(): boolean;
	/** Why the data is a copy; undefined if it aliases the file. */
	get copyReason(): CopyReason | undefined;
	/**
	 * Loads the elements of a dense tensor, or with `as: 'float32'` of a quantized one, off the event loop: reads and decodes them, checks
	 * the digest, and resolves with a copy that you own. It never reads through the mapping, so truncation of the file is an error and
	 * not a signal.
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
	load<A extends IntegerDType>(options: LoadOptions & {
		as: A;
	}): Promise<OwnArrays[A]>;
	load(options?: LoadOptions & {
		as?: undefined;
	}): Promise<OwnArrayOf<D>>;
	load(options?: LoadOptions): Promise<OwnArrayOf<D> | OwnArrays[LoadDType]>;
	/**
	 * Loads the elements at a list of indices of one dimension, off the event loop: rows of a table by default, like NumPy's `take`. The
	 * result has the tensor's shape, with the number of indices in place of that dimension. Rows that are stored near each other are read
	 * with one read or request; of compressed data, only the chunks and frames that contain the rows are decoded, each once. The digest is
	 * checked only if all data must be decoded.
	 *
	 * @example
	 * const vectors = await table.take([17, 4, 17]) // 3 rows
	 * const floats = await table.take(ids, { as: 'float32' }) // of a quantized or 16-bit table
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT, ZT_BAD_DTYPE, ZT_DIGEST_MISMATCH, ZT_DECODE,
	 * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG for an index out of bounds, and for
	 * packed elements of 4 bits that do not fill whole bytes; the signal's reason
	 */
	take<A extends ArrayBufferView>(indices: Indices, options: TakeOptions & {
		into: A;
	}): Promise<A>;
	take(indices: Indices, options: TakeOptions & {
		as: "float32";
	}): Promise<OwnArrays["float32"]>;
	take<A extends IntegerDType>(indices: Indices, options: TakeOptions & {
		as: A;
	}): Promise<OwnArrays[A]>;
	take(indices: Indices, options?: TakeOptions & {
		as?: undefined;
	}): Promise<OwnArrayOf<D>>;
	take(indices: Indices, options?: TakeOptions): Promise<OwnArrayOf<D> | OwnArrays[LoadDType]>;
	/**
	 * Returns the elements widened to float32: exactly for 8- and 16-bit types and bool, rounded to nearest (ties to even) for wider
	 * integers and float64. `load({ as: 'float32' })` does this off the event loop.
	 *
	 * A quantized tensor (`zt.quant_group/1`, `zt.mx/1`, `tflite.quantized/1`, and the `gguf.<type>/1` that docs/formats/gguf.md lists) is
	 * read from its file and dequantized on all cores. Its digests are checked.
	 *
	 * @example const floats = tensor.toFloat32()
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense or quantized, ZT_BAD_DTYPE for complex, 6-bit and unknown types,
	 * ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG for
	 * `into`
	 */
	toFloat32(options?: WidenOptions): Float32Array;
	/**
	 * Returns the elements of a float16 tensor as a Float16Array over the same memory, if the runtime has Float16Array.
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for other types and without Float16Array, ZT_CLOSED, ZT_BAD_LAYOUT unless dense,
	 * ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	float16(): Float16Elements;
	/**
	 * Returns a slice of a dense tensor: `[start, stop]`, `[start, stop, step]`, `[index]` or null for each dimension. Missing dimensions
	 * are whole. A contiguous slice (whole rows) is a view of the tensor's memory; any other slice is packed into a copy. If `data` would
	 * be a copy that does not exist yet, only the bytes, frames or chunks of the slice are read and decoded.
	 *
	 * @example
	 * tensor.slice([[0, 128], null]) // the first 128 rows: no copy
	 * tensor.slice([[-1]]) // the last row, as one dimension less
	 * tensor.slice([null, [0, null, 2]]) // every other column
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for an unknown type, ZT_DECODE,
	 * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG
	 */
	slice(ranges: readonly Range[]): TensorSlice<D & DType>;
	/**
	 * Returns one element of a dense tensor. Takes one index for each dimension; negative indices count from the end. If `data` would be
	 * a copy that does not exist yet, only this element is read, or the frame or chunk that contains it. For many elements, `data` and
	 * `toFloat32()` are faster.
	 *
	 * @example tensor.at(0, -1) // the last element of the first row
	 *
	 * @throws TypeError and RangeError ZT_INVALID_ARG for a wrong number of indices, or an index out of bounds; ZTensorError ZT_CLOSED,
	 * ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for 6-bit and unknown types, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	at(...indices: number[]): ElementOf<D & DType>;
	/**
	 * Returns the elements of a dense tensor in nested arrays, like NumPy's `tolist()`: bigint for int64 and uint64, boolean for bool,
	 * `[real, imaginary]` for complex, otherwise number.
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
	 * Returns the bytes of a dense tensor as a Readable, the elements that `load()` returns, little-endian. They are read on demand in chunks, off the event loop.
	 * Compressed data without frames is decoded in order, and its digest is checked at the end. The digest of raw data is not checked.
	 *
	 * @example await pipeline(tensor.createReadStream(), response)
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for an unknown type; TypeError and RangeError
	 * ZT_INVALID_ARG. The stream is destroyed with ZT_CLOSED if the file is closed, with the signal's reason, or with
	 * ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	createReadStream(options?: ReadStreamOptions): Readable;
	/**
	 * Loads the elements in pieces of at most 8 MiB and passes each to `write`, in order: into a GPU buffer, a socket, memory of another
	 * library. Only a piece is in memory, so a tensor may be larger than an array. The bytes are little-endian, `offset` is their position in
	 * the result, and the next piece is read when `write` has returned or its promise has resolved. The digest of raw data is not checked;
	 * `verify()` does so.
	 *
	 * @example
	 * await tensor.loadTo((bytes, offset) => device.queue.writeBuffer(buffer, offset, bytes))
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT, ZT_BAD_DTYPE, ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO,
	 * ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG; the signal's reason; what `write` throws
	 */
	loadTo(write: (bytes: Uint8Array, offset: number) => void | PromiseLike<void>, options?: LoadToOptions): Promise<void>;
	/**
	 * Returns the elements of a dense tensor as a Blob: a part of the File or Blob that the file was opened from, which is not read. Libraries
	 * take it for data that they load by themselves, such as external data of onnxruntime-web. Undefined if the file was opened from anything
	 * else, or if the elements are not stored as in memory.
	 *
	 * @example const blob = file.tensor('wte').blob()
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for an unknown type
	 */
	blob(): Blob | undefined;
	/**
	 * Returns one rank's share of a dimension that is divided evenly.
	 *
	 * @example tensor.shard({ dim: 0, rank: 1, worldSize: 4 }) // the second quarter of the rows
	 *
	 * @throws RangeError ZT_INVALID_ARG if the dimension does not divide evenly, TypeError ZT_INVALID_ARG; ZTensorError ZT_CLOSED,
	 * ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for an unknown type, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
	 */
	shard(spec: Shard): TensorSlice<D & DType>;
	/**
	 * Returns a sparse matrix in CSR form. Its arrays alias the file if possible, and are validated.
	 *
	 * @example
	 * const { indptr, indices, values } = tensor.csr()
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT for any other layout, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE if
	 * the arrays break the layout's rules, ZT_DECODE, ZT_DIGEST_MISMATCH (of encoded arrays), ZT_UNSUPPORTED_ENCODING, ZT_LIMIT,
	 * ZT_IO, ZT_TRUNCATED
	 */
	csr(): CsrTensor<D & DType>;
	/**
	 * Returns a sparse tensor in COO form. Its arrays alias the file if possible, and are validated.
	 *
	 * @example
	 * const { coords, values, nnz } = tensor.coo()
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT for any other layout, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE if
	 * the arrays break the layout's rules, ZT_DECODE, ZT_DIGEST_MISMATCH (of encoded arrays), ZT_UNSUPPORTED_ENCODING, ZT_LIMIT,
	 * ZT_IO, ZT_TRUNCATED
	 */
	coo(): CooTensor<D & DType>;
	/**
	 * Loads a sparse matrix in CSR form, off the event loop. Checks the digests and resolves with copies that you own.
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT for any other layout, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE,
	 * ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError ZT_INVALID_ARG; the signal's
	 * reason
	 */
	loadCsr(options?: LoadSparseOptions): Promise<CsrTensor<D & DType>>;
	/**
	 * Loads a sparse tensor in COO form, off the event loop. Checks the digests and resolves with copies that you own.
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT for any other layout, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE,
	 * ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError ZT_INVALID_ARG; the signal's
	 * reason
	 */
	loadCoo(options?: LoadSparseOptions): Promise<CooTensor<D & DType>>;
	/**
	 * Checks this tensor's digests, decoded lengths and data rules. Resolves with all failures.
	 *
	 * @example if (!(await tensor.verify()).ok) throw new Error('damaged')
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_IO, ZT_LIMIT; TypeError ZT_INVALID_ARG; the signal's reason
	 */
	verify(options?: JobOptions): Promise<VerifyResult>;
	/**
	 * Computes counts, minimum, maximum, mean, standard deviation and optionally a histogram, on all cores, off the event loop: of the
	 * elements of a dense tensor, the stored values of a sparse tensor, or the float32 values of a quantized one. Sums are accumulated in
	 * float64, and the result does not depend on the number of cores. The digest is checked only if the data must be decoded.
	 *
	 * @example const { min, max, mean, nan } = await tensor.stats()
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_BAD_LAYOUT for layouts without numbers, ZT_CLOSED, ZT_DECODE,
	 * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG; the signal's
	 * reason
	 */
	stats(options?: StatsOptions): Promise<TensorStats>;
	/**
	 * Finds the `k` rows of a table (two dimensions) that are nearest to `query`, by an exact search on all cores, off the event loop: the
	 * nearest first, and of equally near ones the first. The table may be of any dtype, compressed, quantized or sparse; elements are rounded
	 * to float32, and each is read once. Rows whose score is NaN are left out. The result does not depend on the number of cores. The digest
	 * is checked only if the data must be decoded.
	 *
	 * @param query as many finite numbers as the table has columns
	 *
	 * @example const [{ row, score }] = await table.nearest(query, { k: 10, metric: 'cosine' })
	 *
	 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_BAD_LAYOUT for layouts without numbers, ZT_CLOSED, ZT_DECODE,
	 * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG; the signal's
	 * reason
	 */
	nearest(query: ArrayLike<number>, options?: NearestOptions): Promise<Neighbor[]>;
	get [Symbol.toStringTag](): string;
	/** Reads no data. */
	toJSON(): object;
	/** Reads no data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/** A tensor of any dtype, known or unknown. Checking `dtype` narrows the type of `data`. */
export type AnyTensor = {
	[D in DType]: Tensor<D>;
}[DType] | Tensor<undefined>;
interface TensorSelection {
	/** Names of tensors, in the order of the result. A glob stands for the names that it matches (`*`: any characters, `?`: one). */
	names?: Iterable<string> | undefined;
	/** A glob, a list of globs, or a function, in place of `names`. A glob that begins with `!` excludes what it matches. */
	filter?: Filter<AnyTensor> | undefined;
}
interface LoadFileOptions extends TensorSelection, JobOptions {
	/**
	 * `'float32'` widens the elements of dense tensors to float32, and dequantizes. An integer dtype converts the dense tensors of integers;
	 * an element that does not fit is an error, which names its index. Tensors that have no such form (complex and 6-bit types, other
	 * layouts, for integers any other dtype) and sparse tensors are loaded as they are: their `dtype` says so.
	 */
	as?: LoadDType | undefined;
	/** Load only one rank's parts, as divided by `plan()` of this file. `plan.tensors` has their shapes. */
	plan?: Plan | undefined;
	/** Number of tensors to load concurrently. The default depends on the machine and the storage. */
	concurrency?: number | undefined;
	/** Whether each array can be transferred to another thread, as for `Tensor.load`. Each then has its own ArrayBuffer. */
	transferable?: boolean | undefined;
}
interface EvictOptions extends TensorSelection {
}
interface CloseOptions {
	/** Let running calls end first. */
	readonly drain?: boolean | undefined;
	/** Stops waiting: the rest is stopped, as by `close()`. Only with `drain`. */
	readonly signal?: AbortSignal | undefined;
}
interface PrefetchOptions extends TensorSelection, JobOptions {
	/** Bytes to read concurrently: 64 MiB by default. */
	concurrentBytes?: number | undefined;
}
/** An open file: its tensors by name, in the order of its index. */
export declare class TensorFile implements ReadonlyMap<string, AnyTensor> {
	#private;
	/** The format; `'mixed'` if files of several formats were opened as one. */
	readonly format: Format | "mixed";
	/** The format version in the file: `'0.1'`, `'1.0'`, `'1.2.0'` or `'2'` for zTensor, `'3'` for GGUF; undefined for formats without versions. */
	readonly version: string | undefined;
	/** The program that wrote the file; undefined if the file does not name it. */
	readonly generator: string | undefined;
	/**
	 * The path or URL of the file, index or folder that was opened. Undefined for a list, and for what has neither, such as bytes, a File or a
	 * handle.
	 */
	readonly path: string | undefined;
	/** Size in bytes of the file, or of all files together. */
	readonly byteLength: number;
	/** Number of tensors. */
	readonly size: number;
	private constructor();
	/**
	 * The metadata of the file, an object without a prototype: the strings of safetensors, the key-value pairs of GGUF, the attributes of
	 * the root of zTensor, and so on. Keys that are not strings are listed by their text, such as `7`, and bytes as `h'0aff'`. It is decoded
	 * at the first access.
	 *
	 * @example file.metadata.license
	 *
	 * @throws ZTensorError ZT_CLOSED
	 */
	get metadata(): AttributeObject;
	/**
	 * Returns the file in numbers, from its index and metadata: parameters, bits per weight, storage types, and what the metadata says of a
	 * model. It reads no tensors. `filter` selects the tensors to count, all by default.
	 *
	 * @example
	 * const { model, bitsPerWeight, storageTypes } = file.summary()
	 * console.log(model?.architecture, model?.mixture, bitsPerWeight, Object.keys(storageTypes))
	 *
	 * @throws RangeError ZT_INVALID_ARG for a glob that matches no tensor; TypeError ZT_INVALID_ARG; ZTensorError ZT_CLOSED
	 */
	summary(options?: {
		readonly filter?: Filter<AnyTensor> | undefined;
	}): FileSummary;
	/** Problems of the file that do not prevent reading it. */
	get warnings(): readonly Warning[];
	/** The files that hold the tensors: one, or several if several files were opened as one. */
	get files(): readonly FilePart[];
	/** Whether the file takes no new calls, because `close()` was called. */
	get closed(): boolean;
	/**
	 * Returns the tensor called `name`. With `dtype`, also checks its dtype.
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, with similar names; ZT_BAD_DTYPE if the tensor has another dtype; ZT_CLOSED
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
	 * Loads tensors as copies that you own. Reads several concurrently, off the event loop, and checks their digests.
	 * Resolves with a Map from name to tensor, in the requested order. Adjacent dense tensors of up to 64 KiB share an ArrayBuffer.
	 * A name may be a glob, and `filter` selects tensors as in `convert`.
	 *
	 * @example
	 * const tensors = await file.load(['wte', 'h.0.*'])
	 * const floats = await file.load({ filter: ['h.*', '!*.bias'], as: 'float32' })
	 * const wte = tensors.get('wte')
	 * if (wte?.kind === 'dense') console.log(wte.dtype, wte.shape, wte.data)
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED, ZT_BAD_DTYPE, ZT_BAD_SPARSE, ZT_DECODE,
	 * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_IO, ZT_TRUNCATED, ZT_LIMIT if all tensors together decode to more than 16 times the file
	 * plus `maxDecodedBytes`; TypeError and RangeError ZT_INVALID_ARG; the signal's reason. The first failure stops the call.
	 */
	load(names: Iterable<string> | undefined, options?: Omit<LoadFileOptions, keyof TensorSelection>): Promise<Map<string, Loaded>>;
	load(options?: LoadFileOptions): Promise<Map<string, Loaded>>;
	/**
	 * Plans tensor parallelism: computes which part of each tensor one rank of a group holds, and which byte ranges of the files it
	 * needs. `load({ plan })` then loads only these parts.
	 *
	 * @example
	 * const plan = file.plan({ rank: 0, worldSize: 4, rules: { '*.weight': 'column', '*': 'replicate' } })
	 * const parts = await file.load({ plan })
	 *
	 * @throws RangeError and TypeError ZT_INVALID_ARG if a dimension does not divide evenly, or no rule matches a tensor;
	 * ZTensorError ZT_BAD_LAYOUT if a rule divides a tensor that is not dense, ZT_LIMIT, ZT_CLOSED
	 */
	plan(options: PlanOptions): Plan;
	/**
	 * Checks every digest, decoded length and data rule. Damage that `open` warned about (`ZT_WARN_DAMAGED`,
	 * `ZT_WARN_TRUNCATED`) counts as a failure. Resolves with all failures. Rejects only if the file cannot be read, if its tensors
	 * decode to too many bytes (ZT_LIMIT, as in `load`), or if the signal is aborted.
	 *
	 * @example
	 * const { ok, failures } = await file.verify()
	 *
	 * @throws ZTensorError ZT_CLOSED, ZT_IO, ZT_LIMIT; TypeError ZT_INVALID_ARG; the signal's reason
	 */
	verify(options?: VerifyOptions): Promise<VerifyResult>;
	/**
	 * Returns the content digest of a zTensor 2 file (§6.4), `sha256:…` or `xxh3:…`. It does not depend on where the bytes are, the shards or
	 * the compression of the file. It is computed from the digests in the index, without reading data.
	 *
	 * @throws ZTensorError ZT_UNSUPPORTED_VERSION for any other format, ZT_BAD_DIGEST if a component has no digest,
	 * ZT_CLOSED, ZT_IO; the signal's reason
	 */
	contentDigest(algorithm?: "sha256" | "xxh3", options?: {
		signal?: AbortSignal | undefined;
	}): Promise<string>;
	/**
	 * Reads tensors into the page cache, so that access to their data does not wait for the disk. Tensors of a remote file are
	 * downloaded into the cache of `open(url, { remote: { cache } })`; `data` then aliases the cached copy.
	 *
	 * A name may be a glob, and `filter` selects tensors, as in `load`.
	 *
	 * @example await file.prefetch(['wte', 'h.0.*'])
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED, ZT_IO, ZT_NOT_LOCAL for a remote file without a cache, ZT_LIMIT beyond
	 * `maxCacheBytes`; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
	 */
	prefetch(names: Iterable<string> | undefined, options?: Omit<PrefetchOptions, keyof TensorSelection>): Promise<void>;
	prefetch(options?: PrefetchOptions): Promise<void>;
	/**
	 * Evicts tensors from memory: the system may drop their pages from the mapping and from the page cache. Pages that JavaScript
	 * has written to stay. A name may be a glob, and `filter` selects tensors, as in `load`.
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; TypeError ZT_INVALID_ARG
	 */
	evict(names: Iterable<string> | undefined): void;
	evict(options?: EvictOptions): void;
	/**
	 * Returns an object to post to another thread, which passes it to `open` or `openSync`. All threads then share one mapping.
	 * Writes into `data` are visible to all of them. `close()` empties the views of its own thread; the last `close()` unmaps the
	 * file. For a list of files, or after `close()`, other threads open the files again.
	 *
	 * With `{ memory: true }` it also has `memory`: a SharedArrayBuffer over the mapping of each file, if the file is mapped and the
	 * runtime supports it (Node from 22.23, 24.21 and 26 on, Bun 1.4; not Node 20, Deno and Electron). In a file that is opened from
	 * it, `data` is a view of these buffers, which can be posted to threads that do not use this package. `close()` does not empty
	 * them: they and the mapping live until every thread has released them. They cannot be sent to other processes.
	 *
	 * @example
	 * new Worker('./worker.js', { workerData: file.share() }) // there: const file = await open(workerData)
	 *
	 * @throws ZTensorError ZT_CLOSED, and with memory ZT_IO, ZT_MAPPING_LOST; TypeError ZT_INVALID_ARG for a file in memory:
	 * open a SharedArrayBuffer instead
	 */
	share(options?: ShareOptions): SharedFile;
	/**
	 * Closes the file: its views become empty, running calls reject with ZT_CLOSED, and the file is unmapped. First wait for other
	 * native code that still reads a view, such as a compression or a write: it would read zeros. A second call has no effect.
	 *
	 * With `{ drain: true }` it lets running calls end first, like `close()` of an HTTP server. New calls and new views fail with
	 * ZT_CLOSED immediately; names, shapes and metadata can be read until the end. The promise resolves when no call is left and the file
	 * is unmapped. A stream of `createReadStream()` is a running call until it ends or is destroyed. `close()` during a drain stops the
	 * rest, and so does an abort of `signal`.
	 *
	 * @example
	 * const old = model
	 * model = await open('model.safetensors') // the new file
	 * await old.close({ drain: true })
	 *
	 * @throws TypeError ZT_INVALID_ARG; the signal's reason, after the rest was stopped and the file was closed
	 */
	close(options: CloseOptions & {
		readonly drain: true;
	}): Promise<void>;
	close(options?: CloseOptions & {
		readonly drain?: false | undefined;
	}): void;
	/** Closes the file immediately. */
	[Symbol.dispose](): void;
	/** Closes the file after its running calls: `close({ drain: true })`. */
	[Symbol.asyncDispose](): Promise<void>;
	get [Symbol.toStringTag](): string;
	/** Reads no data. */
	toJSON(): object;
	/** Reads no data. */
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
/**
 * A file whose bytes your own code reads: from a bucket, a `Blob`, an encrypted file. `open` reads its index, `load()` reads tensors.
 * Several ranges are read concurrently, and adjacent ranges in one call. There is no memory to alias, so `data` throws ZT_NOT_LOCAL;
 * use `load()`.
 *
 * @example
 * const blob = await openAsBlob('model.safetensors')
 * const file = await open({
 *   byteLength: blob.size,
 *   read: async (offset, length) => new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer()),
 * })
 */
export interface ByteSource {
	/** Size of the file in bytes. */
	readonly byteLength: number;
	/** The name of the file, such as `model.safetensors.index.json` for an index. Error messages include it. */
	readonly name?: string | undefined;
	/**
	 * Returns exactly `length` bytes from `offset`. The range lies within the file. Up to 16 calls of up to 8 MiB run concurrently.
	 * `signal` is aborted if the bytes are no longer needed. An error that it throws becomes the `cause` of a ZT_IO.
	 */
	read(offset: number, length: number, options: {
		readonly signal: AbortSignal;
	}): Uint8Array | PromiseLike<Uint8Array>;
	/**
	 * Returns a file that the index refers to: a shard, or external data. The name is a relative path with `/` that never leads out
	 * of the folder. Return undefined if the file does not exist.
	 */
	sibling?(name: string): ByteSource | undefined | PromiseLike<ByteSource | undefined>;
}
/** How to access an object store. Missing values come from the environment. */
export interface StoreOptions {
	/** S3: the region of the bucket. */
	region?: string | undefined;
	/** The URL of a store that is compatible with S3, Google Cloud Storage or Azure: MinIO, Ceph, R2, an emulator. */
	endpoint?: string | undefined;
	/** Allow an endpoint with `http:`. */
	allowHttp?: boolean | undefined;
	/** S3: the bucket is part of the host name, not of the path. */
	virtualHostedStyle?: boolean | undefined;
	/** Do not sign requests, for public objects. */
	anonymous?: boolean | undefined;
	/** S3 credentials. */
	accessKeyId?: string | undefined;
	secretAccessKey?: string | undefined;
	sessionToken?: string | undefined;
	/** Azure credentials. */
	account?: string | undefined;
	accountKey?: string | undefined;
}
interface DownloadProgress {
	/** Bytes that arrived, including those of earlier downloads. */
	readonly bytes: number;
	/** Bytes of all files. */
	readonly totalBytes: number;
	/** Number of complete files. */
	readonly files: number;
	readonly totalFiles: number;
	/** Bytes per second since the call began; undefined before the first bytes. */
	readonly bytesPerSecond: number | undefined;
	/** Estimate of the remaining milliseconds at this rate; 0 at the end, and undefined at the beginning. */
	readonly remainingMs: number | undefined;
}
/** How to access remote files. */
export interface RemoteOptions {
	/** Headers of each request to the server of the URL, such as `authorization`. They are not sent to other servers. */
	headers?: Readonly<Record<string, string>> | undefined;
	/** Number of concurrent requests: 16 by default. */
	concurrency?: number | undefined;
	/** Maximum bytes of one request: 8 MiB by default. */
	pieceBytes?: number | undefined;
	/**
	 * Milliseconds after which a request is retried if the server has sent nothing, or less than 1 KiB: 30,000 by default. A part of an
	 * upload has ten times as long.
	 */
	timeout?: number | undefined;
	/** Number of retries after a transient failure: 5 by default. */
	retries?: number | undefined;
	/** Maximum size in bytes of a file from a server without range requests, which is read whole: 64 MiB by default. */
	maxWholeBytes?: number | undefined;
	/** Follow redirects from public web servers to private and local addresses. Redirects of object stores are never followed. */
	allowPrivate?: boolean | undefined;
	/** How to access the object store of an `s3:`, `gs:` or `az:` URL. */
	store?: StoreOptions | undefined;
	/**
	 * The cache folder, in which `prefetch()` and `load()` store copies. None by default. Several processes may share it. This user must
	 * own it, and no other user may have write access: otherwise `prefetch()` fails with `ZT_IO`, and `load()` does not use the cache.
	 *
	 * Files of the Hugging Face hub that its own clients have downloaded (`HF_HUB_CACHE`, `~/.cache/huggingface/hub`) are opened there, as
	 * local files. `false` disables this cache, too. `'hub'` also downloads to it: the first `open` of an `hf:` URL fetches the files of the
	 * model in full, and Python and other clients of the hub find them there. A folder with the name `hub` is `'./hub'`.
	 */
	cache?: "hub" | (string & {}) | URL | false | undefined;
	/** With `cache: 'hub'`: called about every 100 ms while files are downloaded, and once at the end of a download. */
	onDownload?: ((progress: DownloadProgress) => void) | undefined;
	/** Do not access the Hugging Face hub: open only what its own clients have downloaded. The variable `HF_HUB_OFFLINE=1` does the same. */
	offline?: boolean | undefined;
	/** Maximum size of the cache in bytes: 64 GiB by default. The least recently used copies are evicted. */
	maxCacheBytes?: number | undefined;
}
/**
 * A path or `file:` URL of a tensor file, of the index of a sharded checkpoint (`model.safetensors.index.json`), or of a folder that
 * contains one; a URL of a remote file; a list of paths or URLs, opened as one file; the bytes of a file in memory; a shared file; or,
 * in asynchronous calls, a `ByteSource`.
 */
export type Source = string | URL | readonly (string | URL)[] | Uint8Array | ArrayBuffer | SharedFile | ByteSource;
type ShardResolver = (name: string) => string | URL | undefined | Promise<string | URL | undefined>;
/** How to open a file. The limits bound the work that a hostile file can cause. */
export interface OpenOptions {
	/** The format; detected from the file's bytes by default. */
	format?: Format | undefined;
	/**
	 * Where to find the files that an index names: in the folder of the index by default. A function returns the path of each file by
	 * its name, or in `open` also a promise of it. For an index in memory the function must return all paths, and the index is copied.
	 * `'none'` opens the files of a set that are present, with a warning for the others. If none of an index is, its tensors have only
	 * names, the layout `unread` and no dtype. External data and the shards of a zTensor 2 root are not opened.
	 */
	shards?: "none" | ShardResolver | undefined;
	/**
	 * Whether external raw data (of ONNX, OpenVINO, TensorFlow, Paddle) may be a symbolic link to a file outside of the model's folder:
	 * false by default, because the bytes of any file would be read as elements. Files with a signature or header (safetensors, GGUF,
	 * zTensor, PyTorch, HDF5) may always be links, as DVC, git-annex and Bazel create them. In a conversion of a checkpoint to GGUF, the
	 * option is also for its configuration, tokenizer and templates.
	 */
	followLinks?: boolean | undefined;
	/**
	 * The I/O mode. `mmap` maps the file. `read` never maps it: `data` is always a copy, and no page fault can hang on a lost
	 * connection. `direct` maps the file, and `load()` bypasses the page cache if the system supports that. `auto`, the default, is
	 * `read` on network and FUSE file systems (NFS, SMB, FUSE, 9p) and `mmap` elsewhere; `load()` then bypasses the page cache for a
	 * file that is larger than the memory and not cached.
	 */
	io?: "auto" | "mmap" | "read" | "direct" | undefined;
	/** How to read remote files: `https:`, `http:`, `hf:`, `s3:`, `gs:` and `az:` URLs. */
	remote?: RemoteOptions | undefined;
	/** Check every digest and data rule before `open` resolves. */
	verify?: boolean | undefined;
	/** Maximum size of the index in bytes: by default 1 GiB for zTensor, 100 MB for safetensors; docs/limits.md lists the other formats. */
	maxIndexBytes?: number | undefined;
	/**
	 * Maximum decoded size of one component in bytes: 16 GiB by default. Unless this is set, repeated elements (stride 0, `expand()` in
	 * PyTorch) may take at most 16 times the size of the file.
	 */
	maxDecodedBytes?: number | undefined;
	/** Maximum number of dimensions of a tensor: 64 by default. */
	maxRank?: number | undefined;
	/** Maximum number of attribute values in the index, including nested values: 16,777,216 by default. */
	maxAttributeValues?: number | undefined;
	/**
	 * Called once, on the event loop, after the mapped file was truncated and a view was read past its new end. The lost bytes read
	 * as zeros, and every further call throws the same ZT_MAPPING_LOST. Without this callback the error becomes an uncaught exception,
	 * unless a call has thrown it before.
	 */
	onMappingLost?: ((error: ZTensorError) => void) | undefined;
}
/**
 * Opens a file synchronously: reads and checks its index, but no data, whatever the file's size.
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
 * Opens a file off the event loop: reads and checks its index. It reads no data, whatever the file's size, unless `verify` is set.
 * The index of a large file in memory is copied in pieces, so that the event loop is not blocked.
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
 * Checks every digest and data rule of a file: of an open one, or of one that it opens and closes. Resolves with all failures.
 *
 * @example
 * const { ok, failures } = await verify('model.zt')
 *
 * @throws ZTensorError every code but ZT_NOT_FOUND, if the file cannot be opened or read; TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
 */
export declare function verify(source: Source | TensorFile, options?: Omit<OpenOptions, "verify"> & VerifyOptions): Promise<VerifyResult>;
interface LoadWholeOptions extends OpenOptions, JobOptions {
	/** The tensors to load; all of them by default. */
	names?: Iterable<string> | undefined;
	/** Whether each array can be transferred to another thread, as for `Tensor.load`. Each then has its own ArrayBuffer. */
	transferable?: boolean | undefined;
}
/**
 * Opens a file, loads its tensors as copies that you own, checks their digests, and closes the file. Resolves with a Map from name to
 * tensor, which `saveFile` accepts.
 *
 * @example
 * const tensors = await loadFile('model.safetensors')
 * const bias = tensors.get('bias')
 * if (bias?.kind === 'dense') console.log(bias.dtype, bias.shape, bias.data)
 *
 * @throws ZTensorError what `open` throws; ZT_NOT_FOUND if the file has no tensor of a name; ZT_DIGEST_MISMATCH, ZT_DECODE,
 * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_TRUNCATED and ZT_IO if data cannot be read. TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
 */
export declare function loadFile(source: Source, options?: LoadWholeOptions): Promise<Map<string, Loaded>>;
type AttributeValueInput = string | number | bigint | boolean | null | Uint8Array | readonly AttributeValueInput[] | AttributeInput;
/** Metadata or attributes to write: an object, or a Map with keys of any type. */
export type AttributeInput = {
	readonly [key: string]: AttributeValueInput;
} | ReadonlyMap<AttributeValueInput, AttributeValueInput>;
/** Metadata or attributes to change: an undefined value removes its key, any other value sets it. All other keys stay. */
export type AttributeChanges = {
	readonly [key: string]: AttributeValueInput | undefined;
} | ReadonlyMap<AttributeValueInput, AttributeValueInput | undefined>;
/** How to write a file. */
export interface CreateOptions {
	/** The format: by default that of the file extension (`.zt`, `.safetensors`, …), or zTensor for a name without one. */
	format?: WritableFormat | undefined;
	/**
	 * The zTensor version: `'1.0'` by default. Python's ztensor 1.0.0 and 1.0.1 read version 1.0, 1.0.2 to 1.2.3 read 1.2, and 2.x reads 2.
	 * Other formats have no versions.
	 */
	version?: WritableVersion | undefined;
	/**
	 * zTensor 2: write the canonical form (§6.3): equal tensors give equal files, whatever the order in which they are added. True by
	 * default. A canonical file is aligned to 64 KiB, has xxh3 digests, is not compressed, and stores equal tensors once.
	 */
	canonical?: boolean | undefined;
	/**
	 * zTensor: the digest of each component. By default crc32c of the stored bytes up to version 1.2, and xxh3 of the decoded bytes in
	 * version 2. A version 2 file with sha256 is not canonical. False for no digests.
	 */
	digest?: "crc32c" | "sha256" | "xxh3" | false | undefined;
	/**
	 * Compress blobs, off by default. zTensor uses zstd with a `level` from 1 to 22 (3 by default), npz uses deflate with a `level` from 1
	 * to 9 (6 by default); other formats have no compression. `true` uses the defaults. A blob is only compressed if that saves at least
	 * the fraction `minSavings` (0.05 by default). The first 256 KiB are tried first; a blob that then saves less is stored raw, unless
	 * it is larger than 8 MiB and is written to a stream, an npz or an edited file. zTensor compresses in frames of `frameSize` bytes
	 * (from 4096 to 2^24, 1 MiB by default) with a seek table, so that a slice decodes only the frames that it needs, and all cores decode
	 * one tensor. Other readers of zTensor 0.1 to 1.2 see ordinary zstd data.
	 */
	compression?: true | {
		readonly level?: number | undefined;
		readonly minSavings?: number | undefined;
		readonly frameSize?: number | undefined;
	} | false | undefined;
	/**
	 * The metadata of the file; in zTensor these are the attributes of its root. safetensors only supports strings; BTF, NumPy and zTensor
	 * 0.1 have no metadata. A conversion sets it in addition to the metadata of the source, of which an undefined value removes a key.
	 *
	 * GGUF stores the type of each value. A value can state it: `{ type: 'uint32', value: 4096 }`, or `{ type: 'float32', value: [0, 1] }`
	 * for a list. Otherwise numbers under the keys of the specification have the types that llama.cpp expects, and other numbers are int32
	 * if they are integers, and float32.
	 */
	metadata?: AttributeChanges | undefined;
	/** The program name that a zTensor 1.0 file records. */
	generator?: string | undefined;
	/**
	 * zTensor and GGUF: the alignment of blobs in bytes. A power of two up to 2^24: from 64 in zTensor, from 8 in GGUF (32 by default). In
	 * zTensor 2 a multiple of 4096 up to 2^24, 65536 by default.
	 */
	alignment?: number | undefined;
	/**
	 * zTensor 2, safetensors and GGUF: the maximum size of a file in bytes, beyond which the model is sharded. A larger tensor gets its own file.
	 * zTensor 2 writes shards `model-00001-of-00003.zt` and so on, and the index into `model.zt`; a sharded model is not canonical.
	 * safetensors writes shards `model-00001-of-00003.safetensors` and so on, and then `model.safetensors.index.json`; the maximum
	 * applies to the bytes of tensors. GGUF writes `model-00001-of-00003.gguf` and so on, like `llama-gguf-split`.
	 */
	maxShardBytes?: number | undefined;
	/**
	 * Replace an existing file, which is otherwise ZT_EXISTS. The new file gets the owner, group, permissions and, on Linux, access control
	 * lists of the old one, as far as the process has the privileges. Other hard links still refer to the old file. A sharded model is
	 * replaced as a whole. Pipes and character devices are not replaced: they are written to, like a stream.
	 */
	overwrite?: boolean | undefined;
	/** How to access the object store of an `s3:`, `gs:` or `az:` URL. */
	remote?: RemoteOptions | undefined;
	/** Aborts the writer, like `abort()`. Later calls reject with `signal.reason`. */
	signal?: AbortSignal | undefined;
}
/** A dense tensor to write. A dense `Tensor`, a `TensorSlice` and a `LoadedTensor` are also accepted. */
export interface TensorInput {
	/** The dtype; by default that of the array. Required for bytes. */
	readonly dtype?: DType | undefined;
	/** The shape; one dimension by default. */
	readonly shape?: readonly number[] | undefined;
	/**
	 * The elements: a typed array of the dtype (float16 and bfloat16 as bits in a Uint16Array), or their little-endian bytes as a
	 * Uint8Array. For float16, bfloat16, float8_e4m3fn and float8_e5m2 also numbers in a Float32Array, Float64Array or Float16Array, which are rounded
	 * to nearest, ties to even.
	 */
	readonly data: ArrayBufferView;
}
/** A sparse matrix to write, in the form of `CsrTensor`. */
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
/** A sparse tensor to write, in the form of `CooTensor`: `coords` is a row-major `[ndim, nnz]` matrix. */
export interface CooInput {
	readonly shape: readonly number[];
	readonly dtype?: DType | undefined;
	readonly values: TypedArray;
	readonly coords: IndexArray;
}
/** A tensor of any layout to write, by its components. */
export interface ObjectInput {
	readonly layout: string;
	readonly shape: readonly number[];
	/** The dtype of the tensor. zTensor 1.0 requires one: uint8 by default. */
	readonly dtype?: DType | undefined;
	readonly attributes?: AttributeInput | undefined;
	readonly components: Readonly<Record<string, {
		readonly dtype?: DType | undefined;
		readonly data: ArrayBufferView;
	}>>;
}
/** The options of a call that adds a tensor. */
export interface AddOptions {
	readonly attributes?: AttributeInput | undefined;
}
interface AddDenseOptions extends AddOptions {
	/** The shape, for a typed array without one. */
	readonly shape?: readonly number[] | undefined;
	/**
	 * Quantizes the elements to a ggml block type (`'q4_k'`, `'q8_0'`, …), bit for bit as llama.cpp does. The last dimension must be whole
	 * blocks: of 256 elements for `q2_k` to `q6_k`, of 32 for most others. For GGUF and zTensor, which store the layout `gguf.<type>/1`.
	 */
	readonly type?: BlockType | (string & {}) | undefined;
}
interface LinkInput {
	/** An open zTensor 2 file, which must stay open until the link is made. */
	readonly file: TensorFile;
	/** The tensor's name in that file; the new name by default. */
	readonly tensor?: string | undefined;
	/**
	 * The name of the other file in the shard table. By default `x` if it is `model-x.zt` in the folder of a new `model.zt`, so that
	 * readers find it by name; otherwise its name without the extension, and readers find it by size and digest.
	 */
	readonly shard?: string | undefined;
}
/** A file that is being written. It appears at its path with `finish()`. Calls may overlap; they run in order. */
export declare class TensorWriter {
	#private;
	/** The path or URL; undefined for a stream. */
	readonly path: string | undefined;
	protected constructor(internals: unknown);
	/**
	 * Adds a dense tensor: a typed array, or `{ dtype, shape, data }`. Do not change the array before the promise resolves. `finish()`
	 * rejects with the error of a call that you do not await.
	 *
	 * @example
	 * await writer.add('bias', new Float32Array(64))
	 * await writer.add('weight', floats, { shape: [256, 64] })
	 * await writer.add('half', { dtype: 'bfloat16', shape: [256, 64], data: floats }) // rounds to the nearest
	 *
	 * @throws ZTensorError ZT_BAD_SHAPE if the array does not have the size of the shape, ZT_BAD_DTYPE for a dtype that the format does not
	 * support, ZT_BAD_INDEX if the name exists, ZT_LIMIT, ZT_IO, ZT_CLOSED after the end of the writer, or after an error in the middle of
	 * a tensor (its `cause`); TypeError and RangeError ZT_INVALID_ARG; the signal's reason
	 */
	add(name: string, tensor: TypedArray | TensorInput, options?: AddDenseOptions): Promise<void>;
	/**
	 * Adds a sparse matrix in CSR form. Validates its arrays. For version 2, the columns of each row are sorted, and duplicate columns are
	 * rejected.
	 *
	 * @throws ZTensorError ZT_BAD_SPARSE if the arrays break the layout's rules, ZT_BAD_SHAPE if they do not fit the shape, ZT_BAD_DTYPE and
	 * ZT_BAD_LAYOUT for what the format does not support, ZT_BAD_INDEX if the name exists, ZT_LIMIT, ZT_IO, ZT_CLOSED after the end of the
	 * writer, or after an error in the middle of a tensor (its `cause`); TypeError and RangeError ZT_INVALID_ARG; the signal's reason
	 */
	addCsr(name: string, matrix: CsrInput, options?: AddOptions): Promise<void>;
	/**
	 * Adds a sparse tensor in COO form. Validates its arrays. Version 2 rejects duplicate coordinates.
	 *
	 * @throws ZTensorError ZT_BAD_SPARSE if the arrays break the layout's rules, ZT_BAD_SHAPE if they do not fit the shape, ZT_BAD_DTYPE and
	 * ZT_BAD_LAYOUT for what the format does not support, ZT_BAD_INDEX if the name exists, ZT_LIMIT, ZT_IO, ZT_CLOSED after the end of the
	 * writer, or after an error in the middle of a tensor (its `cause`); TypeError and RangeError ZT_INVALID_ARG; the signal's reason
	 */
	addCoo(name: string, tensor: CooInput, options?: AddOptions): Promise<void>;
	/**
	 * Adds a tensor of any layout by its components. For `dense`, `sparse_csr` and `sparse_coo`, validates the sizes of the components.
	 *
	 * @throws ZTensorError ZT_BAD_SHAPE if the arrays do not fit the shape, ZT_BAD_DTYPE and ZT_BAD_LAYOUT for what the format does not
	 * support, ZT_BAD_INDEX if the name exists, ZT_LIMIT, ZT_IO, ZT_CLOSED after the end of the writer, or after an error in the middle of
	 * a tensor (its `cause`); TypeError and RangeError ZT_INVALID_ARG; the signal's reason
	 */
	addObject(name: string, object: ObjectInput): Promise<void>;
	/**
	 * Adds a tensor whose bytes stay in another zTensor 2 file. Needs version 2 and `canonical: false`. The other file is read once, for
	 * the digest that identifies it.
	 *
	 * @example
	 * const base = await open('base.zt')
	 * await writer.link('embedding', { file: base, tensor: 'model.embed_tokens.weight' })
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_BAD_INDEX if the name exists, ZT_UNSUPPORTED_ENCODING, ZT_IO; TypeError
	 * ZT_INVALID_ARG
	 */
	link(name: string, tensor: LinkInput): Promise<void>;
	/**
	 * Returns a Writable for the bytes of a dense tensor, little-endian. Write exactly as many bytes as the shape takes. Other calls of the writer wait
	 * until the stream has ended. `finish()` rejects with an error of the stream or of a source that is piped into it; it is never an
	 * uncaught exception.
	 *
	 * @example
	 * await pipeline(createReadStream('weights.raw'), writer.stream('weights', { dtype: 'float32', shape: [4096, 4096] }))
	 *
	 * @throws TypeError and RangeError ZT_INVALID_ARG. The stream is destroyed with ZT_BAD_SHAPE for a wrong number of bytes,
	 * ZT_BAD_DTYPE, ZT_BAD_INDEX if the name exists, ZT_LIMIT, ZT_IO, ZT_CLOSED, or the signal's reason
	 */
	stream(name: string, tensor: {
		readonly dtype: DType;
		readonly shape: readonly number[];
	}, options?: AddOptions): Writable;
	/**
	 * Writes the index, syncs the file to disk and publishes it at its path, atomically. A stream has ended when the promise resolves. After
	 * an error the path is unchanged. Problems after the file was published are process warnings (`ZTensorWarning`).
	 *
	 * @throws ZTensorError ZT_EXISTS if the path was created in the meantime, ZT_IO, ZT_CLOSED, the error of a call or stream that was not
	 * handled; the signal's reason
	 */
	finish(): Promise<void>;
	/** Aborts the file: removes temporary files and leaves the path unchanged. A stream is destroyed. */
	abort(): Promise<void>;
	[Symbol.asyncDispose](): Promise<void>;
	get [Symbol.toStringTag](): string;
	toJSON(): object;
	[inspect.custom](_depth: number, options: InspectOptions): string;
}
interface IndexLimits {
	/** Maximum size of the index in bytes: 1 GiB by default. */
	maxIndexBytes?: number | undefined;
	/** Maximum number of dimensions of a tensor: 64 by default. */
	maxRank?: number | undefined;
	/** Maximum number of attribute values in the index, including nested values: 16,777,216 by default. */
	maxAttributeValues?: number | undefined;
}
/**
 * How to edit a file. `digest`, `compression` and `alignment` apply to the new tensors, with the defaults for a new file of the same
 * version. In version 2 the alignment is a power of two from 4096.
 */
export interface AppendOptions extends Pick<CreateOptions, "digest" | "compression" | "alignment">, IndexLimits {
	/**
	 * Write to the file itself, instead of a clone that replaces it atomically. This only writes the new data, and an error or `abort()`
	 * restores the old file. But if the process or the machine stops during the edit, the file is incomplete and cannot be opened.
	 * The default preserves owner and permissions; other hard links still refer to the old file. `inPlace` changes all hard links.
	 */
	inPlace?: boolean | undefined;
	/** Aborts the edit, like `abort()`. Later calls reject with `signal.reason`. */
	signal?: AbortSignal | undefined;
}
/**
 * An edit of an existing file. New tensors are added as to a new file. Existing tensors can be renamed and removed, and their attributes
 * changed. Nothing changes at the path before `finish()`.
 */
export declare class TensorEditor extends TensorWriter {
	readonly path: string;
	get [Symbol.toStringTag](): string;
	/**
	 * Renames a tensor. It keeps its position in the index.
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_BAD_INDEX if the new name exists, ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG, also for
	 * tensors that this edit added
	 */
	rename(name: string, to: string): Promise<void>;
	/**
	 * Removes a tensor from the index. Its name can be used again; its bytes stay in the file until `compact()`.
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; RangeError ZT_INVALID_ARG for tensors that this edit added
	 */
	remove(name: string): Promise<void>;
	/**
	 * Sets metadata of the file. An undefined value removes its key. All other metadata stays.
	 *
	 * @example await editor.setMetadata({ license: 'apache-2.0', draft: undefined })
	 *
	 * @throws ZTensorError ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG for a value that the format does not support
	 */
	setMetadata(metadata: AttributeChanges): Promise<void>;
	/**
	 * Sets attributes of an existing tensor. An undefined value removes its attribute. All other attributes stay.
	 *
	 * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; RangeError ZT_INVALID_ARG for tensors that this edit added
	 */
	setTensorAttributes(name: string, attributes: AttributeChanges): Promise<void>;
}
/**
 * Starts an edit of a zTensor file of version 1.0 to 1.2 or 2. The file keeps its version and unknown keys of its index. A version 2 file
 * gets a new generation (§2.5): old bytes and indexes stay, so that it is not canonical until `compact()`. Components in shards or linked
 * files stay there; new tensors are written to the root. The file is locked against other writers during the edit.
 *
 * @example
 * const editor = await append('model.zt')
 * await editor.add('lora.a', new Float32Array(64))
 * await editor.remove('unused')
 * await editor.finish()
 *
 * @throws ZTensorError ZT_BAD_MAGIC, ZT_TRUNCATED, ZT_BAD_INDEX and the other codes of `open` for an invalid file; ZT_UNSUPPORTED_VERSION
 * for a file that must be converted first; ZT_IO, also if another edit is running, and from `finish()` if another program changed the
 * file; TypeError and RangeError ZT_INVALID_ARG
 */
export declare function append(path: string | URL, options?: AppendOptions): Promise<TensorEditor>;
interface CompactResult {
	/** New size of the file in bytes. */
	readonly byteLength: number;
	/** Bytes by which the file has shrunk. */
	readonly reclaimed: number;
}
/**
 * Rewrites a zTensor file of version 1.0 to 1.2 or 2 without the bytes of removed tensors and old indexes, and replaces it atomically.
 * A file that would not shrink is not changed. A version 2 file that is a single file, uncompressed, aligned to 64 KiB and with xxh3
 * digests becomes canonical (§6.3); any other file keeps the order of its blobs. Shards are not changed.
 *
 * @example const { byteLength, reclaimed } = await compact('model.zt')
 *
 * @throws ZTensorError ZT_BAD_MAGIC, ZT_TRUNCATED, ZT_BAD_INDEX and the other codes of `open` for an invalid file; ZT_IO, also if another
 * edit is running; ZT_UNSUPPORTED_VERSION if the index has unknown keys, since they may contain offsets; TypeError and RangeError
 * ZT_INVALID_ARG; the signal's reason
 */
export declare function compact(path: string | URL, options?: JobOptions & IndexLimits): Promise<CompactResult>;
type DTypeGroup = "float*" | "int*" | "uint*";
interface CastRule {
	/** A glob for names of the source: `*` matches any characters, `?` a single character. */
	readonly name?: string | undefined;
	readonly dtype?: DType | DTypeGroup | undefined;
	readonly to: DType;
}
/**
 * Casts as an object, such as `{ 'lm_head.*': 'float32', 'float*': 'bfloat16' }`, or as a list of rules. The first rule that matches a tensor
 * is used. A key is a dtype, one of the groups `float*`, `int*` and `uint*`, or else a glob for names.
 */
export type CastRules = {
	readonly [from: string]: DType | undefined;
} | readonly CastRule[];
/**
 * New names of tensors: an object of names and patterns, such as `{ 'model.*': 'm.*' }`, or a function. `*` matches any characters, and each
 * `*` of the new name stands for what the `*` at the same position matched. The first entry that matches a name is used; other names stay.
 */
export type Renaming = {
	readonly [from: string]: string;
} | ((name: string) => string);
type QuantizedType = BlockType | "f32" | "f16" | "bf16";
/** How to convert a file. Its metadata and generator are copied, and `metadata` changes what it names. */
export interface ConvertOptions extends CreateOptions, JobOptions {
	/** `false` copies nothing of the source's metadata: the file has only what `metadata` sets. */
	copyMetadata?: boolean | undefined;
	/** `false` copies no attributes of tensors, except parameters of quantized layouts. */
	copyAttributes?: boolean | undefined;
	/**
	 * Fail if the target cannot store metadata of the source or attributes of its tensors. By default they are left out and listed in
	 * `skipped`. Where the target stores only text (safetensors), other plain values become JSON text.
	 */
	strictMetadata?: boolean | undefined;
	/**
	 * Stores the elements of quantized tensors (GGUF block types, TFLite, `zt.quant_group/1`, `zt.mx/1`) as a dense tensor of this dtype.
	 * Each element is computed as float32 and rounded once, to nearest, ties to even. An error if no tensor is quantized.
	 */
	dequantize?: "float32" | "float16" | "bfloat16" | undefined;
	/**
	 * Quantizes tensors to ggml's block types, bit for bit as llama.cpp does: the name of a mixture of `llama-quantize` (`'q4_k_m'`,
	 * `'q8_0'`, …), or block types by patterns of the new names, of which the first match counts: `{ '*.ffn_down.*': 'q6_k', '*': 'q5_k' }`.
	 * Types of rules may also be `f32`, `f16` and `bf16`. A mixture quantizes matrices whose names end in `weight`, as llama.cpp does; a rule
	 * all matrices that its pattern matches. Norms, biases and routers stay as they are. A pattern that is used for nothing to quantize is an
	 * error, also if earlier patterns match all of its tensors. A tensor whose rows are not whole blocks gets a type with smaller blocks, or float16; `quantized.fallbacks` of the result lists
	 * these. A mixture orders the tensors as llama.cpp does. NaN, infinities, and numbers that are too large for the scale of their block are
	 * an error (`ZT_BAD_DTYPE`), as they are for `llama-quantize`.
	 */
	quantize?: Mixture | (string & {}) | Readonly<Record<string, QuantizedType | (string & {})>> | undefined;
	/**
	 * The importance matrix that weighs errors while quantizing: the path of a file by `llama-imatrix`, as GGUF or in its older format.
	 * `iq1_s` to `iq3_xxs`, and the mixture `q2_k_s`, need one with weights for each tensor, but not for embeddings and the output.
	 * `quantized.unweighted` of the result lists the other tensors that it has no weights for.
	 */
	imatrix?: string | undefined;
	/** Quantize tensors that are quantized already. By default they are an error, because each time loses precision. */
	requantize?: boolean | undefined;
	/**
	 * GGUF from a checkpoint of the Hugging Face hub: names, shapes, metadata and tokenizer become those of `convert_hf_to_gguf.py`, from
	 * `config.json` and the tokenizer's files next to the weights. By default if the target is GGUF, the source is safetensors or PyTorch with
	 * such a `config.json`, and `rename` is not given; `skipped` of the result says so if it is. `false` copies the tensors under their own
	 * names. Without it, a GGUF file whose metadata would have no `general.architecture` is an error, because llama.cpp reads no such file.
	 * `false` is an error for other targets, and for GGUF of a model from GGUF, where there is no checkpoint to convert.
	 */
	checkpoint?: boolean | undefined;
	/** How to open the source. */
	source?: OpenOptions | undefined;
	/**
	 * Selects the tensors to convert, all by default: a glob, a list of globs (`!` excludes), or a function. A glob that matches no tensor is
	 * an error, and so is a filter that selects none.
	 */
	filter?: Filter<AnyTensor> | undefined;
	/**
	 * New names of tensors: a function, or an object of names and patterns such as `{ 'model.*': 'm.*' }`, in which each `*` stands for what
	 * it matched. Two tensors with the same new name are an error. An error for BTF, where tensors have numbers instead of names.
	 */
	rename?: Renaming | undefined;
	/**
	 * Casts all floating-point tensors to this dtype. A rule of `cast` that matches a tensor takes precedence, and so does `quantize`. In GGUF
	 * of a model, norms, biases and routers stay float32: llama.cpp computes with no other type of them. An error if there is no tensor to
	 * cast; a tensor that has the dtype already counts.
	 */
	dtype?: DType | undefined;
	/**
	 * Casts dense tensors and the values of sparse tensors, by dtype (`{ float32: 'bfloat16' }`), by groups of dtypes (`float*`, `int*`,
	 * `uint*`) and by names (`{ 'lm_head.*': 'float32' }`), or a list of rules `{ name, dtype, to }`. The first rule that matches a tensor is
	 * used, and a rule that is used for none is an error. A rule with a name and no dtype casts only floats to floats and integers to integers.
	 * Names are those of the source, or for a checkpoint that becomes GGUF those that it gets there. Supported are casts between float64,
	 * float32, float16, bfloat16, float8_e4m3fn and float8_e5m2, from any dtype that widens to float32 to these, and from integers to wider
	 * integers. Values are rounded to nearest, ties to even. Overflow gives infinity, or NaN in float8_e4m3fn. Other dtypes, and components
	 * of other layouts, are not changed.
	 */
	cast?: CastRules | undefined;
	/**
	 * Skip tensors that the target format cannot represent, because of their dtype, layout, name or data, instead of failing. Fails if
	 * no tensor would be left. A glob or a list of globs skips only tensors whose names match.
	 */
	skip?: boolean | string | readonly string[] | undefined;
	/**
	 * Write nothing, and return as `plan` what would be written. It reads no tensors, so it finds neither damaged data nor values that the
	 * target cannot represent, and it does not look at the target.
	 */
	dryRun?: boolean | undefined;
}
/** The result of a conversion. */
export interface ConvertResult {
	/** Number of tensors written. */
	readonly tensors: number;
	/**
	 * The path or URL that opens what was written: the target; of a set of files that of its index, or of its first file. Undefined for a
	 * stream, and with `dryRun`. Not enumerable.
	 */
	readonly path?: string | undefined;
	/**
	 * What was left out, with the reasons: metadata and attributes that the target cannot store, and with `skip` the tensors that it cannot represent.
	 * The errors of tensors and their attributes have the property `tensor`.
	 */
	readonly skipped: readonly ZTensorError[];
	/** Number of tensors that were skipped: 0 without `skip`. */
	readonly skippedTensors: number;
	/**
	 * With `quantize`, the number of tensors of each type that they were quantized to, without those that stay as they are; the tensors
	 * whose rows are not whole blocks of the wanted type; and those for which the importance matrix has no weights.
	 */
	readonly quantized: {
		readonly types: Readonly<Record<string, number>>;
		readonly fallbacks: readonly {
			readonly tensor: string;
			readonly wanted: string;
			readonly type: string;
		}[];
		readonly unweighted: readonly string[];
	};
	/** The warnings of the source, as in `file.warnings`. */
	readonly warnings: readonly Warning[];
	/** The programs that can read the new file. Python only reads zTensor 1.0 if all metadata is text. */
	readonly readers: readonly string[];
	/** With `dryRun`, what would be written. */
	readonly plan?: ConvertPlan | undefined;
}
interface PlannedTensor$1 {
	readonly name: string;
	/** The dtype of a dense or sparse tensor, the block type of ggml (`q4_k`), or the name of any other layout. */
	readonly storageType: string;
	readonly shape: readonly number[];
	/** Size in bytes, before compression. */
	readonly byteLength: number;
	/** The number of its file in a set, from 0 on. */
	readonly file: number;
}
/** What a conversion would write. */
export interface ConvertPlan {
	/** The tensors, in the order of writing. */
	readonly tensors: readonly PlannedTensor$1[];
	/** Total size in bytes of the tensors, before compression and without the index. */
	readonly byteLength: number;
	/** Number of files with tensors: more than 1 only with `maxShardBytes`. */
	readonly files: number;
	/** Number of tensors that the target may not be able to represent, depending on values that were not read. */
	readonly unchecked: number;
}
declare const TYPES: readonly [
	"uint8",
	"int8",
	"uint16",
	"int16",
	"uint32",
	"int32",
	"uint64",
	"int64",
	"float32",
	"float64",
	"bool",
	"string"
];
/** A value with the type that it gets in a GGUF file. For an array, that is the type of its items. */
export interface TypedValue {
	readonly type: (typeof TYPES)[number];
	readonly value: AttributeValueInput;
}
/** What to change in a file, and how. */
export interface EditMetadataOptions extends JobOptions, IndexLimits {
	/**
	 * The keys to set. All other keys stay. In GGUF, a new value gets the type of the old one if it fits. Otherwise it becomes a string, a
	 * bool, the first of int32, uint32, int64 and uint64 that holds it, a float32, or an array of one of these; `{ type, value }` requests
	 * a type. In safetensors, values that are not strings are stored as JSON.
	 */
	set?: {
		readonly [key: string]: AttributeValueInput | TypedValue;
	} | undefined;
	/** The keys to remove. */
	remove?: string | readonly string[] | undefined;
	/** New names of tensors, as in `convert`: by name, by pattern (`{ 'model.*': 'm.*' }`) or by a function. Names can be swapped. */
	rename?: Renaming | undefined;
	/**
	 * The tensors to drop, by name or glob; a glob that begins with `!` excludes what it matches. In safetensors and GGUF their bytes go
	 * too: if any tensor follows them, the file is copied. In zTensor their bytes stay until `compact()`.
	 */
	drop?: string | readonly string[] | undefined;
	/**
	 * Edit the file itself, instead of a clone or copy that replaces it atomically. A longer header needs a file system that can insert
	 * blocks (ext4 and XFS on Linux); otherwise the file is replaced nevertheless. If the process or the machine stops during the edit, the
	 * file may be damaged. A reader that has the file open may see the new bytes, or wrong ones: close it first. `inPlace` changes all
	 * hard links.
	 */
	inPlace?: boolean | undefined;
}
/** The result of `editMetadata`. */
export interface EditMetadataResult {
	/** The size of the file in bytes. */
	readonly byteLength: number;
	/**
	 * How the file was edited:
	 *
	 * - `'unchanged'`: it had this content already.
	 * - `'in-place'`: in the file itself.
	 * - `'inserted'`: in the file itself, after blocks were inserted before its data.
	 * - `'cloned'`: it was replaced by a clone that shares its blocks, so that no data was copied.
	 * - `'copied'`: it was replaced by a copy.
	 */
	readonly method: "unchanged" | "in-place" | "inserted" | "cloned" | "copied";
}
/**
 * Creates a writer. The target is a path, an `s3:`, `gs:` or `az:` URL, or a stream. A file or object appears at its path or URL
 * atomically, with `finish()`. A Node Writable, a pipe or a character device gets the same bytes as a stream. For formats whose index comes
 * first (all but zTensor) and for canonical zTensor 2, they are written to a temporary file before, and go to the stream with `finish()`. For
 * a pipe, `create` waits until it has a reader.
 *
 * @example
 * const writer = await create('model.zt')
 * await writer.add('weight', new Float32Array(6), { shape: [2, 3] })
 * await writer.finish() // the file appears only now
 *
 * @throws ZTensorError ZT_EXISTS without `overwrite`, ZT_IO; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
 */
export declare function create(target: string | URL | Writable, options?: CreateOptions): Promise<TensorWriter>;
type AnyInput = TypedArray | TensorInput | CsrInput | CooInput | ObjectInput | AnyTensor | Loaded;
/** Tensors by name: an object, a Map, or any iterable of pairs. */
export type Tensors = Readonly<Record<string, AnyInput>> | Iterable<readonly [
	name: string,
	tensor: AnyInput
]>;
/** How to write a file. */
export interface SaveFileOptions extends CreateOptions {
	/**
	 * Called after a tensor was written, about every 100 ms, and once at the end. The totals of an iterator are those of the tensors that it
	 * has returned so far.
	 */
	onProgress?: JobOptions["onProgress"];
}
/**
 * Writes tensors to a file in one call. The file appears atomically, and replaces an existing file unless `overwrite` is false.
 *
 * @example
 * await saveFile('model.safetensors', { bias: new Float32Array(64), weight: { shape: [64, 2], data } })
 *
 * @throws ZTensorError ZT_EXISTS with `overwrite: false`, ZT_BAD_SHAPE, ZT_BAD_DTYPE, ZT_BAD_LAYOUT, ZT_BAD_SPARSE, ZT_BAD_INDEX for what the
 * format cannot represent, ZT_LIMIT, ZT_IO, and for tensors of an open file the errors of its `load`; TypeError and RangeError
 * ZT_INVALID_ARG; the signal's reason
 */
export declare function saveFile(path: string | URL, tensors: Tensors, options?: SaveFileOptions): Promise<void>;
/** The tolerance: elements are equal if `|a - b| <= atol + rtol * max(|a|, |b|)`. */
export interface CompareOptions extends JobOptions {
	/** Absolute tolerance: 0 by default. */
	atol?: number | undefined;
	/** Relative tolerance, relative to the larger magnitude: 0 by default. */
	rtol?: number | undefined;
	/** Also compute `relativeChange` and `cosine`, which reads tensors that are not identical twice. */
	norms?: boolean | undefined;
}
/** The result of a comparison. */
export interface Comparison {
	/** Whether dtype and elements are bitwise identical. */
	readonly identical: boolean;
	/** Whether no element differs by more than the tolerance. NaN equals NaN, and 0 equals -0. */
	readonly equal: boolean;
	/** Number of compared elements; for sparse tensors with the same pattern, of stored values. */
	readonly elements: number;
	/** Number of elements that differ by more than the tolerance. */
	readonly differing: number;
	/** The flat, row-major index of the first of them; undefined if there is none. */
	readonly firstDifference: number | undefined;
	/** Number of elements that are NaN on one side only. */
	readonly unmatchedNaN: number;
	/** The largest `|a - b|`. */
	readonly maxAbsolute: number;
	/** The largest `|a - b| / max(|a|, |b|)`. */
	readonly maxRelative: number;
	/**
	 * With `norms`: `‖b - a‖ / ‖a‖`, over the elements that are finite on both sides: 0 if nothing differs, Infinity if `a` is zero. A complex
	 * number counts as two. Undefined if the squares of the numbers are beyond float64.
	 */
	readonly relativeChange?: number | undefined;
	/** With `norms`: the cosine of the angle between both as vectors; undefined if one of them is zero, or the squares are beyond float64. 1 if they are identical. */
	readonly cosine?: number | undefined;
}
/** What to compare. */
export interface DiffOptions extends CompareOptions {
	/** Compare only these tensors, all by default. A glob that matches a tensor of neither file is an error. */
	filter?: Filter<AnyTensor> | undefined;
	/** Compare only values: ignore differences of dtypes and layouts. */
	values?: boolean | undefined;
	/**
	 * Also compare the attributes of tensors, and count metadata that differs: `same` is false then. Otherwise it is only listed, because
	 * formats store different metadata of the same tensors.
	 */
	metadata?: boolean | undefined;
	/**
	 * New names of the first file's tensors, under which the second file has them: a function, or an object of names and patterns, as in
	 * `convert`. Two tensors with the same new name are an error.
	 */
	rename?: Renaming | undefined;
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
/** How two tensors with the same name differ. */
export interface TensorChange {
	readonly name: string;
	/** The name in the second file, if `rename` gives it another. */
	readonly renamed?: string | undefined;
	/** The dtypes, if they differ. */
	readonly dtype: Pair<DType | undefined> | undefined;
	/** The shapes, if they differ. */
	readonly shape: Pair<readonly number[]> | undefined;
	/** The layouts, if they differ. */
	readonly layout: Pair<Layout> | undefined;
	/**
	 * How the values differ: a comparison, or if values cannot be compared as numbers, the roles of the components whose bytes differ.
	 * Undefined if the values are equal, or the shapes differ.
	 */
	readonly values: {
		readonly comparison: Comparison;
	} | {
		readonly components: readonly string[];
	} | undefined;
	/** The roles of additional components whose bytes differ, or that only one side has. */
	readonly components: readonly string[];
	/** The attributes that differ, if the option `metadata` is set. */
	readonly attributes: readonly ChangedAttribute[];
}
/** The differences between two files. */
export interface FileDiff {
	/** Whether there are no differences of tensors, and with the option `metadata` none of metadata. */
	readonly same: boolean;
	/** The tensors that only the second file has. */
	readonly added: readonly DiffTensor[];
	/** The tensors that only the first file has. */
	readonly removed: readonly DiffTensor[];
	/** The tensors that both files have and that differ, in the order of the first file. */
	readonly changed: readonly TensorChange[];
	/** Number of tensors that both files have and that are equal. */
	readonly unchanged: number;
	/** The metadata of the files that differs. */
	readonly metadata: readonly ChangedAttribute[];
}
/**
 * Compares the elements of two tensors of the same shape, off the event loop. The tensors may be in one file or in two, and may
 * have different dtypes, encodings and layouts. Values are compared as float64, or exactly if both dtypes are integers.
 * Quantized tensors are compared by their float32 values. Sparse tensors with the same pattern are compared by their stored values,
 * otherwise by all elements, up to 1 GiB. Components are compared by their elements, or by their bytes if the dtype is unknown.
 * The digests of data that needs no decoding are not checked.
 *
 * @example
 * const { equal, maxAbsolute } = await compare(before.tensor('wte'), after.tensor('wte'), { rtol: 0.01 })
 *
 * @throws ZTensorError ZT_BAD_SHAPE if the shapes differ, ZT_BAD_DTYPE and ZT_BAD_LAYOUT if the values cannot be compared,
 * ZT_CLOSED, ZT_BAD_SPARSE, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and
 * RangeError ZT_INVALID_ARG; the signal's reason
 */
export declare function compare(a: AnyTensor | Component, b: AnyTensor | Component, options?: CompareOptions): Promise<Comparison>;
/**
 * Finds the differences between two files of any formats: names, dtypes, shapes, layouts and, as in `compare`, values. Open files that
 * you pass stay open.
 *
 * @example
 * const { same, added, removed, changed } = await diff('before.safetensors', 'after.zt', { rtol: 0.01 })
 *
 * @throws ZTensorError what `open` throws for either file; ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_BAD_SPARSE, ZT_UNSUPPORTED_ENCODING,
 * ZT_LIMIT, ZT_TRUNCATED, ZT_MAPPING_LOST and ZT_IO if data cannot be read; ZT_CLOSED for a closed file. TypeError
 * and RangeError ZT_INVALID_ARG; the signal's reason
 */
export declare function diff(a: Source | TensorFile, b: Source | TensorFile, options?: DiffOptions): Promise<FileDiff>;
/** Returns what `convert` would write as `plan`, and writes nothing. @throws as `convert` without `dryRun`, except for what only the data shows */
export declare function convert(source: Source | TensorFile, target: string | URL | Writable, options: ConvertOptions & {
	readonly dryRun: true;
}): Promise<ConvertResult & {
	readonly plan: ConvertPlan;
}>;
/**
 * Writes the tensors of a file into a new file of any writable format. Raw data is copied in pieces, so that memory use does not
 * depend on its size. The digests of the source are checked. A Node Writable is ended on success and destroyed on failure. It
 * receives npz and canonical zTensor 2 when they are complete in a temporary file, and other formats as they are written. A source that is already open stays open. An `s3:`, `gs:` or `az:` URL names an object, which appears atomically at the
 * end. `remote` configures access to the target, and `source.remote` access to the source.
 *
 * @example await convert('model.safetensors', 'model.zt', { cast: { float32: 'bfloat16' } })
 *
 * @throws ZTensorError what `open` throws for the source; ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_BAD_SPARSE, ZT_UNSUPPORTED_ENCODING,
 * ZT_LIMIT, ZT_TRUNCATED and ZT_MAPPING_LOST if data cannot be read; ZT_BAD_DTYPE, ZT_BAD_LAYOUT or ZT_BAD_SHAPE if the target format
 * cannot represent a tensor, before anything is written, with all reasons in `cause`; ZT_EXISTS without `overwrite`; ZT_IO. TypeError
 * and RangeError ZT_INVALID_ARG; the signal's reason. After an error the target is unchanged.
 */
export declare function convert(source: Source | TensorFile, target: string | URL | Writable, options?: ConvertOptions): Promise<ConvertResult>;
/**
 * Edits the metadata of a safetensors, GGUF or zTensor file (1.0 to 1.2 and 2), and renames and drops tensors: all changes are made, or none.
 * The edit preserves everything else byte for byte. By default, a clone replaces the file atomically, or a copy where the file system
 * cannot clone. `inPlace` edits the file itself, in a time that does not depend on its size. The header gets padding, so that a later edit
 * fits in it: spaces in safetensors, and the key `ztensor.padding` in GGUF, which `attributes` does not list. Of a set of files, the one at
 * `path` is edited. The file is locked against other edits.
 *
 * @example await editMetadata('model.gguf', { set: { 'tokenizer.chat_template': text }, remove: ['general.url'] })
 *
 * @throws ZTensorError ZT_NOT_FOUND for a key or a tensor that the file does not have; ZT_BAD_INDEX for a new name that is taken; ZT_LIMIT
 * for a header that readers would refuse; the codes of `open` for an invalid file; ZT_UNSUPPORTED_VERSION for a version that cannot be
 * edited; ZT_IO, also if another edit is running or another program changed the file. TypeError and RangeError ZT_INVALID_ARG, also for
 * a format that cannot be edited, and for a key or value that the format does not permit; the signal's reason
 */
export declare function editMetadata(path: string | URL, options?: EditMetadataOptions): Promise<EditMetadataResult>;

export {};

/** All exports of the package, for `import ztensor from 'ztensor'`. */
declare const ztensor: typeof import("./index.js");
export default ztensor;
