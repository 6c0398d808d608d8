// A thread or process that opens the file that it is sent and answers questions about it.
import { parentPort } from 'node:worker_threads'
import { openSync } from 'ztensor'

let file

/** The sum of a byte of each page. */
const sum = (bytes) => bytes.reduce((total, byte, at) => (at % 4096 === 0 ? total + byte : total), 0)

const answers = {
  open(shared) {
    file = openSync(shared)
    return { names: [...file.keys()], path: file.path }
  },
  sum: () => sum(file.tensor('a').data),
  load: async () => sum(await file.tensor('a').load()),
  close() {
    file.close()
    try {
      return file.tensor('a').data.length
    } catch (error) {
      return error.code
    }
  },
}

const answer = (message) => answers[message.what](message.shared)
if (parentPort === null) process.on('message', async (message) => process.send(await answer(message)))
else parentPort.on('message', async (message) => parentPort.postMessage(await answer(message)))
