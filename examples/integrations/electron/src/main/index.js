// The main process has the file. A window asks it for rows.
import { join } from 'node:path'
import { app, BrowserWindow, ipcMain } from 'electron'
import { open } from 'ztensor'

async function start() {
  // In a packed application this path leads into app.asar, and ztensor follows it to app.asar.unpacked.
  const file = await open(join(app.getAppPath(), 'models/model.safetensors'))
  const table = file.tensor('transformer.wte.weight')
  ipcMain.handle('row', (_event, row) => table.load({ slice: [[row]], as: 'float32' }))
  app.on('will-quit', () => file.close())

  await app.whenReady()
  const window = new BrowserWindow({ webPreferences: { preload: join(__dirname, '../preload/index.js') } })
  await window.loadFile(join(__dirname, '../renderer/index.html'))
}

start().catch((error) => {
  console.error(error)
  app.exit(1)
})
