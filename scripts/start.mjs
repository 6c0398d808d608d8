// `npm start [-- path]`: opens a tensor file with the built package, like a program, and prints each step.
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { source } from './source.mjs'

const example = fileURLToPath(new URL('../examples/model.safetensors', import.meta.url))
const path = process.argv[2] ?? example
const listed = 12
// How many values are added up to show that they are readable, without a noticeable wait.
const summedAtMost = 1 << 24

const { open, quantity, text } = await load()
try {
  await show()
} catch (error) {
  console.error(`ztensor: ${text.printable(error.message)} (${error.code ?? 'no code'})`)
  process.exitCode = 2
}

/** The package by its own name, and the command's way of writing sizes and names. */
async function load() {
  try {
    const [{ open }, quantity, text] = await Promise.all([
      import('ztensor'),
      source('cli/quantity.ts'),
      source('cli/text.ts'),
    ])
    return { open, quantity, text }
  } catch (error) {
    console.error(`ztensor: the package is not built yet: run \`npm run build\` first.\n  ${error.message}`)
    process.exit(2)
  }
}

/** Runs `work` and returns its result and its time. */
async function timed(work) {
  const start = performance.now()
  const result = await work()
  return { result, time: `${(performance.now() - start).toFixed(2)} ms` }
}

/** Prints a step, its time and its result. */
function step(done, time, outcome) {
  console.log(`${done.padEnd(10)}${time.padStart(12)}   ${outcome}`)
}

async function show() {
  const { showBytes, showCount, showCounted } = quantity
  const { printable, showName } = text

  // The first call of a process also compiles code.
  ;(await open(path)).close()
  const opened = await timed(() => open(path))
  const file = opened.result
  const name = printable(relative(process.cwd(), path) || path)
  const kind = [file.format, file.version].filter((part) => part !== undefined).join(' ')
  step('opened', opened.time, `${name}: ${kind}, ${showBytes(file.byteLength)}`)

  const { result: tensors, time: listTime } = await timed(() => [...file.values()])
  step('listed', listTime, `${showCounted(tensors.length, 'tensor')}, from the index alone:`)
  const names = tensors.slice(0, listed).map((tensor) => showName(tensor.name))
  const widest = Math.max(0, ...names.map((shown) => shown.length))
  for (const [at, tensor] of tensors.slice(0, listed).entries()) {
    const dtype = (tensor.dtype ?? '-').padEnd(9)
    console.log(`${' '.repeat(25)}${names[at].padEnd(widest)}  ${dtype} [${tensor.shape.join(', ')}]`)
  }
  if (tensors.length > listed) console.log(`${' '.repeat(25)}… and ${showCount(tensors.length - listed)} more`)

  const { result: aliased, time: aliasTime } = await timed(() => alias(tensors))
  step('aliased', aliasTime, aliased.sentence)

  const proof = sum(tensors)
  if (proof !== undefined) step('summed', proof.time, proof.sentence)

  const { result: verified, time: verifyTime } = await timed(() => file.verify())
  const digests =
    verified.checked === 0 ? 'the file carries no digests' : `${showCounted(verified.checked, 'digest')} compared`
  step('verified', verifyTime, `${verified.ok ? 'every rule of the format is met' : 'NOT SOUND'}; ${digests}`)
  for (const failure of verified.failures)
    console.log(`${' '.repeat(25)}${failure.code}: ${printable(failure.message)}`)
  if (!verified.ok) process.exitCode = 1
  file.close()

  const subject = proof?.tensor ?? tensors[0]
  console.log(`
Try next, in your own file:

  import { open } from 'ztensor'

  const file = await open(${JSON.stringify(name)})
  for (const [name, tensor] of file) console.log(name, tensor.dtype, tensor.shape)${
    subject === undefined
      ? ''
      : `
  const tensor = file.tensor(${JSON.stringify(subject.name)})
  console.log(tensor.${subject.layout === 'dense' ? 'data' : 'components'})`
  }
  file.close()

or on the command line:  npx ztensor --help`)
}

/** Takes the typed array of every component that is stored raw, and reports how many bytes were copied. */
function alias(tensors) {
  let mapped = 0
  let copied = 0
  const reasons = new Set()
  let compressed = 0
  for (const tensor of tensors) {
    if (tensor.layout !== 'dense' || [...tensor.components.values()].some((one) => one.encoding !== 'raw')) {
      compressed++
      continue
    }
    const bytes = tensor.data.byteLength
    if (tensor.mapped) mapped += bytes
    else {
      copied += bytes
      if (tensor.copyReason !== undefined) reasons.add(tensor.copyReason)
    }
  }
  const parts = [`${quantity.showBytes(mapped)} as typed arrays over the file itself, nothing copied`]
  if (copied > 0) parts.push(`${quantity.showBytes(copied)} copied (${[...reasons].join(', ')})`)
  if (compressed > 0) parts.push(`${quantity.showCounted(compressed, 'tensor')} left alone: sparse, or compressed`)
  return { sentence: parts.join('; ') }
}

/** Adds up the values of the largest dense float tensor below the limit, to show that they are readable. */
function sum(tensors) {
  const start = performance.now()
  const candidates = tensors.filter(
    (tensor) => tensor.layout === 'dense' && /^b?float(16|32|64)$/.test(tensor.dtype) && tensor.size <= summedAtMost,
  )
  const tensor = candidates.reduce((best, one) => (best === undefined || one.size > best.size ? one : best), undefined)
  if (tensor === undefined) return undefined
  const values = /16$/.test(tensor.dtype) ? tensor.toFloat32() : tensor.data
  let total = 0
  for (const value of values) total += value
  const time = `${(performance.now() - start).toFixed(2)} ms`
  const count = quantity.showCount(tensor.size)
  return { tensor, time, sentence: `the ${count} values of ${text.showName(tensor.name)} add up to ${total}` }
}
