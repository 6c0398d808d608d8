// The script of a report: decodes its data and shows it.
import { served } from './live.js'
import { Model, unpack } from './model.js'
import { show } from './page.js'

async function start(): Promise<void> {
  const app = document.getElementById('app')
  const data = document.getElementById('data')
  if (app === null || data === null) return
  try {
    const model = new Model(await unpack(data.textContent ?? ''), served)
    data.remove()
    show(app, model)
  } catch (error) {
    app.textContent = `This report cannot be shown: ${error instanceof Error ? error.message : String(error)}. A browser from 2023 on is needed.`
    throw error
  }
}

void start()
