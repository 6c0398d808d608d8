// Objects of S3, Google Cloud Storage and Azure, from a local server with the same protocol. `npm run interop` tests real servers.
import { inspect } from 'node:util'
import test from 'ava'
import { diff, open, openSync } from 'ztensor'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { shard } from '../helpers/sharded.mjs'
import { fixturePath, vectors } from '../helpers/vectors.mjs'
import { part, serve } from './web.mjs'

const FILES = Object.fromEntries(vectors.map(({ name, bytes }) => [name, bytes]))
const DATE = 'Mon, 23 Nov 2026 12:00:00 GMT'
const XML = {
  s3: (names) =>
    `<ListBucketResult><IsTruncated>false</IsTruncated>${names.map((name) => `<Contents><Key>${name}</Key><LastModified>2026-11-23T12:00:00.000Z</LastModified><ETag>"1"</ETag><Size>1</Size></Contents>`).join('')}</ListBucketResult>`,
  az: (names) =>
    `<?xml version="1.0"?><EnumerationResults><Blobs>${names.map((name) => `<Blob><Name>${name}</Name><Properties><Last-Modified>${DATE}</Last-Modified><Content-Length>1</Content-Length><Content-Type>x</Content-Type><Etag>1</Etag></Properties></Blob>`).join('')}</Blobs><NextMarker /></EnumerationResults>`,
}

/** A store with one bucket, `models`. `answer` may handle a request instead. */
async function stored(t, scheme, files, answer = () => false) {
  const server = await serve(t, (request, response) => {
    if (answer(request, response)) return undefined
    const url = new URL(request.url, 'http://host')
    const name = decodeURIComponent(url.pathname.replace(/^(\/account)?\/models\/?/, ''))
    if (url.searchParams.has('list-type') || url.searchParams.has('comp') || name === '') {
      const prefix = url.searchParams.get('prefix') ?? ''
      response.writeHead(200, { 'content-type': 'application/xml' })
      return response.end((XML[scheme] ?? XML.s3)(Object.keys(files).filter((key) => key.startsWith(prefix))))
    }
    const bytes = files[name]
    const headers = { etag: `"${bytes?.length}"`, 'last-modified': DATE }
    if (bytes !== undefined && !['', undefined, headers.etag].includes(request.headers['if-match']))
      return response.writeHead(412).end()
    if (bytes !== undefined) return part(request, response, bytes, headers)
    return response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>')
  })
  const endpoint = scheme === 'az' ? server.url('/account') : server.url('').replace(/\/$/, '')
  const account = scheme === 'az' ? { account: 'account' } : {}
  const remote = { retries: 1, store: { endpoint, allowHttp: true, anonymous: true, region: 'us-east-1', ...account } }
  return { ...server, remote, url: (key) => `${scheme}://models/${key}` }
}

for (const scheme of ['s3', 'gs', 'az']) {
  test(`${scheme}: every file equals that of its path`, async (t) => {
    const { remote, url } = await stored(t, scheme, FILES)
    for (const name of Object.keys(FILES)) {
      const [remoteFile, localFile] = [await open(url(name), { remote }), openSync(fixturePath(name))]
      t.is(remoteFile.path, url(name))
      const { added, removed, changed } = await diff(remoteFile, localFile)
      t.deepEqual([added, removed, changed], [[], [], []], name)
      remoteFile.close()
      localFile.close()
    }
    const absent = await rejectionOf(() => open(url('absent.zt'), { remote }))
    t.is(absent.code, 'ZT_IO')
    t.regex(absent.message, /no such object/)
  })

  test(`${scheme}: a folder opens like one on disk`, async (t) => {
    const files = {
      'm/a.safetensors': shard({ one: [1, 2] }),
      'other.txt': Buffer.from('x'),
      'm/sub/b.safetensors': shard({ two: [3] }),
    }
    const { remote, url } = await stored(t, scheme, files)
    const file = await open(url('m/'), { remote })
    t.deepEqual([...file.keys()], ['one'])
    t.deepEqual([...(await file.tensor('one').load())], [1, 2])
  })
}

