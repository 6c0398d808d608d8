// A store of objects of this machine that takes uploads in parts, as S3, Google Cloud Storage and Azure do, with one bucket, `models`.
import { createHash } from 'node:crypto'
import { part, serve } from './web.mjs'

const DATE = 'Mon, 23 Nov 2026 12:00:00 GMT'

const ACCOUNT = JSON.stringify({ private_key: 'x', private_key_id: 'x', client_email: 'x', disable_oauth: true })

async function bodyOf(request) {
  const pieces = []
  for await (const piece of request) pieces.push(piece)
  return Buffer.concat(pieces)
}

const etag = (bytes) => `"${createHash('md5').update(bytes).digest('hex')}"`

/**
 * Serves a bucket until the test ends: `files` are its objects (name -> bytes), `uploads` those that are not complete (id -> { name,
 * parts }), `asked` its requests, in order. `answer(what, request, response)` may take a request over before it is done; `what` is
 * `begin`, `part`, `complete`, `abort`, `head`, `get`, `list` or `delete`. If it returns 'after', the request is executed without a response; if
 * it returns a function, the request is executed and the function responds.
 */
export async function bucket(t, { scheme = 's3', files = {}, answer = () => false } = {}) {
  const uploads = {}
  const asked = []
  let next = 0
  const routes = {
    begin(name) {
      next++
      uploads[next] = { name, parts: {} }
      return [200, `<InitiateMultipartUploadResult><UploadId>${next}</UploadId></InitiateMultipartUploadResult>`]
    },
    part(name, url, body) {
      const id = url.searchParams.get('uploadId') ?? name
      if (scheme === 'az') uploads[id] ??= { name, parts: {} }
      const upload = uploads[id]
      if (upload === undefined) return [404, '<Error><Code>NoSuchUpload</Code></Error>']
      upload.parts[url.searchParams.get('partNumber') ?? url.searchParams.get('blockid')] = body
      return [scheme === 'az' ? 201 : 200, '', { etag: etag(body) }]
    },
    complete(name, url, body, request) {
      const id = url.searchParams.get('uploadId') ?? name
      const upload = uploads[id]
      if (upload === undefined) return [404, '<Error><Code>NoSuchUpload</Code></Error>']
      if (request.headers['if-none-match'] === '*' && files[name] !== undefined)
        return [412, '<Error><Code>PreconditionFailed</Code></Error>']
      const keys = [...body.toString().matchAll(/<(?:PartNumber|Uncommitted|Latest)>([^<]*)</g)].map(([, key]) => key)
      files[name] = Buffer.concat(keys.map((key) => upload.parts[key]))
      delete uploads[id]
      const tag = etag(files[name])
      const xml = `<CompleteMultipartUploadResult><ETag>${tag}</ETag></CompleteMultipartUploadResult>`
      return [scheme === 'az' ? 201 : 200, xml, { etag: tag }]
    },
    abort(_name, url) {
      const id = url.searchParams.get('uploadId')
      if (uploads[id] === undefined) return [404, '<Error><Code>NoSuchUpload</Code></Error>']
      delete uploads[id]
      return [204, '']
    },
    delete(name) {
      delete files[name]
      return [204, '']
    },
    list(_name, url) {
      const prefix = url.searchParams.get('prefix') ?? ''
      const names = Object.keys(files).filter((key) => key.startsWith(prefix))
      const rows = names.map(
        (name) =>
          `<Contents><Key>${name}</Key><LastModified>2026-11-23T12:00:00.000Z</LastModified><ETag>"1"</ETag><Size>1</Size></Contents>`,
      )
      return [200, `<ListBucketResult><IsTruncated>false</IsTruncated>${rows.join('')}</ListBucketResult>`]
    },
    // The keys of a request that names several.
    deleteAll(_name, _url, body) {
      const keys = [...body.toString().matchAll(/<Key>([^<]*)</g)].map(([, key]) => key)
      for (const key of keys) delete files[key]
      const rows = keys.map((key) => `<Deleted><Key>${key}</Key></Deleted>`)
      return [200, `<DeleteResult>${rows.join('')}</DeleteResult>`]
    },
  }
  const kindOf = ({ method }, { searchParams }, name) => {
    const [has, id] = [(key) => searchParams.has(key), searchParams.has('uploadId')]
    if (method === 'POST') return has('uploads') ? 'begin' : id ? 'complete' : 'deleteAll'
    if (method === 'PUT') return id || searchParams.get('comp') === 'block' ? 'part' : 'complete'
    if (method === 'DELETE') return id ? 'abort' : 'delete'
    return name === '' || has('list-type') ? 'list' : method === 'HEAD' ? 'head' : 'get'
  }
  const server = await serve(t, async (request, response) => {
    request.on('error', () => {})
    response.on('error', () => {})
    const url = new URL(request.url, 'http://host')
    const name = decodeURIComponent(url.pathname.replace(/^(\/account)?\/models\/?/, ''))
    const what = kindOf(request, url, name)
    asked.push({ what, name, headers: request.headers })
    const taken = await answer(what, request, response)
    if (taken === true) return
    const body = await bodyOf(request).catch(() => undefined)
    if (body === undefined) return
    if (what === 'get' || what === 'head') {
      const bytes = files[name]
      if (bytes === undefined) return response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>')
      return part(request, response, bytes, { etag: etag(bytes), 'last-modified': DATE })
    }
    const [status, text, headers = {}] = routes[what](name, url, body, request)
    if (taken === 'after') return response.destroy()
    if (typeof taken === 'function') return taken(response, text)
    return response.writeHead(status, { 'content-type': 'application/xml', ...headers }).end(text)
  })
  const endpoint = scheme === 'az' ? server.url('/account') : server.url('').replace(/\/$/, '')
  const account = scheme === 'az' ? { account: 'account' } : {}
  // The client of Google's store writes nothing without an account.
  if (scheme === 'gs') process.env.GOOGLE_SERVICE_ACCOUNT_KEY = ACCOUNT
  const access = scheme === 'gs' ? {} : { anonymous: true, region: 'us-east-1' }
  const remote = { retries: 2, store: { endpoint, allowHttp: true, ...access, ...account } }
  const kinds = () => asked.map(({ what }) => what)
  return { files, uploads, asked, kinds, remote, url: (key) => `${scheme}://models/${key}` }
}
