// Where Redis is: REDIS_URL, or this machine.
import { Redis } from 'ioredis'

/** The names of the queues. */
export const QUEUES = { tasks: 'ztensor-tasks', ends: 'ztensor-ends' }

/** Opens a connection. Each worker needs a separate one. */
export function connect() {
  return new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { maxRetriesPerRequest: null })
}
