// The programs of docs/guide/python.md, in order and in one folder: those for Python run with the packages that the page installs.
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture, root } from '../scripts/command.mjs'
import { environment } from './peers.mjs'
import { torchOf } from './pytorch.mjs'

const page = readFileSync(join(root, 'docs/guide/python.md'), 'utf8')
const [, requirements] = /^pip install (.*)$/m.exec(page)
const [before, torch] = page.split(/^## PyTorch$/m)

/** Returns [{ what, error }] for each program of a part of the page. */
async function programs(part, python, folder) {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(join(folder, 'node_modules'), { recursive: true })
  symlinkSync(root, join(folder, 'node_modules/ztensor'), 'junction')
  const results = []
  for (const [, language, text] of part.matchAll(/^```(python|js)\n([\s\S]*?)^```$/gm)) {
    const [command, ending] = language === 'js' ? [[process.execPath], 'mjs'] : [python, 'py']
    const name = `${results.length}.${ending}`
    writeFileSync(join(folder, name), text)
    const [program, ...args] = [...command, name]
    const { status, output } = await capture(program, args, { cwd: folder })
    results.push({ what: `program ${results.length + 1}`, error: status === 0 ? undefined : new Error(output) })
  }
  if (results.length === 0) throw new Error('docs/guide/python.md has no programs')
  return results
}

/** Runs the programs that need only the packages that the page installs. */
export async function compareGuide({ build, python }) {
  const own = await environment(join(build, 'venv-guide'), python, requirements.split(' '))
  return programs(before, [own], join(build, 'guide'))
}

/** Runs the programs that need PyTorch. */
export async function compareGuideOfTorch(given) {
  const { own, variable } = await torchOf(given)
  return programs(torch, ['env', variable, own], join(given.build, 'guide-torch'))
}
