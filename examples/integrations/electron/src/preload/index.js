import { contextBridge, ipcRenderer } from 'electron'

contextBridge.exposeInMainWorld('model', { row: (row) => ipcRenderer.invoke('row', row) })
