// A local hub: repositories at commits, with the API and the headers of huggingface.co. Any client may ask it.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { part } from './web.mjs'

const sha = (algorithm, ...parts) => {
  const hash = createHash(algorithm)
  for (const one of parts) hash.update(one)
  return hash.digest('hex')
}

/** Files from this size on are large files, which the hub stores elsewhere. */
const LARGE = 4096

/** A file of a repository: how the hub names and lists it. */
export function described(path, bytes) {
  const oid = sha('sha1', `blob ${bytes.length}\0`, bytes)
  if (bytes.length < LARGE) return { path, bytes, etag: oid, oid, stored: oid }
  const sha256 = sha('sha256', bytes)
  return { path, bytes, etag: sha256, oid: sha('sha1', sha256), sha256, stored: sha('md5', sha256) }
}

/**
 * A hub with repositories by `owner/name`, each with commits by branch: `{ 'o/r': { main: { 'a.json': bytes } } }`. `onRequest(request,
 * response, path)` may answer a request itself, and then returns true. `list` changes what the hub lists.
 */
export async function startHub(repositories, { onRequest, list = (siblings) => siblings, isListed = true } = {}) {
  const asked = []
  const commits = new Map()
  const branches = new Map()
  /** Makes a commit of files, to which a branch then refers. Returns the commit. */
  const commit = (repository, branch, files) => {
    const made = Object.entries(files).map(([path, bytes]) => described(path, Buffer.from(bytes)))
    const id = sha('sha1', repository, branch, ...made.map(({ path, etag }) => `${path} ${etag}\n`))
    commits.set(`${repository}@${id}`, new Map(made.map((file) => [file.path, file])))
    branches.set(`${repository}@${branch}`, id)
    return id
  }
  for (const [repository, all] of Object.entries(repositories))
    for (const [branch, files] of Object.entries(all)) commit(repository, branch, files)
  const commitOf = (repository, revision) =>
    commits.has(`${repository}@${revision}`) ? revision : branches.get(`${repository}@${revision}`)
  const refuse = (response, status, code, message) => {
    response.writeHead(status, { 'x-error-code': code, 'x-error-message': message })
    response.end(JSON.stringify({ error: message }))
  }
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    const { pathname } = new URL(request.url, 'http://hub')
    const path = decodeURIComponent(pathname)
    asked.push({ method: request.method, url: request.url, headers: request.headers, path })
    if (onRequest?.(request, response, path) === true) return undefined
    const api = /^\/api\/models\/([^/]+\/[^/]+?)\/?(?:\/(revision|tree|paths-info)\/([^/]+)\/?(.*))?$/.exec(path)
    if (api !== null) {
      const [, repository, what, revision = 'main'] = api
      const id = commitOf(repository, revision)
      if (id === undefined) return refuse(response, 404, 'RevisionNotFound', 'Revision Not Found')
      const files = [...commits.get(`${repository}@${id}`).values()]
      response.setHeader('content-type', 'application/json')
      const entries = files.map(({ path, bytes, oid, sha256 }) => ({
        type: 'file',
        path,
        oid,
        size: bytes.length,
        lastCommit: { id, title: 'title', date: '2026-01-01T00:00:00.000Z' },
        ...(sha256 && { lfs: { oid: sha256, size: bytes.length, pointerSize: 130 } }),
      }))
      if (what === 'tree') return response.end(JSON.stringify(entries))
      if (what === 'paths-info') {
        let body = ''
        request.setEncoding('utf8').on('data', (text) => {
          body += text
        })
        return request.on('end', () => {
          const { paths } = JSON.parse(body)
          response.end(JSON.stringify(entries.filter(({ path }) => paths.includes(path))))
        })
      }
      const siblings = files.map(({ path, bytes, oid, sha256 }) => ({
        rfilename: path,
        size: bytes.length,
        ...(isListed && { blobId: oid }),
        ...(isListed && sha256 && { lfs: { sha256, size: bytes.length, pointerSize: 130 } }),
      }))
      const about = { private: false, likes: 0, downloads: 0, lastModified: '2026-01-01T00:00:00.000Z' }
      return response.end(
        JSON.stringify({ _id: '1', id: repository, modelId: repository, sha: id, ...about, siblings: list(siblings) }),
      )
    }
    const file = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(path)
    const stored = /^\/storage\/([^/]+\/[^/]+)\/([^/]+)\/(.+)$/.exec(path)
    const [, repository, revision, name] = file ?? stored ?? []
    const id = commitOf(repository, revision)
    if (id === undefined) return refuse(response, 404, 'RevisionNotFound', 'Revision Not Found')
    const found = commits.get(`${repository}@${id}`).get(name)
    const headers = { 'x-repo-commit': id, 'accept-ranges': 'bytes' }
    if (found === undefined) {
      response.setHeader('x-repo-commit', id)
      return refuse(response, 404, 'EntryNotFound', 'Entry not found')
    }
    const { bytes, etag, sha256, stored: tag } = found
    if (stored !== null) return part(request, response, bytes, { etag: `"${tag}"` })
    if (sha256 !== undefined) {
      response.writeHead(302, {
        ...headers,
        'x-linked-etag': `"${etag}"`,
        'x-linked-size': bytes.length,
        etag: `"${tag}"`,
        location: `http://localhost:${server.address().port}/storage/${repository}/${id}/${name}`,
      })
      return response.end()
    }
    if (request.method !== 'HEAD') return part(request, response, bytes, { ...headers, etag: `"${etag}"` })
    response.writeHead(200, { ...headers, etag: `"${etag}"`, 'content-length': bytes.length })
    return response.end()
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  }
  return { asked, commit, commitOf, close, url: `http://127.0.0.1:${server.address().port}` }
}
