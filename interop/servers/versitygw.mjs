// S3, by versitygw with files of this machine behind it. Objects are put by requests: one that is laid in the folder has no entity tag.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'ztensor'
import { bySignedUrl, folderIsIndex, isRefusal, refusalOf } from './checks.mjs'
import { freePort, goProgram, started } from './programs.mjs'
import { presigned } from './signing.mjs'

export const VERSION = 'v1.8.0'

export async function versitygw({ build, models }) {
  const program = await goProgram(build, 'github.com/versity/versitygw/cmd/versitygw', VERSION)
  const folder = mkdtempSync(join(tmpdir(), 'ztensor-s3-'))
  mkdirSync(join(folder, 'objects/models'), { recursive: true })
  mkdirSync(join(folder, 'iam'))
  const keys = { accessKeyId: 'reader', secretAccessKey: 'versitySECRET', region: 'us-east-1' }
  const port = await freePort()
  const endpoint = `http://127.0.0.1:${port}`
  const stop = await started(
    program,
    [
      ...['--quiet', '--port', `127.0.0.1:${port}`, '--iam-dir', join(folder, 'iam')],
      ...['posix', join(folder, 'objects')],
    ],
    endpoint,
    { env: { ...process.env, ROOT_ACCESS_KEY: keys.accessKeyId, ROOT_SECRET_KEY: keys.secretAccessKey } },
  )
  const put = async (key, bytes) => {
    const signed = presigned('PUT', `${endpoint}/models/${key}`, keys)
    const { status } = await fetch(signed, { method: 'PUT', body: bytes })
    if (status !== 200) throw new Error(`PUT of ${key}: ${status}`)
  }
  for (const key of models.keys) await put(key, models.bytes(key))
  const store = { endpoint, allowHttp: true, ...keys }
  const url = (key) => `s3://models/${key}`
  const denied = ['ZT_IO', /denies access: check the credentials/]
  const remote = (more) => ({ retries: 1, store: { ...store, ...more } })
  return {
    url,
    remote: remote(),
    put,
    secrets: ['SECRET', 'X-Amz-Signature'],
    refusals: {
      'a wrong secret key': [url('model.zt'), remote({ secretAccessKey: 'wrongSECRET' }), ...denied],
      'an unknown access key': [url('model.zt'), remote({ accessKeyId: 'nobody' }), ...denied],
      'no signature': [
        url('model.zt'),
        { store: { endpoint, allowHttp: true, region: keys.region, anonymous: true } },
        ...denied,
      ],
      'no such object': [url('absent.zt'), remote(), 'ZT_IO', /no such object/],
      'no such bucket': ['s3://absent/model.zt', remote(), 'ZT_IO', /no such bucket/],
    },
    more: (place) => ({
      'a folder': () => folderIsIndex(place),
      'a signed URL over HTTP': () => bySignedUrl(place, (key) => presigned('GET', `${endpoint}/models/${key}`, keys)),
      'a signed URL of another key': async () => {
        const signed = presigned('GET', `${endpoint}/models/model.zt`, { ...keys, secretAccessKey: 'wrongSECRET' })
        isRefusal(await refusalOf(() => open(signed)), 'ZT_IO', /403.*signed URL/, place.server.secrets)
      },
    }),
    async stop() {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
