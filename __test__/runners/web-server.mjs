// The server of the tests of @ztensor/web: serves the checkout, the files of the tests, and work for pages (browsers.mjs).
import { createReadStream, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { root } from '../../scripts/command.mjs'

const TYPES = { js: 'text/javascript', mjs: 'text/javascript', wasm: 'application/wasm', html: 'text/html' }

/** Serves a file, or the range of it that is asked for. */
function serveFile(file, request, response) {
  const size = statSync(file, { throwIfNoEntry: false })?.size
  if (size === undefined) return response.writeHead(404).end()
  const type = TYPES[/\.(\w+)$/.exec(file)?.[1]] ?? 'application/octet-stream'
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '')
  if (range === null) return createReadStream(file).pipe(response.writeHead(200, { 'content-type': type }))
  const start = Number(range[1])
  if (start >= size) return response.writeHead(416, { 'content-range': `bytes */${size}` }).end()
  const end = Math.min(Number(range[2]), size - 1)
  response.writeHead(206, { 'content-type': type, 'content-range': `bytes ${start}-${end}/${size}` })
  return createReadStream(file, { start, end }).pipe(response)
}

/**
 * Starts the server.
 *
 * @param folders by the beginning of the paths at which they are served. All other paths are those of the checkout
 * @param malformed files in memory, served by their positions: `/malformed/3`
 * @returns the `origin`, `close()`, and `intercept(answer)`: `answer` returns true for requests that it has answered
 */
export async function serve(folders, malformed) {
  let intercepting = () => false
  const server = createServer((request, response) => {
    if (intercepting(request, response)) return undefined
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname)
    const at = /^\/malformed\/(\d+)$/.exec(path)?.[1]
    if (at !== undefined) return response.end(malformed[at].bytes)
    if (path === '/')
      return response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>tests</title>')
    const folder = Object.keys(folders).find((start) => path.startsWith(start))
    return serveFile(folder ? join(folders[folder], path.slice(folder.length)) : join(root, path), request, response)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    intercept(answer) {
      intercepting = answer
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
