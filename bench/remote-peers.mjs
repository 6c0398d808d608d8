// Hand-written readers of a remote safetensors file: ranges by fetch, and by the clients of the hub and of S3.
import { npmPeer } from './peers.mjs'

const PIECE = 8 * 2 ** 20
const AT_ONCE = 16

/** Reads of `(start, end)`: by fetch. */
export const byFetch = (url) => async (start, end) => {
  const response = await fetch(url, { headers: { range: `bytes=${start}-${end - 1}` } })
  if (response.status !== 206) throw new Error(`the server answered ${response.status}`)
  return new Uint8Array(await response.arrayBuffer())
}

/** The same by GetObject of the AWS SDK; undefined if that is not installed. */
export async function byAwsSdk(endpoint, { region, ...credentials }, Bucket, Key) {
  const sdk = await npmPeer('@aws-sdk/client-s3')
  if (sdk === undefined) return undefined
  const client = new sdk.S3Client({ endpoint, credentials, region, forcePathStyle: true })
  return async (start, end) => {
    const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket, Key, Range: `bytes=${start}-${end - 1}` }))
    return Body.transformToByteArray()
  }
}

/** The tensors of a safetensors file, and where its data begins: two requests. */
async function header(range) {
  const first = await range(0, 8)
  const length = Number(new DataView(first.buffer, first.byteOffset).getBigUint64(0, true))
  const tensors = JSON.parse(new TextDecoder().decode(await range(8, 8 + length)))
  delete tensors.__metadata__
  return { tensors, data: 8 + length }
}

export async function listByHand(range) {
  return Object.keys((await header(range)).tensors).length
}

/** Loads each tensor into its own buffer, with 16 concurrent requests for ranges of 8 MiB. */
export async function loadByHand(range) {
  const { tensors, data } = await header(range)
  const jobs = []
  for (const {
    data_offsets: [begin, end],
  } of Object.values(tensors)) {
    const target = new Uint8Array(end - begin)
    for (let at = begin; at < end; at += PIECE) jobs.push({ target, begin, at, end: Math.min(end, at + PIECE) })
  }
  const work = async () => {
    for (let job = jobs.pop(); job !== undefined; job = jobs.pop())
      job.target.set(await range(data + job.at, data + job.end), job.at - job.begin)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return Object.keys(tensors).length
}

/** Lists a file with the hub's package; undefined if that is not installed. */
export async function listByHub(origin, path) {
  const hub = await npmPeer('@huggingface/hub')
  if (hub === undefined) return undefined
  return async () => {
    const { header } = await hub.parseSafetensorsMetadata({ repo: 'o/r', path, hubUrl: origin })
    return Object.keys(header).filter((name) => name !== '__metadata__').length
  }
}
