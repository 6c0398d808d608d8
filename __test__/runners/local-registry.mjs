// A registry on this machine that knows the platform packages and nothing else, so that an installation can be tried
// before anything is published: npm resolves `optionalDependencies` by os, cpu and libc exactly as it will for a user.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'

/**
 * Serves the packages `[{ name, folder, tarball? }]`. One without a tarball is for another platform: npm reads its
 * manifest and must never ask for its file. Resolves `{ url, wrongRequests, close() }`.
 */
export async function serveRegistry(packages) {
  const server = createServer()
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${server.address().port}/`
  const wrongRequests = []

  const documents = new Map()
  const tarballs = new Map()
  for (const { name, folder, tarball } of packages) {
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const bytes = tarball === undefined ? Buffer.alloc(0) : readFileSync(tarball)
    const path = `/${name}/-/${name.split('/').pop()}-${manifest.version}.tgz`
    if (tarball !== undefined) tarballs.set(path, bytes)
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`
    const dist = { tarball: new URL(path, url).href, integrity }
    documents.set(`/${name}`, {
      name,
      'dist-tags': { latest: manifest.version },
      versions: { [manifest.version]: { ...manifest, dist } },
    })
  }

  server.on('request', (request, response) => {
    const path = decodeURIComponent(request.url)
    if (documents.has(path)) {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(documents.get(path)))
    } else if (tarballs.has(path)) {
      response.end(tarballs.get(path))
    } else {
      wrongRequests.push(path)
      response.writeHead(404).end()
    }
  })
  return { url, wrongRequests, close: () => server.close() }
}
