// Servers with wrong responses, for every client of crates/remote and each of its requests: files of servers and of the hub, objects of S3, Google
// Cloud Storage and Azure; opened, read, listed and written. Each wrong response is an error that describes it, after a limited number of requests and bytes.
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import test from 'ava'
import { create, open } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { shard } from '../helpers/sharded.mjs'
import { turns } from '../helpers/turns.mjs'
import { bucket } from './bucket.mjs'
import { CHUNK, part, sendUntil, serve } from './web.mjs'

const MIB = 2 ** 20
const BYTES = shard({ a: Array.from({ length: MIB }, (_, at) => at) })
const TAG = `"${createHash('md5').update(BYTES).digest('hex')}"`
const COMMIT = '0123456789abcdef0123456789abcdef01234567'
const SECRETS = { accessKeyId: 'SECRET-ID', secretAccessKey: 'SECRET-KEY', sessionToken: 'SECRET-TOKEN' }

/** Writes single bytes slowly, forever. */
function sendSlowly(stream, byte = ' ') {
  const timer = setInterval(() => stream.write(byte), 40)
  stream.once('close', () => clearInterval(timer))
}

/** All requests of a client of a store, and slow ones that are tried less often. */
const EVERYTHING = ['open', 'read', 'list', 'head', 'begin', 'part', 'complete']
const SLOW = /(error|server) that drips/

/** Responses without a body, to a HEAD request. */
const BODILESS = /silence|head that drips|redirect/

const range = (request) => /bytes=(\d+)-(\d+)/.exec(request.headers.range).slice(1).map(Number)
const partial = (first, last, total = BYTES.length) => ({
  'content-range': `bytes ${first}-${last}/${total}`,
  etag: TAG,
  'last-modified': 'Mon, 23 Nov 2026 12:00:00 GMT',
})

/** Responses to any request. `sent` counts bytes, `other` is another server. */
const ANY = {
  'an error without an end': [
    (_, response, { sent }) => {
      response.writeHead(403, { 'content-type': 'text/html' })
      sendUntil(response, sent)
    },
    /denies access|answered 403|access is denied/,
  ],
  'an error with an endless body': [
    (_, response, { sent }) => {
      response.writeHead(400, { 'content-length': 2 ** 40 })
      sendUntil(response, sent)
    },
    /answered 400|400/,
  ],
  'an error of bytes that are not text': [
    (_, response) => response.writeHead(403).end(Buffer.alloc(100_000, 0xff)),
    /denies access|answered 403|access is denied/,
  ],
  'an error that drips': [
    (_, response) => {
      response.writeHead(403)
      sendSlowly(response)
    },
    /denies access|answered 403|access is denied/,
  ],
  'a broken server that drips': [
    (_, response) => {
      response.writeHead(500)
      sendSlowly(response)
    },
    /500/,
  ],
  'an error that repeats the request': [
    (_, response) =>
      response
        .writeHead(400)
        .end(`<Error><Code>ExpiredToken</Code><Message>It ended.</Message><Token-0>SECRET-TOKEN</Token-0></Error>`),
    /400/,
  ],
  silence: [() => undefined, /sent nothing for [\d.]+m?s/],
  'a head that drips': [
    (_, response) => {
      response.socket.write('HTTP/1.1 200 OK\r\nX-Long: ')
      sendSlowly(response.socket, 'x')
    },
    /sent nothing for [\d.]+m?s/,
  ],
}