test('never mixes a changed object with its old bytes', async (t) => {
  const files = { 'x.safetensors': shard({ a: Array.from({ length: 1 << 19 }, (_, at) => at) }) }
  const { remote, url } = await stored(t, 's3', files)
  const file = await open(url('x.safetensors'), { remote })
  files['x.safetensors'] = shard({ a: Array.from({ length: (1 << 19) + 2 }, () => 0) })
  const error = await rejectionOf(() => file.load())
  t.is(error.code, 'ZT_IO')
  t.regex(error.message, /changed since it was opened/)
})

test('retries a busy store, not one that denies access', async (t) => {
  const files = { 'x.zt': FILES['zt2-dtypes.zt'] }
  let busy = 1
  const store = await stored(
    t,
    's3',
    files,
    (_, response) => busy-- > 0 && response.writeHead(503).end('<Error><Code>SlowDown</Code></Error>'),
  )
  t.is((await open(store.url('x.zt'), { remote: store.remote })).size, 12)
  const denied = await stored(t, 's3', files, (_, response) =>
    response.writeHead(403).end('<Error><Code>AccessDenied</Code></Error>'),
  )
  const error = await rejectionOf(() => open(denied.url('x.zt'), { remote: denied.remote }))
  t.is(error.code, 'ZT_IO')
  t.regex(error.message, /denies access: check the credentials/)
  t.like(error.cause, { status: 403, url: denied.url('x.zt') })
})

/** Services for credentials, by the variables that name them, and their responses. */
const SERVICES = {
  "a machine's own service": [
    's3',
    (url) => ({ AWS_METADATA_ENDPOINT: url }),
    ({ method, url }) => (method === 'PUT' ? 'token' : url.endsWith('/') ? 'role' : KEYS),
  ],
  'a managed identity': [
    'az',
    (url) => ({ MSI_ENDPOINT: `${url}/token` }),
    () => JSON.stringify({ access_token: 'x', expires_in: '3600', expires_on: '9999999999', token_type: 'Bearer' }),
  ],
}
const KEYS = JSON.stringify({
  AccessKeyId: 'AK',
  SecretAccessKey: 'SK',
  Token: 'T',
  Expiration: '2099-01-01T00:00:00Z',
})

for (const [name, [scheme, variables, answer]] of Object.entries(SERVICES))
  test.serial(`requests credentials of ${name} again if it is busy`, async (t) => {
    const store = await stored(t, scheme, { 'x.zt': FILES['zt2-dtypes.zt'] })
    const { anonymous: _, ...options } = store.remote.store
    const opened = async (times, retries) => {
      let busy = times
      const service = await serve(t, (request, response) => {
        if (busy-- > 0) return response.writeHead(busy % 2 === 0 ? 503 : 429).end('busy')
        return response.writeHead(200, { 'content-type': 'application/json' }).end(answer(request))
      })
      const wanted = variables(service.url('').replace(/\/$/, ''))
      const before = Object.keys(wanted).map((key) => [key, process.env[key]])
      Object.assign(process.env, wanted)
      const opening = open(store.url('x.zt'), { remote: { retries, store: options } })
      for (const [key, value] of before) {
        if (value === undefined) delete process.env[key]
        else process.env[key] = value
      }
      return opening
    }
    t.is((await opened(2, 2)).size, 12)
    const error = await rejectionOf(() => opened(9, 1))
    t.is(error?.code, 'ZT_IO')
    t.regex(error.message, /the server 127\.0\.0\.1 answered (429|503).*tried 2 times/)
    t.false(error.message.includes('busy'))
  })

