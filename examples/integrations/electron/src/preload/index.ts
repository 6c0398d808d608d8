// The functions of the page: read rows, and show the report of a dropped file.
import { contextBridge, ipcRenderer, webUtils } from 'electron'

interface Answer {
  id: number
  values?: Float32Array
  error?: string
}

let asked = 0
const waiting = new Map<number, (answer: Answer) => void>()
const connected = new Promise<MessagePort>((resolve) => {
  ipcRenderer.once('model', ({ ports: [port] }) => {
    port.onmessage = ({ data }) => waiting.get(data.id)?.(data)
    resolve(port)
  })
})

contextBridge.exposeInMainWorld('model', {
  async row(row: number) {
    const port = await connected
    const id = asked++
    const { values, error } = await new Promise<Answer>((resolve) => {
      waiting.set(id, resolve)
      port.postMessage({ id, row })
    }).finally(() => waiting.delete(id))
    if (error !== undefined) throw new Error(error)
    return values
  },
  showReport: (file: File) => ipcRenderer.invoke('report', webUtils.getPathForFile(file)),
})