/** Responses that are invalid for a store, and valid for a web server. */
const REDIRECTS = Object.fromEntries(
  [301, 302, 303, 307, 308].map((status) => [
    `a redirect (${status}) to another server`,
    [
      (_, response, { other }) => response.writeHead(status, { location: `${other}/x?SECRET-SIGNATURE` }).end(),
      /redirects to http:\/\/127\.0\.0\.1:\d+ \(\d+\), which is not followed/,
    ],
  ]),
)
REDIRECTS['a redirect to the same server'] = [
  (_, response) => response.writeHead(307, { location: '/elsewhere' }).end(),
  /redirects to http:.* which is not followed/,
]
REDIRECTS['a redirect to a local file'] = [
  (_, response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
  /redirects without a valid Location header/,
]
REDIRECTS['a redirect to another region'] = [
  (_, response) => response.writeHead(301, { 'x-amz-bucket-region': 'eu-west-1' }).end('<Error/>'),
  /the bucket is in the region eu-west-1: set .*AWS_REGION/,
]

/** Responses to a range request. */
const DATA = {
  'more than was requested': [
    (request, response, { sent }) => {
      response.writeHead(206, partial(...range(request)))
      sendUntil(response, sent)
    },
    /more (bytes )?than/,
  ],
  'data that drips': [
    (request, response) => {
      response.writeHead(206, partial(...range(request)))
      sendSlowly(response)
    },
    /sent \d+ bytes in [\d.]+m?s|sent nothing/,
  ],
  'fewer bytes than declared': [
    (request, response) => {
      const [first, last] = range(request)
      response.writeHead(206, { ...partial(first, last), 'content-length': last - first + 1 })
      response.write(BYTES.subarray(first, first + 1000), () => response.destroy())
    },
    /interrupted|early|reset|HTTP error|error/i,
  ],
  'fewer bytes than were requested': [
    (request, response) => {
      const [first, last] = range(request)
      response.writeHead(206, partial(first, last)).end(BYTES.subarray(first, first + 1000))
    },
    /early/,
  ],
  'the whole for a range': [
    (_, response) => response.writeHead(200, { etag: TAG }).end(Buffer.alloc(4 * MIB)),
    /whole object \(200\)/,
  ],
  'another range': [
    (request, response) => {
      const [first, last] = range(request)
      response.writeHead(206, partial(first + 1, last + 1)).end(BYTES.subarray(first + 1, last + 2))
    },
    /asked for|range|Requested/i,
  ],
  'a range that ends beyond all numbers': [
    (request, response) =>
      response.writeHead(206, partial(range(request)[0], '18446744073709551615', '18446744073709551615')).end(CHUNK),
    /range/i,
  ],
  'a range that is not a number': [
    (request, response) => response.writeHead(206, partial(...range(request), '9'.repeat(30))).end(CHUNK),
    /range/i,
  ],
}

const TOKENS = {
  s3: (token, names = '') =>
    `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>${token}</NextContinuationToken>${names}</ListBucketResult>`,
  az: (token) => `<EnumerationResults><Blobs></Blobs><NextMarker>${token}</NextMarker></EnumerationResults>`,
}
TOKENS.gs = TOKENS.s3

const listed = (scheme, token) => (_, response, context) => {
  context.pages = (context.pages ?? 0) + 1
  const { pages } = context
  if (scheme === 'hf') {
    const link = `<?cursor=${token(pages)}>; rel="next"`
    return response.writeHead(200, { 'content-type': 'application/json', link }).end('[]')
  }
  return response.writeHead(200, { 'content-type': 'application/xml' }).end(TOKENS[scheme](token(pages)))
}

/** Responses to a list request. */
const lists = (scheme) => ({
  'a list without an end': [
    (_, response, { sent }) => {
      response.writeHead(200, { 'content-type': 'application/xml' })
      sendUntil(response, sent)
    },
    /(exceeds|of more than) 16777216 bytes/,
  ],
  'a list that drips': [
    (_, response) => {
      response.writeHead(200, { 'content-type': 'application/xml' })
      sendSlowly(response)
    },
    /sent \d+ bytes in|sent nothing/,
  ],
  'pages without an end': [listed(scheme, (page) => `t${page}`), /endless list of pages/],
  'the same page again and again': [listed(scheme, () => 'same'), /repeatedly lists the same page/],
  'two pages in turn': [listed(scheme, (page) => `t${page % 2}`), /repeatedly lists the same page/],
  ...(scheme === 'hf'
    ? {}
    : {
        'a page with an endless name': [listed(scheme, (page) => `${page}${'x'.repeat(20_000)}`), /sends a page token/],
      }),
})

/** Responses of a store to writes. */
const WRITES = {
  'an answer without an end': [
    (_, response, { sent }) => {
      response.writeHead(200, { etag: TAG })
      sendUntil(response, sent)
    },
    /more than \d+ bytes/,
  ],
  'an answer that drips': [
    (_, response) => {
      response.writeHead(200, { etag: TAG })
      sendSlowly(response)
    },
    /sent \d+ bytes in|sent nothing|did not complete/,
  ],
}

/**
 * The time limit: none, except for slow servers. Uploads wait ten times as long. A status before the slow part needs enough time on a busy
 * machine.
 */
function timeLimitOf(name, at) {
  if (SLOW.test(name)) return 800
  if (!/drip|silence/.test(name)) return 20_000
  return /part|complete/.test(at) ? 150 : 400
}

/** Asserts that `run` fails as expected, and that no server received or sent too much. */
async function refused(t, { run, says, context, other, most = 64 * MIB }) {
  const before = process.memoryUsage().rss
  const error = await rejectionOf(run)
  t.true(['ZT_IO', 'ZT_LIMIT'].includes(error?.code), `${error?.code} ${error?.stack}`)
  t.regex(error.message, says)
  t.false(`${error.message}${error.stack}${error.cause?.message}`.includes('SECRET'), error.message)
  t.is(other.asked.length, 0, 'another server was asked')
  t.true(context.sent.bytes < most, `${context.sent.bytes} bytes were taken`)
  const growth = process.memoryUsage().rss - before
  t.true(growth < 256 * MIB, `${growth} bytes of memory`)
}

/** Cases that wait for a time limit run concurrently, but only as many as a busy machine can serve in time. */
const inTurn = turns(8)
const declare = (name) =>
  /drip|silence/.test(name) ? (title, run) => test(title, (t) => inTurn(() => run(t))) : test.serial

const outside = (t) => serve(t, (_, response) => response.writeHead(200).end(BYTES))

for (const scheme of ['s3', 'gs', 'az']) {
  const cases = [
    ...[...Object.entries(ANY), ...Object.entries(REDIRECTS)].flatMap(([name, lie]) =>
      (SLOW.test(name) ? ['open', 'list', 'complete'] : EVERYTHING).map((at) => [at, name, lie]),
    ),
    ...Object.entries(DATA).flatMap(([name, lie]) => ['open', 'read'].map((at) => [at, name, lie])),
    ...Object.entries(lists(scheme)).map(([name, lie]) => ['list', name, lie]),
    ...Object.entries(WRITES).flatMap(([name, lie]) => ['begin', 'part', 'complete'].map((at) => [at, name, lie])),
  ]
  for (const [at, name, [answer, says]] of cases) {
    // Azure's uploads have no first request, and the response to HEAD has no body.
    if ((scheme === 'az' && at === 'begin') || (at === 'head' && !BODILESS.test(name))) continue
    declare(name)(`${scheme}: a client that wants to ${at} rejects ${name} within limits`, async (t) => {
      const other = await outside(t)
      const context = { sent: { bytes: 0 }, other: other.url('') }
      const KIND = { open: ['get'], read: ['get'], list: ['list'] }
      let lies = at !== 'read'
      const store = await bucket(t, {
        scheme,
        files: { 'm.safetensors': BYTES },
        answer: (what, request, response) => {
          if (!lies || !(KIND[at] ?? [at]).includes(what)) return false
          answer(request, response, context)
          return true
        },
      })
      const keys = scheme === 's3' ? { anonymous: false, ...SECRETS } : {}
      const remote = {
        ...store.remote,
        retries: 0,
        timeout: timeLimitOf(name, at),
        store: { ...store.remote.store, ...keys },
      }
      const run = async () => {
        if (at === 'list') return open(store.url('folder/'), { remote })
        if (at === 'open') return open(store.url('m.safetensors'), { remote })
        if (at === 'read') {
          const file = await open(store.url('m.safetensors'), { remote })
          lies = true
          return file.tensor('a').load({ slice: [[400_000, 500_000]] })
        }
        const writer = await create(store.url('new.zt'), { remote })
        await writer.add('a', new Float32Array([1, 2, 3]))
        return writer.finish()
      }
      // If a store denies listing, the only error for a folder is that no object has its name.
      const none = at === 'list' && /denies/.test(String(says))
      await refused(t, { run, says: none ? /no such object/ : says, context, other })
    })
  }
}

for (const [at, table] of [
  ['open', { ...ANY, ...DATA }],
  ['read', { ...ANY, ...DATA }],
]) {
  for (const [name, [answer, says]] of Object.entries(table)) {
    declare(name)(`http: a client that wants to ${at} rejects ${name} within limits`, async (t) => {
      const other = await outside(t)
      const context = { sent: { bytes: 0 }, other: other.url('') }
      let lies = at !== 'read'
      const server = await serve(t, (request, response) => {
        response.on('error', () => {})
        if (!lies) return part(request, response, BYTES, { etag: TAG })
        return answer(request, response, context)
      })
      const remote = {
        retries: 0,
        timeout: timeLimitOf(name, at),
        maxWholeBytes: 1024,
        headers: { 'x-key': 'SECRET-KEY' },
      }
      const run = async () => {
        const file = await open(server.url('/m.safetensors?SECRET'), { remote })
        lies = true
        return file.tensor('a').load({ slice: [[400_000, 500_000]] })
      }
      const what = name === 'the whole for a range' ? /maxWholeBytes|whole file/ : says
      await refused(t, { run, says: what, context, other })
    })
  }
}

for (const [at, table] of [
  ['request a revision', ANY],
  ['open', { ...ANY, ...DATA }],
  ['list', { ...ANY, ...lists('hf') }],
]) {
  for (const [name, [answer, says]] of Object.entries(table)) {
    declare(name)(`hf: a client that wants to ${at} rejects ${name} within limits`, async (t) => {
      const other = await outside(t)
      const context = { sent: { bytes: 0 }, other: other.url('') }
      const server = await serve(t, (request, response) => {
        response.on('error', () => {})
        const { pathname } = new URL(request.url, 'http://host')
        const kind = /\/revision\//.test(pathname) ? 'request a revision' : /\/tree\//.test(pathname) ? 'list' : 'open'
        if (kind === at) return answer(request, response, context)
        if (kind === 'list') return response.writeHead(200).end('[]')
        if (kind === 'open') return response.writeHead(404, { 'x-error-code': 'EntryNotFound' }).end()
        return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ sha: COMMIT }))
      })
      process.env.HF_ENDPOINT = server.url('')
      process.env.HF_TOKEN = 'SECRET-TOKEN'
      const remote = { retries: 0, timeout: timeLimitOf(name, at), maxWholeBytes: 1024 }
      const run = () => open(at === 'open' ? 'hf://o/r/m.safetensors' : 'hf://o/r/folder', { remote })
      // If a hub denies listing, the only error is that there is no such file.
      const refuses = at === 'list' && /400|denies|500/.test(String(says))
      const what = name === 'the whole for a range' ? /maxWholeBytes|whole file/ : refuses ? /./ : says
      await refused(t, {
        run,
        says: /denies/.test(String(what)) ? /access is denied|403|may not read|private/ : what,
        context,
        other,
      })
    })
  }
}

