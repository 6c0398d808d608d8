// Loads the files beside this one, and keeps what V8 compiles of them from one process to the next. Node can do so itself from 22.8 on,
// but keeps what was compiled when a file was loaded, not what was called later, which is most of it.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { Script } from 'node:vm'

/** A file that was compiled anew. */
interface Compiled {
  readonly place: string
  readonly source: Buffer
  readonly script: Script
}

type Require = (id: string) => unknown

const PARAMETERS = 'exports, require, module, __filename, __dirname'

/**
 * What V8 made of this very `source`, if that is at `place`: the source stands there, and then the code, twice. V8 runs damaged code, that of
 * a file which was half written too, until it crashes, and Node's checksums take longer to load than all code to compare with a copy.
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
 * What the module at `path` exports. What this process has to compile is kept in `folder` when it ends, unless it says by its exit code that
 * it could not be of use. The modules must not call `import()`, which kept code could not.
 */
export function load(path: string, folder: string): unknown {
  const modules = new Map<string, { exports: unknown }>()
  const anew: Compiled[] = []

  function compiled(filename: string): Script {
    const source = readFileSync(filename)
    const place = join(folder, basename(filename))
    const cachedData = codeOf(source, place)
    const script = new Script(`(function (${PARAMETERS}) {${source}\n})`, { filename, cachedData })
    // V8 itself refuses the code of other versions and flags.
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
      // Without a place for it the command takes a little longer.
    }
  })
  return required(path)
}
