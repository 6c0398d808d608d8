// Pages of browsers for tests. Playwright controls Chromium, and no protocol controls both Firefox and WebKit as Debian has them: their
// pages ask the server of the tests for work.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { capture } from '../../scripts/command.mjs'
import { startChromium } from './chromium.mjs'

/** How long a page may work before it counts as hung, in milliseconds. */
const LIMIT = 180_000

const PREFERENCES = {
  'browser.shell.checkDefaultBrowser': false,
  'datareporting.policy.dataSubmissionEnabled': false,
  'browser.startup.homepage_override.mstone': 'ignore',
}

const which = async (name) => {
  const { status, stdout } = await capture('which', [name])
  return status === 0 ? stdout.trim() : undefined
}

const first = async (names) => {
  for (const name of names) {
    const path = await which(name)
    if (path !== undefined) return path
  }
  return undefined
}

/** Starts a program in a separate group, so that the processes that it starts end with it. */
function start(program, args, options) {
  const child = spawn(program, args, { stdio: 'ignore', detached: true, ...options })
  const kill = () => {
    try {
      process.kill(-child.pid, 'SIGKILL')
    } catch {
      // It has ended.
    }
  }
  process.once('exit', kill)
  const exited = new Promise((resolve) => {
    child.once('exit', resolve)
    child.once('error', resolve)
  })
  const end = () => {
    process.off('exit', kill)
    kill()
    return exited
  }
  return { child, end }
}

/** A virtual display. */
async function startDisplay() {
  const args = ['-displayfd', '3', '-screen', '0', '1024x768x24', '-nolisten', 'tcp']
  const { child, end } = start('Xvfb', args, { stdio: ['ignore', 'ignore', 'ignore', 'pipe'] })
  const number = await new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`Xvfb ended with ${code}`)))
    child.once('error', reject)
    child.stdio[3].once('data', (data) => resolve(String(data).trim()))
  })
  return { name: `:${number}`, end }
}

/** How each browser is found, and started with a page: returns its process and what else must end with it. */
const BROWSERS = {
  firefox: {
    packages: 'firefox-esr',
    find: () => first(['firefox-esr', 'firefox']),
    async start(program, profile, url) {
      const lines = Object.entries(PREFERENCES).map(
        ([key, value]) => `user_pref("${key}", ${JSON.stringify(value)});\n`,
      )
      writeFileSync(join(profile, 'user.js'), lines.join(''))
      return [start(program, ['--headless', '--no-remote', '--profile', profile, url])]
    },
  },
  webkit: {
    packages: 'webkit2gtk-driver xvfb',
    async find() {
      const paths = readdirSync('/usr/lib').map((folder) => `/usr/lib/${folder}/webkit2gtk-4.1/MiniBrowser`)
      return (await which('Xvfb')) === undefined ? undefined : paths.find((path) => existsSync(path))
    },
    async start(program, profile, url) {
      const display = await startDisplay()
      const env = { ...process.env, DISPLAY: display.name, HOME: profile, WEBKIT_DISABLE_COMPOSITING_MODE: '1' }
      return [start(program, [url], { env }), display]
    },
  },
}

/** Asks for work and does it, until the browser ends. Runs in the page. */
async function work() {
  for (;;) {
    const { id, code, argument } = await (await fetch('/work')).json()
    let answer
    try {
      // biome-ignore lint/security/noGlobalEval: it is how the tests call functions in the page
      answer = { value: await globalThis.eval(`(${code})`)(argument) }
    } catch (error) {
      answer = { error: `${error} ${error?.stack}` }
    }
    await fetch(`/work/${id}`, { method: 'POST', body: JSON.stringify(answer) })
  }
}

/** A page that gets its work from the server of the tests. */
class Page {
  #name
  #work = []
  #idle = []
  #waiting = new Map()
  #last = 0
  #ended
  #processes = []
  #profile = mkdtempSync(join(tmpdir(), 'ztensor-browser-'))

  constructor(name) {
    this.#name = name
  }

  /** Answers a request of the page; false if it is not about work. */
  answer(request, response) {
    if (request.url === '/working') {
      response.writeHead(200, { 'content-type': 'text/html' })
      response.end(
        `<!doctype html><meta charset="utf-8"><title>tests</title><script type="module">(${work})()</script>`,
      )
    } else if (request.url === '/work') {
      this.#idle.push(response)
      this.#next()
    } else if (request.url.startsWith('/work/')) {
      let body = ''
      request.setEncoding('utf8')
      request.on('data', (part) => {
        body += part
      })
      request.on('end', () => {
        response.end()
        const waiting = this.#waiting.get(Number(request.url.slice('/work/'.length)))
        const { value, error } = JSON.parse(body)
        if (error === undefined) waiting?.resolve(value)
        else waiting?.reject(new Error(error))
      })
    } else return false
    return true
  }

  /** Starts the browser with the page. */
  async start(program, origin) {
    this.#processes = await BROWSERS[this.#name].start(program, this.#profile, `${origin}/working`)
    const [{ child }] = this.#processes
    child.once('exit', (code, signal) => this.#end(new Error(`${this.#name} ended: ${code ?? signal}`)))
    child.once('error', (error) => this.#end(error))
  }

  /** Calls a function in the page. Its argument and result pass as JSON. */
  evaluate(code, argument) {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) throw this.#ended
      this.#last += 1
      const id = this.#last
      const settle = (end) => {
        clearTimeout(timer)
        this.#waiting.delete(id)
        end()
      }
      const timer = setTimeout(() => settle(() => reject(new Error(`${this.#name} does not answer`))), LIMIT)
      this.#waiting.set(id, {
        resolve: (value) => settle(() => resolve(value)),
        reject: (error) => settle(() => reject(error)),
      })
      this.#work.push({ id, code: String(code), argument })
      this.#next()
    })
  }

  async close() {
    this.#end(new Error('the page was closed'))
    await Promise.all(this.#processes.map(({ end }) => end()))
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 5 })
  }

  #next() {
    while (this.#work.length > 0 && this.#idle.length > 0) this.#idle.shift().end(JSON.stringify(this.#work.shift()))
  }

  #end(error) {
    this.#ended ??= error
    for (const { reject } of this.#waiting.values()) reject(error)
  }
}

/** A page of Chromium, which Playwright controls. It can collect its garbage, too. */
async function openChromium(origin) {
  // WebGPU by the CPU: machines of tests have no graphics card.
  const browser = await startChromium('--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader')
  const page = await browser.newPage()
  await page.goto(origin)
  const session = await page.context().newCDPSession(page)
  return {
    evaluate: (code, argument) => page.evaluate(code, argument),
    collect: () => session.send('HeapProfiler.collectGarbage'),
    close: () => browser.close(),
  }
}

/**
 * Opens a page of a browser on a server (web-server.mjs).
 *
 * @param name `chromium`, `firefox` or `webkit`
 * @returns a page with `evaluate(function, argument)` and `close()`; undefined if the browser is not installed, with a line that says what is
 */
export async function openBrowser(name, server) {
  if (name === 'chromium') return openChromium(server.origin)
  const { packages, find } = BROWSERS[name]
  const program = await find()
  if (program === undefined) {
    console.log(`not run: ${name} is not installed (apt-get install ${packages})`)
    return undefined
  }
  const page = new Page(name)
  server.intercept((...given) => page.answer(...given))
  await page.start(program, server.origin)
  return page
}
