// The main process starts a process for the model, connects each window with it, and shows reports of files.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { app, BrowserWindow, ipcMain, MessageChannelMain, utilityProcess } from 'electron'
import { report } from 'ztensor/report'

async function start() {
  await app.whenReady()
  const worker = utilityProcess.fork(join(__dirname, 'model.js'))
  const window = new BrowserWindow({ webPreferences: { preload: join(__dirname, '../preload/index.js') } })
  await window.loadFile(join(__dirname, '../renderer/index.html'))

  // Rows go from the model's process to the window directly.
  const { port1, port2 } = new MessageChannelMain()
  // In a packed application this path leads into app.asar, and ztensor follows it to app.asar.unpacked.
  worker.postMessage({ path: join(app.getAppPath(), 'models/model.safetensors') }, [port1])
  window.webContents.postMessage('model', null, [port2])
}

ipcMain.handle('report', async (_event, path) => {
  const page = join(app.getPath('temp'), 'ztensor-report.html')
  await writeFile(page, await report(path))
  await new BrowserWindow().loadFile(page)
})

start().catch((error) => {
  console.error(error)
  app.exit(1)
})
