// What conversions in a page do beyond writing the bytes of the addon, with and without a worker. Runs in the page.
import { equal, rejected, safetensors, withWorkers } from './page-checks.mjs'

const FORMAT = { format: 'safetensors' }

/** A file of one float32 tensor with several blocks of output. */
const large = () => safetensors('t', new Array(6 * 2 ** 20).fill(1.5))

const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer())

/** A source of the page's own code. `answer` makes the bytes of a read after the index. */
async function byCode(blob, answer) {
  const bytes = await bytesOf(blob)
  const read = (offset, length) =>
    offset < 2 ** 20 ? bytes.slice(offset, offset + length) : answer(bytes, offset, length)
  return { byteLength: bytes.length, read }
}

const both = (worker) => ({
  async 'an open file is converted twice, with progress'({ open }, { convert }) {
    const file = await open(large())
    for (let time = 0; time < 2; time++) {
      const seen = []
      const onProgress = (progress) => seen.push(progress)
      const { blob, tensors } = await convert(file, undefined, { ...FORMAT, dtype: 'bfloat16', worker, onProgress })
      equal([tensors, blob.size > 2 * file.tensor('t').size], [1, true])
      const converted = await open(blob)
      const { dtype } = converted.tensor('t')
      equal(
        [dtype, (await converted.tensor('t').load({ slice: [[0, 3]], as: 'float32' })).join()],
        ['bfloat16', '1.5,1.5,1.5'],
      )
      converted.close()
      equal(seen.at(-1).bytes, seen.at(-1).totalBytes)
    }
    equal(file.closed, false)
    file.close()
  },

  async 'a slow stream holds the conversion back, and an abort ends it'(_web, { convert }) {
    let [writes, reads] = [0, 0]
    const stop = new AbortController()
    const source = await byCode(large(), (bytes, offset, length) => {
      reads += 1
      return bytes.slice(offset, offset + length)
    })
    let written = () => {}
    const isWriting = new Promise((resolve) => {
      written = resolve
    })
    let reason
    const stream = new WritableStream({
      write() {
        writes += 1
        written()
        return new Promise(() => {})
      },
      abort(given) {
        reason = given
      },
    })
    const converting = rejected(convert(source, stream, { ...FORMAT, worker, signal: stop.signal }))
    await isWriting
    const before = reads
    // A round trip through another worker takes longer than the next block would.
    await new Promise((resolve) => {
      const other = new Worker(URL.createObjectURL(new Blob(['postMessage(0)'])))
      other.onmessage = resolve
    })
    equal([writes, reads], [1, before])
    stop.abort('enough')
    equal(await converting, 'enough')
    equal([writes, reason ?? 'enough'], [1, 'enough'])
  },

  async 'a stream that fails is ZT_IO with its error'(_web, { convert }) {
    const cause = new Error('no paper')
    let writes = 0
    const stream = new WritableStream({
      write() {
        writes += 1
        throw cause
      },
    })
    const error = await rejected(convert(large(), stream, { ...FORMAT, worker }))
    equal([error.code, error.cause === cause, writes], ['ZT_IO', true, 1])
  },

  async 'an error of the source has the cause that it threw'(_web, { convert }) {
    const cause = new Error('the disk is on fire')
    const source = await byCode(large(), () => Promise.reject(cause))
    const error = await rejected(convert(source, undefined, { ...FORMAT, worker }))
    equal([error.code, error.cause === cause, error.name], ['ZT_IO', true, 'ZTensorError'])
  },

  async 'refusals have their codes, tensors and hints'({ open }, { convert }) {
    const file = await open(new URL('/fixtures/zt2-sparse.zt', location.href))
    const stream = new WritableStream()
    const error = await rejected(convert(file, stream, { ...FORMAT, worker }))
    equal([error.code, error.tensor, stream.locked], ['ZT_BAD_LAYOUT', 'coo 1d', false])
    equal(error.cause.length > 1, true, 'there are several reasons')
    const { skippedTensors } = await convert(file, stream, { ...FORMAT, skip: true, worker }).catch((error) => error)
    equal(skippedTensors === undefined || skippedTensors === error.cause.length, true)
    file.close()
  },
})

export const checks = {
  ...Object.fromEntries(Object.entries(both(false)).map(([title, look]) => [`conversion: ${title}`, look])),
  ...Object.fromEntries(Object.entries(both(true)).map(([title, look]) => [`conversion in a worker: ${title}`, look])),

  async 'conversion in a worker: the worker ends with it'(_web, { convert }) {
    await withWorkers(async (workers) => {
      await convert(large(), undefined, { ...FORMAT, worker: true })
      await rejected(convert(large(), undefined, { format: 'gguf', worker: true }))
      equal(
        workers.map(({ isTerminated }) => isTerminated === true),
        [true, true],
      )
    })
  },

  async 'conversion in a worker: one that dies is ZT_INTERNAL'(_web, { convert }) {
    await withWorkers(async (workers) => {
      const source = await byCode(large(), (bytes, offset, length) => {
        if (workers.length === 0) return bytes.slice(offset, offset + length)
        // The worker meets a message that it does not know, outside of any call.
        workers[0].postMessage(null)
        return new Promise(() => {})
      })
      const error = await rejected(convert(source, undefined, { ...FORMAT, worker: true }))
      equal([error.code, error.message.includes('convert again')], ['ZT_INTERNAL', true], error.message)
    })
  },

  async 'conversion in a worker: the page reads no data of a Blob'({ open }, { convert }) {
    const file = await open(large())
    const { slice } = Blob.prototype
    Blob.prototype.slice = () => {
      throw new Error('the page reads')
    }
    try {
      const { blob } = await convert(file, undefined, { ...FORMAT, worker: true })
      equal(blob.size > 0, true)
    } finally {
      Blob.prototype.slice = slice
      file.close()
    }
  },
}