test('keys sign requests and are never shown', async (t) => {
  const store = await stored(t, 's3', { 'x.zt': FILES['zt2-dtypes.zt'] })
  const keys = { anonymous: false, accessKeyId: 'ID', secretAccessKey: 'SECRET', sessionToken: 'TOKEN' }
  const remote = { ...store.remote, store: { ...store.remote.store, ...keys } }
  const file = await open(store.url('x.zt'), { remote })
  const { headers } = store.asked[0]
  t.regex(headers.authorization, /^AWS4-HMAC-SHA256 Credential=ID\//)
  t.is(headers['x-amz-security-token'], 'TOKEN')
  t.false(JSON.stringify(store.asked).includes('SECRET'))
  t.notRegex(inspect(file, { depth: 9, showHidden: true }), /SECRET|TOKEN/)
})

test('an abort ends a request without a response', async (t) => {
  const reason = new Error('enough')
  const abort = new AbortController()
  const store = await stored(t, 's3', {}, () => {
    abort.abort(reason)
    return true
  })
  t.is(await rejectionOf(() => open(store.url('x.zt'), { remote: store.remote, signal: abort.signal })), reason)
})

test('rejects URLs without an object, and options without effect', async (t) => {
  t.is(thrownBy(() => openSync('s3://models/x.zt')).code, 'ZT_NOT_LOCAL')
  isArgumentError(t, await rejectionOf(() => open('s3:///x.zt')), 'bucket')
  for (const [store, named] of [
    [{ endpoint: 7 }, 'remote.store.endpoint'],
    [{ allowHttp: 'yes' }, 'remote.store.allowHttp'],
    [{ secretAccessKey: 7 }, 'remote.store.secretAccessKey'],
    [{ key: 'x' }, 'remote.store has an unknown key'],
  ])
    isArgumentError(t, await rejectionOf(() => open('s3://models/x.zt', { remote: { store } })), named)
})

for (const scheme of ['s3', 'gs', 'az'])
  test(`${scheme}: reads ranges that do not state the length of the object`, async (t) => {
    const long = new Float32Array(2 ** 19).map((_, at) => at)
    const files = { 'short.safetensors': shard({ a: [1, 2] }), 'long.safetensors': shard({ a: Array.from(long) }) }
    const { remote, url } = await stored(t, scheme, files, (request, response) => {
      const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? []
      const bytes = files[request.url.split('/').at(-1)]
      if (first === undefined || bytes === undefined) return false
      const body = bytes.subarray(Number(first), Number(last) + 1)
      const range = `bytes ${first}-${Number(first) + body.length - 1}/*`
      response.writeHead(206, { 'content-range': range, etag: `"${bytes.length}"`, 'last-modified': DATE }).end(body)
      return true
    })
    for (const [name, values] of [
      ['short.safetensors', Float32Array.of(1, 2)],
      ['long.safetensors', long],
    ]) {
      const file = await open(url(name), { remote })
      t.deepEqual(await file.tensor('a').load(), values)
      t.is(file.byteLength, files[name].length)
      t.deepEqual(await file.tensor('a').load({ slice: [[-2, null]] }), values.slice(-2))
      file.close()
    }
  })

test('rejects a range without an end', async (t) => {
  const { remote, url } = await stored(t, 's3', {}, (_, response) => {
    response.writeHead(206, { 'content-range': 'bytes 0-18446744073709551615/*' }).end('x')
    return true
  })
  const error = await rejectionOf(() => open(url('x.zt'), { remote }))
  t.is(error?.code, 'ZT_IO')
  t.regex(error.message, /an invalid range/)
})

test('a key with an empty part is an error with advice, and never another object', async (t) => {
  const files = { 'x.safetensors': shard({ a: [1] }), 'a/x.safetensors': shard({ b: [1] }) }
  const { remote, url } = await stored(t, 's3', files)
  for (const key of ['/x.safetensors', 'a//x.safetensors']) {
    const error = await rejectionOf(() => open(url(key), { remote }))
    t.is(error?.code, 'ZT_INVALID_ARG', key)
    t.regex(error.message, /a key with an empty part.*sign an https: URL/)
  }
})
