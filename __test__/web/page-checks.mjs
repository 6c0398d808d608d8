// What @ztensor/web does in a page beyond reading as the addon does: workers, aborts, closed files, memory. Runs in the page.

export const equal = (found, expected, what = '') => {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)]
  if (a !== b) throw new Error(`${what} is ${a}, not ${b}`)
}

export const rejected = async (promise) => {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('the call did not reject')
}

const fetched = async (name) => new Uint8Array(await (await fetch(`/fixtures/${name}`)).arrayBuffer())

/** A safetensors file of one float32 tensor. */
export function safetensors(name, values) {
  const bytes = new Uint8Array(Float32Array.from(values).buffer)
  const json = JSON.stringify({ [name]: { dtype: 'F32', shape: [values.length], data_offsets: [0, bytes.length] } })
  const head = new Uint8Array(8 + json.length)
  new DataView(head.buffer).setBigUint64(0, BigInt(json.length), true)
  head.set(new TextEncoder().encode(json), 8)
  return new Blob([head, bytes])
}

/** A source whose reads `answer` answers once the file is open. */
async function stalled(bytes, answer) {
  const state = { isOpen: false }
  const read = (offset, length, { signal }) =>
    state.isOpen ? answer(signal, offset, length) : bytes.subarray(offset, offset + length)
  return [{ byteLength: bytes.length, read }, state]
}

/** Records the workers that are started while `use` runs. */
export async function withWorkers(use) {
  const { Worker } = globalThis
  const workers = []
  globalThis.Worker = class extends Worker {
    constructor(...given) {
      super(...given)
      workers.push(this)
    }

    terminate() {
      this.isTerminated = true
      super.terminate()
    }
  }
  try {
    return await use(workers)
  } finally {
    globalThis.Worker = Worker
  }
}

const CALLS = {
  load: (file) => file.tensor('frames').load(),
  'load as float32': (file) => file.tensor('frames').load({ as: 'float32' }),
  'load into an array': (file) =>
    file.tensor('frames').load({ as: 'float32', into: new Float32Array(file.tensor('frames').size) }),
  'load of a slice': (file) => file.tensor('frames').load({ slice: [[0, 2]] }),
  take: (file) => file.tensor('frames').take([1, 0]),
  loadTo: (file) => file.tensor('frames').loadTo(() => {}),
  stats: (file, options) => file.tensor('frames').stats(options),
  nearest: (file, options) => file.tensor('frames').nearest(new Float32Array(256).fill(1), options),
  'verify of a tensor': (file, options) => file.tensor('frames').verify(options),
  'verify of the file': (file, options) => file.verify(options),
  'load of all': (file, options) => file.load(options),
  contentDigest: (file, options) => file.contentDigest('sha256', options),
}

const WITH_SIGNAL = {
  ...CALLS,
  load: (file, options) => file.tensor('frames').load(options),
  'load as float32': (file, options) => file.tensor('frames').load({ as: 'float32', ...options }),
  'load into an array': (file, options) =>
    file.tensor('frames').load({ as: 'float32', into: new Float32Array(file.tensor('frames').size), ...options }),
  'load of a slice': (file, options) => file.tensor('frames').load({ slice: [[0, 2]], ...options }),
  take: (file, options) => file.tensor('frames').take([1, 0], options),
  loadTo: (file, options) => file.tensor('frames').loadTo(() => {}, options),
}

/** Opens and closes 200 files. The instances of the page that it makes are added to `memories`. */
export async function openAndClose200({ open }, worker, memories) {
  const bytes = new Blob([await fetched('zt2-zstd.zt')])
  const { instantiate } = WebAssembly
  WebAssembly.instantiate = async (...given) => {
    const instance = await instantiate(...given)
    memories.push(new WeakRef(instance.exports.memory))
    return instance
  }
  try {
    await withWorkers(async (workers) => {
      for (let at = 0; at < 200; at++) {
        const file = await open(bytes, { worker })
        await file.tensor('frames').load({ as: 'float32' })
        file.close()
      }
      equal(workers.filter(({ isTerminated }) => isTerminated).length, worker ? 200 : 0, 'the number of ended workers')
    })
  } finally {
    WebAssembly.instantiate = instantiate
  }
}

