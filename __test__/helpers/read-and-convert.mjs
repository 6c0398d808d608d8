// Reads files in every way (readings.mjs) from every source: by path, from memory, without a mapping, over a handle that
// another thread might have; and converts them to every other format. As a program, it reads the given files and prints what is
// wrong and their properties, for environments that are set when a process starts.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import { compare, convert, openSync, ZTensorError } from 'ztensor'
import { ownRoles, readings } from './readings.mjs'
import { collecting } from './sample-files.mjs'
import { scratchPath } from './scratch.mjs'

const SOURCES = {
  path: (path) => openSync(path),
  memory: (path) => openSync(readFileSync(path)),
  "io: 'read'": (path) => openSync(path, { io: 'read' }),
}

/** What is wrong with a file, read from every source; and its properties. */
export async function readFromEverySource(path) {
  const wrong = []
  let facts
  const read = async (from, file) => {
    const found = await readings(file)
    wrong.push(...found.wrong.map((what) => `${from}: ${what}`))
    facts ??= found.facts
    if (JSON.stringify(found.facts) !== JSON.stringify(facts))
      wrong.push(`${from}: ${JSON.stringify(found.facts)}, by path ${JSON.stringify(facts)}`)
  }
  for (const [from, open] of Object.entries(SOURCES)) {
    const file = open(path)
    await file.prefetch()
    await read(from, file)
    if (from === 'path') {
      const shared = openSync(file.share())
      await read('a shared file', shared)
      shared.close()
    }
    file.close()
  }
  return { wrong, facts }
}

/** The writable formats, and whether each can be written into a stream, which needs no disk. */
export const TARGETS = [
  { name: '0.1', options: { version: '0.1' } },
  { name: '1.0', options: { version: '1.0', digest: 'crc32c' }, others: true },
  { name: '1.0 zstd', options: { version: '1.0', compression: { level: 1 } }, others: true },
  { name: '1.2', options: { version: '1.2', digest: 'sha256' }, others: true },
  { name: '1.2 zstd', options: { version: '1.2', compression: { level: 1 } }, others: true },
  { name: '2', options: { version: '2', canonical: false } },
  { name: '2 zstd', options: { version: '2', canonical: false, compression: { level: 1 } } },
  { name: 'safetensors', options: { format: 'safetensors' }, onDisk: true },
  { name: 'btf', options: { format: 'btf' }, onDisk: true },
]

async function converted(path, { options, onDisk }) {
  const how = { ...options, strictMetadata: true, skip: true }
  if (onDisk) {
    const target = scratchPath('converted')
    const result = await convert(path, target, { ...how, overwrite: true })
    return { result, source: target }
  }
  const { stream, bytes } = collecting()
  const result = await convert(path, stream, how)
  return { result, source: bytes() }
}

/** Whether an error states that `skip` would skip everything. */
const isOfAll = (error, size) => error.message.startsWith('no tensor is left: ') && error.cause.length >= size

/** What is wrong with a file after its conversion. Everything that the target cannot store must be listed. */
export async function convertToEveryFormat(path, targets = TARGETS) {
  const wrong = []
  const source = openSync(path)
  for (const target of targets) {
    let done
    try {
      done = await converted(path, target)
    } catch (error) {
      if (!isOfAll(error, source.size)) throw error
      continue
    }
    const { result, source: made } = done
    const file = openSync(made)
    const found = await readings(file, { cheap: true })
    wrong.push(...found.wrong.map((what) => `into ${target.name}: ${what}`))
    const skipped = new Set(result.skipped.map((error) => error.tensor))
    const remaining = Array.from(source.keys()).filter((name) => !skipped.has(name))
    if (file.size !== remaining.length) wrong.push(`into ${target.name}: ${file.size} tensors of ${remaining}`)
    for (const [at, name] of remaining.entries()) {
      const [before, after] = [source.get(name), file.get(target.name === 'btf' ? String(at) : name)]
      for (const what of await differences(before, after)) wrong.push(`into ${target.name}: ${name}: ${what}`)
    }
    for (const name of skipped) {
      const tensor = source.get(name)
      const others = tensor.components.size > ownRoles(tensor).length
      const reasons = result.skipped.filter((error) => error.tensor === name)
      const isReason = reasons.every((error) => error instanceof ZTensorError && error.message.length > 0)
      if (!isReason) wrong.push(`into ${target.name}: ${name} was left out without a reason`)
      if (others && target.others && reasons.some(({ message }) => message.includes('other than those of the layout')))
        wrong.push(`into ${target.name}: ${name} was left out for components that the target can hold`)
    }
    file.close()
  }
  source.close()
  return wrong
}

/** The losses of a tensor: elements, or additional components. */
async function differences(before, after) {
  if (after === undefined) return ['it is missing']
  const found = []
  if (before.layout === 'dense' && before.dtype !== after.dtype) found.push(`${before.dtype} became ${after.dtype}`)
  const numbers = before.dtype !== undefined && /^(dense|sparse_csr|sparse_coo)$/.test(before.layout)
  if (numbers && before.layout === after.layout) {
    const { equal, elements } = await compare(before, after)
    if (!equal) found.push(`other elements, of ${elements}`)
  }
  const own = new Set(numbers ? ownRoles(before) : [])
  const roles = Array.from(before.components.keys()).filter((role) => !own.has(role))
  for (const role of roles) {
    const [left, right] = [before, after].map(({ components }) => components.get(role))
    if (right === undefined) found.push(`component ${role} is missing`)
    else if (Buffer.compare(await rawBytes(left), await rawBytes(right)) !== 0) found.push(`other bytes in ${role}`)
  }
  if (after.components.size !== before.components.size) found.push(`components ${[...after.components.keys()]}`)
  return found
}

async function rawBytes(component) {
  const { buffer, byteOffset, byteLength } = await component.load()
  return Buffer.from(buffer, byteOffset, byteLength)
}

/** The readings of files, for a process or a thread that reads them. */
async function answer(sources) {
  const results = []
  for (const source of sources) {
    const file = openSync(source)
    results.push(await readings(file))
    file.close()
  }
  return results
}

if (!isMainThread && workerData?.sources !== undefined) parentPort.postMessage(await answer(workerData.sources))
else if (process.argv[1] === fileURLToPath(import.meta.url))
  console.log(JSON.stringify(await answer(process.argv.slice(2))))
