// A worker of bench/server.mjs: keeps the files open and reads tensors at a given rate. With `own`, it creates the same arrays over its
// own memory, without the package.
import { constants, PerformanceObserver } from 'node:perf_hooks'
import { parentPort, workerData } from 'node:worker_threads'
import { openSync } from 'ztensor'

const { paths, aSecond, own } = workerData
const [TENSORS, ELEMENTS] = [16, 4096]
const files = own ? paths.map(() => new ArrayBuffer(4 * TENSORS * ELEMENTS)) : paths.map((path) => openSync(path))
const names = own ? [] : [...files[0].keys()]
let [times, major, sum, looking] = [[], 0, 0, false]

new PerformanceObserver((list) => {
  if (looking)
    major += list.getEntries().filter(({ detail }) => detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR).length
}).observe({ entryTypes: ['gc'] })

const random = (count) => Math.floor(Math.random() * count)

function serve() {
  const began = performance.now()
  const [file, tensor] = [files[random(files.length)], random(TENSORS)]
  const data = own ? new Float32Array(file, 4 * tensor * ELEMENTS, ELEMENTS) : file.tensor(names[tensor]).data
  for (let at = 0; at < data.length; at += 1024) sum += data[at]
  if (looking) times.push((performance.now() - began) * 1e3)
}

let [begun, served, timer] = [0, 0]
function beat() {
  for (const due = ((performance.now() - begun) / 1e3) * aSecond; served < due; served++) serve()
}

parentPort.on('message', (what) => {
  if (what === 'begin') {
    begun = performance.now()
    timer = setInterval(beat, 5)
  } else if (what === 'look') {
    looking = true
  } else {
    clearInterval(timer)
    parentPort.postMessage({ times: Float64Array.from(times), major, sum })
  }
})
parentPort.postMessage('ready')
