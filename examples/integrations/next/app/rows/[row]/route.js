import { join } from 'node:path'
import { open } from 'ztensor'

export const runtime = 'nodejs'

// Opened once, at the first request: a promise that all requests share.
let opened
const table = async () => {
  opened ??= open(join(process.cwd(), 'models/model.safetensors'))
  return (await opened).tensor('transformer.wte.weight')
}

export async function GET(_request, { params }) {
  const row = Number((await params).row)
  const matrix = await table()
  if (!(row >= 0 && row < matrix.shape[0])) return new Response(null, { status: 404 })
  return Response.json([...(await matrix.load({ slice: [[row]], as: 'float32' }))])
}