for (const scheme of ['s3', 'gs', 'az']) {
  for (const retries of [0, 1, 3]) {
    test.serial(`${scheme}: ${retries} retries make as many requests more, with any failure`, async (t) => {
      const FAILURES = {
        busy: (_, response) => response.writeHead(503, { 'retry-after': '0' }).end(),
        'often asked': (_, response) => response.writeHead(429, { 'retry-after': '0' }).end(),
        'a reset': (request) => request.socket.resetAndDestroy(),
        'a body that breaks off immediately': (request, response) => {
          const [first, last] = range(request)
          response.writeHead(206, partial(first, last))
          response.write(BYTES.subarray(first, first + 10), () => response.destroy())
        },
      }
      for (const [name, answer] of Object.entries(FAILURES)) {
        let fails = false
        const store = await bucket(t, {
          scheme,
          files: { 'm.safetensors': BYTES },
          answer: (what, request, response) => {
            if (!fails || what !== 'get') return false
            answer(request, response)
            return true
          },
        })
        const file = await open(store.url('m.safetensors'), { remote: { ...store.remote, retries } })
        fails = true
        store.asked.length = 0
        const error = await rejectionOf(() => file.tensor('a').load({ slice: [[400_000, 500_000]] }))
        t.is(error.code, 'ZT_IO')
        t.is(store.asked.length, retries + 1, `${name}: ${error.message}`)
        file.close()
      }
    })
  }

  test(`${scheme}: resumes an interrupted body at the missing byte`, async (t) => {
    let breaks = false
    const asked = []
    const store = await bucket(t, {
      scheme,
      files: { 'm.safetensors': BYTES },
      answer: (what, request, response) => {
        if (!breaks || what !== 'get') return false
        const [first, last] = range(request)
        asked.push(first)
        if (asked.length > 3) return false
        response.writeHead(206, { ...partial(first, last), 'content-length': last - first + 1 })
        response.write(BYTES.subarray(first, first + 1000), () => response.destroy())
        return true
      },
    })
    const file = await open(store.url('m.safetensors'), { remote: { ...store.remote, retries: 3 } })
    breaks = true
    const loaded = await file.tensor('a').load({ slice: [[400_000, 500_000]] })
    t.deepEqual([...loaded.subarray(0, 3), loaded.length], [400_000, 400_001, 400_002, 100_000])
    t.is(asked.length, 4)
    t.true(
      asked.every((first, at) => at === 0 || first >= asked[at - 1]),
      `${asked}`,
    )
    t.true(asked[3] > asked[0])
    file.close()
  })

  test(`${scheme}: reads an empty object, and a body without a length`, async (t) => {
    const store = await bucket(t, {
      scheme,
      files: { 'empty.safetensors': Buffer.alloc(0), 'm.safetensors': BYTES },
      answer: (what, request, response) => {
        if (what !== 'get' || !request.url.includes('m.safetensors')) return false
        const [first, last] = range(request)
        const end = Math.min(last, BYTES.length - 1)
        response.writeHead(206, partial(first, end)).end(BYTES.subarray(first, end + 1))
        return true
      },
    })
    const error = await rejectionOf(() => open(store.url('empty.safetensors'), { remote: store.remote }))
    t.not(error.code, 'ZT_IO', error.message)
    const file = await open(store.url('m.safetensors'), { remote: store.remote })
    t.deepEqual([...(await file.tensor('a').load({ slice: [[400_000, 400_002]] }))], [400_000, 400_001])
    file.close()
  })

  test(`${scheme}: lists all pages of a folder, including empty ones`, async (t) => {
    const files = { 'm/a.safetensors': shard({ one: [1, 2] }), 'm/b.safetensors': shard({ two: [3] }) }
    const row = {
      s3: (name) =>
        `<Contents><Key>${name}</Key><LastModified>2026-11-23T12:00:00.000Z</LastModified><ETag>"1"</ETag><Size>1</Size></Contents>`,
      az: (name) =>
        `<Blob><Name>${name}</Name><Properties><Last-Modified>Mon, 23 Nov 2026 12:00:00 GMT</Last-Modified><Content-Length>1</Content-Length><Content-Type>x</Content-Type><Etag>1</Etag></Properties></Blob>`,
    }
    row.gs = row.s3
    let pages = 0
    const store = await bucket(t, {
      scheme,
      files,
      answer: (what, _, response) => {
        if (what !== 'list') return false
        pages += 1
        const rows = pages === 5 ? row[scheme]('m/a.safetensors') : pages === 50 ? row[scheme]('m/b.safetensors') : ''
        const token = pages === 50 ? '' : `t${pages}`
        const xml =
          scheme === 'az'
            ? `<EnumerationResults><Blobs>${rows}</Blobs><NextMarker>${token}</NextMarker></EnumerationResults>`
            : `<ListBucketResult><IsTruncated>${token !== ''}</IsTruncated>${token && `<NextContinuationToken>${token}</NextContinuationToken>`}${rows}</ListBucketResult>`
        if (pages === 50) pages = 0
        response.writeHead(200, { 'content-type': 'application/xml' }).end(xml)
        return true
      },
    })
    const error = await rejectionOf(() => open(store.url('m/'), { remote: store.remote }))
    t.regex(error.message, /holds 2 tensor files .*"a.safetensors", "b.safetensors"/)
  })
}

