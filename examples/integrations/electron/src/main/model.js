// The model's own process: a long load, or a crash of it, does not stop the main process.
import { open } from 'ztensor'

process.parentPort.once('message', async ({ data: { path }, ports: [port] }) => {
  const opened = open(path).then((file) => file.tensor('transformer.wte.weight'))
  port.on('message', async ({ data: { id, row } }) => {
    try {
      const values = await (await opened).load({ slice: [[row]], as: 'float32' })
      port.postMessage({ id, values })
    } catch (error) {
      port.postMessage({ id, error: String(error) })
    }
  })
  port.start()
})