/** Checks of files with and without a worker. */
const both = (worker) => ({
  async 'an aborted call rejects with the reason, and its read is aborted'({ open }) {
    for (const [what, call] of Object.entries(WITH_SIGNAL)) {
      let aborted = () => {}
      const isAborted = new Promise((resolve) => {
        aborted = resolve
      })
      const stop = new AbortController()
      const [source, state] = await stalled(await fetched('zt2-zstd.zt'), (signal) => {
        stop.abort('enough')
        return new Promise((_resolve, reject) => {
          const abort = () => {
            aborted()
            reject(signal.reason)
          }
          if (signal.aborted) abort()
          else signal.addEventListener('abort', abort)
        })
      })
      const file = await open(source, { worker })
      state.isOpen = true
      equal(await rejected(call(file, { signal: stop.signal })), 'enough', what)
      await isAborted
      state.isOpen = false
      equal((await call(file)) !== null, true, `${what} after an abort`)
      file.close()
    }
  },

  async 'an aborted load writes no more into the array'({ open }) {
    const compressed = await fetched('zt2-zstd.zt')
    const plain = new Uint8Array(await safetensors('frames', new Array(1000).fill(1)).arrayBuffer())
    for (const bytes of [compressed, plain]) {
      const answers = []
      const [source, state] = await stalled(bytes, (_signal, offset, length) => {
        stop.abort('enough')
        return new Promise((resolve) => {
          answers.push(() => resolve(bytes.subarray(offset, offset + length)))
        })
      })
      const stop = new AbortController()
      const file = await open(source, { worker })
      const tensor = file.tensor('frames')
      const as = bytes === compressed ? 'float32' : undefined
      const into = new Float32Array(tensor.size)
      state.isOpen = true
      equal(await rejected(tensor.load({ as, into, signal: stop.signal })), 'enough')
      state.isOpen = false
      into.fill(7)
      equal(answers.length > 0, true, 'a read was under way')
      for (const answer of answers) answer()
      await tensor.load({ as })
      equal(
        into.findIndex((value) => value !== 7),
        -1,
        'the first element that was written',
      )
      file.close()
    }
  },

  async 'close ends each call'({ open }) {
    for (const [what, call] of Object.entries(CALLS)) {
      let reading = () => {}
      const isReading = new Promise((resolve) => {
        reading = resolve
      })
      const [source, state] = await stalled(await fetched('zt2-zstd.zt'), () => {
        reading()
        return new Promise(() => {})
      })
      const file = await open(source, { worker })
      state.isOpen = true
      const calling = rejected(call(file))
      await isReading
      file.close()
      equal((await calling).code, 'ZT_CLOSED', what)
    }
  },

  async 'errors have their codes and places, and the cause that the caller threw'({ open }) {
    const thrown = new Error('the disk is on fire')
    const [source, state] = await stalled(await fetched('zt2-zstd.zt'), () => Promise.reject(thrown))
    const file = await open(source, { worker })
    state.isOpen = true
    const error = await rejected(file.tensor('frames').load())
    equal([error.code, error.cause === thrown, error.name], ['ZT_IO', true, 'ZTensorError'])
    file.close()
    const bytes = await fetched('zt2-zstd.zt')
    const flipped = bytes.slice()
    const limited = await open(flipped, { worker, maxDecodedBytes: 1000 })
    const limit = await rejected(limited.tensor('frames').load())
    equal([limit.code, limit.tensor, limit.option], ['ZT_LIMIT', 'frames', 'maxDecodedBytes'])
    limited.close()
    const gone = await open(bytes, { worker })
    structuredClone(bytes, { transfer: [bytes.buffer] })
    equal((await rejected(gone.tensor('frames').load())).code, 'ZT_CLOSED')
    gone.close()
  },

  async 'progress is reported'({ open }) {
    const file = await open(await fetched('zt2-zstd.zt'), { worker })
    const seen = []
    await file.verify({ onProgress: (progress) => seen.push(progress) })
    const { bytes, totalBytes, tensors, totalTensors } = seen.at(-1)
    equal([bytes, tensors], [totalBytes, totalTensors])
    equal(totalTensors, file.size)
    file.close()
  },

  async 'a Blob may be larger than 4 GiB'({ open }) {
    const size = 5 * 2 ** 30
    const zeros = new Blob([new Uint8Array(64 * 2 ** 20)])
    const json = JSON.stringify({
      gap: { dtype: 'U8', shape: [size], data_offsets: [0, size] },
      t: { dtype: 'F32', shape: [3], data_offsets: [size, size + 12] },
    })
    const head = new Uint8Array(8 + json.length)
    new DataView(head.buffer).setBigUint64(0, BigInt(json.length), true)
    head.set(new TextEncoder().encode(json), 8)
    const blob = new Blob([head, ...new Array(size / zeros.size).fill(zeros), Float32Array.of(1, 2, 3)])
    const file = await open(blob, { worker })
    equal(file.byteLength, head.length + size + 12)
    equal([...(await file.tensor('t').load())], [1, 2, 3])
    const start = 4.5 * 2 ** 30
    equal([...(await file.tensor('gap').load({ slice: [[start, start + 2]] }))], [0, 0])
    file.close()
  },

  async '50 files at once'({ open, compare }) {
    const bytes = await fetched('zt2-zstd.zt')
    const files = await Promise.all(Array.from({ length: 50 }, () => open(new Blob([bytes]), { worker })))
    const loaded = await Promise.all(files.flatMap((file) => [...file.values()].map((tensor) => tensor.load())))
    const first = loaded.slice(0, files[0].size).map((array) => [...array].join())
    for (const [at, array] of loaded.entries()) equal([...array].join(), first[at % first.length])
    equal((await compare(files[0].tensor('frames'), files[1].tensor('frames'))).equal, true)
    for (const file of files) file.close()
  },
})

