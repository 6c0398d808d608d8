// What conversions in a page do beyond writing the bytes of the addon, with and without a worker. Runs in the page.
import { equal, rejected, safetensors, withWorkers } from './page-checks.mjs'

const FORMAT = { format: 'safetensors' }

/** A file of one float32 tensor with several blocks of output. */
const large = () => safetensors('t', new Array(6 * 2 ** 20).fill(1.5))

/** A file of four float32 tensors of 6 MiB, each of which is fetched before it is written. */
function several() {
  const [count, length] = [4, 6 * 2 ** 20]
  const tensors = Array.from({ length: count }, (_, at) => [
    `t${at}`,
    { dtype: 'F32', shape: [length / 4], data_offsets: [at * length, (at + 1) * length] },
  ])
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(tensors)))
  const head = new Uint8Array(8 + json.length)
  new DataView(head.buffer).setBigUint64(0, BigInt(json.length), true)
  head.set(json, 8)
  return new Blob([head, new Uint8Array(count * length)])
}

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
    let [writes, bytesRead] = [0, 0]
    const stop = new AbortController()
    const blob = several()
    const source = await byCode(blob, (bytes, offset, length) => {
      bytesRead += length
      return bytes.slice(offset, offset + length)
    })
    const [writing, aborted] = [Promise.withResolvers(), Promise.withResolvers()]
    const stream = new WritableStream({
      write(_chunk, { signal }) {
        writes += 1
        writing.resolve()
        return new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason))
        })
      },
      abort: aborted.resolve,
    })
    const converting = rejected(convert(source, stream, { ...FORMAT, worker, signal: stop.signal }))
    await writing.promise
    // Meanwhile, the same conversion to a Blob begins and ends.
    const other = await byCode(blob, (bytes, offset, length) => bytes.slice(offset, offset + length))
    await convert(other, undefined, { ...FORMAT, worker })
    equal([writes, bytesRead < blob.size / 2], [1, true], `${bytesRead} of ${blob.size} bytes`)
    stop.abort('enough')
    equal(await converting, 'enough')
    equal([writes, await aborted.promise], [1, 'enough'])
  },

  async 'every kind of source gives the same file'({ open }, { convert }) {
    const names = [1, 2, 3].map((number) => `split-0000${number}-of-00003.gguf`)
    const urls = names.map((name) => new URL(`/fixtures/gguf/${name}`, location.href))
    const files = await Promise.all(
      urls.map(async (url, at) => new File([await (await fetch(url)).arrayBuffer()], names[at])),
    )
    const opened = [await open(files), await open(files, { worker: true })]
    const sources = { URLs: urls, 'an open file': opened[0], 'a file that is open in a worker': opened[1] }
    if (typeof navigator.storage?.getDirectory === 'function') {
      const root = await navigator.storage.getDirectory()
      const folder = await root.getDirectoryHandle('split', { create: true })
      const handles = []
      for (const file of files) {
        const handle = await folder.getFileHandle(file.name, { create: true })
        await file.stream().pipeTo(await handle.createWritable())
        handles.push(handle)
      }
      Object.assign(sources, { 'the handle of a folder': folder, handles })
    }
    const written = async (source) =>
      (await bytesOf((await convert(source, undefined, { ...FORMAT, worker })).blob)).join()
    const expected = await written(files)
    for (const [kind, source] of Object.entries(sources)) equal(await written(source), expected, kind)
    for (const file of opened) file.close()
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
    equal(error.cause.length, file.size, 'every tensor has a reason')
    const none = await rejected(convert(file, stream, { ...FORMAT, skip: true, worker }))
    equal(
      [none.code, none.cause.length, none.message.startsWith('no tensor is left'), stream.locked],
      ['ZT_BAD_LAYOUT', file.size, true, false],
    )
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
    // The page reads one byte of each piece that it writes.
    Blob.prototype.slice = function (start, end = this.size) {
      if (end - start > 1) throw new Error('the page reads')
      return slice.call(this, start, end)
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
