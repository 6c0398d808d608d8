// The public types of ztensor, rolled up from jobs.ts by `npm run types`. Not edited by hand.

/// <reference types="node" />

import type { AttributeInput, ConvertOptions, ConvertResult, Format, JobOptions, OpenOptions, RemoteOptions, StatsOptions, TensorStats, VerifyResult, Warning, ZTensorError } from './index.js'
type AttributeValueInput = string | number | bigint | boolean | null | Uint8Array | readonly AttributeValueInput[] | AttributeInput;

declare const TASK_VERSION = 1;

type TaskKind = "convert" | "verify" | "stats";

/** The source of a job, with the options to open it. */
export interface TaskSource {
	/** The absolute path or the URL of the file, index or folder, or a list of them. */
	readonly path: string | readonly string[];
	/** A digest of the source when the job was planned: of its lengths, its index and, with `checkModified`, its modification times. */
	readonly identity: string;
	/** Whether a changed modification time means a changed source. */
	readonly checkModified: boolean;
	readonly format?: Format;
	readonly maxIndexBytes?: number;
	readonly maxDecodedBytes?: number;
	readonly maxRank?: number;
	readonly maxAttributeValues?: number;
}

/** One part of a job. It is self-contained: any machine that can access the source and the target can run it. */
export interface Task {
	/** The version of this JSON. */
	readonly ztensor: typeof TASK_VERSION;
	readonly kind: TaskKind;
	/** The id of the job. */
	readonly job: string;
	/** The index of the task in `job.tasks`. */
	readonly task: number;
	/** Number of tasks of the job. */
	readonly count: number;
	readonly source: TaskSource;
	/** Its tensors: half-open ranges of their ordinals in the source, in ascending order. */
	readonly ordinals: readonly (readonly [
		from: number,
		end: number
	])[];
	/** Approximate number of bytes that it processes. */
	readonly byteLength: number;
	/** A digest of all other fields, including the job's id. A modified task is rejected. */
	readonly digest: string;
}

/** Work that is divided into tasks, as plain JSON that can be stored and sent. */
export interface Job<T extends Task = Task> {
	/** The version of this JSON. */
	readonly ztensor: typeof TASK_VERSION;
	readonly kind: T["kind"];
	/** A digest of the whole job. */
	readonly id: string;
	readonly source: TaskSource;
	readonly tasks: readonly T[];
	/** The warnings of the source when the job was planned, as in `file.warnings`. */
	readonly warnings: readonly Warning[];
}

/** The result of a task, as plain JSON. */
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

type MetadataPairs = readonly (readonly [
	key: string,
	value?: AttributeValueInput
])[];

type ConvertTaskOptions = Pick<ConvertOptions, "format" | "version" | "canonical" | "digest" | "compression" | "alignment" | "cast" | "dtype" | "dequantize" | "copyMetadata" | "copyAttributes" | "strictMetadata" | "skip" | "checkpoint" | "quantize" | "imatrix" | "requantize"> & {
	readonly metadata?: MetadataPairs | undefined;
	/** The path of the importance matrix that the files record. `imatrix` is absolute. */
	readonly imatrixName?: string | undefined;
};

/** One output file of a conversion. */
export interface ConvertTask extends Task {
	readonly kind: "convert";
	/** The absolute path of the target, or its URL in an object store. The shards are named after it. */
	readonly target: string;
	readonly options: ConvertTaskOptions;
	/** New names of tensors, by their ordinals in the source. */
	readonly renamed: readonly (readonly [
		ordinal: number,
		name: string
	])[];
	/**
	 * GGUF: its part of the tensors that the job writes, by their positions in the order of writing. The types of tensors depend on all of
	 * them together, so `ordinals` and `renamed` are those of the whole job.
	 */
	readonly part?: readonly [
		from: number,
		end: number
	];
	/** GGUF: a digest of the files that are read besides the source. */
	readonly inputs?: string;
	/** Other formats: the metadata that states the types of all tensors of the job. A task has only its own. */
	readonly stated?: MetadataPairs;
}

