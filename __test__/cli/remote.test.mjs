// Options for remote files, and errors of object stores.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { fixture, run } from '../helpers/command.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { bucket } from '../remote/bucket.mjs'
import { part, serve } from '../remote/web.mjs'

const file = fixture('st-metadata.safetensors')
const bytes = readFileSync(file)

/** The environment without credentials, and with the given variables. */
function environment(env = {}) {
  const others = Object.fromEntries(
    Object.keys(process.env).flatMap((name) => (/^AWS_/.test(name) ? [[name, undefined]] : [])),
  )
  return { env: { ...others, HOME: scratchPath('home'), ...env } }
}

const KEYS = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b', AWS_REGION: 'us-east-1' }

test('--endpoint, --region and --anonymous apply to a bucket, in every command that reads', async (t) => {
  const { url, remote, asked, files } = await bucket(t, { files: { 'm.safetensors': bytes } })
  const access = ['--endpoint', remote.store.endpoint, '--region', 'us-east-1', '--anonymous']
  const source = url('m.safetensors')
  for (const args of [
    ['ls', source],
    ['info', source],
    ['verify', source],
    ['cat', source, 'w'],
    ['stats', source, '--filter', 'w'],
    ['view', source, '--no-stats', '-o', scratchPath('remote.html')],
    ['diff', source, file],
    ['convert', source, scratchPath('near.zt')],
    ['convert', file, url('made.zt')],
    ['verify', source, '--plan'],
  ]) {
    const { code, stderr } = await run([...args, ...access], environment())
    t.is(code, 0, `${args[0]}: ${stderr}`)
  }
  t.true('made.zt' in files, 'the options also reach the target')
  for (const { headers } of asked) t.is(headers.authorization, undefined)
})

test('AWS_ENDPOINT_URL selects a server, and requests are signed', async (t) => {
  const { url, remote, asked } = await bucket(t, { files: { 'm.safetensors': bytes } })
  const { code, stderr } = await run(
    ['ls', url('m.safetensors')],
    environment({ ...KEYS, AWS_ENDPOINT_URL: remote.store.endpoint }),
  )
  t.is(code, 0, stderr)
  t.regex(asked[0].headers.authorization, /^AWS4-HMAC-SHA256/)
})

test('--header is sent to the server of a URL, and may be repeated', async (t) => {
  const { asked, url } = await serve(t, (request, response) => part(request, response, bytes))
  const headers = ['--header', 'Authorization: Bearer secret', '--header', 'X-One: 1:2']
  const { code, stderr } = await run(['ls', url('/m.safetensors'), ...headers], environment())
  t.is(code, 0, stderr)
  t.like(asked[0].headers, { authorization: 'Bearer secret', 'x-one': '1:2' })
})

test('errors of stores name flags', async (t) => {
  const raw = /Generic|performing|HTTP error|client error|remote: \{|store: \{|option /
  for (const [args, env, pattern] of [
    [['s3://b/k.zt', '--endpoint', 'http://127.0.0.1:9'], KEYS, /ECONNREFUSED/],
    [['s3://b/k.zt', '--endpoint', 'nonsense'], KEYS, /^ztensor: --endpoint is not a URL of a server/],
    [['s3://b/k.zt'], { ...KEYS, AWS_ENDPOINT_URL: 'nonsense' }, /^ztensor: AWS_ENDPOINT_URL is not a URL of a server/],
    [['az://b/k.zt'], {}, /no account is set: set AZURE_STORAGE_ACCOUNT_NAME \(/],
    [['gs://b/k.zt'], { GOOGLE_SERVICE_ACCOUNT: scratchPath('none') }, /the file of the credentials cannot be opened/],
    [['https://host/k.zt', '--header', 'secret'], {}, /^ztensor: --header takes 'Name: value'/],
  ]) {
    const { code, stderr } = await run(['ls', ...args], environment(env))
    t.is(code, 2)
    t.regex(stderr, pattern)
    t.notRegex(stderr, raw)
  }
})
