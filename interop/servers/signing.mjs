// Presigned URLs like those of the stores' clients, with which tests put objects and read them over plain HTTP.
import { createHash, createHmac } from 'node:crypto'

const sha256 = (text) => createHash('sha256').update(text).digest('hex')
const hmac = (key, text) => createHmac('sha256', key).update(text).digest()
const encoded = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)

/** A URL of S3 that allows `method` for some seconds: AWS Signature Version 4, in the query. */
export function presigned(method, url, { accessKeyId, secretAccessKey, region }, seconds = 600) {
  const signed = new URL(url)
  const stamp = `${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`
  const scope = `${stamp.slice(0, 8)}/${region}/s3/aws4_request`
  const query = {
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${accessKeyId}/${scope}`,
    'X-Amz-Date': stamp,
    'X-Amz-Expires': String(seconds),
    'X-Amz-SignedHeaders': 'host',
  }
  const text = Object.entries(query)
    .map(([name, value]) => `${name}=${encoded(value)}`)
    .join('&')
  const request = [method, signed.pathname, text, `host:${signed.host}\n`, 'host', 'UNSIGNED-PAYLOAD'].join('\n')
  const key = [...scope.split('/')].reduce(hmac, `AWS4${secretAccessKey}`)
  const signature = hmac(key, ['AWS4-HMAC-SHA256', stamp, scope, sha256(request)].join('\n')).toString('hex')
  return `${url}?${text}&X-Amz-Signature=${signature}`
}

/** The query that allows all of an account of Azure's blobs for ten minutes: a shared access signature. */
export function sharedAccess(account, key) {
  const version = '2021-08-06'
  const end = new Date(Date.now() + 600_000).toISOString().replace(/\.\d+/, '')
  const fields = [account, 'rwdlac', 'b', 'sco', '', end, '', 'https,http', version, '', '']
  const signature = createHmac('sha256', Buffer.from(key, 'base64')).update(fields.join('\n')).digest('base64')
  const query = { sv: version, ss: 'b', srt: 'sco', sp: 'rwdlac', se: end, spr: 'https,http', sig: signature }
  return new URLSearchParams(query).toString()
}
