// Files of an object store: moto, which implements S3.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { diff, open, openSync } from 'ztensor'
import { goodFixtures } from './fixtures.mjs'
import { environment } from './peers.mjs'
import { compareUploads } from './uploads.mjs'

/** Returns [{ what, error }] for every file. The error is undefined if its URL and its path give the same. */
export async function compareStore({ build, python, fixtures, interop }) {
  const requirements = ['moto[server,s3]==5.2.5', 'boto3==1.44.5']
  const own = await environment(join(build, 'venv-moto'), python, requirements)
  const server = spawn(own, [join(interop, 's3_store.py'), fixtures], { stdio: ['pipe', 'pipe', 'ignore'] })
  const ended = once(server, 'exit').then(() => [])
  const [endpoint] = await Promise.race([once(createInterface(server.stdout), 'line'), ended])
  if (endpoint === undefined) throw new Error('the server of S3 ended early')
  const keys = { accessKeyId: 'id', secretAccessKey: 'secret', region: 'us-east-1' }
  const remote = { store: { endpoint, allowHttp: true, ...keys } }
  const compare = async (name) => {
    const localFile = openSync(join(fixtures, name))
    const remoteFile = await open(`s3://models/${name}`, { remote })
    const { added, removed, changed, unchanged } = await diff(remoteFile, localFile)
    const { ok } = await remoteFile.verify()
    remoteFile.close()
    localFile.close()
    const others = added.length + removed.length + changed.length
    if (others > 0 || unchanged !== localFile.size || !ok)
      throw new Error(`${others} of its tensors differ, verify() is ok: ${ok}`)
  }
  try {
    const results = []
    for (const name of goodFixtures(fixtures)) {
      let error
      await compare(name).catch((thrown) => {
        error = thrown
      })
      results.push({ what: name, error })
    }
    return [...results, ...(await compareUploads('s3://models/', remote))]
  } finally {
    server.stdin.end()
    await ended
  }
}
