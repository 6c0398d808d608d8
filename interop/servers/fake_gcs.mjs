// Google Cloud Storage, by fake-gcs-server, which keeps objects in memory and checks no credentials.
import { folderIsIndex } from './checks.mjs'
import { freePort, goProgram, started } from './programs.mjs'

export const VERSION = 'v1.56.1'

export async function fakeGcs({ build, models }) {
  const program = await goProgram(build, 'github.com/fsouza/fake-gcs-server', VERSION)
  const port = await freePort()
  const host = `127.0.0.1:${port}`
  const endpoint = `http://${host}`
  const where = ['-host', '127.0.0.1', '-port', String(port), '-public-host', host, '-external-url', endpoint]
  const stop = await started(
    program,
    ['-scheme', 'http', '-backend', 'memory', '-log-level', 'error', ...where],
    `${endpoint}/storage/v1/b`,
  )
  const sent = async (path, body, type) => {
    const { status } = await fetch(`${endpoint}${path}`, { method: 'POST', body, headers: { 'content-type': type } })
    if (status !== 200) throw new Error(`POST of ${path}: ${status}`)
  }
  await sent('/storage/v1/b?project=models', JSON.stringify({ name: 'models' }), 'application/json')
  const put = (key, bytes) =>
    sent(
      `/upload/storage/v1/b/models/o?uploadType=media&name=${encodeURIComponent(key)}`,
      bytes,
      'application/octet-stream',
    )
  for (const key of models.keys) await put(key, models.bytes(key))
  const remote = { retries: 1, store: { endpoint, allowHttp: true, anonymous: true } }
  const url = (key) => `gs://models/${key}`
  return {
    url,
    remote,
    put,
    secrets: [],
    refusals: {
      'no such object': [url('absent.zt'), remote, 'ZT_IO', /no such object/],
      'no such bucket': ['gs://absent/model.zt', remote, 'ZT_IO', /no bucket named absent/],
    },
    more: (setup) => ({
      'a folder': () => folderIsIndex(setup),
    }),
    stop,
  }
}
