// Azure's blobs, by Azurite, with a test account.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bySignedUrl, folderIsIndex } from './checks.mjs'
import { freePort, npmPackage, started } from './programs.mjs'
import { sharedAccess } from './signing.mjs'

export const VERSION = '3.37.0'

const keyOf = (text) => Buffer.from(text.padEnd(64, '.')).toString('base64')

export async function azurite({ build, models }) {
  const program = join(await npmPackage(build, 'azurite', VERSION), 'dist/src/blob/main.js')
  const folder = mkdtempSync(join(tmpdir(), 'ztensor-az-'))
  const port = await freePort()
  const [account, accountKey] = ['reader', keyOf('azuriteSECRET')]
  const endpoint = `http://127.0.0.1:${port}/${account}`
  const where = ['--blobHost', '127.0.0.1', '--blobPort', String(port), '--location', folder]
  const quiet = ['--silent', '--disableTelemetry', '--skipApiVersionCheck']
  const stop = await started(process.execPath, [program, ...where, ...quiet], `${endpoint}?comp=list`, {
    env: { ...process.env, AZURITE_ACCOUNTS: `${account}:${accountKey}` },
  })
  const query = sharedAccess(account, accountKey)
  const sent = async (path, body, headers) => {
    const { status } = await fetch(`${endpoint}/${path}&${query}`, { method: 'PUT', body, headers })
    if (status !== 201) throw new Error(`PUT of ${path}: ${status}`)
  }
  await sent('models?restype=container')
  const put = (key, bytes) => sent(`models/${key}?`, bytes, { 'x-ms-blob-type': 'BlockBlob' })
  for (const key of models.keys) await put(key, models.bytes(key))
  const store = { endpoint, allowHttp: true, account, accountKey }
  const url = (key) => `az://models/${key}`
  const remote = (more) => ({ retries: 1, store: { ...store, ...more } })
  return {
    url,
    remote: remote(),
    /** Also writes files into it. */
    takes: true,
    put,
    secrets: [accountKey, keyOf('wrongSECRET'), new URLSearchParams(query).get('sig')],
    refusals: {
      'a wrong key': [url('model.zt'), remote({ accountKey: keyOf('wrongSECRET') }), 'ZT_IO', /denies access/],
      'no such object': [url('absent.zt'), remote(), 'ZT_IO', /no such object/],
      'no such container': ['az://absent/model.zt', remote(), 'ZT_IO', /no such object, or no such bucket/],
    },
    more: (setup) => ({
      'a folder': () => folderIsIndex(setup),
      'a URL with a shared access signature': () => bySignedUrl(setup, (key) => `${endpoint}/models/${key}?${query}`),
    }),
    async stop() {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