/** The result of writing one output file. */
export interface ConvertTaskResult extends TaskResult {
	readonly kind: "convert";
	/** The name of the file, in the folder of the target. */
	readonly file: string;
	readonly byteLength: number;
	/** The digest of the whole file. */
	readonly digest: string;
	/** Number of tensors in the file. */
	readonly tensors: number;
	/** The skipped tensors, with the reasons. */
	readonly skipped: readonly TaskError[];
}

/** How to finish a conversion. */
export interface FinishConvertOptions {
	/** Read every file again and check its digest. */
	verify?: boolean | undefined;
	/** How to open the source, as for `runTask`. */
	source?: OpenOptions | undefined;
	/** How to access the object store of the target. */
	remote?: RemoteOptions | undefined;
	signal?: AbortSignal | undefined;
}

/** The result of a conversion. */
export interface FinishConvertResult {
	/** The path to open: the root, the index, or the only file. */
	readonly path: string;
	/** The shards, in order; empty if there is only one file. */
	readonly files: readonly string[];
	/** Number of tensors. */
	readonly tensors: number;
	/** Total size in bytes of all files, without the root or index. */
	readonly byteLength: number;
	/** What was left out, with the reasons: skipped tensors, and what the target cannot store of the metadata, as `convert` lists it. */
	readonly skipped: readonly TaskError[];
	/** With `quantize`: the number of tensors of each type, and the others that `convert` lists. */
	readonly quantized: ConvertResult["quantized"];
	/** The warnings of the source, as in `file.warnings`. */
	readonly warnings: readonly Warning[];
	/** The programs that can read the files. */
	readonly readers: readonly string[];
}

/** A source that other machines can open: a path, a URL, or a list of them. */
export type RemoteSource = string | URL | readonly (string | URL)[];

interface TaskSourceOptions {
	/**
	 * How to open the source. The job stores the format and the limits. Pass other options (`shards`, `remote`, whose headers may be
	 * secret) to `runTask` and `finishJob` again.
	 */
	source?: OpenOptions | undefined;
	/**
	 * Whether a changed modification time means a changed source: true by default. With false each machine may use its own copy, but a
	 * change that affects neither file lengths nor the index is not detected.
	 */
	checkModified?: boolean | undefined;
}

/** The options of `convert`, and how to divide the work. Functions such as `filter` are called while the job is planned. */
export interface PlanConvertOptions extends Omit<ConvertOptions, "source" | "onProgress" | "dryRun">, TaskSourceOptions {
	/** Maximum size in bytes of an output file, and so of a task: 5 GB by default. A tensor is never divided. */
	maxShardBytes?: number | undefined;
	/** Replace the shards of an abandoned job. An existing target is ZT_EXISTS nevertheless. */
	overwrite?: boolean | undefined;
}

/** How to divide work that reads a file. */
export interface PlanReadingOptions extends TaskSourceOptions {
	/** Maximum size in bytes of the tensors of a task: 5 GB by default. A tensor is never divided. */
	maxTaskBytes?: number | undefined;
	signal?: AbortSignal | undefined;
}

/** A task that verifies some tensors. */
export interface VerifyTask extends Task {
	readonly kind: "verify";
}

/** The result of a verification task. */
export interface VerifyTaskResult extends TaskResult {
	readonly kind: "verify";
	readonly checked: number;
	readonly undigested: number;
	readonly failures: readonly TaskError[];
}

/** How to finish a verification or statistics job. */
export interface FinishOptions {
	signal?: AbortSignal | undefined;
}

/** Which statistics to compute, and how to divide the work. */
export interface PlanStatsOptions extends PlanReadingOptions, Pick<StatsOptions, "bins" | "range"> {
}

/** A task that computes the statistics of some tensors. */
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

/** The result of one task. */
export interface StatsTaskResult extends TaskResult {
	readonly kind: "stats";
	readonly stats: readonly JsonStats[];
	/** The tensors without statistics, with the reasons. */
	readonly skipped: readonly TaskError[];
}

/** The statistics of all tensors. */
export interface FinishStatsResult {
	/** Statistics by tensor name, in the order of the source. */
	readonly stats: ReadonlyMap<string, TensorStats>;
	/** The errors of tensors without statistics: of complex dtypes, or of unknown layouts. */
	readonly skipped: readonly ZTensorError[];
}

