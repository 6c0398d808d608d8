// During endless work on more tensors than there are cores, short calls finish, and calls that wait for a thread react to
// their signal and to close(). Nothing here measures time: the test ends the long work.
import { existsSync, mkdirSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import test from 'ava'
import { append, compact, compare, convert, create, open, openSync, verify } from 'ztensor'
import { canBeSparse, endlessFile } from '../helpers/endless.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const CORES = availableParallelism()
const only = (name) => (tensor) => tensor.name === name

/** An empty folder, to show leftovers. */
function folder() {
  const path = scratchPath('folder')
  mkdirSync(path)
  return path
}

/** Whether a file is being written in a folder: if the system supports it, the file has no name until it is complete. */
function hasStarted(where) {
  if (readdirSync(where).length > 0) return true
  const descriptors = existsSync('/proc/self/fd') ? readdirSync('/proc/self/fd') : []
  return descriptors.some((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`).startsWith(where)
    } catch {
      return false // that of the folder itself
    }
  })
}

/** Kinds of endless work. */
const LONG = {
  conversions: (path, job) =>
    convert(path, scratchPath('long.zt'), {
      ...job,
      version: '1.2',
      compression: { level: 15 },
      filter: only('endless'),
    }),
  verifications: (path, job) => verify(path, job),
  'conversions into streams': (path, job) => {
    const stream = new Writable({ write: (_chunk, _encoding, done) => done() })
    return convert(path, stream, { ...job, version: '1.2', compression: { level: 1 }, filter: only('endless') })
  },
}

/** Starts more long work than there are cores, and calls `during` when the maximum of it runs. */
async function withLongWork(t, kind, path, during) {
  const stop = new AbortController()
  const count = 2 * CORES + 1
  let running = 0
  let settled = 0
  let enough
  const full = new Promise((resolve) => {
    enough = resolve
  })
  const all = Array.from({ length: count }, () => {
    let heard = false
    const onProgress = ({ bytes }) => {
      if (heard || bytes === 0) return
      heard = true
      running += 1
      if (running === CORES) enough()
    }
    const work = LONG[kind](path, { onProgress, signal: stop.signal })
    const done = () => {
      settled += 1
    }
    work.then(done, done)
    return work
  })
  try {
    await Promise.race([full, Promise.all(all)])
    await during(() => t.is(settled, 0, 'the long work continues'))
  } finally {
    stop.abort(new Error('the test is over'))
    for (const { status, reason } of await Promise.allSettled(all)) {
      t.is(status, 'rejected')
      t.is(reason.message, 'the test is over')
    }
  }
}

if (canBeSparse) {
  const path = endlessFile()

  /** Short calls, and their results. */
  const SHORT = {
    'a load': async (file) => (await file.tensor('small').load())[15],
    'a load of a few MiB': async (file) => (await file.tensor('large').load({ slice: [[0, 2 ** 22]] })).length,
    'file.load': async (file) => (await file.load({ names: ['small'] })).size,
    'a verification': async (file) => (await file.tensor('small').verify()).ok,
    statistics: async (file) => (await file.tensor('small').stats()).max,
    'a comparison': async (file) => (await compare(file.tensor('small'), file.tensor('small'))).identical,
    prefetch: (file) => file.prefetch(['small']),
    open: async () => {
      const other = await open(path)
      other.close()
      return other.closed
    },
    'create and finish': async () => {
      const target = await written({ compression: { level: 3 } }, (writer) => writer.add('x', new Uint8Array(2 ** 17)))
      const other = openSync(target)
      other.close()
      return other.size
    },
    'append and finish': async () => {
      const target = await written({}, (writer) => writer.add('x', Int8Array.of(1)))
      const editor = await append(target)
      await editor.add('y', new Uint8Array(2 ** 17))
      await editor.finish()
      return editor.path === target
    },
    'create and abort': async () => {
      const where = folder()
      const writer = await create(join(where, 'x.zt'))
      await writer.abort()
      return readdirSync(where).length
    },
  }
  const RESULTS = {
    'a load': 15,
    'a load of a few MiB': 2 ** 22,
    'file.load': 1,
    'a verification': true,
    statistics: 15,
    'a comparison': true,
    prefetch: undefined,
    open: true,
    'create and finish': 1,
    'append and finish': true,
    'create and abort': 0,
  }
  for (const kind of Object.keys(LONG)) {
    test.serial(`short calls finish during ${kind}`, async (t) => {
      await withLongWork(t, kind, path, async (stillGoesOn) => {
        const file = await open(path)
        for (const [what, call] of Object.entries(SHORT)) {
          t.is(await call(file), RESULTS[what], what)
          stillGoesOn()
        }
        file.close()
      })
    })
  }

  /** Calls that wait for a thread while long work runs, and otherwise run endlessly. */
  const WAITING = {
    'a load': (file, signal) => file.tensor('large').load({ signal }),
    'a load as float32': (file, signal) => file.tensor('large').load({ as: 'float32', signal }),
    'a load of a component': (file, signal) => file.tensor('large').components.get('data').load({ signal }),
    'file.load': (file, signal) => file.load({ names: ['large'], signal }),
    'a verification': (file, signal) => file.verify({ signal }),
    'a verification of the canonical form': (file, signal) => file.verify({ canonical: true, signal }),
    statistics: (file, signal) => file.tensor('endless').stats({ signal }),
    'a comparison': (file, signal) => compare(file.tensor('endless'), file.tensor('endless'), { signal }),
    prefetch: (file, signal) => file.prefetch(undefined, { signal }),
  }
  const WRITING = {
    'a conversion': (where, signal) =>
      convert(path, join(where, 'x.zt'), {
        version: '1.2',
        compression: { level: 15 },
        filter: only('endless'),
        signal,
      }),
    'a conversion whose bools are checked first': (where, signal) =>
      convert(path, join(where, 'x.zt'), { version: '2', canonical: false, filter: only('flags'), signal }),
  }

  for (const beginning of ['queued', 'running']) {
    const around = (t, during) =>
      beginning === 'queued' ? withLongWork(t, 'verifications', path, during) : during(() => {})
    const turn = () => new Promise(setImmediate)

    test.serial(`a signal settles every reading call that is ${beginning}`, async (t) => {
      await around(t, async (stillGoesOn) => {
        const file = openSync(path)
        for (const [what, call] of Object.entries(WAITING)) {
          const stop = new AbortController()
          const work = rejectionOf(() => call(file, stop.signal))
          await turn()
          const reason = new Error(what)
          stop.abort(reason)
          t.is(await work, reason)
          stillGoesOn()
        }
        file.close()
      })
    })

    test.serial(`close() settles every reading call that is ${beginning}`, async (t) => {
      await around(t, async (stillGoesOn) => {
        for (const [what, call] of Object.entries(WAITING)) {
          const file = openSync(path)
          const work = rejectionOf(() => call(file))
          await turn()
          file.close()
          t.is((await work)?.code, 'ZT_CLOSED', what)
          stillGoesOn()
        }
        // A comparison reads both files.
        const [file, other] = [openSync(path), openSync(path)]
        const work = rejectionOf(() => compare(file.tensor('endless'), other.tensor('endless')))
        await turn()
        other.close()
        t.is((await work)?.code, 'ZT_CLOSED')
        file.close()
        stillGoesOn()
      })
    })

    test.serial(`a signal settles every writing call that is ${beginning}, and leaves nothing`, async (t) => {
      await around(t, async (stillGoesOn) => {
        for (const [what, call] of Object.entries(WRITING)) {
          const where = folder()
          const stop = new AbortController()
          let ended = false
          const work = rejectionOf(() => call(where, stop.signal)).finally(() => {
            ended = true
          })
          // A conversion that checks data first has no file while it waits for a thread.
          for (let i = 0; i < 500 && !hasStarted(where) && !ended; i++) await turn()
          if (beginning === 'running') for (let i = 0; i < 20; i++) await turn()
          const reason = new Error(what)
          stop.abort(reason)
          t.is(await work, reason)
          t.deepEqual(readdirSync(where), [], what)
          stillGoesOn()
        }
      })
    })
  }

  test.serial('a signal cancels the running and queued calls of a writer, and its file', async (t) => {
    await withLongWork(t, 'conversions', path, async (stillGoesOn) => {
      const STEPS = {
        add: (writer) => writer.add('x', new Uint8Array(2 ** 24)),
        finish: (writer) => writer.finish(),
        'an unfinished stream of a tensor': (writer) => {
          writer.stream('x', { dtype: 'uint8', shape: [9] }).write('123')
          return writer.finish()
        },
        link: async (writer) => {
          const file = openSync(path)
          try {
            return await writer.link('small', { file })
          } finally {
            file.close()
          }
        },
      }
      for (const [what, step] of Object.entries(STEPS)) {
        const where = folder()
        const stop = new AbortController()
        const reason = new Error(what)
        const writer = await create(join(where, 'x.zt'), {
          version: '2',
          canonical: false,
          compression: { level: 15 },
          signal: stop.signal,
        })
        await writer.add('first', new Uint8Array(2 ** 18))
        const work = rejectionOf(() => step(writer))
        stop.abort(reason)
        t.is(await work, reason)
        t.deepEqual(readdirSync(where), [], what)
        stillGoesOn()
      }
    })
  })

  test.serial('an abort ends a queued compaction immediately, and the file is unchanged', async (t) => {
    const target = await written({}, (writer) => writer.add('x', new Uint8Array(2 ** 20)))
    await withLongWork(t, 'verifications', path, async (stillGoesOn) => {
      const stop = new AbortController()
      const reason = new Error('enough')
      const work = rejectionOf(() => compact(target, { signal: stop.signal }))
      stop.abort(reason)
      t.is(await work, reason)
      stillGoesOn()
    })
    openSync(target).close()
  })

  test.serial('a signal ends an open that is resolving a shard', async (t) => {
    const stop = new AbortController()
    const reason = new Error('enough')
    const index = scratchPath('model.safetensors.index.json')
    writeFileSync(index, '{"weight_map":{"a":"a.safetensors"}}')
    const work = rejectionOf(() => open(index, { signal: stop.signal, shards: () => new Promise(() => {}) }))
    setImmediate(() => stop.abort(reason))
    t.is(await work, reason)
  })

  test.serial('writes nothing to the array of a load after its abort', async (t) => {
    const file = openSync(path)
    const into = Buffer.alloc(2 ** 26)
    const sevens = Buffer.alloc(2 ** 26, 7)
    for (let turns = 0; turns < 6; turns++) {
      const stop = new AbortController()
      const work = rejectionOf(() => file.tensor('large').load({ into, signal: stop.signal }))
      for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
      stop.abort()
      const error = await work
      if (error === undefined) break // it finished before
      sevens.copy(into)
      // The work itself ends later; the next call runs after it.
      await file.tensor('large').load()
      t.true(into.equals(sevens))
    }
    file.close()
  })
} else {
  test.skip('needs a file with a hole of a TiB', () => {})
}