/** Services for credentials, by the variables that name them. */
const SERVICES = {
  "a machine's own service": ['s3', (url) => ({ AWS_METADATA_ENDPOINT: url })],
  'a web identity': [
    's3',
    (url, token) => ({ AWS_WEB_IDENTITY_TOKEN_FILE: token, AWS_ROLE_ARN: 'arn:x', AWS_ENDPOINT_URL_STS: url }),
  ],
  'a managed identity': ['az', (url) => ({ MSI_ENDPOINT: `${url}/token` })],
}

for (const [service, [scheme, variables]] of Object.entries(SERVICES)) {
  const table = { ...ANY, ...REDIRECTS, 'an answer without an end': WRITES['an answer without an end'] }
  for (const [name, [answer, says]] of Object.entries(table)) {
    declare(name)(`credentials of ${service}: rejects ${name} within limits`, async (t) => {
      const other = await outside(t)
      const context = { sent: { bytes: 0 }, other: other.url('') }
      const server = await serve(t, (request, response) => {
        response.on('error', () => {})
        answer(request, response, context)
      })
      const folder = scratchFolder()
      writeFileSync(folder.path('token'), 'SECRET-TOKEN')
      const store = await bucket(t, { scheme, files: { 'm.safetensors': BYTES } })
      const { endpoint, allowHttp, account, region } = store.remote.store
      const remote = { retries: 0, timeout: timeLimitOf(name, 'open'), store: { endpoint, allowHttp, account, region } }
      const wanted = variables(server.url('').replace(/\/$/, ''), folder.path('token'))
      const before = Object.fromEntries(Object.keys(wanted).map((key) => [key, process.env[key]]))
      Object.assign(process.env, wanted)
      const opening = open(store.url('m.safetensors'), { remote })
      for (const [key, value] of Object.entries(before)) {
        if (value === undefined) delete process.env[key]
        else process.env[key] = value
      }
      await refused(t, { run: () => opening, says: REDIRECTS[name] === undefined ? /./ : says, context, other })
      t.true(server.asked.length > 0, 'the service is asked')
      t.deepEqual(store.asked, [], 'sends no request without credentials')
    })
  }
}
