// A local web server that sends parts of files, and records requests.
import { createServer } from 'node:http'

/** 64 KiB of spaces. */
export const CHUNK = Buffer.alloc(64 * 1024, 0x20)

/** Writes spaces until the other side has gone, or `limit` bytes are sent; adds to `sent.bytes`. */
export function sendUntil(response, sent, limit = 2 ** 30) {
  const more = () => {
    while (sent.bytes < limit && !response.destroyed) {
      sent.bytes += CHUNK.length
      if (!response.write(CHUNK)) return response.once('drain', more)
    }
    return response.destroy()
  }
  more()
}

/** The response of a server with the part of `bytes` that a request names. */
export function part(request, response, bytes, headers = {}) {
  const asked = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '')
  if (asked === null) {
    response.writeHead(200, { 'content-length': bytes.length, ...headers })
    return response.end(bytes)
  }
  const [start, last] = [Number(asked[1]), asked[2] === '' ? bytes.length - 1 : Number(asked[2])]
  if (start >= bytes.length) {
    response.writeHead(416, { 'content-range': `bytes */${bytes.length}` })
    return response.end()
  }
  const end = Math.min(last, bytes.length - 1) + 1
  response.writeHead(206, {
    'content-range': `bytes ${start}-${end - 1}/${bytes.length}`,
    'content-length': end - start,
    ...headers,
  })
  return response.end(bytes.subarray(start, end))
}

/** Serves until the test ends. `answer(request, response)` answers; `url(path)` is where. */
export async function serve(t, answer) {
  const asked = []
  // Connections stay: a busy machine may take long between two requests.
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    asked.push({ url: request.url, headers: request.headers })
    answer(request, response)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  return { asked, url: (path) => `http://127.0.0.1:${server.address().port}${path}` }
}

/** Serves files by their names: name -> bytes. */
export const serveFiles = (t, files) =>
  serve(t, (request, response) => {
    const name = decodeURIComponent(new URL(request.url, 'http://host').pathname.slice(1))
    const bytes = files[name]
    if (bytes !== undefined) return part(request, response, bytes, { etag: `"${bytes.length}"` })
    response.writeHead(404)
    return response.end('no such file')
  })
