// Hostile servers through the public API: each causes a specific error, after a limited number of requests and bytes, with little memory. The
// tests of crates/remote check each part of each request.
import test from 'ava'
import { open } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { shard } from '../helpers/sharded.mjs'
import { CHUNK, part, sendUntil, serve } from './web.mjs'

const MIB = 2 ** 20
const BYTES = shard({ a: Array.from({ length: MIB }, (_, at) => at) })
const HTML = '<!doctype html><title>Sign in</title>'

const range = (request) => /bytes=(\d+)-(\d+)/.exec(request.headers.range).slice(1).map(Number)
const partial = (first, last, total = BYTES.length) => ({
  'content-range': `bytes ${first}-${last}/${total}`,
  etag: '"1"',
})

/** Responses to a read of a correctly opened file: the expected message, and the number of requests with one retry. */
const READING = {
  'the whole for a range': [
    (_, response) => response.writeHead(200, { etag: '"1"' }).end(BYTES),
    /whole file \(200\)/,
    1,
  ],
  'a shifted range': [
    (request, response) => {
      const [first, last] = range(request)
      response.writeHead(206, partial(first + 1, last + 1)).end(BYTES.subarray(first + 1, last + 2))
    },
    /instead of the requested bytes/,
    1,
  ],
  'a shorter range': [
    (request, response) => {
      const [first, last] = range(request)
      response.writeHead(206, partial(first, last - 1)).end(BYTES.subarray(first, last))
    },
    /instead of the requested bytes/,
    // The last byte is requested again, and never arrives.
    2,
  ],
  'more than was requested': [
    (request, response, sent) => {
      response.writeHead(206, partial(...range(request)))
      sendUntil(response, sent, 64 * MIB)
    },
    /more bytes than requested/,
    1,
  ],
  'another length': [
    (request, response) => {
      const [first, last] = range(request)
      response.writeHead(206, partial(first, last, BYTES.length + 1)).end(BYTES.subarray(first, last + 1))
    },
    /changed since it was opened/,
    1,
  ],
  'another version': [
    (request, response) => part(request, response, BYTES, { etag: '"2"' }),
    /changed since it was opened/,
    1,
  ],
  'a body that is packed': [
    (request, response) => part(request, response, BYTES, { etag: '"1"', 'content-encoding': 'gzip' }),
    /gzip/,
    1,
  ],
  'several parts': [
    (_, response) => response.writeHead(206, { 'content-type': 'multipart/byteranges; boundary=x' }).end('--x--'),
    /multipart/,
    1,
  ],
  'a page that wants a login': [
    (_, response) => response.writeHead(401, { 'content-type': 'text/html' }).end(HTML),
    /401/,
    1,
  ],
  'a page that forbids': [
    (_, response) => response.writeHead(403, { 'content-type': 'text/html' }).end(HTML),
    /403/,
    1,
  ],
  'a loop of redirects': [
    (request, response) => response.writeHead(302, { location: request.url }).end(),
    /more than 10 times/,
    11,
  ],
  'a redirect to a local file': [
    (_, response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
    /"file"/,
    1,
  ],
  'a reset': [(request) => request.socket.resetAndDestroy(), /ECONNRESET|broke off|reset/i, 2],
  'the end in the middle': [
    (request, response) => {
      const [first, last] = range(request)
      response.writeHead(206, { ...partial(first, last), 'content-length': last - first + 1 })
      response.write(BYTES.subarray(first, first + 1000), () => response.destroy())
    },
    /interrupted|early|reset/i,
    2,
  ],
  silence: [() => undefined, /sent nothing for 400ms/, 2],
  'silence in the middle': [
    (request, response) => {
      const [first, last] = range(request)
      response.writeHead(206, { ...partial(first, last), 'content-length': last - first + 1 })
      response.write(BYTES.subarray(first, first + 1000))
    },
    /sent nothing for 400ms/,
    2,
  ],
  'busy, for good': [(_, response) => response.writeHead(503).end(), /503/, 2],
}

for (const [name, [answer, says, requests]] of Object.entries(READING)) {
  test(`rejects ${name}, and returns none of its data`, async (t) => {
    let opened = false
    const sent = { bytes: 0 }
    const server = await serve(t, (request, response) => {
      if (!opened) return part(request, response, BYTES, { etag: '"1"' })
      return answer(request, response, sent)
    })
    const timeout = name.startsWith('silence') ? 400 : 10_000
    const file = await open(server.url('/m.safetensors?sig=SECRET'), { remote: { retries: 1, timeout } })
    opened = true
    server.asked.length = 0
    const error = await rejectionOf(() => file.tensor('a').load({ slice: [[400_000, 500_000]] }))
    t.is(error.code, 'ZT_IO')
    t.regex(error.message, says)
    t.false(`${error.message}${error.stack}`.includes('SECRET'))
    t.is(server.asked.length, requests)
    t.true(sent.bytes < 32 * MIB, `${sent.bytes} bytes were taken`)
    file.close()
  })
}

test('a server that is busy once is read correctly', async (t) => {
  let busy = 0
  const server = await serve(t, (request, response) => {
    busy += 1
    if (busy % 2 === 1) return response.writeHead(503, { 'retry-after': '0' }).end()
    return part(request, response, BYTES, { etag: '"1"' })
  })
  const file = await open(server.url('/m.safetensors'), { remote: { retries: 1 } })
  t.deepEqual([...(await file.tensor('a').load({ slice: [[400_000, 400_002]] }))], [400_000, 400_001])
  file.close()
})

test('endless bodies and claimed lengths take no memory', async (t) => {
  const sent = { bytes: 0 }
  const ways = {
    '/endless': (_, response) => {
      response.writeHead(200)
      sendUntil(response, sent)
    },
    '/claimed': (_, response) => response.writeHead(200, { 'content-length': '999999999999999' }).write(CHUNK),
    '/many': (_, response) =>
      response
        .writeHead(206, { 'content-range': 'bytes 0-524287/9007199254740990' })
        .end(Buffer.alloc(512 * 1024, 0xff)),
  }
  const server = await serve(t, (request, response) => ways[request.url](request, response))
  const before = process.memoryUsage().rss
  for (const path of Object.keys(ways)) {
    const error = await rejectionOf(() => open(server.url(path), { remote: { retries: 0, maxWholeBytes: 4 * MIB } }))
    t.true(error.code.startsWith('ZT_'), `${path}: ${error}`)
  }
  t.is(server.asked.filter(({ url }) => url === '/endless').length, 1)
  t.true(sent.bytes < 64 * MIB, `${sent.bytes} bytes were taken`)
  const growth = process.memoryUsage().rss - before
  t.true(growth < 128 * MIB, `${growth} bytes of memory`)
})
