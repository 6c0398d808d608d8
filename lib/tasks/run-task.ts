// Runs one task of any job.
import type { JobOptions } from '../native/job.js'
import type { OpenOptions } from '../read/open.js'
import type { RemoteOptions } from '../read/remote.js'
import { jobOptions } from '../read/verify.js'
import { readOptions } from '../values/arguments.js'
import { validateConvertTask } from './convert-tasks.js'
import { kindOf, plainJson, type Task, type TaskResult } from './format.js'
import { runConvert } from './run-convert.js'
import { runStats, validateStatsTask } from './stats-tasks.js'
import { runVerify, validateVerifyTask } from './verify-tasks.js'

/** How to do a task. */
export interface RunTaskOptions extends JobOptions {
  /** How to open the source, beyond what the task says: `remote` with its headers, `io`, `shards`. */
  source?: OpenOptions | undefined
  /** Of a conversion: how to reach the store that its target is in. */
  remote?: RemoteOptions | undefined
}

/** `runTask` of lib/lazy.ts. */
export async function runTask(task: Task, options?: RunTaskOptions): Promise<TaskResult> {
  const { source, remote, ...long } = readOptions(options, ['source', 'remote', 'onProgress', 'signal'])
  const job = jobOptions(long)
  job.signal?.throwIfAborted()
  const given = plainJson('task', task)
  const kind = kindOf('task', given)
  if (kind === 'convert') return runConvert(validateConvertTask('task', given), source, remote, job)
  if (kind === 'verify') return runVerify(validateVerifyTask('task', given), source, job)
  return runStats(validateStatsTask('task', given), source, job)
}
