// GET /{row}: the file is opened once for each instance, the row is read when it is requested.
import { open } from 'ztensor'

const file = await open(process.env.MODEL ?? '/opt/model.safetensors')
const table = file.tensor('transformer.wte.weight')

export async function handler({ pathParameters }) {
  const row = Number(pathParameters.row)
  if (!(Number.isInteger(row) && row >= 0 && row < table.shape[0])) return { statusCode: 404 }
  const values = await table.load({ slice: [[row]], as: 'float32' })
  return { statusCode: 200, body: JSON.stringify([...values]) }
}