export const checks = {
  ...Object.fromEntries(Object.entries(both(false)).map(([title, look]) => [`page: ${title}`, look])),
  ...Object.fromEntries(Object.entries(both(true)).map(([title, look]) => [`worker: ${title}`, look])),

  async 'URLs of Blobs and data are opened'({ open }) {
    const blob = safetensors('t', new Array(100_000).fill(7))
    const reader = new FileReader()
    const data = await new Promise((resolve) => {
      reader.onload = () => resolve(reader.result)
      reader.readAsDataURL(blob)
    })
    for (const url of [URL.createObjectURL(blob), data]) {
      const file = await open(url)
      equal([...(await file.tensor('t').load({ slice: [[99_998, 100_000]] }))], [7, 7])
      file.close()
    }
  },

  async 'a server that the page may not read is asked twice'({ open }) {
    const { fetch } = globalThis
    let count = 0
    globalThis.fetch = (...given) => {
      count += 1
      return fetch(...given)
    }
    try {
      const other = new URL('/fixtures/zt2-zstd.zt', location.href)
      other.hostname = 'localhost'
      const error = await rejected(open(other))
      equal([error.code, error.message.includes('(CORS)'), count], ['ZT_IO', true, 2], error.message)
    } finally {
      globalThis.fetch = fetch
    }
  },

  async 'loadTo fills a buffer of WebGPU'({ open }) {
    const adapter = await navigator.gpu?.requestAdapter()
    // Firefox and WebKit of Debian have no WebGPU.
    if (!adapter) return equal(navigator.userAgent.includes('Chrome'), false, 'a Chromium without an adapter')
    const device = await adapter.requestDevice()
    // Three pieces of loadTo.
    const values = Array.from({ length: 5 * 2 ** 20 }, (_, at) => at)
    const file = await open(safetensors('t', values))
    const { byteLength } = file.tensor('t')
    const { COPY_DST, COPY_SRC, MAP_READ } = GPUBufferUsage
    const buffer = device.createBuffer({ size: byteLength, usage: COPY_DST | COPY_SRC })
    const offsets = []
    await file.tensor('t').loadTo((bytes, offset) => {
      offsets.push(offset)
      device.queue.writeBuffer(buffer, offset, bytes)
    })
    equal(offsets, [0, 8 * 2 ** 20, 16 * 2 ** 20])
    const back = device.createBuffer({ size: byteLength, usage: COPY_DST | MAP_READ })
    const encoder = device.createCommandEncoder()
    encoder.copyBufferToBuffer(buffer, 0, back, 0, byteLength)
    device.queue.submit([encoder.finish()])
    await back.mapAsync(GPUMapMode.READ)
    const wrong = new Float32Array(back.getMappedRange()).findIndex((value, at) => value !== values[at])
    equal(wrong, -1, 'the first element that differs')
    device.destroy()
    file.close()
  },

  async 'worker: close ends it, and so does a failed open'({ open }) {
    await withWorkers(async (workers) => {
      const file = await open(safetensors('t', [1, 2]), { worker: true })
      equal(
        workers.map(({ isTerminated }) => isTerminated === true),
        [false],
      )
      file.close()
      equal((await rejected(open(new Blob(['no model']), { worker: true }))).code, 'ZT_BAD_MAGIC')
      equal(
        workers.map(({ isTerminated }) => isTerminated === true),
        [true, true],
      )
    })
  },

  async 'worker: one that dies is ZT_INTERNAL'({ open }) {
    await withWorkers(async (workers) => {
      const [source, state] = await stalled(await fetched('zt2-zstd.zt'), () => new Promise(() => {}))
      const file = await open(source, { worker: true })
      state.isOpen = true
      const loading = rejected(file.tensor('frames').load())
      // The worker meets a message that it does not know, outside of any call.
      workers[0].postMessage(null)
      const error = await loading
      equal([error.code, error.message.includes('close the file')], ['ZT_INTERNAL', true], error.message)
      equal((await rejected(file.tensor('frames').load())).code, 'ZT_INTERNAL')
      file.close()
    })
  },

  async 'worker: a script that is missing is an error of open'({ open }) {
    const { Worker } = globalThis
    globalThis.Worker = class extends Worker {
      constructor() {
        super('/nothing.js', { type: 'module' })
      }
    }
    try {
      const error = await rejected(open(safetensors('t', [1]), { worker: true }))
      equal([error.code, error.message.includes('worker.js')], ['ZT_IO', true], error.message)
    } finally {
      globalThis.Worker = Worker
    }
  },

  async 'worker: arrays are transferred'({ open }) {
    await withWorkers(async (workers) => {
      const file = await open(safetensors('t', new Array(100_000).fill(1)), { worker: true })
      const received = []
      workers[0].addEventListener('message', ({ data }) => received.push(data.result))
      for (const options of [undefined, { slice: [[1, 99_999]] }, { as: 'float32' }]) {
        const loaded = await file.tensor('t').load(options)
        // The loaded array is a view of the buffer in the message itself, which the listener gets in the same turn.
        await new Promise((resolve) => setTimeout(resolve))
        equal([received.length > 0, received.flat().includes(loaded.buffer)], [true, true], JSON.stringify(options))
      }
      file.close()
    })
  },

  async 'the files of an input are opened as they are'({ open }) {
    const chosen = new DataTransfer()
    for (const name of ['a', 'b']) chosen.items.add(new File([safetensors(name, [1])], `${name}.safetensors`))
    const file = await open(chosen.files)
    equal([...file.keys()].sort(), ['a', 'b'])
    file.close()
  },

  async 'worker: the page collects its garbage if the worker has no memory'({ open }) {
    const { Worker } = globalThis
    const { Memory } = WebAssembly
    const script = (code) => URL.createObjectURL(new Blob([code], { type: 'text/javascript' }))
    const failsOnce = script(`
      const { instantiate } = WebAssembly
      WebAssembly.instantiate = async () => {
        WebAssembly.instantiate = instantiate
        throw new RangeError('Out of memory')
      }`)
    let created = 0
    globalThis.Worker = class extends Worker {
      constructor(url, options) {
        super(script(`import '${failsOnce}'\nimport '${url}'`), options)
      }
    }
    WebAssembly.Memory = class extends Memory {
      constructor(...given) {
        super(...given)
        created += 1
      }
    }
    try {
      const file = await open(safetensors('t', [1, 2, 3]), { worker: true })
      equal([...(await file.tensor('t').load({ as: 'float32' }))], [1, 2, 3])
      file.close()
    } finally {
      globalThis.Worker = Worker
      WebAssembly.Memory = Memory
    }
    equal(created, 1)
  },

  async 'worker: the page reads no data of a Blob, a handle or a URL'({ open }) {
    const root = await navigator.storage.getDirectory()
    const handle = await root.getFileHandle('one.safetensors', { create: true })
    const writable = await handle.createWritable()
    await writable.write(safetensors('t', [1, 2, 3]))
    await writable.close()
    for (const source of [safetensors('t', [1, 2, 3]), handle]) {
      const file = await open(source, { worker: true })
      const { slice } = Blob.prototype
      Blob.prototype.slice = () => {
        throw new Error('the page reads')
      }
      try {
        equal([...(await file.tensor('t').load())], [1, 2, 3])
      } finally {
        Blob.prototype.slice = slice
      }
      equal(file.tensor('t').blob().size, 12)
      file.close()
    }
    const file = await open(new URL('/fixtures/zt2-zstd.zt', location.href), { worker: true })
    const { fetch } = globalThis
    globalThis.fetch = () => Promise.reject(new Error('the page reads'))
    try {
      equal((await file.verify()).ok, true)
    } finally {
      globalThis.fetch = fetch
    }
    file.close()
  },

  async 'worker: works in module workers'() {
    const code = `
      import { open } from '${location.origin}/packages/web/index.js'
      try {
        const file = await open(new URL('/fixtures/zt2-zstd.zt', '${location.origin}'), { worker: true })
        const { ok } = await file.verify()
        file.close()
        postMessage(ok)
      } catch (error) {
        postMessage(String(error))
      }`
    const worker = new Worker(URL.createObjectURL(new Blob([code], { type: 'text/javascript' })), { type: 'module' })
    const printed = await new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data)
      worker.onerror = (event) => reject(new Error(event.message))
    })
    worker.terminate()
    equal(printed, true)
  },
}