/** How to run a task. */
export interface RunTaskOptions extends JobOptions {
	/** How to open the source, in addition to the task's own options: `remote`, `io`, `shards`. */
	source?: OpenOptions | undefined;
	/** For a conversion: how to access the object store of its target. */
	remote?: RemoteOptions | undefined;
}

/**
 * Divides work on a large model into tasks: plain JSON, which any queue or scheduler can send to any machine. Writes no files.
 *
 * - `'convert'`: one task for each output file. The target is zTensor 2, safetensors or GGUF, in a folder that all machines share or in
 *   an object store.
 * - `'verify'` and `'stats'`: tasks of about `maxTaskBytes` each.
 *
 * @example
 * const job = await planJob('convert', 'model.safetensors', '/shared/model.zt', { cast: { float32: 'bfloat16' }, maxShardBytes: 2e9 })
 * const results = await Promise.all(job.tasks.map((task) => runTask(task))) // or on other machines
 * await finishJob(job, results)
 *
 * @throws ZTensorError what `open` throws for the source. For a conversion also the errors of `convert` that can be found in the index
 * alone, and ZT_EXISTS if the target exists, or one of its shards without `overwrite`. TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
 */
export declare function planJob(kind: "convert", source: RemoteSource, target: string | URL, options?: PlanConvertOptions): Promise<Job<ConvertTask>>;

export declare function planJob(kind: "verify", source: RemoteSource, options?: PlanReadingOptions): Promise<Job<VerifyTask>>;

export declare function planJob(kind: "stats", source: RemoteSource, options?: PlanStatsOptions): Promise<Job<StatsTask>>;

/**
 * Runs one task of a job, on any machine that can access the source and the target's folder. A task is idempotent and may run several
 * times, also concurrently: it always writes the same bytes, atomically. After the job is finished it writes nothing. Every field of the
 * task is validated: it can only write its own shard of the target.
 *
 * @example
 * const result = await runTask(JSON.parse(message)) // plain JSON, for finishJob
 *
 * @throws ZTensorError ZT_IO if the source has changed since the job was planned, and what `convert`, `verify` and `stats` throw; TypeError
 * and RangeError ZT_INVALID_ARG, naming the field; the signal's reason
 */
export declare function runTask(task: ConvertTask, options?: RunTaskOptions): Promise<ConvertTaskResult>;

export declare function runTask(task: VerifyTask, options?: RunTaskOptions): Promise<VerifyTaskResult>;

export declare function runTask(task: StatsTask, options?: RunTaskOptions): Promise<StatsTaskResult>;

export declare function runTask(task: Task, options?: RunTaskOptions): Promise<TaskResult>;

/**
 * Finishes a job: checks that every task has a result, and combines the results.
 *
 * - Conversion: checks that the file of each task exists, and then writes the root (zTensor 2) or the index (safetensors). Until then
 *   only shards exist, and no model can be opened. The call is idempotent. It reads no data unless `verify` is set.
 * - Verification: returns a result like that of `verify`.
 * - Statistics: returns them by tensor name.
 *
 * @example
 * const { path, tensors } = await finishJob(job, results)
 *
 * @throws TypeError and RangeError ZT_INVALID_ARG if the job was modified, or if results are missing (the message lists them), belong to
 * another job, or contradict each other. For a conversion also ZTensorError ZT_IO if the source has changed, or a file is missing or has
 * the wrong length, ZT_DIGEST_MISMATCH with `verify`, ZT_NOT_FOUND and ZT_BAD_INDEX if a file has the wrong tensors, and ZT_EXISTS if the
 * target is another file. The signal's reason
 */
export declare function finishJob(job: Job<ConvertTask>, results: readonly TaskResult[], options?: FinishConvertOptions): Promise<FinishConvertResult>;

export declare function finishJob(job: Job<VerifyTask>, results: readonly TaskResult[], options?: FinishOptions): Promise<VerifyResult>;

export declare function finishJob(job: Job<StatsTask>, results: readonly TaskResult[], options?: FinishOptions): Promise<FinishStatsResult>;

export {}
