// Loads the files of dist/ and keeps their compiled code from one process to the next. Node's own cache (22.8 and later) keeps only the
// functions that ran while a file was loaded; most run later.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { Script } from 'node:vm'

/** A file whose compiled code was missing or refused. */
interface Compiled {
  readonly place: string
  readonly source: Buffer
  readonly script: Script
}

type Require = (id: string) => unknown

const PARAMETERS = 'exports, require, module, __filename, __dirname'

/**
 * The compiled code of this exact `source`, if `place` holds it: the source, then the code, twice. V8 does not check the code, and damaged
 * or half-written code crashes it. Comparing two copies is faster than loading one of Node's checksums.
 */
function codeOf(source: Buffer, place: string): Buffer | undefined {
  let kept: Buffer
  try {
    kept = readFileSync(place)
  } catch {
    return undefined
  }
  const start = source.length
  const middle = start + (kept.length - start) / 2
  const code = kept.subarray(start, middle)
  const sound = middle > start && source.equals(kept.subarray(0, start)) && code.equals(kept.subarray(middle))
  return sound ? code : undefined
}

function keep({ place, source, script }: Compiled): void {
  const code = script.createCachedData()
  writeFileSync(place, Buffer.concat([source, code, code]), { mode: 0o600 })
}

/**
 * Loads the module at `path` and returns its exports. When the process ends, the code that it compiled goes into `folder`, unless the exit
 * code says that the command could not be used. The modules must not call `import()`: kept code cannot, on Node 20.
 */
export function load(path: string, folder: string): unknown {
  const modules = new Map<string, { exports: unknown }>()
  const anew: Compiled[] = []

  function compiled(filename: string): Script {
    const source = readFileSync(filename)
    const place = join(folder, basename(filename))
    const cachedData = codeOf(source, place)
    const script = new Script(`(function (${PARAMETERS}) {${source}\n})`, { filename, cachedData })
    // V8 refuses code of another version or with other flags.
    if (cachedData === undefined || script.cachedDataRejected) anew.push({ place, source, script })
    return script
  }

  function required(filename: string): unknown {
    const known = modules.get(filename)
    if (known !== undefined) return known.exports
    const module = { exports: {} as unknown }
    modules.set(filename, module)
    const folder = dirname(filename)
    const outside = createRequire(filename)
    const require: Require = (id) => (id.startsWith('./') ? required(join(folder, id)) : outside(id))
    compiled(filename).runInThisContext()(module.exports, require, module, filename, folder)
    return module.exports
  }

  process.on('exit', (code) => {
    if (code > 1 || anew.length === 0) return
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      for (const one of anew) keep(one)
    } catch {
      // The next start is slower, nothing else.
    }
  })
  return required(path)
}
