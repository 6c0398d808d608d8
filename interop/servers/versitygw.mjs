// S3, by versitygw over files of this machine. Requests put the objects, because one that is created in the folder has no entity tag.
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'ztensor'
import { capture } from '../../scripts/command.mjs'
import { environment } from '../peers.mjs'
import { bySignedUrl, check, folderIsIndex, isRefusal, refusalOf } from './checks.mjs'
import { freePort, goProgram, started } from './programs.mjs'
import { presigned } from './signing.mjs'

export const VERSION = 'v1.8.0'

export async function versitygw({ build, models, python }) {
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
    /** Also writes files into it. */
    takes: true,
    put,
    secrets: ['SECRET', 'X-Amz-Signature'],
    refusals: {
      'a wrong secret key': [url('model.zt'), remote({ secretAccessKey: 'wrongSECRET' }), ...denied],
      'an unknown access key': [url('model.zt'), remote({ accessKeyId: 'unknown' }), ...denied],
      'no signature': [
        url('model.zt'),
        { store: { endpoint, allowHttp: true, region: keys.region, anonymous: true } },
        ...denied,
      ],
      'no such object': [url('absent.zt'), remote(), 'ZT_IO', /no such object/],
      'no such bucket': ['s3://absent/model.zt', remote(), 'ZT_IO', /no such bucket/],
    },
    more: (setup) => ({
      'a folder': () => folderIsIndex(setup),
      'a signed URL over HTTP': () => bySignedUrl(setup, (key) => presigned('GET', `${endpoint}/models/${key}`, keys)),
      'obstore reads the same object': () => byObstore(setup, { build, python, endpoint, keys }),
      'a signed URL of another key': async () => {
        const signed = presigned('GET', `${endpoint}/models/model.zt`, { ...keys, secretAccessKey: 'wrongSECRET' })
        isRefusal(await refusalOf(() => open(signed)), 'ZT_IO', /403.*signed URL/, setup.server.secrets)
      },
    }),
    async stop() {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const OBSTORE = `
import hashlib, os, sys
import obstore
from obstore.store import S3Store
store = S3Store("models", endpoint=sys.argv[1], client_options={"allow_http": True})
print(hashlib.sha256(bytes(obstore.get(store, "model.safetensors").bytes())).hexdigest())
`

/** Compares with another client: object_store in Python, which the benchmarks compare with as well. */
async function byObstore({ models }, { build, python, endpoint, keys }) {
  const own = await environment(join(build, 'venv-obstore'), python, ['obstore==0.12.1'])
  const env = {
    ...process.env,
    AWS_ACCESS_KEY_ID: keys.accessKeyId,
    AWS_SECRET_ACCESS_KEY: keys.secretAccessKey,
    AWS_REGION: keys.region,
  }
  const { status, output } = await capture(own, ['-c', OBSTORE, endpoint], { env })
  const expected = createHash('sha256').update(models.bytes('model.safetensors')).digest('hex')
  check(status === 0 && output.trim() === expected, `obstore returns ${output}`)
}
