// Converts a file with progress, can be stopped, and verifies the result: node examples/convert.mjs SOURCE TARGET
import { convert, verify } from 'ztensor'

const [source, target] = process.argv.slice(2)
if (source === undefined || target === undefined) throw new Error('usage: node examples/convert.mjs SOURCE TARGET')

const stop = new AbortController()
process.once('SIGINT', () => stop.abort()) // then no file appears at the target

const { tensors, readers } = await convert(source, target, {
  compression: { level: 3 },
  signal: stop.signal,
  onProgress: ({ bytes, totalBytes }) => console.log(`${bytes} of ${totalBytes} bytes`),
})
console.log(`${tensors} tensors, read by ${readers.join(', ')}`)

const { ok, checked, failures } = await verify(target)
console.log(ok ? `sound: ${checked} digests` : failures)
